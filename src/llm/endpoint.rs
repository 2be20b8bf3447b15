//! Where a language model is, and who asks it.

use super::LlmError;
use std::fmt;
use std::str::FromStr;

/// The form in which a server is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Api {
    /// Chat completions, as OpenAI has them and most local servers too.
    OpenAi,
    /// Anthropic's messages.
    Anthropic,
}

impl FromStr for Api {
    type Err = LlmError;

    fn from_str(name: &str) -> Result<Self, LlmError> {
        match name {
            "openai" => Ok(Self::OpenAi),
            "anthropic" => Ok(Self::Anthropic),
            _ => Err(LlmError::Setup {
                what: format!("the interface {name:?}"),
                why: "is neither openai nor anthropic".into(),
            }),
        }
    }
}

/// A key for a server, and the environment variable that it came from. It is sent and never shown: neither `Debug` nor
/// an error holds it.
#[derive(Clone, Default)]
pub struct Key {
    variable: String,
    value: Option<String>,
}

impl Key {
    /// The key in the environment variable `variable`, as `lookup` finds it; an empty one counts as absent, for local
    /// servers ask for none.
    ///
    /// # Errors
    /// [`LlmError::Setup`] when it holds what no header can.
    pub fn read(variable: &str, lookup: impl Fn(&str) -> Option<String>) -> Result<Self, LlmError> {
        let value = lookup(variable).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        if value.as_ref().is_some_and(|value| !value.bytes().all(|byte| byte.is_ascii_graphic())) {
            return Err(LlmError::Setup { what: variable.to_owned(), why: "holds characters that no key has".into() });
        }
        Ok(Self { variable: variable.to_owned(), value })
    }

    pub(super) fn variable(&self) -> &str {
        &self.variable
    }

    pub(super) fn value(&self) -> Option<&str> {
        self.value.as_deref()
    }

    /// `text` without the key: servers like to say which one they refuse.
    pub(super) fn scrub(&self, text: &str) -> String {
        match &self.value {
            Some(value) => text.replace(value.as_str(), "[key]"),
            None => text.to_owned(),
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({}, {})", self.variable, if self.value.is_some() { "set" } else { "not set" })
    }
}

/// One model at one server.
#[derive(Debug, Clone)]
pub struct Endpoint {
    pub(super) api: Api,
    pub(super) url: reqwest::Url,
    pub(super) model: String,
    pub(super) key: Key,
}

impl Endpoint {
    /// The model `model` at `url`: the root of the interface, such as `https://api.openai.com/v1`, or the address that is
    /// asked itself. Without `api` it is Anthropic's where the host or the path says so, else OpenAI's.
    ///
    /// # Errors
    /// [`LlmError::Setup`] when the address or the name is no use.
    pub fn new(api: Option<Api>, url: &str, model: &str, key: Key) -> Result<Self, LlmError> {
        let wrong = |why: String| LlmError::Setup { what: "AAC_LLM_URL".to_owned(), why };
        let mut parsed = reqwest::Url::parse(url.trim()).map_err(|error| wrong(format!("is no address: {error}")))?;
        if !matches!(parsed.scheme(), "http" | "https") || !parsed.has_host() {
            return Err(wrong(format!("is neither http nor https: {}", parsed.scheme())));
        }
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err(wrong(format!("holds a name or a password; put the key into {}", key.variable)));
        }
        if model.trim().is_empty() {
            return Err(LlmError::Setup { what: "AAC_LLM_MODEL".to_owned(), why: "is empty".to_owned() });
        }
        let host = parsed.host_str().unwrap_or_default();
        let path = parsed.path().trim_end_matches('/').to_owned();
        let theirs = host == "anthropic.com" || host.ends_with(".anthropic.com") || path.ends_with("/messages");
        let api = api.unwrap_or(if theirs { Api::Anthropic } else { Api::OpenAi });
        let end = match api {
            Api::OpenAi => "/chat/completions",
            Api::Anthropic => "/messages",
        };
        if !path.ends_with(end) {
            let root = if path.is_empty() { "/v1" } else { &path };
            parsed.set_path(&format!("{root}{end}"));
        }
        Ok(Self { api, url: parsed, model: model.trim().to_owned(), key })
    }

    /// The name of the model.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Host and port of the server.
    pub fn host(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        self.url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }

    /// Whether the server is on this machine: no proxy lies between.
    pub(super) fn is_here(&self) -> bool {
        let host = self.url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(value: &str) -> Key {
        Key::read("AAC_LLM_KEY", |_| Some(value.to_owned())).unwrap()
    }

    #[test]
    fn the_interface_and_its_path_follow_from_the_address() {
        for (given, api, asked) in [
            ("https://api.openai.com/v1", Api::OpenAi, "https://api.openai.com/v1/chat/completions"),
            ("http://127.0.0.1:8080", Api::OpenAi, "http://127.0.0.1:8080/v1/chat/completions"),
            ("http://gpu/llm/chat/completions?v=2", Api::OpenAi, "http://gpu/llm/chat/completions?v=2"),
            ("https://api.anthropic.com", Api::Anthropic, "https://api.anthropic.com/v1/messages"),
            ("http://[::1]:9/proxy/v1/messages", Api::Anthropic, "http://[::1]:9/proxy/v1/messages"),
        ] {
            let found = Endpoint::new(None, given, "m", Key::default()).unwrap();
            assert_eq!((found.api, found.url.as_str()), (api, asked));
        }
        let named = Endpoint::new(Some(Api::Anthropic), "http://127.0.0.1:1/v1", "m", Key::default()).unwrap();
        assert_eq!(named.url.path(), "/v1/messages");
        assert!(named.is_here() && named.host() == "127.0.0.1:1");
    }

    #[test]
    fn what_cannot_be_asked_is_said_by_the_name_of_its_variable() {
        for (url, model, named) in [
            ("ftp://x", "m", "AAC_LLM_URL"),
            ("x", "m", "AAC_LLM_URL"),
            ("http://a:b@x", "m", "AAC_LLM_KEY"),
            ("http://x", " ", "AAC_LLM_MODEL"),
        ] {
            let error = Endpoint::new(None, url, model, key("")).unwrap_err().to_string();
            assert!(error.contains(named) && !error.contains("a:b"), "{error}");
        }
        assert!(Key::read("MY_KEY", |_| Some("a b".into())).unwrap_err().to_string().contains("MY_KEY"));
        assert!("other".parse::<Api>().is_err());
    }

    #[test]
    fn a_key_is_shown_nowhere() {
        let endpoint = Endpoint::new(None, "http://x", "m", key(" hush-hush ")).unwrap();
        assert_eq!(endpoint.key.value(), Some("hush-hush"));
        assert!(!format!("{endpoint:?}").contains("hush"));
        assert_eq!(endpoint.key.scrub("no such key: hush-hush"), "no such key: [key]");
    }
}
