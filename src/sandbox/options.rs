//! How a sandbox is set up.

use super::faults::Faults;
use super::git_world::GitWorld;
use super::limits::Limits;
use super::synthetic::Synthetic;
use super::world::World;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What the sandbox serves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Source {
    /// Git repositories in a folder, named `owner+name.git` or `owner+name`.
    Repositories(PathBuf),
    /// A generated corpus of about so many artifacts.
    Synthetic(u32),
}

/// Everything that can be set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SandboxOptions {
    /// What to serve.
    pub source: Source,
    /// Seed of every draw: the generated corpus, the order of results, the faults.
    #[serde(default = "first_seed")]
    pub seed: u64,
    /// Port on 127.0.0.1; 0 takes a free one.
    #[serde(default)]
    pub port: u16,
    /// Limits; GitHub's by default.
    #[serde(default)]
    pub limits: Limits,
    /// Faults; none by default.
    #[serde(default)]
    pub faults: Faults,
}

fn first_seed() -> u64 {
    1
}

/// Why a sandbox cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The port is taken or not allowed.
    #[error("Failed to listen on 127.0.0.1:{port}: {why}; choose another port, or 0 for a free one")]
    Bind {
        /// What was asked for.
        port: u16,
        /// The system's words.
        why: String,
    },
    /// The server ended.
    #[error("Failed to serve on {address}: {why}")]
    Serve {
        /// Where it served.
        address: SocketAddr,
        /// The system's words.
        why: String,
    },
    /// A settings file cannot be read, or says something impossible.
    #[error("Failed to read {what} {path}: {why}")]
    Settings {
        /// `limits` or `faults`.
        what: &'static str,
        /// The file.
        path: String,
        /// Line and key, or what is wrong with the value.
        why: String,
    },
    /// Settings that contradict themselves.
    #[error("Failed to use the {what}: {why}")]
    Impossible {
        /// `limits`, `faults` or `source`.
        what: &'static str,
        /// The key and the values it may have.
        why: String,
    },
    /// The folder of repositories cannot be served.
    #[error("Failed to open the repositories in {path}: {why}")]
    Repositories {
        /// The folder.
        path: String,
        /// What to do about it.
        why: String,
    },
}

impl SandboxOptions {
    /// Serve `source` on a free port with GitHub's limits and no faults.
    pub fn new(source: Source) -> Self {
        Self { source, seed: first_seed(), port: 0, limits: Limits::default(), faults: Faults::default() }
    }

    pub(crate) fn check(&self) -> Result<(), SandboxError> {
        let found = [("limits", self.limits.problem()), ("faults", self.faults.problem())];
        match found.into_iter().find_map(|(what, problem)| problem.map(|why| (what, why))) {
            Some((what, why)) => Err(SandboxError::Impossible { what, why }),
            None => Ok(()),
        }
    }
}

impl Source {
    pub(crate) fn open(&self, seed: u64) -> Result<Arc<dyn World>, SandboxError> {
        match self {
            Self::Synthetic(artifacts) => Ok(Arc::new(Synthetic::new(*artifacts, seed))),
            Self::Repositories(path) => Ok(Arc::new(GitWorld::open(path)?)),
        }
    }
}

impl Limits {
    /// Read a TOML file; what it leaves out stays at GitHub's value, and a key that does not exist is an error.
    pub fn from_file(path: &Path) -> Result<Self, SandboxError> {
        let limits: Self = settings("limits", path)?;
        match limits.problem() {
            Some(why) => Err(SandboxError::Settings { what: "limits", path: path.display().to_string(), why }),
            None => Ok(limits),
        }
    }
}

impl Faults {
    /// Read a TOML file; what it leaves out does not happen, and a key that does not exist is an error.
    pub fn from_file(path: &Path) -> Result<Self, SandboxError> {
        let faults: Self = settings("faults", path)?;
        match faults.problem() {
            Some(why) => Err(SandboxError::Settings { what: "faults", path: path.display().to_string(), why }),
            None => Ok(faults),
        }
    }
}

fn settings<T: DeserializeOwned>(what: &'static str, path: &Path) -> Result<T, SandboxError> {
    let wrong = |why: String| SandboxError::Settings { what, path: path.display().to_string(), why };
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    toml::from_str(&text).map_err(|error| wrong(error.to_string().trim_end().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_keep_defaults_and_name_what_is_unknown() {
        let limits: Limits = toml::from_str("[code_search]\nlimit = 3\nwindow_seconds = 0.2").unwrap();
        assert_eq!((limits.code_search.limit, limits.core.limit), (3, 5000));
        let error = toml::from_str::<Faults>("slwo = 1").unwrap_err().to_string();
        assert!(error.contains("slwo") && error.contains("slow"), "{error}");
    }
}
