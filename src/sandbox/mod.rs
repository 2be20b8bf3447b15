//! A GitHub API on loopback, over git repositories or over a generated corpus.
//!
//! What it does was measured or documented of api.github.com; where neither exists, the item's comment says so. Every
//! limit and fault is a setting, every draw comes from a seed, so that a crawl over it can be repeated.

mod clock;
mod code_search;
mod dice;
mod faults;
mod git_world;
mod graphql;
mod index;
mod limits;
mod options;
mod query;
mod reply;
mod repository;
mod request;
mod server;
mod stats;
mod synthetic;
mod tree;
mod view;
mod world;

pub use faults::Faults;
pub use limits::{Bucket, GraphqlLimits, Limits, Secondary, WindowUse};
pub use options::{SandboxError, SandboxOptions, Source};
pub use stats::Stats;
pub use synthetic::{Synthetic, TrueItem};
pub use world::WorldError;

use server::Server;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use view::View;

/// A sandbox that serves. Dropping it stops it without waiting for the answers under way.
#[derive(Debug)]
pub struct Running {
    address: SocketAddr,
    server: Arc<Server>,
    stop: Option<oneshot::Sender<()>>,
    task: Option<JoinHandle<std::io::Result<()>>>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("origin", &self.origin).finish_non_exhaustive()
    }
}

impl Running {
    /// Where REST is served, for `GITHUB_API_URL`: `http://127.0.0.1:PORT`. The same API lies below `/api/v3` of it.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Where GraphQL is served, for `GITHUB_GRAPHQL_URL`. `/api/graphql` is the same.
    pub fn graphql_url(&self) -> String {
        format!("{}/graphql", self.url())
    }

    /// What could not be served, with why: repositories that cannot be read.
    pub fn skipped(&self) -> Vec<String> {
        self.server.view().world.skipped()
    }

    /// What was asked so far.
    pub fn stats(&self) -> Stats {
        self.server.stats()
    }

    /// Let a generated corpus move on by `epochs`: some files change, some appear, some go. False when the world is
    /// one that does not change.
    pub async fn evolve(&self, epochs: u32) -> bool {
        let server = Arc::clone(&self.server);
        tokio::task::spawn_blocking(move || server.evolve(epochs)).await.unwrap_or(false)
    }

    /// Stop taking requests, answer those under way, and give the last counters.
    pub async fn shutdown(mut self) -> Result<Stats, SandboxError> {
        if let Some(stop) = self.stop.take() {
            // An error means that the server ended before; waiting for it tells why.
            let _ = stop.send(());
        }
        if let Some(task) = self.task.take() {
            let address = self.address;
            match task.await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return Err(SandboxError::Serve { address, why: error.to_string() }),
                Err(error) => return Err(SandboxError::Serve { address, why: error.to_string() }),
            }
        }
        Ok(self.server.stats())
    }

    /// Wait until the server ends by itself, which it only does on an error.
    pub async fn wait(&mut self) -> Result<(), SandboxError> {
        let Some(task) = self.task.as_mut() else { return Ok(()) };
        let address = self.address;
        let ended = task.await;
        self.task = None;
        match ended {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(SandboxError::Serve { address, why: error.to_string() }),
            Err(error) => Err(SandboxError::Serve { address, why: error.to_string() }),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

/// Read or generate the world and serve it on 127.0.0.1.
///
/// Returns once requests are accepted. Must be called within a tokio runtime.
pub async fn serve(options: SandboxOptions) -> Result<Running, SandboxError> {
    options.check()?;
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", options.port))
        .await
        .map_err(|error| SandboxError::Bind { port: options.port, why: error.to_string() })?;
    let address =
        listener.local_addr().map_err(|error| SandboxError::Bind { port: options.port, why: error.to_string() })?;
    let SandboxOptions { source, limits, faults, seed, .. } = options;
    let view = tokio::task::spawn_blocking(move || source.open(seed).map(|world| View::new(world, seed, 0)))
        .await
        .map_err(|error| SandboxError::Serve { address, why: error.to_string() })??;
    let server = Arc::new(Server::new(view, limits, faults, seed, format!("http://{address}")));
    let router = axum::Router::new().fallback(server::handle).with_state(Arc::clone(&server));
    let (stop, stopped) = oneshot::channel::<()>();
    let task = tokio::spawn(async move {
        axum::serve(listener, router)
            .with_graceful_shutdown(async {
                // The sender being gone means that nobody is left to stop it politely.
                let _ = stopped.await;
            })
            .await
    });
    Ok(Running { address, server, stop: Some(stop), task: Some(task) })
}
