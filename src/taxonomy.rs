//! The closed vocabularies of the corpus: every value that a column, a file or a flag may hold.
//!
//! Each enum has one spelling, used alike in SQLite, Parquet, JSON and on the command line; `FromStr` accepts that
//! spelling and names the alternatives when it is given another.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A word that is not in one of the closed vocabularies.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Unknown {vocabulary} {word:?}: expected one of {expected}")]
pub struct UnknownWord {
    /// Which vocabulary was asked, for example `knowledge type`.
    pub vocabulary: &'static str,
    /// What was given.
    pub word: String,
    /// The accepted spellings, comma separated.
    pub expected: String,
}

/// Declares a closed enum with its spellings, `as_str`, `ALL`, `Display`, `FromStr` and serde by that spelling.
macro_rules! vocabulary {
    ($(#[$meta:meta])* $name:ident, $label:literal { $($(#[$vmeta:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum $name { $($(#[$vmeta])* #[serde(rename = $word)] $variant,)+ }

        impl $name {
            /// Every value, in declaration order.
            pub const ALL: &'static [$name] = &[$($name::$variant,)+];

            /// The one spelling of this value.
            pub const fn as_str(self) -> &'static str {
                match self { $($name::$variant => $word,)+ }
            }

            /// Position in [`Self::ALL`]; stable, used in packed columns.
            pub const fn index(self) -> usize { self as usize }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.pad(self.as_str()) }
        }

        impl FromStr for $name {
            type Err = UnknownWord;
            fn from_str(word: &str) -> Result<Self, UnknownWord> {
                Self::ALL.iter().copied().find(|v| v.as_str() == word).ok_or_else(|| UnknownWord {
                    vocabulary: $label,
                    word: word.to_owned(),
                    expected: Self::ALL.iter().map(|v| v.as_str()).collect::<Vec<_>>().join(", "),
                })
            }
        }
    };
}

vocabulary! {
    /// The five knowledge types of the paper (its Table 2), and `meta` for items that carry nothing.
    KnowledgeType, "knowledge type" {
        /// Removing it would let some action become unsafe.
        Constraint = "constraint",
        /// How to carry out a task.
        Procedural = "procedural",
        /// A fact held to be true.
        Belief = "belief",
        /// Taste or convention; ignoring it harms nothing.
        Preference = "preference",
        /// Something that happened, or a state at a point in time.
        Episodic = "episodic",
        /// None of these: titles, bare links, placeholders. Outside the five-class figures.
        Meta = "meta",
    }
}

impl KnowledgeType {
    /// The one-letter code of the paper and of label files: C, P, B, F, E, M.
    pub const fn letter(self) -> char {
        match self {
            Self::Constraint => 'C',
            Self::Procedural => 'P',
            Self::Belief => 'B',
            Self::Preference => 'F',
            Self::Episodic => 'E',
            Self::Meta => 'M',
        }
    }

    /// The type of a one-letter code, in either case.
    pub fn from_letter(letter: char) -> Option<Self> {
        Self::ALL.iter().copied().find(|t| t.letter() == letter.to_ascii_uppercase())
    }
}

vocabulary! {
    /// Where the classifier draws the line for constraints.
    OperatingPoint, "operating point" {
        /// The type shown to people.
        Balanced = "balanced",
        /// What the operators pin: recall first.
        Safe = "safe",
    }
}

vocabulary! {
    /// Who speaks in an item, from most to least authority (the paper's §3.2).
    Authority, "authority" {
        /// System prompt.
        System = "sys",
        /// Developer or repository configuration.
        Developer = "dev",
        /// The user of the session.
        User = "user",
        /// Output of a tool.
        Tool = "tool",
        /// Retrieved text.
        Retrieved = "ret",
    }
}

vocabulary! {
    /// What an artifact is for.
    Function, "function" {
        /// The main context file of a repository or folder.
        Instructions = "instructions",
        /// A scoped rule file, one of several.
        Rules = "rules",
        /// `SKILL.md` and the files of a skill's folder.
        Skill = "skill",
        /// A named agent with a role.
        Subagent = "subagent",
        /// A reusable prompt or slash command.
        Command = "command",
        /// Runs on an event.
        Hook = "hook",
        /// Configuration of a tool.
        Settings = "settings",
        /// Declares MCP servers.
        Mcp = "mcp",
        /// State carried over sessions.
        Memory = "memory",
        /// A specification or plan of work.
        Plan = "plan",
        /// What a tool must not read.
        Ignore = "ignore",
        /// No content of its own: a symlink, `@AGENTS.md`, "see …".
        Pointer = "pointer",
        /// Lists other artifacts.
        Index = "index",
        /// None of these.
        Other = "other",
    }
}

vocabulary! {
    /// Who wrote an artifact, by evidence only.
    Authorship, "authorship" {
        /// Generated markers, placeholders, or the same text under two or more owners.
        Template = "template",
        /// Created by a bot account that syncs or templates.
        Bot = "bot",
        /// Created by an agent.
        AiGenerated = "ai_generated",
        /// Created by a person, later touched with an agent.
        AiAssisted = "ai_assisted",
        /// Positive evidence of people only.
        Human = "human",
        /// No evidence.
        Unknown = "unknown",
    }
}

vocabulary! {
    /// Who stands behind a commit, as far as its author line tells. Kept instead of names and addresses.
    AuthorKind, "author kind" {
        /// Nothing says otherwise: taken for a person.
        Person = "person",
        /// An account that runs a script: renovate, github-actions, a release bot.
        Bot = "bot",
        /// A coding agent: Claude, Copilot, Jules.
        Agent = "agent",
        /// No author is known.
        Unknown = "unknown",
    }
}

vocabulary! {
    /// How a commit names the agent that had a hand in it.
    CreditVia, "credit" {
        /// The agent is the commit's author.
        Author = "author",
        /// A `Co-authored-by` trailer.
        CoAuthor = "co_author",
        /// Another trailer or a line of the message ("Generated with …").
        Message = "message",
    }
}

vocabulary! {
    /// How far an artifact's content is bound to its project.
    Specificity, "specificity" {
        /// Would serve any project unchanged.
        Generic = "generic",
        /// Serves any project on this language, framework or tool.
        Stack = "stack",
        /// Names this project's own paths, modules, commands, decisions.
        Project = "project",
    }
}

vocabulary! {
    /// The dimension of a tag.
    Dimension, "tag dimension" {
        /// Which tool reads the artifact.
        Platform = "platform",
        /// What it is for.
        Function = "function",
        /// Who wrote it.
        Authorship = "authorship",
        /// How bound to the project it is.
        Specificity = "specificity",
    }
}

vocabulary! {
    /// How freely a licence lets its text be passed on.
    LicenseTier, "licence tier" {
        /// MIT, Apache-2.0, BSD and their kin.
        Permissive = "permissive",
        /// LGPL, MPL and their kin.
        Weak = "weak",
        /// GPL, AGPL and their kin.
        Strong = "strong",
        /// No licence found.
        None = "none",
        /// A licence that no SPDX identifier names.
        Custom = "custom",
    }
}

vocabulary! {
    /// What kind of passage an item is.
    ItemKind, "item kind" {
        /// A list entry, without its children.
        List = "list",
        /// A paragraph, block quote or HTML block.
        Paragraph = "para",
        /// A table row.
        Row = "row",
        /// A fenced or indented code block.
        Code = "code",
        /// An instruction string inside a settings file or front matter.
        Setting = "setting",
    }
}

vocabulary! {
    /// Which of the two disjoint fork families a search query asks for.
    ForkFamily, "fork family" {
        /// Repositories that are no forks: the query carries no fork qualifier.
        Plain = "plain",
        /// Forks only: `fork:only`.
        Only = "only",
    }
}

vocabulary! {
    /// Where a search window stands.
    WindowState, "window state" {
        /// Planned, nothing asked.
        Open = "open",
        /// Some pages stored.
        Walking = "walking",
        /// Every page came, none incomplete, distinct keys ≥ the largest total seen.
        Complete = "complete",
        /// Walked as often as allowed and still fewer keys than the total.
        Short = "short",
        /// More hits than the cap and no axis left to split on.
        Overflow = "overflow",
        /// Replaced by narrower windows; its first page counted as data.
        Split = "split",
    }
}

vocabulary! {
    /// Whether an artifact or a repository is still where it was.
    Presence, "presence" {
        /// Seen in the last check.
        Present = "present",
        /// Missed once; a second run must agree before it counts as gone.
        Missing = "missing",
        /// Confirmed gone.
        Gone = "gone",
        /// The repository has no commits.
        Empty = "empty",
        /// Access blocked (451, or 403 `tos`).
        Blocked = "blocked",
        /// Answers as not found although its owner still names it: made private.
        Private = "private",
        /// Removed at somebody's request and never collected again.
        OptedOut = "opted_out",
    }
}

vocabulary! {
    /// How the bytes of a blob spell its text.
    TextEncoding, "text encoding" {
        /// UTF-8 without a byte order mark.
        Utf8 = "utf-8",
        /// UTF-8 behind a byte order mark.
        Utf8Bom = "utf-8-bom",
        /// UTF-16, low byte first, behind a byte order mark.
        Utf16Le = "utf-16le",
        /// UTF-16, high byte first, behind a byte order mark.
        Utf16Be = "utf-16be",
        /// Not valid UTF-8 and not binary: read byte by byte.
        Latin1 = "latin-1",
        /// Holds NUL bytes: no text.
        Binary = "binary",
    }
}

vocabulary! {
    /// What kind of tree entry an artifact is.
    FileMode, "file mode" {
        /// An ordinary file.
        File = "file",
        /// An executable file.
        Executable = "executable",
        /// A symbolic link: its bytes are the path it names.
        Symlink = "symlink",
    }
}

vocabulary! {
    /// How a run ended.
    Outcome, "run outcome" {
        /// Everything was done.
        Done = "done",
        /// Something failed; the rest is stored.
        Partial = "partial",
        /// A limit, a budget or a signal ended it early; the same command goes on.
        Paused = "paused",
        /// It could not go on.
        Failed = "failed",
    }
}

vocabulary! {
    /// Where a repository's rows came from.
    RepoSource, "repository source" {
        /// The GitHub API.
        GitHub = "github",
        /// A repository or folder on this machine.
        Local = "local",
    }
}

vocabulary! {
    /// Where an item stands with one annotator.
    LabelStatus, "label status" {
        /// No label; a note or a flag may be there.
        Open = "open",
        /// It has a label.
        Labelled = "labelled",
        /// Passed over on purpose.
        Skipped = "skipped",
    }
}

vocabulary! {
    /// Who gave a label.
    LabelOrigin, "label origin" {
        /// A person.
        Person = "person",
        /// A model.
        Model = "model",
    }
}

vocabulary! {
    /// In which order an annotator met the items.
    LabelOrder, "label order" {
        /// Shuffled by seed and annotator.
        Shuffled = "shuffled",
        /// What the model is least sure of first.
        Uncertainty = "uncertainty",
        /// That of another tool.
        Imported = "imported",
    }
}

vocabulary! {
    /// What became of a constraint in a compacted text, as people judge it.
    Verdict, "verdict" {
        /// Its force and every condition are there.
        Preserved = "preserved",
        /// The rule is there, and a condition or some of its force is gone.
        Weakened = "weakened",
        /// It is not there.
        Lost = "lost",
        /// It cannot be told.
        Unclear = "unclear",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_reads_back_as_itself() {
        for t in KnowledgeType::ALL {
            assert_eq!(t.as_str().parse::<KnowledgeType>(), Ok(*t));
            assert_eq!(KnowledgeType::from_letter(t.letter()), Some(*t));
        }
        for f in Function::ALL {
            assert_eq!(f.as_str().parse::<Function>(), Ok(*f));
        }
    }

    #[test]
    fn an_unknown_word_names_the_alternatives() {
        let error = "dev ".parse::<Authority>().unwrap_err().to_string();
        assert!(error.contains("sys, dev, user, tool, ret"), "{error}");
    }
}
