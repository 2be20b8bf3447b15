//! `GET /search/code`.

use super::dice::{hash_text, mix, unit};
use super::faults::Faults;
use super::index::{Entry, Hits, REACHABLE, order_of, shown_total};
use super::query::{Query, QueryError, parse};
use super::reply::Reply;
use super::repository::{encode, repository_json};
use super::request::Ask;
use super::tree::split;
use super::view::{Place, View};
use super::world::WorldError;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// How many queries' results are kept for their further pages.
const REMEMBERED: usize = 64;

/// Results of the latest queries, so that ten pages cost one search.
#[derive(Debug, Default)]
pub(crate) struct Recent(Mutex<VecDeque<(u32, String, Arc<Hits>)>>);

impl Recent {
    fn hits(&self, view: &View, text: &str, query: &Query) -> Arc<Hits> {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = |(epoch, known, _): &&(u32, String, Arc<Hits>)| *epoch == view.epoch && known == text;
        if let Some((.., hits)) = lock().iter().find(known) {
            return Arc::clone(hits);
        }
        let hits = Arc::new(view.index.search(view.world.as_ref(), query, order_of(view.seed, text)));
        let mut queue = lock();
        if queue.len() >= REMEMBERED {
            queue.pop_front();
        }
        queue.push_back((view.epoch, text.to_owned(), Arc::clone(&hits)));
        hits
    }
}

/// Answer a search. `incomplete` cuts the page and says so.
pub(crate) fn search(ask: &Ask<'_>, recent: &Recent, incomplete: bool) -> Result<Reply, WorldError> {
    let text = ask.param("q").unwrap_or_default();
    let Ok(page) = ask.param("page").map_or(Ok(1), |page| page.trim().parse::<i64>()) else {
        return Ok(Reply::page(400, "text/plain; charset=utf-8", "Bad Request: page is not a number"));
    };
    let page = page.max(1) as usize;
    let per_page = match ask.param("per_page").and_then(|n| n.trim().parse::<i64>().ok()) {
        Some(n) if n > 0 => n.min(100) as usize,
        _ => 30,
    };
    let query = match parse(text) {
        Ok(query) => query,
        Err(error) => return Ok(refusal(&error)),
    };
    if page.saturating_mul(per_page) > REACHABLE {
        return Ok(Reply::plain(
            422,
            json!({
                "message": "Cannot access beyond the first 1000 results",
                "documentation_url": "https://docs.github.com/rest/search/search#search-code",
                "status": "422",
            }),
        ));
    }
    if unknown_repository(ask, &query) {
        return Ok(answer(0, true, Vec::new()));
    }
    let hits = recent.hits(ask.view, text, &query);
    let total = total(ask.faults, ask.view.seed, text, page, hits.count);
    let from = (page - 1) * per_page;
    let shown = hits.page.get(from..hits.page.len().min(from + per_page)).unwrap_or_default();
    let shown = if incomplete { &shown[..shown.len() / 2] } else { shown };
    let items = shown.iter().map(|entry| item(ask, entry)).collect::<Result<Vec<_>, _>>()?;
    let reply = answer(total, incomplete || hits.incomplete, items);
    Ok(match link(ask, page, per_page, total) {
        Some(link) => reply.with("link", link),
        None => reply,
    })
}

fn answer(total: u64, incomplete: bool, items: Vec<Value>) -> Reply {
    Reply::plain(200, json!({"total_count": total, "incomplete_results": incomplete, "items": items}))
        .with("cache-control", "no-cache".into())
}

fn refusal(error: &QueryError) -> Reply {
    match error {
        QueryError::Blank => Reply::invalid_search(json!({"resource": "Search", "field": "q", "code": "missing"})),
        QueryError::Validation(message) => {
            Reply::invalid_search(json!({"resource": "Search", "field": "q", "code": "invalid", "message": message}))
        }
        QueryError::Syntax(_) => Reply::plain(
            422,
            json!({
                "message": "ERROR_TYPE_QUERY_PARSING_FATAL unable to parse query!",
                "documentation_url": "https://docs.github.com/v3/search/",
                "status": "422",
            }),
        ),
    }
}

/// Whether the only scope of the query is one repository that does not exist.
fn unknown_repository(ask: &Ask<'_>, query: &Query) -> bool {
    let [only] = query.repos.as_slice() else { return false };
    if only.negated || !query.owners.is_empty() {
        return false;
    }
    match only.value.split_once('/') {
        Some((owner, name)) => ask.view.find(ask.faults, owner, name) == Place::Missing,
        None => true,
    }
}

/// The total that page `page` of a query shows.
fn total(faults: &Faults, seed: u64, text: &str, page: usize, count: usize) -> u64 {
    let query = hash_text(seed, text);
    if count > REACHABLE {
        return shown_total(count, faults.total_noise, faults.total_bits, mix(query, &[page as u64]));
    }
    let off = |salt: u64, share: f64| unit(mix(query, &[salt])) < share;
    if count > 1 && page == 1 && off(1, faults.undercount) {
        return (count - count.div_ceil(10)) as u64;
    }
    if count > 1 && off(2, faults.overcount) {
        return (count + count.div_ceil(20)) as u64;
    }
    count as u64
}

fn item(ask: &Ask<'_>, entry: &Entry) -> Result<Value, WorldError> {
    let world = ask.view.world.as_ref();
    // The index knows a repository under the name it had when it was indexed.
    let facts = world.facts(entry.repo);
    let path = world.files(entry.repo).into_iter().nth(entry.file as usize).map(|f| f.path).unwrap_or_default();
    let sha = world.blob_id(entry.repo, entry.file)?;
    let head = facts.head.map(|oid| oid.to_string()).unwrap_or_default();
    let (full, encoded) = (facts.full_name(), encode(&path));
    Ok(json!({
        "name": split(&path).1,
        "path": path,
        "sha": sha.to_string(),
        "url": format!("{}/repositories/{}/contents/{encoded}?ref={head}", ask.base, facts.id),
        "git_url": format!("{}/repositories/{}/git/blobs/{sha}", ask.base, facts.id),
        "html_url": format!("https://github.com/{full}/blob/{head}/{encoded}"),
        "repository": repository_json(ask.base, &facts, false),
        "score": 1.0,
    }))
}

/// The `link` header; `last` stops at what can be reached.
fn link(ask: &Ask<'_>, page: usize, per_page: usize, total: u64) -> Option<String> {
    let pages = (total.min(REACHABLE as u64) as usize).div_ceil(per_page).min(REACHABLE / per_page).max(1);
    ask.links(page, pages)
}
