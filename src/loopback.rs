//! HTTP servers on 127.0.0.1 and nowhere else, and their end.

use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinHandle};

/// How long the end waits for answers under way. A browser keeps connections open on which it never asks.
const GRACE: Duration = Duration::from_secs(3);

/// A port of this machine that nothing is served on yet.
#[derive(Debug)]
pub(crate) struct Port {
    listener: TcpListener,
    address: SocketAddr,
}

impl Port {
    /// Take `port`; 0 takes a free one. Fails when it is taken.
    pub(crate) async fn take(port: u16) -> std::io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// Where it is.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serve `router` on it. Must be called within a tokio runtime.
    pub(crate) fn serve(self, router: axum::Router) -> Serving {
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            axum::serve(self.listener, router)
                .with_graceful_shutdown(async {
                    // The sender being gone means that nobody is left to stop it politely.
                    let _ = stopped.await;
                })
                .await
        });
        Serving { stop: Some(stop), task: Some(task) }
    }
}

/// A server that runs. Dropping it stops it without waiting for the answers under way.
#[derive(Debug)]
pub(crate) struct Serving {
    stop: Option<oneshot::Sender<()>>,
    task: Option<JoinHandle<std::io::Result<()>>>,
}

impl Serving {
    /// Stop taking requests, and wait a few seconds for the answers under way. An error says why it had ended before.
    pub(crate) async fn shutdown(self) -> Result<(), String> {
        self.end(GRACE).await
    }

    async fn end(mut self, grace: Duration) -> Result<(), String> {
        if let Some(stop) = self.stop.take() {
            // An error means that the server ended before; waiting for it tells why.
            let _ = stop.send(());
        }
        let Some(task) = self.task.as_mut() else { return Ok(()) };
        match tokio::time::timeout(grace, task).await {
            Ok(ended) => {
                self.task = None;
                why(ended)
            }
            // Whoever is still connected is cut off when this is dropped.
            Err(_) => Ok(()),
        }
    }

    /// Wait until the server ends by itself, which it only does on an error.
    pub(crate) async fn wait(&mut self) -> Result<(), String> {
        let Some(task) = self.task.as_mut() else { return Ok(()) };
        let ended = task.await;
        self.task = None;
        why(ended)
    }
}

fn why(ended: Result<std::io::Result<()>, JoinError>) -> Result<(), String> {
    match ended {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    #[tokio::test]
    async fn the_end_waits_for_an_answer_but_not_for_a_client_that_never_asks() {
        let port = Port::take(0).await.unwrap();
        let address = port.address();
        assert!(address.ip().is_loopback());
        assert!(Port::take(address.port()).await.is_err(), "taken");
        let serving = port.serve(axum::Router::new().fallback(async || "here"));
        let mut silent = TcpStream::connect(address).await.unwrap();
        let mut asking = TcpStream::connect(address).await.unwrap();
        asking.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        asking.read_to_string(&mut answer).await.unwrap();
        assert!(answer.ends_with("here"), "{answer}");
        silent.write_all(b"GET / HT").await.unwrap();
        serving.end(Duration::from_millis(20)).await.unwrap();
        assert!(matches!(silent.read(&mut [0; 8]).await, Ok(0) | Err(_)), "cut off");
    }
}
