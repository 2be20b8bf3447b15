//! The canonical form of a constraint: what it negates, what it is about, and what qualifies it.

use serde::Serialize;

/// Words that forbid.
const NEGATIONS: &[&str] = &[
    "never",
    "not",
    "no",
    "don't",
    "dont",
    "doesn't",
    "cannot",
    "can't",
    "won't",
    "mustn't",
    "shouldn't",
    "shan't",
    "isn't",
    "aren't",
    "avoid",
    "forbidden",
    "prohibited",
    "disallowed",
    "refuse",
    "deny",
    "without",
    "nor",
    "neither",
    "stop",
    "nothing",
    "none",
    "unable",
    "unacceptable",
    "reject",
];

/// Words that oblige.
const DUTIES: &[&str] = &[
    "must",
    "always",
    "required",
    "require",
    "requires",
    "mandatory",
    "shall",
    "only",
    "ensure",
    "need",
    "needs",
    "should",
    "critical",
    "important",
];

/// Words that open a qualifier: when, unless, by whom, how often.
const QUALIFIERS: &[&str] = &[
    "without",
    "unless",
    "until",
    "except",
    "only",
    "if",
    "when",
    "before",
    "after",
    "while",
    "during",
    "outside",
    "within",
    "beyond",
    "at",
    "most",
    "least",
    "more",
    "less",
    "than",
    "first",
    "even",
    "every",
    "each",
    "all",
    "any",
    "explicit",
    "explicitly",
    "because",
    "otherwise",
];

/// Words without content.
const STOP: &[&str] = &[
    "a", "an", "the", "is", "are", "was", "were", "be", "been", "to", "of", "in", "on", "for", "and", "or", "with",
    "by", "as", "it", "its", "this", "that", "these", "those", "you", "your", "we", "our", "i", "from", "into", "will",
    "can", "may", "do", "does", "has", "have", "so", "then", "there", "their", "they", "them", "he", "she", "his",
    "her", "also", "please", "use", "using", "which", "who", "what", "how", "about", "over", "under", "up", "out",
    "but", "such", "etc", "via", "per", "just", "very",
];

/// Negation, object phrase and qualifiers of one sentence or item.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Canonical {
    /// How many words forbid. A rule with one less says the opposite.
    pub negations: usize,
    /// Words that oblige.
    pub duties: Vec<String>,
    /// Words with content before the first qualifier: what it is about.
    pub object: Vec<String>,
    /// Qualifying words and the words with content that follow them.
    pub qualifiers: Vec<String>,
}

impl Canonical {
    /// The canonical form of `text`.
    ///
    /// ```
    /// use aac::triage::Canonical;
    /// let rule = Canonical::of("Never modify the production schema without a migration file.");
    /// assert_eq!(rule.negations, 2);
    /// assert_eq!(rule.object, ["modify", "production", "schema"]);
    /// assert_eq!(rule.qualifiers, ["without", "migration", "file"]);
    /// ```
    pub fn of(text: &str) -> Self {
        let mut form = Self::default();
        let mut qualifying = false;
        for word in words(text) {
            let negates = NEGATIONS.contains(&word.as_str());
            form.negations += usize::from(negates);
            // "only" and the like limit what follows; one that opens the rule limits nothing before it.
            let qualifies = QUALIFIERS.contains(&word.as_str());
            if qualifies && !form.object.is_empty() {
                qualifying = true;
            }
            if DUTIES.contains(&word.as_str()) {
                form.duties.push(word.clone());
            }
            if negates && !qualifies || STOP.contains(&word.as_str()) || (DUTIES.contains(&word.as_str()) && !qualifies)
            {
                continue;
            }
            if qualifying {
                form.qualifiers.push(word)
            } else if !qualifies {
                form.object.push(word)
            }
        }
        form
    }

    /// The key tokens: object and qualifiers.
    pub fn key_tokens(&self) -> impl Iterator<Item = &str> {
        self.object.iter().chain(&self.qualifiers).map(String::as_str)
    }
}

/// Words of `text` in lower case; apostrophes, and joints within a name or a number, stay.
pub(super) fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '\'' | '’' | '_' | '.' | '/' | '-' | '$' | '%')))
        .map(|word| word.trim_matches(|c: char| !c.is_alphanumeric() && c != '$' && c != '%'))
        .filter(|word| !word.is_empty())
        .map(|word| word.replace('’', "'").to_lowercase())
}

/// Words of `text` that carry content: what a key-token test looks for.
pub(super) fn key_words(text: &str) -> Vec<String> {
    let mut keys: Vec<String> = words(text).filter(|w| !STOP.contains(&w.as_str())).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// Whether `text` forbids, obliges or limits anything: leaving it out could change what is allowed.
pub(super) fn has_force(text: &str) -> bool {
    words(text).any(|word| {
        let word = word.as_str();
        NEGATIONS.contains(&word)
            || matches!(word, "must" | "always" | "only" | "unless" | "except" | "required" | "until")
    })
}

/// Whether `text` tells somebody what to do or not to do, rather than how things are.
pub(super) fn is_imperative(text: &str) -> bool {
    let has = |list: &[&str]| words(text).any(|word| list.contains(&word.as_str()));
    has(&[
        "never",
        "don't",
        "must",
        "mustn't",
        "always",
        "avoid",
        "ensure",
        "shall",
        "should",
        "shouldn't",
        "only",
        "cannot",
    ]) || text.to_lowercase().contains("do not ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negation_and_object_are_told_apart_from_what_qualifies() {
        let form = Canonical::of("You should deny requests unless the user is an admin");
        assert_eq!((form.negations, form.duties.as_slice()), (1, &["should".to_owned()][..]));
        assert_eq!(form.object, ["requests"]);
        assert_eq!(form.qualifiers, ["unless", "user", "admin"]);
        let form = Canonical::of("**Only** deploy from `main`, at most 3 times a day");
        assert_eq!(form.object, ["deploy", "main"]);
        assert_eq!(form.qualifiers, ["at", "most", "3", "times", "day"]);
        assert_eq!(Canonical::of("Don’t push").negations, 1);
    }

    #[test]
    fn force_is_heard() {
        assert!(has_force("(never in CI)") && has_force("unless asked") && !has_force("see the wiki"));
        assert!(is_imperative("Do not push") && !is_imperative("The patient is allergic to penicillin"));
    }
}
