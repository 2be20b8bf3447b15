//! A place in an S3 bucket: what an export needs of an object store, with errors that say what to do and never repeat
//! what a server sent, since some servers send the key of the caller back.

use futures_util::TryStreamExt as _;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, Checksum};
use object_store::buffered::BufWriter;
use object_store::path::Path as Key;
use object_store::{ObjectStore, ObjectStoreExt as _};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use tokio::io::AsyncWriteExt as _;

/// What an address of a bucket begins with.
pub const SCHEME: &str = "s3://";
/// Bytes of a part. A larger file is sent in several.
const PART: usize = 16 << 20;

/// `s3://BUCKET/PREFIX`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketPlace {
    /// Name of the bucket.
    pub bucket: String,
    /// What the names of all objects begin with, without slashes at its ends; empty for the whole bucket.
    pub prefix: String,
}

impl FromStr for BucketPlace {
    type Err = BucketError;

    fn from_str(text: &str) -> Result<Self, BucketError> {
        let wrong = || BucketError::Place { place: text.to_owned() };
        let rest = text.strip_prefix(SCHEME).ok_or_else(wrong)?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = prefix.trim_matches('/');
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if bucket.is_empty() || !bucket.chars().all(is_name) || Key::parse(prefix).is_err() {
            return Err(wrong());
        }
        Ok(Self { bucket: bucket.to_owned(), prefix: prefix.to_owned() })
    }
}

impl fmt::Display for BucketPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slash = if self.prefix.is_empty() { "" } else { "/" };
        write!(f, "{SCHEME}{}{slash}{}", self.bucket, self.prefix)
    }
}

/// Why the bucket could not be used.
#[derive(Debug, thiserror::Error)]
pub enum BucketError {
    /// The address names no bucket.
    #[error("Failed to read the address {place:?}: expected s3://BUCKET/PREFIX")]
    Place {
        /// What was given.
        place: String,
    },
    /// The environment does not say how to reach it.
    #[error("Failed to set up {place}: {why}")]
    Setup {
        /// The place.
        place: String,
        /// What is wrong.
        why: String,
    },
    /// There is no such bucket.
    #[error(
        "Failed to {doing} {place}: there is no such bucket; make it first, and see that AWS_REGION and AWS_ENDPOINT_URL \
         are those of its service"
    )]
    NoBucket {
        /// What was being done.
        doing: &'static str,
        /// The place.
        place: String,
    },
    /// The service knows the caller not, or does not let it.
    #[error(
        "Failed to {doing} {place}: access denied{}; the identity of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and \
         AWS_SESSION_TOKEN) must be allowed to list the bucket and to get, put and delete its objects",
        in_brackets(.code)
    )]
    Denied {
        /// What was being done.
        doing: &'static str,
        /// The place.
        place: String,
        /// The service's word for it.
        code: Option<String>,
    },
    /// Anything else.
    #[error("Failed to {doing} {place}: {why}")]
    Request {
        /// What was being done.
        doing: &'static str,
        /// The place or object.
        place: String,
        /// What went wrong.
        why: String,
    },
    /// The file to be sent cannot be read.
    #[error("Failed to read {path}: {source}", path = .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

fn in_brackets(code: &Option<String>) -> String {
    code.as_ref().map_or_else(String::new, |code| format!(" ({code})"))
}

/// A place in a bucket, and the way to it. Names of objects are relative to the place.
#[derive(Clone)]
pub struct Bucket {
    store: Arc<dyn ObjectStore>,
    place: BucketPlace,
}

impl fmt::Debug for Bucket {
    /// Without the credentials that the store holds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Bucket").field(&self.place).finish()
    }
}

impl Bucket {
    /// Prepare the way to `place`; asks nothing of the service. Of `variables` those are heeded that AWS's tools know:
    /// `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`, `AWS_REGION`, `AWS_ENDPOINT_URL` and the like.
    pub fn connect(
        place: BucketPlace,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, BucketError> {
        // The client takes the provider of the process; one that was chosen before will do.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = AmazonS3Builder::new();
        for (name, value) in variables {
            let is_plain = name.starts_with("AWS_ENDPOINT_URL") && value.starts_with("http://");
            let key = name.starts_with("AWS_").then(|| name.to_ascii_lowercase().parse::<AmazonS3ConfigKey>());
            if let Some(Ok(key)) = key {
                builder = builder.with_config(key, value);
            }
            if is_plain {
                builder = builder.with_allow_http(true);
            }
        }
        let builder = builder.with_bucket_name(&place.bucket).with_checksum_algorithm(Checksum::SHA256);
        let store = builder
            .build()
            .map_err(|error| BucketError::Setup { place: place.to_string(), why: plainly(&error.to_string()) })?;
        Ok(Self { store: Arc::new(store), place })
    }

    /// Where it is.
    pub fn place(&self) -> &BucketPlace {
        &self.place
    }

    fn key(&self, name: &str) -> Key {
        Key::from(format!("{}/{name}", self.place.prefix))
    }

    /// Every object under the place with its size in bytes, by name.
    pub async fn list(&self) -> Result<BTreeMap<String, u64>, BucketError> {
        let prefix = Key::from(self.place.prefix.as_str());
        let objects: Vec<_> =
            self.store.list(Some(&prefix)).try_collect().await.map_err(|e| self.failed("list", None, &e))?;
        let named = objects.into_iter().filter_map(|object| {
            let name: Vec<String> = object.location.prefix_match(&prefix)?.map(|p| p.as_ref().to_owned()).collect();
            (!name.is_empty()).then(|| (name.join("/"), object.size))
        });
        Ok(named.collect())
    }

    /// The bytes of an object; nothing where there is none.
    pub async fn read(&self, name: &str) -> Result<Option<Vec<u8>>, BucketError> {
        let read = async { self.store.get(&self.key(name)).await?.bytes().await };
        match read.await {
            Ok(bytes) => Ok(Some(bytes.to_vec())),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.failed("read", Some(name), &error)),
        }
    }

    /// Send a file; the object is there once all of it has arrived, and the service checks its digest.
    pub async fn send(&self, name: &str, file: &Path) -> Result<(), BucketError> {
        let unread = |source| BucketError::File { path: file.to_owned(), source };
        let mut source = tokio::fs::File::open(file).await.map_err(unread)?;
        let mut writer = BufWriter::with_capacity(Arc::clone(&self.store), self.key(name), PART);
        let sent = match tokio::io::copy(&mut source, &mut writer).await {
            Ok(_) => writer.shutdown().await,
            Err(error) => Err(error),
        };
        if let Err(error) = sent {
            // Best effort: parts without a whole stay invisible.
            let _ = writer.abort().await;
            return Err(match error.get_ref().and_then(|inner| inner.downcast_ref::<object_store::Error>()) {
                Some(inner) => self.failed("write", Some(name), inner),
                None => unread(error),
            });
        }
        Ok(())
    }

    /// Copy an object inside the service.
    pub async fn copy(&self, from: &str, to: &str) -> Result<(), BucketError> {
        self.store.copy(&self.key(from), &self.key(to)).await.map_err(|e| self.failed("write", Some(to), &e))
    }

    /// Remove an object; one that is not there is no error.
    pub async fn remove(&self, name: &str) -> Result<(), BucketError> {
        match self.store.delete(&self.key(name)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.failed("remove", Some(name), &error)),
        }
    }

    fn failed(&self, doing: &'static str, name: Option<&str>, error: &object_store::Error) -> BucketError {
        let place = name.map_or_else(|| self.place.to_string(), |name| format!("{}/{name}", self.place));
        let said = error.to_string();
        let code = element(&said, "Code").map(str::to_owned);
        let has = |codes: &[&str]| code.as_deref().is_some_and(|code| codes.contains(&code));
        let is_refused =
            matches!(error, object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. });
        if has(&["NoSuchBucket"]) {
            BucketError::NoBucket { doing, place }
        } else if is_refused || has(&["AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken"]) {
            BucketError::Denied { doing, place, code }
        } else {
            BucketError::Request { doing, place, why: plainly(&said) }
        }
    }
}

/// An error without the document that a server sent with it: of that, only the code and the message.
fn plainly(said: &str) -> String {
    let Some(document) = said.find('<') else { return said.to_owned() };
    let parts = [element(said, "Code"), element(said, "Message")];
    let parts: Vec<&str> = parts.into_iter().flatten().collect();
    format!("{}{}", &said[..document], parts.join(": "))
}

/// The text of the first XML element of this name.
fn element<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    Some(rest.split_once(&format!("</{name}>"))?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_bucket_and_a_prefix() {
        let place =
            |text: &str| text.parse::<BucketPlace>().map(|p| (p.bucket.clone(), p.prefix.clone(), p.to_string()));
        let expect = |b: &str, p: &str, s: &str| (b.to_owned(), p.to_owned(), s.to_owned());
        assert_eq!(place("s3://sets/a/b/").unwrap(), expect("sets", "a/b", "s3://sets/a/b"));
        assert_eq!(place("s3://sets").unwrap(), expect("sets", "", "s3://sets"));
        for wrong in ["s3://", "s3:///a", "gs://sets/a", "s3://sets/a//b", "s3://sets/../b", "s3://a b/c"] {
            assert!(place(wrong).unwrap_err().to_string().contains("s3://BUCKET/PREFIX"), "{wrong}");
        }
    }

    #[test]
    fn nothing_that_a_server_sends_is_repeated_but_code_and_message() {
        let said = "Error performing PUT http://s3/x - Server returned non-2xx status code: 403: <Error><Code>\
                    SignatureDoesNotMatch</Code><Message>No match</Message><AWSAccessKeyId>AKIAEXAMPLE</AWSAccessKeyId>\
                    </Error>";
        let plain = plainly(said);
        assert!(plain.ends_with("403: SignatureDoesNotMatch: No match"), "{plain}");
        assert_eq!(plainly("timed out"), "timed out");
    }

    #[test]
    fn the_way_to_a_bucket_does_not_show_its_key() {
        let place = "s3://sets/a".parse::<BucketPlace>().unwrap();
        let variables = [("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE"), ("AWS_SECRET_ACCESS_KEY", "hidden"), ("HOME", "/")];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let bucket = Bucket::connect(place.clone(), variables.clone()).unwrap();
        let shown = format!("{bucket:?}");
        assert!(shown.contains("sets") && !shown.contains("AKIAEXAMPLE") && !shown.contains("hidden"), "{shown}");
        let half = Bucket::connect(place, variables.into_iter().take(1)).unwrap_err().to_string();
        assert!(half.contains("Secret") && !half.contains("AKIAEXAMPLE"), "{half}");
    }
}
