//! Who stands behind a commit: its author line and trailers reduced to kinds, so that names and addresses need not be
//! kept.
//!
//! The rules are `queries/tag/authors.toml`.

use super::RulesError;
use crate::corpus::{CommitFact, CommitRecord};
use crate::taxonomy::{AuthorKind, CreditVia};
use regex::RegexSet;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    rule: Vec<Written>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    id: String,
    kind: AuthorKind,
    agent: Option<String>,
    identity: String,
    message: Option<String>,
}

/// The compiled author rules.
#[derive(Debug)]
pub struct AuthorRules {
    rules: Vec<Rule>,
    identities: RegexSet,
    /// Message patterns, each with the index of its rule.
    messages: RegexSet,
    message_rules: Vec<usize>,
}

#[derive(Debug)]
struct Rule {
    id: String,
    kind: AuthorKind,
    agent: Option<String>,
}

/// What a rule said about an identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity<'r> {
    /// The kind.
    pub kind: AuthorKind,
    /// The agent's name, for agents.
    pub agent: Option<&'r str>,
    /// The rule that fired; `person.default` or `unknown.default` when none did.
    pub rule: &'r str,
}

impl AuthorRules {
    /// Read rules in the form of `queries/tag/authors.toml`; `name` is used in errors.
    pub fn parse(name: &str, toml: &str) -> Result<Self, RulesError> {
        let file: File = super::rules::read(name, toml)?;
        let identities = file.rule.iter().map(|r| r.identity.as_str());
        let (message_rules, messages): (Vec<_>, Vec<_>) =
            file.rule.iter().enumerate().filter_map(|(i, r)| Some((i, r.message.as_deref()?))).unzip();
        Ok(Self {
            identities: super::rules::set(name, identities)?,
            messages: super::rules::set(name, messages)?,
            message_rules,
            rules: file.rule.into_iter().map(|r| Rule { id: r.id, kind: r.kind, agent: r.agent }).collect(),
        })
    }

    /// The kind of whoever goes by this name, address and account.
    pub fn identity(&self, name: &str, email: &str, login: Option<&str>) -> Identity<'_> {
        let (name, email) = (name.trim(), email.trim());
        if name.is_empty() && email.is_empty() && login.is_none_or(str::is_empty) {
            return Identity { kind: AuthorKind::Unknown, agent: None, rule: "unknown.default" };
        }
        let line = format!("{name} <{email}> {}", login.unwrap_or_default()).to_lowercase();
        match self.identities.matches(&line).iter().next() {
            Some(index) => {
                let rule = &self.rules[index];
                Identity { kind: rule.kind, agent: rule.agent.as_deref(), rule: &rule.id }
            }
            None => Identity { kind: AuthorKind::Person, agent: None, rule: "person.default" },
        }
    }

    /// What may be kept of a commit. An agent that is the author outranks one that co-authors, and that one a line of
    /// the message.
    pub fn fact(&self, commit: &CommitRecord) -> CommitFact {
        let author = self.identity(&commit.name, &commit.email, commit.login.as_deref());
        let mut agent = author.agent.map(|a| (a, CreditVia::Author));
        let mut co_authors = Vec::new();
        for (name, email) in commit.message.lines().filter_map(co_author) {
            let identity = self.identity(name, email, None);
            co_authors.push(identity.kind);
            agent = agent.or(identity.agent.map(|a| (a, CreditVia::CoAuthor)));
        }
        let agent = agent.or_else(|| Some((self.named_in(&commit.message)?, CreditVia::Message)));
        CommitFact {
            author: author.kind,
            agent: agent.map(|(name, via)| (name.to_owned(), via)),
            co_authors,
            when: commit.when,
            creates: commit.creates,
        }
    }

    /// The agent that a line of the message credits.
    fn named_in(&self, message: &str) -> Option<&str> {
        message.lines().find_map(|line| {
            // Credits are short lines; a long one is prose about something else.
            if line.len() > 200 {
                return None;
            }
            let hit = self.messages.matches(&line.trim().to_lowercase()).iter().next()?;
            self.rules[self.message_rules[hit]].agent.as_deref()
        })
    }
}

/// Name and address of a `Co-authored-by` trailer.
fn co_author(line: &str) -> Option<(&str, &str)> {
    const KEY: &str = "co-authored-by:";
    let line = line.trim();
    if !line.get(..KEY.len())?.eq_ignore_ascii_case(KEY) {
        return None;
    }
    let who = line[KEY.len()..].trim();
    Some(match who.split_once('<') {
        Some((name, rest)) => (name.trim(), rest.split('>').next().unwrap_or_default().trim()),
        None => (who, ""),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tag::Tagger;

    fn fact(name: &str, email: &str, message: &str) -> CommitFact {
        Tagger::shipped().authors.fact(&CommitRecord {
            name: name.to_owned(),
            email: email.to_owned(),
            message: message.to_owned(),
            ..CommitRecord::default()
        })
    }

    #[test]
    fn agents_are_known_by_address_account_or_suffix() {
        for (name, email, agent) in [
            ("Claude", "noreply@anthropic.com", "claude"),
            ("claude[bot]", "209825114+claude[bot]@users.noreply.github.com", "claude"),
            ("copilot-swe-agent[bot]", "198982749+Copilot@users.noreply.github.com", "copilot"),
            ("google-labs-jules[bot]", "161369871+google-labs-jules[bot]@users.noreply.github.com", "jules"),
            ("devin-ai-integration[bot]", "158243242+devin-ai-integration[bot]@users.noreply.github.com", "devin"),
            ("Jo Doe (aider)", "jo@example.com", "aider"),
            ("Cursor Agent", "cursoragent@cursor.com", "cursor"),
            ("openhands", "openhands@all-hands.dev", "openhands"),
            ("gemini-code-assist[bot]", "x@users.noreply.github.com", "gemini"),
            ("Amp", "amp@ampcode.com", "amp"),
        ] {
            let fact = fact(name, email, "Add a file");
            assert_eq!(fact.author, AuthorKind::Agent, "{name}");
            assert_eq!(fact.agent, Some((agent.to_owned(), CreditVia::Author)), "{name}");
        }
    }

    #[test]
    fn people_who_share_a_name_with_an_agent_stay_people() {
        for (name, email) in [
            ("Claude Dupont", "claude@dupont.example"),
            ("Claude", "claude@dupont.example"),
            ("Jules Verne", "jules@nautilus.example"),
            ("Devin Smith", "devin@smith.example"),
            ("Abbot Kinney", "kinney@venice.example"),
        ] {
            let fact = fact(name, email, "Add a file");
            assert_eq!((fact.author, fact.agent), (AuthorKind::Person, None), "{name}");
        }
    }

    #[test]
    fn bots_are_not_agents() {
        for (name, email) in [
            ("renovate[bot]", "29139614+renovate[bot]@users.noreply.github.com"),
            ("github-actions", "github-actions@github.com"),
            ("dotnet-maestro[bot]", "dotnet-maestro[bot]@users.noreply.github.com"),
            ("acme-release-bot", "ci@acme.example"),
        ] {
            let fact = fact(name, email, "Sync");
            assert_eq!((fact.author, fact.agent), (AuthorKind::Bot, None), "{name}");
        }
    }

    #[test]
    fn trailers_and_credit_lines_name_the_agent() {
        let co = fact("Jo", "jo@example.com", "Add\n\nCo-Authored-By: Claude Opus 4.6 <noreply@anthropic.com>\n");
        assert_eq!(co.agent, Some(("claude".to_owned(), CreditVia::CoAuthor)));
        assert_eq!((co.author, co.co_authors), (AuthorKind::Person, vec![AuthorKind::Agent]));
        let line = fact("Jo", "jo@example.com", "Add\n\n🤖 Generated with [Claude Code](https://claude.ai/code)");
        assert_eq!(line.agent, Some(("claude".to_owned(), CreditVia::Message)));
        let assisted = fact("Jo", "jo@example.com", "Add\n\nAssisted-by: Claude 3.5 Sonnet (via Cursor)");
        assert_eq!(assisted.agent, Some(("claude".to_owned(), CreditVia::Message)));
    }

    #[test]
    fn a_message_about_a_credit_is_no_credit() {
        for message in [
            "Forbid \"Generated with Claude Code\" in commits",
            "docs: stop adding Co-Authored-By: Claude <noreply@anthropic.com>",
            "Drop lines generated with Claude Code",
        ] {
            assert_eq!(fact("Jo", "jo@example.com", message).agent, None, "{message}");
        }
    }

    #[test]
    fn nobody_is_unknown() {
        assert_eq!(fact("", " ", "x").author, AuthorKind::Unknown);
    }
}
