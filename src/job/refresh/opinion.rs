//! REST is asked where GraphQL says that a repository is not there, or says nothing: it tells takedowns (451), refusals
//! and deletions apart, and it takes conditional requests, which cost no quota while nothing changes.

use super::{Refresh, lock, now};
use crate::corpus::Slug;
use crate::github::{self, Absence, Conditional, Error, RestRepository, repository_path};
use crate::job::crawl::Halt;
use crate::job::crawl::write::presence;
use crate::store::RefreshRepo;
use crate::taxonomy::Presence;

/// What REST says of an absence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Opinion {
    /// It is not there, as what, and in which words.
    Agrees(Presence, String),
    /// It is, or nobody can tell: nothing is concluded.
    Differs(String),
}

/// Ask REST whether a repository that GraphQL does not give is absent, and how.
pub(super) async fn second_opinion(
    refresh: &Refresh<'_>,
    repo: &RefreshRepo,
    absence: &Absence,
) -> Result<Opinion, Halt> {
    opinion_on(refresh, &repo.slug, repo.node_id.as_deref(), repo.presence, absence).await
}

pub(super) async fn opinion_on(
    refresh: &Refresh<'_>,
    slug: &Slug,
    node: Option<&str>,
    known: Presence,
    absence: &Absence,
) -> Result<Opinion, Halt> {
    let told = presence(absence);
    // Buried already and nothing new: one opinion is enough.
    if known == told && known != Presence::Present {
        return Ok(Opinion::Agrees(told, absence.to_string()));
    }
    Ok(match ask(refresh, slug).await? {
        Ok(found) if node.is_some() && found.node_id.as_deref() != node => {
            Opinion::Agrees(told, format!("{absence}; its name belongs to another repository"))
        }
        Ok(_) => Opinion::Differs(format!("GraphQL says {absence}, REST shows it")),
        Err(Error::Absent { absence: Absence::NotFound, .. }) => {
            Opinion::Agrees(Presence::Gone, "deleted, or made private".to_owned())
        }
        Err(Error::Absent { absence, .. }) => Opinion::Agrees(presence(&absence), absence.to_string()),
        Err(error) => Opinion::Differs(error.to_string()),
    })
}

/// Whether REST shows that nothing was pushed to a repository since everything in it was as stored. For those that
/// GraphQL cannot answer.
pub(super) async fn unchanged_by_rest(refresh: &Refresh<'_>, repo: &RefreshRepo) -> Result<bool, Halt> {
    if repo.settled_at.is_none() {
        return Ok(false);
    }
    let Ok(found) = ask(refresh, &repo.slug).await? else { return Ok(false) };
    Ok(found.node_id == repo.node_id
        && found.full_name.eq_ignore_ascii_case(&repo.slug.to_string())
        && repo.pushed_at.is_some()
        && found.pushed_ms() == repo.pushed_at
        && found.default_branch == repo.default_branch)
}

/// Ask for a repository, conditionally where an earlier answer is kept.
async fn ask(refresh: &Refresh<'_>, slug: &Slug) -> Result<Result<RestRepository, Error>, Halt> {
    let context = &refresh.context;
    let (identity, url) = (&context.identity, repository_path(slug));
    let kept = context.store.etag(identity, &url).await?;
    let kept = kept.and_then(|(etag, body)| Some((etag, serde_json::from_str::<RestRepository>(&body).ok()?)));
    let etag = kept.as_ref().map(|(etag, _)| etag.as_str());
    let answer = context.unless_stopped(github::repository(context.github, slug, etag)).await?;
    Ok(match (answer, kept) {
        (Ok(Conditional::Unchanged), Some((_, held))) => {
            *lock(&refresh.not_modified) += 1;
            Ok(held)
        }
        (Ok(Conditional::Unchanged), None) => {
            let why = "not modified, though nothing was held".to_owned();
            Err(Error::Malformed { what: url, why })
        }
        (Ok(Conditional::Now { repository, etag }), _) => {
            if let (Some(etag), Ok(body)) = (etag, serde_json::to_string(&repository)) {
                context.store.put_etag(identity, &url, &etag, &body, now()).await?;
            }
            Ok(repository)
        }
        (Err(error), _) if error.stops_the_job() => return Err(error.into()),
        (Err(error), _) => Err(error),
    })
}
