//! What a query costs before it runs: GitHub's formula over connections, and the limits on nodes and pages.

use super::parse::{Field, Selection};
use super::{FRAGMENTS, Prepared, errors, fields};
use serde_json::{Value, json};

/// Fields that are connections when they are asked for their nodes.
const CONNECTIONS: &[&str] = &["history", "authors", "parents", "languages", "repositories", "refs"];

/// What a query will take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Price {
    /// Points: requests over connections ÷ 100, rounded, at least 1.
    pub(crate) points: u32,
    /// Most nodes that the answer can hold.
    pub(crate) nodes: u64,
    /// Root fields other than `rateLimit`: what makes GitHub run out of time.
    pub(crate) repositories: usize,
}

/// Price `prepared`, or give the body that refuses it.
pub(crate) fn price(prepared: &Prepared, most_nodes: u64) -> Result<Price, Value> {
    let mut counter = Counter { prepared, requests: 0, nodes: 0 };
    let root = &prepared.operation().selections;
    counter.walk(root, 1, &mut Vec::new())?;
    if counter.nodes > most_nodes {
        let message = format!(
            "This query requests up to {} possible nodes which exceeds the maximum limit of {most_nodes}.",
            counter.nodes
        );
        return Err(errors(json!({"type": "MAX_NODE_LIMIT_EXCEEDED", "message": message})));
    }
    let mut top = Vec::new();
    fields(prepared, None, root, FRAGMENTS, &mut top);
    let repositories = top.iter().filter(|f| matches!(f.name.as_str(), "repository" | "node")).count();
    let points = ((counter.requests as f64 / 100.0).round() as u32).max(1);
    Ok(Price { points, nodes: counter.nodes, repositories })
}

struct Counter<'d> {
    prepared: &'d Prepared,
    requests: u64,
    nodes: u64,
}

impl<'d> Counter<'d> {
    fn walk(&mut self, selections: &'d [Selection], times: u64, path: &mut Vec<String>) -> Result<(), Value> {
        let mut list = Vec::new();
        fields(self.prepared, None, selections, FRAGMENTS, &mut list);
        for field in list {
            path.push(field.alias.clone());
            let below = self.field(field, times, path)?;
            self.walk(&field.selections, below, path)?;
            path.pop();
        }
        Ok(())
    }

    /// How often the fields below `field` are asked.
    fn field(&mut self, field: &Field, times: u64, path: &[String]) -> Result<u64, Value> {
        let argument = |name: &str| {
            let found = field.arguments.iter().find(|(given, _)| given == name);
            found.map(|(_, value)| value.resolve(&self.prepared.variables)).filter(|value| !value.is_null())
        };
        if field.name == "nodes"
            && let Some(Value::Array(ids)) = argument("ids")
        {
            if ids.len() > 100 {
                let message = format!("You may not provide more than 100 node ids; you provided {}.", ids.len());
                return Err(errors(json!({"type": "ARGUMENT_LIMIT", "path": path, "message": message})));
            }
            self.nodes = self.nodes.saturating_add(ids.len() as u64);
            return Ok(times.saturating_mul(ids.len().max(1) as u64));
        }
        let pages = field.selections.iter().any(|s| match s {
            Selection::Field(f) => matches!(f.name.as_str(), "nodes" | "edges"),
            _ => true,
        });
        if !CONNECTIONS.contains(&field.name.as_str()) || !pages {
            return Ok(times);
        }
        let size = argument("first").or_else(|| argument("last"));
        match size.as_ref().and_then(Value::as_i64) {
            Some(size @ 0..=100) => {
                self.requests = self.requests.saturating_add(times);
                let nodes = times.saturating_mul(size as u64);
                self.nodes = self.nodes.saturating_add(nodes);
                Ok(nodes)
            }
            Some(size) => {
                let message = format!(
                    "Requesting {size} records on the `{}` connection exceeds the `first` limit of 100 records.",
                    field.name
                );
                Err(errors(json!({"type": "EXCESSIVE_PAGINATION", "path": path, "message": message})))
            }
            None => {
                let message = format!(
                    "You must provide a `first` or `last` value to properly paginate the `{}` connection.",
                    field.name
                );
                Err(errors(json!({"type": "MISSING_PAGINATION_BOUNDARIES", "path": path, "message": message})))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::prepare;
    use super::*;

    fn priced(query: &str) -> Result<Price, Value> {
        price(&prepare(&json!({"query": query})).unwrap(), 500_000)
    }

    #[test]
    fn plain_batches_cost_one_point_and_histories_add_up() {
        let batch: String = (0..25).map(|i| format!("r{i}: repository(owner: \"o\", name: \"n\") {{ id }} ")).collect();
        let cheap = priced(&format!("{{ {batch} rateLimit {{ cost }} }}")).unwrap();
        assert_eq!(cheap, Price { points: 1, nodes: 0, repositories: 25 });

        // One request for the history and one for each of its 100 commits' authors.
        let deep = "repository(owner: \"o\", name: \"n\") { object(expression: \"HEAD\") { ... on Commit {
            history(first: 100) { nodes { authors(first: 10) { nodes { name } } } } } } }";
        assert_eq!(priced(&format!("{{ {deep} }}")).unwrap(), Price { points: 1, nodes: 1_100, repositories: 1 });
        assert_eq!(priced(&format!("{{ a: {deep} b: {deep} }}")).unwrap().points, 2);
    }

    #[test]
    fn limits_on_ids_pages_and_nodes_have_their_own_errors() {
        let kind = |query: &str| priced(query).unwrap_err()["errors"][0]["type"].as_str().unwrap().to_owned();
        let ids: String = (0..101).map(|i| format!("\"R{i}\" ")).collect();
        assert_eq!(kind(&format!("{{ nodes(ids: [{ids}]) {{ id }} }}")), "ARGUMENT_LIMIT");
        assert_eq!(kind("{ a { history { nodes { oid } } } }"), "MISSING_PAGINATION_BOUNDARIES");
        assert_eq!(kind("{ a { history(first: 101) { nodes { oid } } } }"), "EXCESSIVE_PAGINATION");
        let nest = "history(first: 100) { nodes { authors(first: 100) { nodes { repositories(first: 100) { nodes { id } } } } } }";
        assert_eq!(kind(&format!("{{ a {{ {nest} }} }}")), "MAX_NODE_LIMIT_EXCEEDED");
        assert!(priced("{ a { history { totalCount } } }").is_ok());
    }
}
