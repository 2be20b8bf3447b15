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

use crate::loopback::{Port, Serving};
use server::Server;
use std::net::SocketAddr;
use std::sync::Arc;
use view::View;

/// A sandbox that serves. Dropping it stops it without waiting for the answers under way.
#[derive(Debug)]
pub struct Running {
    address: SocketAddr,
    server: Arc<Server>,
    serving: Serving,
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

    /// Stop taking requests, wait a few seconds for the answers under way, and give the last counters.
    pub async fn shutdown(self) -> Result<Stats, SandboxError> {
        let Self { address, server, serving } = self;
        serving.shutdown().await.map_err(|why| SandboxError::Serve { address, why })?;
        Ok(server.stats())
    }

    /// Wait until the server ends by itself, which it only does on an error.
    pub async fn wait(&mut self) -> Result<(), SandboxError> {
        let address = self.address;
        self.serving.wait().await.map_err(|why| SandboxError::Serve { address, why })
    }
}

/// Read or generate the world and serve it on 127.0.0.1.
///
/// Returns once requests are accepted. Must be called within a tokio runtime.
pub async fn serve(options: SandboxOptions) -> Result<Running, SandboxError> {
    options.check()?;
    let port = Port::take(options.port)
        .await
        .map_err(|error| SandboxError::Bind { port: options.port, why: error.to_string() })?;
    let address = port.address();
    let SandboxOptions { source, limits, faults, seed, .. } = options;
    let view = tokio::task::spawn_blocking(move || source.open(seed).map(|world| View::new(world, seed, 0)))
        .await
        .map_err(|error| SandboxError::Serve { address, why: error.to_string() })??;
    let server = Arc::new(Server::new(view, limits, faults, seed, format!("http://{address}")));
    let router = axum::Router::new().fallback(server::handle).with_state(Arc::clone(&server));
    Ok(Running { address, server, serving: port.serve(router) })
}
