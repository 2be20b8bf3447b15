//! The pages on which people label, verify, adjudicate and see how far they agree, on loopback over the store.
//!
//! The pages are plain HTML, CSS and JavaScript from `annotation/page/`. Texts reach them as JSON and are put on the page
//! as text, never as HTML. Every act is written before the next item shows, by one short transaction.

mod api;
mod guard;
pub mod keys;
mod queue;

use crate::job::gold::GoldError;
use crate::loopback::{Port, Serving};
use crate::store::Store;
use crate::taxonomy::LabelOrder;
use api::Desk;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::response::Response;
use guard::{Gate, answer};
use http::{Method, StatusCode};
use std::sync::Arc;

/// Largest request body.
const BODY_MOST: usize = 64 << 10;

/// How the pages are served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnnotateOptions {
    /// The one annotator; where nobody is named, everybody enters a name.
    pub annotator: Option<String>,
    /// Port on 127.0.0.1; 0 takes a free one.
    pub port: u16,
    /// The annotators' round.
    pub pass: i64,
    /// In which order items are shown.
    pub order: LabelOrder,
    /// Shuffles, differently for each annotator.
    pub seed: u64,
    /// Whether the model's type is shown beside each item.
    pub preannotate: bool,
}

impl Default for AnnotateOptions {
    fn default() -> Self {
        Self { annotator: None, port: 0, pass: 1, order: LabelOrder::Shuffled, seed: 1, preannotate: false }
    }
}

/// Why the pages cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum AnnotateError {
    /// The gold set cannot be read.
    #[error(transparent)]
    Gold(#[from] GoldError),
    /// The name of an annotator cannot be used.
    #[error("Failed to serve the pages for {name:?}: {why}")]
    Name {
        /// The name.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// The system gave no random numbers.
    #[error("Failed to serve the pages: the system gave no random numbers")]
    Random,
    /// The port is taken.
    #[error("Failed to serve the pages on port {port}: {why}")]
    Bind {
        /// The port.
        port: u16,
        /// What the system said.
        why: String,
    },
    /// The server ended by itself.
    #[error("Failed to serve the pages: {0}")]
    Serve(String),
}

/// Pages that are served. Dropping it stops the server.
#[derive(Debug)]
pub struct Running {
    url: String,
    serving: Serving,
}

impl Running {
    /// The address of the first page, with the token; it ends in a slash.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Stop taking requests, and wait a few seconds for the answers under way.
    pub async fn shutdown(self) -> Result<(), AnnotateError> {
        self.serving.shutdown().await.map_err(AnnotateError::Serve)
    }
}

struct Room {
    gate: Gate,
    desk: Desk,
}

/// Serve the pages on 127.0.0.1. Returns once requests are accepted. Must be called within a tokio runtime.
pub async fn serve(store: Store, options: AnnotateOptions) -> Result<Running, AnnotateError> {
    let token = token()?;
    let wanted = options.port;
    let desk = Desk::open(store, options).await?;
    let port =
        Port::take(wanted).await.map_err(|error| AnnotateError::Bind { port: wanted, why: error.to_string() })?;
    let address = port.address();
    let url = format!("http://{address}/{token}/");
    let room = Arc::new(Room { gate: Gate { token, port: address.port() }, desk });
    let router = axum::Router::new().fallback(handle).with_state(room);
    Ok(Running { url, serving: port.serve(router) })
}

/// 128 random bits.
fn token() -> Result<String, AnnotateError> {
    let mut bytes = [0u8; 16];
    rustls::crypto::ring::default_provider().secure_random.fill(&mut bytes).map_err(|_| AnnotateError::Random)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

async fn handle(State(room): State<Arc<Room>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let rest = match room.gate.admit(&parts) {
        Ok(rest) => rest.to_owned(),
        Err(refusal) => return answer(refusal.0, "text/plain; charset=utf-8", refusal.1),
    };
    let query = parts.uri.query().unwrap_or_default();
    if let Some(act) = rest.strip_prefix("api/") {
        let Ok(body) = to_bytes(body, BODY_MOST).await else {
            return json(StatusCode::PAYLOAD_TOO_LARGE, &serde_json::json!({ "error": "The request is too large" }));
        };
        let (status, value) = if parts.method == Method::POST {
            room.desk.write(act, &body).await
        } else {
            room.desk.read(act, query).await
        };
        return json(status, &value);
    }
    let (kind, text) = match rest.as_str() {
        "" => (HTML, include_str!("../../annotation/page/start.html")),
        "label" | "verify" => (HTML, include_str!("../../annotation/page/mark.html")),
        "adjudicate" => (HTML, include_str!("../../annotation/page/adjudicate.html")),
        "agreement" => (HTML, include_str!("../../annotation/page/agreement.html")),
        "style.css" => ("text/css; charset=utf-8", include_str!("../../annotation/page/style.css")),
        "common.js" => (SCRIPT, include_str!("../../annotation/page/common.js")),
        "start.js" => (SCRIPT, include_str!("../../annotation/page/start.js")),
        "mark.js" => (SCRIPT, include_str!("../../annotation/page/mark.js")),
        "adjudicate.js" => (SCRIPT, include_str!("../../annotation/page/adjudicate.js")),
        "agreement.js" => (SCRIPT, include_str!("../../annotation/page/agreement.js")),
        _ => return answer(StatusCode::NOT_FOUND, "text/plain; charset=utf-8", "No such page"),
    };
    answer(StatusCode::OK, kind, text)
}

fn json(status: StatusCode, value: &serde_json::Value) -> Response {
    answer(status, "application/json", value.to_string())
}
