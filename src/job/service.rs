//! Which service a corpus was collected from.

use crate::github::Endpoints;
use crate::store::{Store, StoreError};

/// Setting that names the service that a corpus is kept to, in the words of [`Endpoints::service`].
pub const SERVICE: &str = "service";

/// Where the artifacts of a corpus can be looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Origin {
    /// A service whose pages begin with this address.
    Web(String),
    /// A sandbox: its repositories are nowhere else.
    Sandbox,
}

impl Origin {
    /// The origin of the GitHub repositories in `store`; github.com where nothing is said.
    pub(super) async fn of(store: &Store) -> Result<Self, StoreError> {
        Ok(Self::from_service(store.setting(SERVICE).await?.as_deref()))
    }

    fn from_service(service: Option<&str>) -> Self {
        match service {
            Some(Endpoints::SANDBOX) => Self::Sandbox,
            // The interface of github.com and of its siblings has a host of its own, that of a server in-house has not.
            Some(host) => Self::Web(format!("https://{}", host.strip_prefix("api.").unwrap_or(host))),
            None => Self::Web("https://github.com".to_owned()),
        }
    }

    /// Address that pages begin with.
    pub(super) fn web(&self) -> Option<&str> {
        match self {
            Self::Web(address) => Some(address),
            Self::Sandbox => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_lie_where_the_service_has_them() {
        let web = |service| Origin::from_service(service).web().map(str::to_owned);
        assert_eq!(web(None).as_deref(), Some("https://github.com"));
        assert_eq!(web(Some("api.github.com")).as_deref(), Some("https://github.com"));
        assert_eq!(web(Some("ghes.example:8443")).as_deref(), Some("https://ghes.example:8443"));
        assert_eq!(web(Some(Endpoints::SANDBOX)), None);
    }
}
