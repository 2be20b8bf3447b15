//! A chat server that does what it is told: answers, refuses, breaks off, talks nonsense.

use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// What was asked.
#[derive(Clone)]
pub(crate) struct Asked {
    pub(crate) path: String,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: Value,
    /// As it came over the wire.
    pub(crate) raw: String,
}

impl Asked {
    /// The text of the last user message.
    pub(crate) fn last(&self) -> &str {
        self.body["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap()
    }

    /// How many messages there are, that of the system included.
    pub(crate) fn messages(&self) -> usize {
        self.body["messages"].as_array().unwrap().len()
    }
}

/// What to do with it.
pub(crate) enum Reply {
    /// A status, headers, and a body.
    Send(u16, Vec<(&'static str, String)>, String),
    /// Break the connection without a word.
    Drop,
    /// Say that the body is longer than it is, and break off.
    BreakOff(String),
}

impl Reply {
    /// Words as an OpenAI-compatible server says them, 100 tokens asked and 10 answered.
    pub(crate) fn say(words: &str) -> Self {
        let body = json!({
            "choices": [{ "message": { "role": "assistant", "content": words }, "finish_reason": "stop" }],
            "usage": { "prompt_tokens": 100, "completion_tokens": 10 },
        });
        Self::Send(200, Vec::new(), body.to_string())
    }

    /// A type and a confidence, well said.
    pub(crate) fn judge(kind: &str, confidence: f64) -> Self {
        Self::say(&json!({ "because": "so", "type": kind, "type_confidence": confidence }).to_string())
    }

    /// An error.
    pub(crate) fn refuse(status: u16, message: &str) -> Self {
        Self::Send(status, Vec::new(), json!({ "error": { "message": message } }).to_string())
    }
}

type Handler = dyn Fn(usize, &Asked) -> Reply + Send + Sync;

/// The server; it ends with this value.
pub(crate) struct Server {
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    most: Arc<AtomicUsize>,
    ended: Arc<AtomicBool>,
}

impl Server {
    /// `handler` is given the number of the request, from 0, and what it asks.
    pub(crate) fn start(handler: impl Fn(usize, &Asked) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let (asked, most, ended) = <(Arc<Mutex<Vec<Asked>>>, Arc<AtomicUsize>, Arc<AtomicBool>)>::default();
        let server = Self { url, asked: asked.clone(), most: most.clone(), ended: ended.clone() };
        let handler: Arc<Handler> = Arc::new(handler);
        let busy = Arc::new(AtomicUsize::new(0));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if ended.load(Ordering::SeqCst) {
                    break;
                }
                let Ok(stream) = stream else { continue };
                let (handler, asked, most, busy) = (handler.clone(), asked.clone(), most.clone(), busy.clone());
                std::thread::spawn(move || serve(&stream, &*handler, &asked, &most, &busy));
            }
        });
        server
    }

    /// What was asked so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// How often it was asked.
    pub(crate) fn count(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    /// The most requests that were under way at once.
    pub(crate) fn most_at_once(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        // Wakes the loop, which then sees that it is over.
        let _ = TcpStream::connect(self.url.trim_start_matches("http://").trim_end_matches("/v1"));
    }
}

fn serve(stream: &TcpStream, handler: &Handler, asked: &Mutex<Vec<Asked>>, most: &AtomicUsize, busy: &AtomicUsize) {
    let mut reader = BufReader::new(stream);
    while let Some(request) = read(&mut reader) {
        most.fetch_max(busy.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        let number = {
            let mut asked = asked.lock().unwrap();
            asked.push(request.clone());
            asked.len() - 1
        };
        let reply = handler(number, &request);
        // Before the answer is out: the client may ask again the moment it has it.
        busy.fetch_sub(1, Ordering::SeqCst);
        let mut out = stream;
        let ended = match reply {
            Reply::Send(status, headers, body) => {
                let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
                let length = body.len();
                let whole = format!(
                    "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
                );
                out.write_all(whole.as_bytes()).is_err()
            }
            Reply::Drop => true,
            Reply::BreakOff(body) => {
                let whole = format!("HTTP/1.1 200 X\r\ncontent-length: {}\r\n\r\n{body}", body.len() + 100);
                let _ = out.write_all(whole.as_bytes());
                true
            }
        };
        if ended {
            let _ = stream.shutdown(Shutdown::Both);
            break;
        }
    }
}

fn read(reader: &mut BufReader<&TcpStream>) -> Option<Asked> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.insert(name.to_lowercase(), value.to_owned());
    }
    let mut bytes = vec![0; headers.get("content-length")?.parse().ok()?];
    reader.read_exact(&mut bytes).ok()?;
    let raw = String::from_utf8(bytes).ok()?;
    Some(Asked { path, headers, body: serde_json::from_str(&raw).ok()?, raw })
}
