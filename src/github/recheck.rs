//! Repositories by their node ids, which stay the same when they are renamed or moved: facts of a hundred in one query,
//! and contents of a batch as [`super::content()`] reads them by name.

use super::Error;
use super::client::GitHub;
use super::content::{self, RepositoryAnswer, RepositoryAsk, RepositoryFacts};
use super::document::{Document, Fragment, quoted};
use super::limit::{Absence, graphql_errors};
use serde_json::Value;

/// Node ids that GitHub takes in one `nodes` query; one more is an error (`ARGUMENT_LIMIT`).
pub const NODES: usize = 100;

/// The facts of the repositories with these node ids, at most [`NODES`], in their order; `None` marks one that this
/// query did not answer.
///
/// # Errors
/// See [`Error`]; [`Error::TooHeavy`] when the query has to be cut into smaller ones.
pub async fn repositories(
    github: &GitHub,
    nodes: &[String],
) -> Result<Vec<Option<Result<RepositoryFacts, Absence>>>, Error> {
    if nodes.is_empty() {
        return Ok(Vec::new());
    }
    let what = format!("the facts of {} repositories", nodes.len());
    let value = github.graphql(document(nodes), 1, nodes.len() > 1, what).await?;
    Ok(read(nodes.len(), &value))
}

pub(super) fn document(nodes: &[String]) -> String {
    let mut document = Document::default();
    document.uses(Fragment::RepositoryFacts);
    let ids: Vec<String> = nodes.iter().map(|node| quoted(node)).collect();
    document.field(&format!("nodes(ids: [{}]) {{\n    ...RepositoryFacts\n  }}", ids.join(", ")));
    document.finish("Repositories")
}

fn read(asked: usize, value: &Value) -> Vec<Option<Result<RepositoryFacts, Absence>>> {
    let nodes = value.pointer("/data/nodes").and_then(Value::as_array);
    let errors: Vec<(Option<usize>, &str, String)> = value
        .get("errors")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .map(|error| error.pointer("/path/1").and_then(Value::as_u64).and_then(|place| usize::try_from(place).ok()))
        .zip(graphql_errors(value))
        .map(|(place, error)| (place, error.kind, error.message.to_owned()))
        .collect();
    (0..asked)
        .map(|index| {
            let about = || errors.iter().filter(|(place, ..)| *place == Some(index) || (place.is_none() && asked == 1));
            match nodes.and_then(|nodes| nodes.get(index)) {
                Some(node) if !node.is_null() => {
                    let facts = content::facts(node);
                    // A node that is no repository shows nothing, and one with a hole shows too little.
                    let whole = facts.node_id.is_some() && about().next().is_none();
                    whole.then_some(Ok(facts))
                }
                // Nothing without a word about why is no answer.
                _ => about().find_map(|(_, kind, message)| match *kind {
                    "NOT_FOUND" => Some(Err(Absence::NotFound)),
                    "FORBIDDEN" => Some(Err(content::absence_of(message))),
                    _ => None,
                }),
            }
        })
        .collect()
}

/// [`super::content()`] for repositories whose node ids are known; those without one are asked for by name.
///
/// # Errors
/// See [`Error`]; [`Error::TooHeavy`] when the query has to be cut into smaller ones.
pub async fn content_by_id(
    github: &GitHub,
    asks: &[(Option<String>, RepositoryAsk)],
) -> Result<Vec<Option<Result<RepositoryAnswer, Absence>>>, Error> {
    let what = match asks {
        [] => return Ok(Vec::new()),
        [(_, one)] => one.repository.to_string(),
        [(_, first), rest @ ..] => format!("{} and {} more repositories", first.repository, rest.len()),
    };
    let value = github.graphql(document_by_id(asks), 1, asks.len() > 1, what).await?;
    let asks: Vec<RepositoryAsk> = asks.iter().map(|(_, ask)| ask.clone()).collect();
    Ok(content::read(&asks, &value))
}

pub(super) fn document_by_id(asks: &[(Option<String>, RepositoryAsk)]) -> String {
    let mut document = Document::default();
    for (node, ask) in asks {
        let inner = content::selections(&mut document, ask);
        match node {
            Some(node) => document.node(node, &inner),
            None => document.repository(&ask.repository, &inner),
        }
    }
    document.finish("Recheck")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_absence_is_believed_only_with_an_error_that_names_it() {
        let value = json!({
            "data": { "nodes": [{ "id": "R_0" }, null, null, {}] },
            "errors": [
                { "type": "NOT_FOUND", "path": ["nodes", 1], "message": "Could not resolve to a node" },
                { "type": "RESOURCE_LIMITS_EXCEEDED", "message": "Resource limits for this query exceeded." },
            ],
        });
        let answers = read(4, &value);
        assert_eq!(answers[0].as_ref().unwrap().as_ref().unwrap().node_id.as_deref(), Some("R_0"));
        assert_eq!(answers[1], Some(Err(Absence::NotFound)));
        assert_eq!(answers[2..], [None, None]);
        assert_eq!(read(1, &json!({ "data": { "nodes": [null] } })), [None]);
    }
}
