//! Credentials: values that cannot be printed.

use super::Error;
use octocrab::models::{AppId, InstallationId};
use octocrab::secrecy::{ExposeSecret as _, SecretString};
use std::fmt;

/// A token. Neither `Debug` nor `Display` shows it.
#[derive(Clone)]
pub struct Token(SecretString);

impl Token {
    /// Keep `text`, without white space around it.
    pub fn new(text: &str) -> Self {
        Self(SecretString::from(text.trim().to_owned()))
    }

    pub(super) fn secret(&self) -> SecretString {
        self.0.clone()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// Who asks. One identity: GitHub's terms forbid sharing tokens to exceed its limits, so there is no pool.
#[derive(Clone)]
pub enum Credentials {
    /// A personal or workflow token.
    Token(Token),
    /// An app installation, whose tokens are made from the app's key and renewed before they expire.
    App {
        /// The app.
        app: u64,
        /// The installation.
        installation: u64,
        /// The app's private key (RSA, PEM).
        key: octocrab::auth::EncodingKey,
    },
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Token(token) => token.fmt(f),
            Self::App { app, installation, .. } => write!(f, "App({app}, installation {installation})"),
        }
    }
}

impl Credentials {
    /// Read the credentials from variables: `GITHUB_APP_ID`, `GITHUB_APP_KEY_FILE` and `GITHUB_APP_INSTALLATION`, or
    /// else `GITHUB_TOKEN` or `GH_TOKEN`. `variable` looks one up; empty ones count as absent.
    ///
    /// # Errors
    /// [`Error::NoCredentials`] when there are none, [`Error::Credentials`] when one is there but no use.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self, Error> {
        let given = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        if let Some(app) = given("GITHUB_APP_ID") {
            let missing = |name: &'static str| Error::Credentials {
                variable: name,
                why: "is not set, though GITHUB_APP_ID is".to_owned(),
            };
            let number = |name: &'static str, text: String| {
                text.trim()
                    .parse::<u64>()
                    .map_err(|_| Error::Credentials { variable: name, why: "is not a number".to_owned() })
            };
            let path = given("GITHUB_APP_KEY_FILE").ok_or_else(|| missing("GITHUB_APP_KEY_FILE"))?;
            let installation = given("GITHUB_APP_INSTALLATION").ok_or_else(|| missing("GITHUB_APP_INSTALLATION"))?;
            let unusable =
                |why: String| Error::Credentials { variable: "GITHUB_APP_KEY_FILE", why: format!("{path}: {why}") };
            let pem = std::fs::read(&path).map_err(|error| unusable(error.to_string()))?;
            let key = octocrab::auth::EncodingKey::from_rsa_pem(&pem)
                .map_err(|error| unusable(format!("not an RSA private key in PEM form ({error})")))?;
            return Ok(Self::App {
                app: number("GITHUB_APP_ID", app)?,
                installation: number("GITHUB_APP_INSTALLATION", installation)?,
                key,
            });
        }
        let token = given("GITHUB_TOKEN").or_else(|| given("GH_TOKEN")).ok_or(Error::NoCredentials)?;
        if !token.trim().bytes().all(|byte| byte.is_ascii_graphic()) {
            let why = "holds characters that no token has".to_owned();
            return Err(Error::Credentials { variable: "GITHUB_TOKEN", why });
        }
        Ok(Self::Token(Token::new(&token)))
    }

    /// A name for the identity at `host` under which its ledger is stored. It is a hash: no part of a token can be
    /// read out of it.
    pub fn identity(&self, host: &str) -> String {
        let (kind, text) = match self {
            Self::Token(token) => ("token", crate::corpus::Sha256::of(token.0.expose_secret().as_bytes()).to_string()),
            Self::App { app, installation, .. } => ("app", format!("{app}/{installation}")),
        };
        let digest = crate::corpus::Sha256::of(format!("{host}\n{kind}\n{text}").as_bytes()).to_string();
        format!("{kind}-{}", &digest[..16])
    }

    pub(super) fn sign_in<S>(
        &self,
        builder: octocrab::OctocrabBuilder<S, octocrab::NoConfig, octocrab::NoAuth, octocrab::LayerReady>,
    ) -> Result<octocrab::Octocrab, Error>
    where
        S: tower::Service<
                http::Request<octocrab::OctoBody>,
                Response = http::Response<http_body_util::Full<bytes::Bytes>>,
            > + Send
            + 'static,
        S::Future: Send + 'static,
        S::Error: Into<tower::BoxError>,
    {
        let state = match self {
            Self::Token(token) => octocrab::AuthState::AccessToken { token: token.secret() },
            Self::App { app, key, .. } => {
                octocrab::AuthState::App(octocrab::auth::AppAuth { app_id: AppId(*app), key: key.clone() })
            }
        };
        let Ok(client) = builder.with_auth(state).build();
        match self {
            Self::Token(_) => Ok(client),
            Self::App { installation, .. } => client
                .installation(InstallationId(*installation))
                .map_err(|error| Error::Setup { why: error.to_string() }),
        }
    }
}
