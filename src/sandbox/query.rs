//! The legacy code-search syntax, with what was measured of it rather than what is documented.
//!
//! Terms, `filename:`, `path:`, `extension:`, `language:`, `size:`, `repo:`, `user:`, `org:`, `fork:`, `in:`; `NOT`
//! and `-` negate, `AND` and `OR` join terms. `-path:` changes nothing, `stars:` matches nothing, `fork:false`,
//! parentheses and two sizes are refused.

/// Longest query, in characters that are neither operators nor qualifiers.
const LONGEST: usize = 256;
/// Most `AND`, `OR` and `NOT` in one query.
const MOST_OPERATORS: usize = 5;

/// Which repositories a query looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Forks {
    /// No qualifier: forks are left out.
    #[default]
    Excluded,
    /// `fork:only`, and `fork:true` as measured (the documentation says otherwise).
    Only,
}

/// One condition that may be negated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Condition {
    pub(crate) negated: bool,
    /// Lower case.
    pub(crate) value: String,
}

/// A parsed query. All text is lower case.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Query {
    /// Every group must be met; a group is met when one of its terms is.
    pub(crate) terms: Vec<Vec<Condition>>,
    pub(crate) filenames: Vec<Condition>,
    pub(crate) paths: Vec<String>,
    pub(crate) extensions: Vec<Condition>,
    pub(crate) languages: Vec<Condition>,
    /// Inclusive bounds in bytes.
    pub(crate) size: Option<(u64, u64)>,
    /// `owner/name`; any of them, or any of `owners`.
    pub(crate) repos: Vec<Condition>,
    pub(crate) owners: Vec<Condition>,
    pub(crate) forks: Forks,
    /// A qualifier that the index does not know matches nothing.
    pub(crate) nothing: bool,
}

/// Why a query is refused; each is a 422 of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum QueryError {
    /// `q` is empty.
    Blank,
    /// Too long or too many operators.
    Validation(String),
    /// Parentheses, two sizes, a size that is not one, `fork:false`.
    Syntax(String),
}

/// Parse the `q` parameter.
pub(crate) fn parse(text: &str) -> Result<Query, QueryError> {
    if text.trim().is_empty() {
        return Err(QueryError::Blank);
    }
    let words = words(text);
    let mut query = Query::default();
    let mut operators = 0;
    let mut term_length = 0;
    let mut negate = false;
    let mut join = false;
    for word in &words {
        if !word.quoted {
            match word.text.as_str() {
                "AND" => {
                    operators += 1;
                    continue;
                }
                "OR" => {
                    operators += 1;
                    join = true;
                    continue;
                }
                "NOT" => {
                    operators += 1;
                    negate = true;
                    continue;
                }
                _ => {}
            }
        }
        let (minus, body) = match word.text.strip_prefix('-') {
            Some(rest) if !word.quoted && !rest.is_empty() => (true, rest),
            _ => (false, word.text.as_str()),
        };
        let negated = std::mem::take(&mut negate) || minus;
        let qualifier = if word.quoted { None } else { body.split_once(':') };
        match qualifier {
            Some((key, value)) if is_qualifier(key) => qualify(&mut query, key, value, negated)?,
            _ => {
                if !word.quoted && body.contains(['(', ')']) {
                    return Err(QueryError::Syntax("parentheses are not part of this syntax".into()));
                }
                term_length += body.chars().count();
                let condition = Condition { negated, value: body.to_lowercase() };
                match query.terms.last_mut() {
                    Some(group) if join => group.push(condition),
                    _ => query.terms.push(vec![condition]),
                }
            }
        }
        join = false;
    }
    if term_length + query.terms.len().saturating_sub(1) > LONGEST {
        return Err(QueryError::Validation(format!("The search is longer than {LONGEST} characters.")));
    }
    if operators > MOST_OPERATORS {
        return Err(QueryError::Validation(format!("More than {MOST_OPERATORS} AND / OR / NOT operators were used.")));
    }
    Ok(query)
}

struct Word {
    text: String,
    quoted: bool,
}

/// Split at white space outside quotes. `key:"a b"` stays one unquoted word without its quotes.
fn words(text: &str) -> Vec<Word> {
    let mut words = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(first) = chars.peek().copied() {
        if first.is_whitespace() {
            chars.next();
            continue;
        }
        let quoted = first == '"';
        let mut inside = false;
        let mut word = String::new();
        while let Some(c) = chars.peek().copied() {
            if c.is_whitespace() && !inside {
                break;
            }
            chars.next();
            if c == '"' {
                inside = !inside;
            } else {
                word.push(c);
            }
        }
        if !word.is_empty() {
            words.push(Word { text: word, quoted });
        }
    }
    words
}

fn is_qualifier(key: &str) -> bool {
    matches!(
        key.to_ascii_lowercase().as_str(),
        "in" | "user"
            | "org"
            | "repo"
            | "path"
            | "language"
            | "size"
            | "filename"
            | "extension"
            | "fork"
            | "stars"
            | "symbol"
    )
}

fn qualify(query: &mut Query, key: &str, value: &str, negated: bool) -> Result<(), QueryError> {
    let condition = Condition { negated, value: value.to_lowercase() };
    match key.to_ascii_lowercase().as_str() {
        // Where a term is looked for; both places are searched anyhow.
        "in" => {}
        "filename" => query.filenames.push(condition),
        "path" if negated => {}
        "path" => query.paths.push(condition.value),
        "extension" => {
            let value = condition.value.trim_start_matches('.').to_owned();
            query.extensions.push(Condition { value, ..condition });
        }
        "language" => query.languages.push(condition),
        "repo" => query.repos.push(condition),
        "user" | "org" => query.owners.push(condition),
        "size" => {
            if query.size.is_some() {
                return Err(QueryError::Syntax("only one size can be given".into()));
            }
            query.size = Some(size(value).ok_or_else(|| QueryError::Syntax(format!("{value:?} is not a size")))?);
        }
        "fork" => match condition.value.as_str() {
            "only" | "true" => query.forks = Forks::Only,
            _ => return Err(QueryError::Syntax(format!("fork:{value} is not supported"))),
        },
        _ => query.nothing = true,
    }
    Ok(())
}

/// The inclusive range of a `size:` value, empty ranges (`9..3`, `<0`) as `(1, 0)`.
fn size(value: &str) -> Option<(u64, u64)> {
    let number = |text: &str| -> Option<u64> {
        (!text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok()).flatten()
    };
    if let Some((low, high)) = value.split_once("..") {
        return match (low, high) {
            ("*", "*") => None,
            ("*", high) => Some((0, number(high)?)),
            (low, "*") => Some((number(low)?, u64::MAX)),
            (low, high) => Some((number(low)?, number(high)?)),
        };
    }
    if let Some(rest) = value.strip_prefix(">=") {
        return Some((number(rest)?, u64::MAX));
    }
    if let Some(rest) = value.strip_prefix("<=") {
        return Some((0, number(rest)?));
    }
    if let Some(rest) = value.strip_prefix('>') {
        return Some((number(rest)?.saturating_add(1), u64::MAX));
    }
    if let Some(rest) = value.strip_prefix('<') {
        return Some(number(rest)?.checked_sub(1).map_or((1, 0), |high| (0, high)));
    }
    number(value).map(|n| (n, n))
}

/// The words of a file or folder name, as the index holds them: runs of letters and digits.
pub(crate) fn tokens(name: &str) -> impl Iterator<Item = &str> {
    name.split(|c: char| !c.is_alphanumeric()).filter(|part| !part.is_empty())
}

/// Whether the words of `wanted` stand side by side in `name`. Both lower case.
pub(crate) fn name_matches(name: &str, wanted: &str) -> bool {
    let wanted: Vec<&str> = tokens(wanted).collect();
    let name: Vec<&str> = tokens(name).collect();
    !wanted.is_empty() && name.windows(wanted.len()).any(|run| run == wanted)
}

/// Whether `folder` (lower case, no leading slash, root empty) is or lies in the folder that `wanted` names. `/` is
/// the root alone; otherwise its segments stand side by side anywhere in the folder's path.
pub(crate) fn folder_matches(folder: &str, wanted: &str) -> bool {
    if wanted == "/" {
        return folder.is_empty();
    }
    let wanted: Vec<&str> = wanted.split('/').filter(|s| !s.is_empty()).collect();
    let segments: Vec<&str> = folder.split('/').filter(|s| !s.is_empty()).collect();
    !wanted.is_empty() && segments.windows(wanted.len()).any(|run| run == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_size_is_read() {
        let cases = [
            ("9", (9, 9)),
            (">9", (10, u64::MAX)),
            (">=9", (9, u64::MAX)),
            ("<9", (0, 8)),
            ("<=9", (0, 9)),
            ("3..9", (3, 9)),
            ("3..*", (3, u64::MAX)),
            ("*..9", (0, 9)),
            ("<0", (1, 0)),
        ];
        for (text, range) in cases {
            assert_eq!(parse(&format!("filename:x size:{text}")).unwrap().size, Some(range), "{text}");
        }
        for bad in ["x", "1..y", "", ">", "-1", "1.."] {
            assert!(matches!(parse(&format!("filename:x size:{bad}")), Err(QueryError::Syntax(_))), "{bad}");
        }
    }

    #[test]
    fn measured_oddities_hold() {
        assert_eq!(parse("  "), Err(QueryError::Blank));
        assert!(matches!(parse("filename:a size:1 size:2"), Err(QueryError::Syntax(_))));
        assert!(matches!(parse("filename:a fork:false"), Err(QueryError::Syntax(_))));
        assert!(matches!(parse("(a OR b)"), Err(QueryError::Syntax(_))));
        assert_eq!(parse("filename:a -path:b").unwrap(), parse("filename:a").unwrap());
        assert!(parse("filename:a stars:>3").unwrap().nothing);
        assert_eq!(parse("filename:a fork:true").unwrap().forks, Forks::Only);
        assert_eq!(parse("filename:a").unwrap().forks, Forks::Excluded);
    }

    #[test]
    fn length_counts_terms_only_and_operators_are_limited() {
        assert!(parse(&"a".repeat(256)).is_ok());
        assert!(matches!(parse(&"a".repeat(257)), Err(QueryError::Validation(_))));
        assert!(parse(&format!("x filename:{}", "a".repeat(300))).is_ok());
        assert!(parse("a OR b OR c OR d OR e OR f").is_ok());
        assert!(matches!(parse("a OR b OR c OR d OR e OR f OR g"), Err(QueryError::Validation(_))));
    }

    #[test]
    fn terms_group_by_or_and_negate() {
        let query = parse("alpha OR \"beta gamma\" NOT delta -epsilon path:\"a b\"").unwrap();
        assert_eq!(query.terms.len(), 3);
        assert_eq!(query.terms[0].len(), 2);
        assert_eq!(query.terms[0][1].value, "beta gamma");
        assert!(query.terms[1][0].negated && query.terms[2][0].negated);
        assert_eq!(query.paths, ["a b"]);
    }

    #[test]
    fn names_match_by_whole_words_and_paths_by_folders() {
        assert!(name_matches("agents.md", "agents.md"));
        assert!(name_matches("my-agents.md.tmpl", "agents.md"));
        assert!(!name_matches("subagents.md", "agents.md"));
        assert!(!name_matches("agents.md", "."));
        assert!(folder_matches("", "/") && !folder_matches("a", "/"));
        assert!(folder_matches("pkg/.claude/rules/x", ".claude/rules"));
        assert!(!folder_matches("pkg/.claude", ".claude/rules"));
        assert!(!folder_matches("claude", "claude.md"));
    }
}
