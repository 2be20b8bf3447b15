//! `POST /graphql`: a small executor of the part of GitHub's schema that a crawler reads.

mod execute;
mod parse;
mod price;

pub(crate) use execute::{Budget, execute};
pub(crate) use price::{Price, price};

use parse::{Document, Operation, Selection};
use serde_json::{Map, Value, json};
use std::collections::HashSet;

/// A request that could be read.
#[derive(Debug)]
pub(crate) struct Prepared {
    document: Document,
    operation: usize,
    variables: Map<String, Value>,
}

impl Prepared {
    fn operation(&self) -> &Operation {
        &self.document.operations[self.operation]
    }

    /// `query`, `mutation` or `subscription`.
    pub(crate) fn kind(&self) -> &str {
        &self.operation().kind
    }
}

/// Read the body of a request. The error is the body to answer with (status 200, as GitHub does).
pub(crate) fn prepare(body: &Value) -> Result<Prepared, Value> {
    let Some(text) = body.get("query").and_then(Value::as_str) else {
        return Err(errors(json!({"message": "A query attribute must be specified and must be a string."})));
    };
    let document = parse::parse(text).map_err(|error| {
        errors(json!({
            "message": error.message,
            "locations": [{"line": error.line, "column": error.column}],
        }))
    })?;
    if let Some(name) = endless(&document) {
        return Err(errors(json!({"message": format!("Fragment {name} contains an infinite loop")})));
    }
    let wanted = body.get("operationName").and_then(Value::as_str);
    let operation = match wanted {
        Some(name) => document.operations.iter().position(|o| o.name.as_deref() == Some(name)),
        None if document.operations.len() == 1 => Some(0),
        None => None,
    };
    let Some(operation) = operation else {
        let message = match wanted {
            Some(name) => format!("No operation named {name:?}"),
            None => "An operation name is required".to_owned(),
        };
        return Err(errors(json!({"message": message})));
    };
    let given = match body.get("variables") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(map)) => map.clone(),
        Some(_) => return Err(errors(json!({"message": "Variables must be an object."}))),
    };
    let mut variables = Map::new();
    for variable in &document.operations[operation].variables {
        let value = match given.get(&variable.name) {
            Some(value) => Some(value.clone()),
            None => variable.default.as_ref().map(|default| default.resolve(&Map::new())),
        };
        match value {
            None | Some(Value::Null) if variable.required => {
                return Err(errors(json!({
                    "message": format!("Variable ${} of a required type was provided invalid value", variable.name),
                    "extensions": {"value": null, "problems": [{"path": [], "explanation": "Expected value to not be null"}]},
                })));
            }
            Some(value) => {
                variables.insert(variable.name.clone(), value);
            }
            None => {}
        }
    }
    Ok(Prepared { document, operation, variables })
}

/// The name of a fragment that spreads itself, directly or through others.
fn endless(document: &Document) -> Option<&str> {
    fn spreads<'d>(selections: &'d [Selection], into: &mut Vec<&'d str>) {
        for selection in selections {
            match selection {
                Selection::Field(field) => spreads(&field.selections, into),
                Selection::Inline { selections, .. } => spreads(selections, into),
                Selection::Spread { name, .. } => into.push(name),
            }
        }
    }
    document.fragments.keys().map(String::as_str).find(|start| {
        let mut seen = HashSet::new();
        let mut open = vec![*start];
        while let Some(name) = open.pop() {
            let Some(fragment) = document.fragments.get(name) else { continue };
            let mut next = Vec::new();
            spreads(&fragment.selections, &mut next);
            if next.contains(start) {
                return true;
            }
            open.extend(next.into_iter().filter(|name| seen.insert(*name)));
        }
        false
    })
}

/// A body of one error and no data.
pub(crate) fn errors(error: Value) -> Value {
    json!({"errors": [error]})
}

/// Whether `@include` and `@skip` leave a selection in.
fn included(directives: &[parse::Directive], variables: &Map<String, Value>) -> bool {
    directives.iter().all(|directive| {
        let condition =
            directive.arguments.iter().find(|(name, _)| name == "if").map(|(_, value)| value.resolve(variables));
        match (directive.name.as_str(), condition) {
            ("include", Some(Value::Bool(yes))) => yes,
            ("skip", Some(Value::Bool(yes))) => !yes,
            _ => true,
        }
    })
}

/// The fields of `selections` for an object of type `ty`, fragments opened. Fragments that spread one another for
/// ever end after `depth` steps.
fn fields<'d>(
    prepared: &'d Prepared,
    ty: Option<&str>,
    selections: &'d [Selection],
    depth: usize,
    into: &mut Vec<&'d parse::Field>,
) {
    if depth == 0 {
        return;
    }
    for selection in selections {
        match selection {
            Selection::Field(field) if included(&field.directives, &prepared.variables) => into.push(field),
            Selection::Inline { on, directives, selections }
                if included(directives, &prepared.variables) && fits(ty, on.as_deref()) =>
            {
                fields(prepared, ty, selections, depth - 1, into);
            }
            Selection::Spread { name, directives } if included(directives, &prepared.variables) => {
                if let Some(fragment) = prepared.document.fragments.get(name)
                    && fits(ty, Some(&fragment.on))
                {
                    fields(prepared, ty, &fragment.selections, depth - 1, into);
                }
            }
            _ => {}
        }
    }
}

/// Whether an object of type `ty` (any when unknown) is an `on`.
fn fits(ty: Option<&str>, on: Option<&str>) -> bool {
    let (Some(ty), Some(on)) = (ty, on) else { return true };
    ty == on
        || match on {
            "Node" => matches!(ty, "Repository" | "Commit" | "Blob" | "Tree" | "Ref" | "User"),
            "GitObject" => matches!(ty, "Commit" | "Blob" | "Tree"),
            "RepositoryInfo" | "Starrable" | "UniformResourceLocatable" => ty == "Repository",
            "RepositoryOwner" | "Actor" => ty == "User",
            _ => false,
        }
}

/// Deepest nesting of fragments within one selection set.
const FRAGMENTS: usize = 16;
