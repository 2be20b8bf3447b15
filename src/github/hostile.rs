//! Answers that no server should give: whatever comes, reading it ends, and never invents an answer to what was not
//! asked. Compiled for tests and fuzzing only.

use super::{RepositoryAsk, content, history, search_code};
use crate::corpus::GitOid;
use serde_json::Value;

/// Read `bytes` as the answer to each kind of question.
///
/// # Panics
/// When what is read is not an answer to what was asked, and no more than that.
pub fn read_answer(bytes: &[u8]) {
    if let Ok(value) = serde_json::from_slice(bytes) {
        read_value(&value);
    }
}

fn read_value(value: &Value) {
    let oid = GitOid::of_blob(b"");
    let ask = |name: &str| {
        Some(RepositoryAsk {
            repository: name.parse().ok()?,
            blobs: vec![oid],
            trees: vec![String::new(), ".claude".to_owned()],
            paths: vec!["AGENTS.md".to_owned()],
        })
    };
    for names in [&["a/b"][..], &["a/b", "c/d"]] {
        let asks: Vec<RepositoryAsk> = names.iter().filter_map(|name| ask(name)).collect();
        let answers = content::read(&asks, value);
        assert_eq!(answers.len(), names.len());
        for repository in answers.into_iter().flatten().flatten() {
            assert_eq!((repository.blobs.len(), repository.paths.len()), (1, 1));
        }
        assert_eq!(history::read(names.len(), value).len(), names.len());
    }
    if let Ok(page) = search_code::read_page("a page".to_owned(), value.clone()) {
        // A list is read as the fields in their order.
        let items = value["items"].as_array().or(value[2].as_array()).map_or(0, Vec::len);
        assert_eq!(page.files.len() + page.unreadable.len(), items);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use serde_json::Map;

    /// The names that are read, so that shapes come close to real ones.
    const NAMES: [&str; 38] = [
        "data",
        "errors",
        "path",
        "type",
        "message",
        "r0",
        "r1",
        "b0",
        "t0",
        "p0",
        "oid",
        "byteSize",
        "isBinary",
        "isTruncated",
        "text",
        "entries",
        "name",
        "mode",
        "size",
        "totalCount",
        "nodes",
        "authoredDate",
        "authors",
        "user",
        "login",
        "email",
        "defaultBranchRef",
        "target",
        "history",
        "licenseInfo",
        "total_count",
        "incomplete_results",
        "items",
        "sha",
        "url",
        "repository",
        "full_name",
        "nameWithOwner",
    ];

    fn word() -> impl Strategy<Value = String> {
        prop_oneof![
            Just("NOT_FOUND".to_owned()),
            Just("FORBIDDEN".to_owned()),
            Just("a/b".to_owned()),
            Just("x?ref=&ref=".to_owned()),
            Just("2026-02-30T25:61:00Z".to_owned()),
            "[0-9a-f]{40}",
            ".{0,12}",
        ]
    }

    fn answer() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            word().prop_map(Value::from),
        ];
        leaf.prop_recursive(7, 80, 6, |inner| {
            prop_oneof![
                vec(inner.clone(), 0..5).prop_map(Value::from),
                vec((proptest::sample::select(NAMES.to_vec()), inner), 0..8).prop_map(|fields| {
                    Value::Object(
                        fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>(),
                    )
                }),
            ]
        })
    }

    /// `inner` where a repository's answer is expected.
    fn placed(inner: Value, errors: Value) -> Value {
        serde_json::json!({ "data": { "r0": inner }, "errors": errors })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn any_answer_is_read(value in answer(), errors in answer()) {
            for value in [value.clone(), placed(value.clone(), errors)] {
                read_answer(value.to_string().as_bytes());
            }
        }
    }
}
