//! Flags, environment and `aac.toml`, resolved once into typed options: flag over environment over file over default.

use crate::classify::AuthorityWeights;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// The file that is read when `--config` names none.
pub const DEFAULT_FILE: &str = "aac.toml";
/// The corpus when nothing names one.
pub const DEFAULT_DB: &str = "corpus.db";

/// Every key that a configuration file may hold, as dotted paths; a `.*` stands for free keys.
const KNOWN: &[&str] = &[
    "db",
    "platforms",
    "classify.authority.dev",
    "classify.authority.ret",
    "classify.authority.sys",
    "classify.authority.tool",
    "classify.authority.user",
    "crawl.forks",
    "crawl.max_hours",
    "crawl.max_requests",
    "export.contact",
    "export.license",
    "export.name",
    "export.out",
    "export.own",
    "export.removal",
    "github.api_url",
    "github.graphql_url",
    "github.code_search_per_minute",
    "github.core_per_hour",
    "github.graphql_per_hour",
    "github.rest_per_minute",
    "github.graphql_per_minute",
    "llm.answers",
    "llm.api",
    "llm.concurrency",
    "llm.domain",
    "llm.key_variable",
    "llm.max_cost",
    "llm.max_tokens_spent",
    "llm.model",
    "llm.price_input",
    "llm.price_output",
    "llm.timeout_seconds",
    "llm.url",
];

/// Why the configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file named with `--config` cannot be read.
    #[error("Failed to read {path}: {source}", path = .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Not TOML, or a value of the wrong kind.
    #[error("{path}:{line}: {why}", path = .path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// 1-based line.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// A key that nothing reads.
    #[error("{path}: unknown key `{key}`; the nearest known one is `{nearest}`", path = .path.display())]
    UnknownKey {
        /// The file.
        path: PathBuf,
        /// The key as dotted path.
        key: String,
        /// The known key that resembles it most.
        nearest: &'static str,
    },
}

/// The configuration file.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Config {
    /// The corpus.
    pub db: Option<PathBuf>,
    /// Platforms to collect; `all` for every one.
    pub platforms: Vec<String>,
    /// How to reach GitHub.
    pub github: GitHubConfig,
    /// Defaults of `aac crawl`.
    pub crawl: CrawlConfig,
    /// Defaults of `aac export`, and what its card must say.
    pub export: ExportConfig,
    /// Defaults of `aac classify`.
    pub classify: ClassifyConfig,
    /// The language model for the variants that ask one.
    pub llm: LlmConfig,
}

/// `[llm]`: where a language model is, and what asking it may cost. Its key is never read from a file.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct LlmConfig {
    /// Address of its interface; the environment's `AAC_LLM_URL` goes before it.
    pub url: Option<String>,
    /// Name of the model; the environment's `AAC_LLM_MODEL` goes before it.
    pub model: Option<String>,
    /// `openai` or `anthropic`; told by the address where absent.
    pub api: Option<String>,
    /// The environment variable that holds the key; `AAC_LLM_KEY` where absent.
    pub key_variable: Option<String>,
    /// Price of a million tokens asked.
    pub price_input: Option<f64>,
    /// Price of a million tokens answered.
    pub price_output: Option<f64>,
    /// Stop before more tokens are spent in one invocation.
    pub max_tokens_spent: Option<u64>,
    /// Stop before more money is spent in one invocation.
    pub max_cost: Option<f64>,
    /// Requests under way at once.
    pub concurrency: Option<usize>,
    /// The longest that one exchange may take.
    pub timeout_seconds: Option<u64>,
    /// Where answers are kept.
    pub answers: Option<PathBuf>,
    /// What the agents do whose items are judged, for `safety-margin`.
    pub domain: Option<String>,
}

/// `[classify]`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ClassifyConfig {
    /// How much each speaker's word counts in the risk of an item; the paper's weights where a key is absent.
    pub authority: AuthorityWeights,
}

/// `[github]`: where the API is and what it allows. The token is never read from a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct GitHubConfig {
    /// REST root, for example `https://ghes.example/api/v3`; the environment's `GITHUB_API_URL` goes before it.
    pub api_url: Option<String>,
    /// GraphQL address; the environment's `GITHUB_GRAPHQL_URL` goes before it.
    pub graphql_url: Option<String>,
    /// Code searches a minute.
    pub code_search_per_minute: Option<u32>,
    /// Other REST requests an hour.
    pub core_per_hour: Option<u32>,
    /// GraphQL points an hour.
    pub graphql_per_hour: Option<u32>,
    /// REST requests a minute and endpoint, spaced evenly; 0 for no spacing, where the server has no limits on speed.
    pub rest_per_minute: Option<u32>,
    /// GraphQL points a minute, spaced evenly; 0 for no spacing.
    pub graphql_per_minute: Option<u32>,
}

/// `[crawl]`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct CrawlConfig {
    /// Walk the forks too.
    pub forks: bool,
    /// Stop after this many requests.
    pub max_requests: Option<u64>,
    /// Stop after this many hours.
    pub max_hours: Option<f64>,
}

/// `[export]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ExportConfig {
    /// Where shards land.
    pub out: Option<PathBuf>,
    /// Name of the data set in its card.
    pub name: Option<String>,
    /// Whom to write to; required in a card that is published.
    pub contact: Option<String>,
    /// How to ask for removal; required in a card that is published.
    pub removal: Option<String>,
    /// Licence tier: `permissive`, `all-metadata` or `own`.
    pub license: Option<String>,
    /// Repositories (`OWNER` or `OWNER/NAME`) that are yours.
    pub own: Vec<String>,
}

impl Config {
    /// Read `file`, or `aac.toml` where it is there, or nothing.
    pub fn load(file: Option<&Path>) -> Result<Self, ConfigError> {
        let path = file.unwrap_or(Path::new(DEFAULT_FILE));
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(path, &text),
            Err(source) if file.is_none() && source.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(source) => Err(ConfigError::Read { path: path.to_owned(), source }),
        }
    }

    /// Read the text of the file `path`.
    pub fn parse(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let failed = |error: toml::de::Error| ConfigError::Parse {
            path: path.to_owned(),
            line: text[..error.span().map_or(0, |s| s.start).min(text.len())].lines().count().max(1),
            why: error.message().to_owned(),
        };
        let table: toml::Table = toml::from_str(text).map_err(failed)?;
        let mut keys = Vec::new();
        flatten(&table, "", &mut keys);
        for key in keys {
            if !KNOWN.contains(&key.as_str()) {
                return Err(ConfigError::UnknownKey { path: path.to_owned(), nearest: nearest(&key), key });
            }
        }
        toml::from_str(text).map_err(failed)
    }
}

/// The user's folder for models: `aac/classifier` in `XDG_DATA_HOME`, else in `~/.local/share`.
pub fn model_folder() -> Option<PathBuf> {
    Some(user_folder("XDG_DATA_HOME", ".local/share")?.join("aac/classifier"))
}

/// The user's file for the answers of language models: `aac/answers.jsonl` in `XDG_CACHE_HOME`, else in `~/.cache`.
pub fn answers_file() -> Option<PathBuf> {
    Some(user_folder("XDG_CACHE_HOME", ".cache")?.join("aac/answers.jsonl"))
}

fn user_folder(variable: &str, in_home: &str) -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    folder(variable).or_else(|| Some(folder("HOME")?.join(in_home)))
}

fn flatten(table: &toml::Table, prefix: &str, keys: &mut Vec<String>) {
    for (key, value) in table {
        let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        match value {
            toml::Value::Table(inner) => flatten(inner, &path, keys),
            _ => keys.push(path),
        }
    }
}

fn nearest(key: &str) -> &'static str {
    let last = |k: &str| k.rsplit('.').next().unwrap_or_default().to_owned();
    KNOWN
        .iter()
        .copied()
        .min_by_key(|known| strsim::levenshtein(known, key).min(strsim::levenshtein(&last(known), &last(key)) + 1))
        .unwrap_or("db")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, ConfigError> {
        Config::parse(Path::new("aac.toml"), text)
    }

    #[test]
    fn an_unknown_key_names_the_nearest_known_one() {
        for (text, key, near) in [
            ("dbb = 1", "dbb", "db"),
            ("[crawl]\nmax_request = 3", "crawl.max_request", "crawl.max_requests"),
            ("[exports]\ncontact = \"x\"", "exports.contact", "export.contact"),
            ("contact = \"x\"", "contact", "export.contact"),
        ] {
            match parse(text) {
                Err(ConfigError::UnknownKey { key: found, nearest, .. }) => {
                    assert_eq!((found.as_str(), nearest), (key, near))
                }
                other => panic!("{text}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_wrong_value_names_its_line() {
        let error = parse("db = \"x\"\nplatforms = 7\n").unwrap_err().to_string();
        assert!(error.starts_with("aac.toml:2: "), "{error}");
        assert!(parse("db = ").unwrap_err().to_string().starts_with("aac.toml:1: "));
    }

    #[test]
    fn every_known_key_is_read_and_every_field_is_known() {
        let text = "db = \"a.db\"\nplatforms = [\"all\"]\n[classify.authority]\ndev = 1.1\nret = 0.5\nsys = 2.0\ntool = 0.7\nuser = 0.9\n[crawl]\nforks = true\nmax_hours = 1.5\nmax_requests = 3\n[export]\ncontact = \"c\"\nlicense = \"own\"\nname = \"n\"\nout = \"o\"\nown = [\"me\"]\nremoval = \"r\"\n[github]\napi_url = \"a\"\ngraphql_url = \"g\"\ncode_search_per_minute = 1\ncore_per_hour = 2\ngraphql_per_hour = 3\nrest_per_minute = 4\ngraphql_per_minute = 0\n[llm]\nanswers = \"x\"\napi = \"openai\"\nconcurrency = 2\ndomain = \"d\"\nkey_variable = \"K\"\nmax_cost = 1.5\nmax_tokens_spent = 9\nmodel = \"m\"\nprice_input = 0.1\nprice_output = 0.4\ntimeout_seconds = 60\nurl = \"u\"\n";
        let config = parse(text).unwrap();
        let mut keys = Vec::new();
        flatten(&toml::from_str(text).unwrap(), "", &mut keys);
        keys.sort();
        let mut known = KNOWN.to_vec();
        known.sort_unstable();
        assert_eq!(keys, known);
        assert_eq!((config.github.graphql_per_hour, config.github.graphql_per_minute), (Some(3), Some(0)));
        assert_eq!(config.export.own, ["me"]);
        assert_eq!((config.llm.price_output, config.llm.key_variable.as_deref()), (Some(0.4), Some("K")));
        assert_eq!((config.classify.authority.sys, config.classify.authority.user), (2.0, 0.9));
        let one = parse("[classify.authority]\nsys = 2.0\n").unwrap().classify.authority;
        assert_eq!((one.sys, one.dev), (2.0, AuthorityWeights::default().dev));
    }
}
