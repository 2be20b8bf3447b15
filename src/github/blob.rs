//! `GET /repos/{owner}/{repo}/git/blobs/{file_sha}`: content that GraphQL cuts off or cannot show.

use super::client::GitHub;
use super::limit::Resource;
use super::{Error, wire};
use crate::corpus::{GitOid, Slug};
use base64::Engine as _;

/// The exact bytes of `oid`, at most 100 MB. What comes is checked against the id.
///
/// # Errors
/// See [`Error`]; bytes that do not hash to `oid` are [`Error::Malformed`].
pub async fn blob(github: &GitHub, repository: &Slug, oid: GitOid) -> Result<Vec<u8>, Error> {
    let what = format!("blob {oid} of {repository}");
    let value = github.get(Resource::Core, path(repository, oid), what.clone()).await?;
    let malformed = |why: String| Error::Malformed { what: what.clone(), why };
    let answer: wire::BlobAnswer = serde_json::from_value(value).map_err(|error| malformed(error.to_string()))?;
    let bytes = match answer.encoding.as_str() {
        "base64" => {
            let packed: Vec<u8> = answer.content.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
            base64::engine::general_purpose::STANDARD.decode(packed).map_err(|error| malformed(error.to_string()))?
        }
        "utf-8" => answer.content.into_bytes(),
        other => return Err(malformed(format!("the encoding is {other:?}"))),
    };
    let found = GitOid::of_blob(&bytes);
    if found == oid { Ok(bytes) } else { Err(malformed(format!("the bytes that came are {found}"))) }
}

pub(super) fn path(repository: &Slug, oid: GitOid) -> String {
    format!("/repos/{}/{}/git/blobs/{oid}", segment(repository.owner()), segment(repository.name()))
}

/// Owner and repository names are letters, digits and `-._` on GitHub; anything else is escaped.
pub(super) fn segment(text: &str) -> String {
    use std::fmt::Write as _;
    text.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}
