//! Who may ask: only a page that this server gave out. The address holds a random token, the `Host` must be the
//! loopback address itself (so that no name can be pointed here), and writes must come from the same origin.

use axum::response::{IntoResponse as _, Response};
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode, header};

/// What a browser may do with our answers: our own scripts and styles, nothing inline, nothing from elsewhere.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Where this server lives.
#[derive(Debug, Clone)]
pub(super) struct Gate {
    /// Random part of every path.
    pub(super) token: String,
    /// The port on loopback.
    pub(super) port: u16,
}

/// A request that is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Refusal(pub(super) StatusCode, pub(super) &'static str);

impl Gate {
    /// The part of the path behind the token.
    pub(super) fn admit<'p>(&self, parts: &'p Parts) -> Result<&'p str, Refusal> {
        let text = |name: header::HeaderName| parts.headers.get(name).and_then(|value| value.to_str().ok());
        let hosts = ["127.0.0.1", "localhost", "[::1]"].map(|name| format!("{name}:{}", self.port));
        let host = text(header::HOST).or_else(|| parts.uri.authority().map(|a| a.as_str())).unwrap_or_default();
        if !hosts.iter().any(|known| known == host) {
            return Err(Refusal(StatusCode::MISDIRECTED_REQUEST, "This address is not served here"));
        }
        let site = parts.headers.get("sec-fetch-site").and_then(|value| value.to_str().ok());
        if matches!(site, Some("cross-site" | "same-site")) {
            return Err(Refusal(StatusCode::FORBIDDEN, "Another site asked for this page"));
        }
        let (token, rest) = parts.uri.path().trim_start_matches('/').split_once('/').unwrap_or_default();
        if !equal(token.as_bytes(), self.token.as_bytes()) {
            return Err(Refusal(
                StatusCode::NOT_FOUND,
                "No page here: open the whole address that `aac gold serve` printed; it changes at every start",
            ));
        }
        if parts.method == Method::POST {
            let origin = text(header::ORIGIN).unwrap_or_default();
            if origin != format!("http://{host}") {
                return Err(Refusal(StatusCode::FORBIDDEN, "Another site asked to write"));
            }
            if !text(header::CONTENT_TYPE).unwrap_or_default().starts_with("application/json") {
                return Err(Refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Expected application/json"));
            }
        } else if parts.method != Method::GET {
            return Err(Refusal(StatusCode::METHOD_NOT_ALLOWED, "Expected GET or POST"));
        }
        Ok(rest)
    }
}

/// Equality in a time that does not tell where the difference is.
fn equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
}

/// An answer with the headers that every answer has.
pub(super) fn answer(status: StatusCode, kind: &'static str, body: impl Into<axum::body::Body>) -> Response {
    let mut response = (status, body.into()).into_response();
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "same-origin"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert("cross-origin-opener-policy", HeaderValue::from_static("same-origin"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(method: &str, path: &str, headers: &[(&str, &str)]) -> Result<String, StatusCode> {
        let gate = Gate { token: "secret".to_owned(), port: 4000 };
        let mut request = http::Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        gate.admit(&parts).map(str::to_owned).map_err(|refusal| refusal.0)
    }

    #[test]
    fn only_the_page_itself_gets_in() {
        let host = ("host", "127.0.0.1:4000");
        assert_eq!(asked("GET", "/secret/label", &[host]), Ok("label".to_owned()));
        assert_eq!(asked("GET", "/secret/", &[("host", "localhost:4000")]), Ok(String::new()));
        for (path, headers, expected) in [
            ("/", vec![host], StatusCode::NOT_FOUND),
            ("/secreT/", vec![host], StatusCode::NOT_FOUND),
            ("/secret/label", vec![], StatusCode::MISDIRECTED_REQUEST),
            // A name that was pointed at loopback.
            ("/secret/label", vec![("host", "evil.example:4000")], StatusCode::MISDIRECTED_REQUEST),
            ("/secret/label", vec![("host", "127.0.0.1")], StatusCode::MISDIRECTED_REQUEST),
            ("/secret/label", vec![host, ("sec-fetch-site", "cross-site")], StatusCode::FORBIDDEN),
        ] {
            assert_eq!(asked("GET", path, &headers), Err(expected), "{path} {headers:?}");
        }
    }

    #[test]
    fn only_the_page_itself_writes() {
        let host = ("host", "127.0.0.1:4000");
        let (own, json) = (("origin", "http://127.0.0.1:4000"), ("content-type", "application/json"));
        assert!(asked("POST", "/secret/api/mark", &[host, own, json]).is_ok());
        for (headers, expected) in [
            (vec![host, json], StatusCode::FORBIDDEN),
            (vec![host, json, ("origin", "http://evil.example")], StatusCode::FORBIDDEN),
            (vec![host, json, ("origin", "http://localhost:4000")], StatusCode::FORBIDDEN),
            (vec![host, json, ("origin", "null")], StatusCode::FORBIDDEN),
            (vec![host, own, ("content-type", "text/plain")], StatusCode::UNSUPPORTED_MEDIA_TYPE),
        ] {
            assert_eq!(asked("POST", "/secret/api/mark", &headers), Err(expected), "{headers:?}");
        }
        assert_eq!(asked("DELETE", "/secret/api/mark", &[host, own]), Err(StatusCode::METHOD_NOT_ALLOWED));
    }
}
