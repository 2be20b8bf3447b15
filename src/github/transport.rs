//! The one way out: a tower service over one reqwest client, so that the proxy variables and `SSL_CERT_FILE` are
//! honoured and octocrab brings no HTTP or TLS stack of its own.

use super::Error;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use octocrab::OctoBody;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tower::BoxError;

/// Where GitHub is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoints {
    rest: reqwest::Url,
    graphql: reqwest::Url,
}

impl Endpoints {
    /// The addresses of the REST and the GraphQL interface, as `GITHUB_API_URL` and `GITHUB_GRAPHQL_URL` hold them.
    /// Without `graphql` it follows from `rest`: `…/api/v3` has it at `…/api/graphql`, everything else at `…/graphql`.
    ///
    /// # Errors
    /// [`Error::Address`] when one is no http(s) address.
    pub fn new(rest: &str, graphql: Option<&str>) -> Result<Self, Error> {
        let rest = address("GITHUB_API_URL", rest)?;
        let graphql = match graphql {
            Some(text) => address("GITHUB_GRAPHQL_URL", text)?,
            None => {
                let mut url = rest.clone();
                let path = rest.path().trim_end_matches('/');
                url.set_path(&format!("{}/graphql", path.strip_suffix("/v3").unwrap_or(path)));
                url
            }
        };
        Ok(Self { rest, graphql })
    }

    /// Those of github.com.
    ///
    /// # Errors
    /// None in practice: the address is well-formed.
    pub fn github_com() -> Result<Self, Error> {
        Self::new("https://api.github.com", None)
    }

    /// Host and port of the REST interface.
    pub fn host(&self) -> String {
        let host = self.rest.host_str().unwrap_or_default();
        self.rest.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }

    /// What [`Self::service`] calls every server on this machine.
    pub const SANDBOX: &str = "the sandbox";

    /// Whose data these addresses serve: the host, or [`Self::SANDBOX`] for this machine, whose ports come and go.
    pub fn service(&self) -> String {
        if self.is_loopback() { Self::SANDBOX.to_owned() } else { self.host() }
    }

    fn is_loopback(&self) -> bool {
        match self.rest.host_str() {
            Some("localhost") => true,
            Some(host) => {
                host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
            }
            None => false,
        }
    }

    /// The full address of a request whose path is relative to the interface.
    fn resolve(&self, relative: &http::Uri) -> Result<http::Uri, BoxError> {
        if relative.authority().is_some() {
            return Ok(relative.clone());
        }
        let base = if relative.path() == GRAPHQL { self.graphql.as_str().to_owned() } else { self.join(relative) };
        Ok(base.parse()?)
    }

    fn join(&self, relative: &http::Uri) -> String {
        let asked = relative.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
        format!("{}{asked}", self.rest.as_str().trim_end_matches('/'))
    }
}

/// The relative path that stands for the GraphQL interface, wherever it is.
pub(super) const GRAPHQL: &str = "/graphql";

fn address(variable: &'static str, text: &str) -> Result<reqwest::Url, Error> {
    let wrong = |why: String| Error::Address { variable, given: text.to_owned(), why };
    let url = reqwest::Url::parse(text.trim()).map_err(|error| wrong(error.to_string()))?;
    match url.scheme() {
        "http" | "https" if url.has_host() => Ok(url),
        scheme => Err(wrong(format!("{scheme} is neither http nor https"))),
    }
}

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct Transport {
    client: reqwest::Client,
    endpoints: Endpoints,
}

impl Transport {
    pub(super) fn new(endpoints: Endpoints, timeout: Duration) -> Result<Self, Error> {
        // The process may have chosen a provider already; either will do.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("aac/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::limited(5))
            .connect_timeout(timeout.min(Duration::from_secs(20)))
            .timeout(timeout)
            .gzip(true);
        if endpoints.is_loopback() {
            builder = builder.no_proxy();
        }
        let client = builder.build().map_err(|error| Error::Setup { why: chain(&error) })?;
        Ok(Self { client, endpoints })
    }
}

impl tower::Service<Request<OctoBody>> for Transport {
    type Response = Response<Full<Bytes>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<OctoBody>) -> Self::Future {
        let Self { client, endpoints } = self.clone();
        Box::pin(async move {
            let (mut parts, body) = request.into_parts();
            parts.uri = endpoints.resolve(&parts.uri)?;
            parts
                .headers
                .entry(http::header::ACCEPT)
                .or_insert(http::HeaderValue::from_static("application/vnd.github+json"));
            // The client sets the length itself, and a GET has none.
            parts.headers.remove(http::header::CONTENT_LENGTH);
            let body = body.collect().await?.to_bytes();
            let request = reqwest::Request::try_from(Request::from_parts(parts, body))?;
            let answer = client.execute(request).await.map_err(|error| {
                let why = chain(&error);
                if error.is_connect() { BoxError::from(Away { why }) } else { BoxError::from(why) }
            })?;
            let (parts, body) = Response::<reqwest::Body>::from(answer).into_parts();
            let body = body.collect().await.map_err(|error| chain(&error))?.to_bytes();
            Ok(Response::from_parts(parts, Full::new(body)))
        })
    }
}

/// No connection could be made: nobody listens there, or the way is blocked.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
struct Away {
    why: String,
}

/// Whether `error` says, at whatever depth, that no connection could be made.
pub(super) fn is_away(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.is::<Away>() {
            return true;
        }
        cause = error.source();
    }
    false
}

/// An error with its causes, without the address: a query in it is long and says nothing more.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graphql_is_found_beside_the_rest_interface_of_an_enterprise_server() {
        let of = |rest: &str, graphql: Option<&str>, path: &str| {
            let endpoints = Endpoints::new(rest, graphql).unwrap();
            endpoints.resolve(&path.parse().unwrap()).unwrap().to_string()
        };
        let enterprise = "https://ghes.example/api/v3";
        assert_eq!(of(enterprise, None, GRAPHQL), "https://ghes.example/api/graphql");
        assert_eq!(of(enterprise, None, "/search/code?q=a%20b"), "https://ghes.example/api/v3/search/code?q=a%20b");
        assert_eq!(of("https://api.github.com", None, GRAPHQL), "https://api.github.com/graphql");
        assert_eq!(of("http://127.0.0.1:9/", Some("http://127.0.0.1:9/g"), GRAPHQL), "http://127.0.0.1:9/g");
    }

    #[test]
    fn an_address_that_is_none_names_the_variable() {
        let error = Endpoints::new("ftp://x", None).unwrap_err().to_string();
        assert!(error.contains("GITHUB_API_URL") && error.contains("ftp"), "{error}");
    }
}
