//! What an artifact is: one value for each of platform, function, authorship and specificity, with the rule that said
//! so and the evidence it saw.
//!
//! The rules are data, one file a dimension under `queries/tag/`; the code here only walks them. Nothing is concluded
//! from absence: without evidence authorship is `unknown`.

pub mod authors;
mod authorship;
mod function;
mod passage;
mod rules;
pub mod score;
mod specificity;
mod words;

pub use rules::RulesError;
pub use specificity::{Fitted, Signs};

use crate::corpus::{CommitFact, Platform, Slug};
use crate::taxonomy::{Authorship, Dimension, Function, Specificity};
use std::ops::Range;
use std::sync::LazyLock;

/// Version of the rules and of the code that reads them. A tag made by another version is stale.
pub const TAGGER_VERSION: u32 = 2;

/// What is known about one artifact.
#[derive(Clone, Copy)]
pub struct TagInput<'a> {
    /// Its repository.
    pub repo: &'a Slug,
    /// Its path, with `/` between the parts and none in front.
    pub path: &'a str,
    /// Whether it is a symlink; then `text` is the link's target.
    pub symlink: bool,
    /// Its text.
    pub text: &'a str,
    /// The platform that owns the path, and the function its table gives.
    pub platform: Option<PlatformMatch<'a>>,
    /// Every known commit of the path in any order; `None` when history was not fetched.
    pub history: Option<&'a [CommitFact]>,
    /// How many distinct owners hold the same or nearly the same text, its own among them; 0 or 1 when only its own.
    pub owners: u32,
    /// Main language of the repository.
    pub language: Option<&'a str>,
    /// How many distinct owners have this line (trimmed) in any artifact; 0 when unknown.
    pub line_owners: &'a dyn Fn(&str) -> u32,
}

/// The outcome of the platform table for a path.
#[derive(Debug, Clone, Copy)]
pub struct PlatformMatch<'a> {
    /// The owning platform.
    pub platform: &'a Platform,
    /// What the target's files are for by default.
    pub function: Option<Function>,
}

/// What a rule saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Evidence {
    /// Bytes of the text.
    Span(Range<usize>),
    /// Something outside the text, in words: the path, a commit, a count.
    Fact(String),
}

/// One judgement.
#[derive(Debug, Clone, PartialEq)]
pub struct Tag<V> {
    /// The value.
    pub value: V,
    /// The rule that gave it.
    pub rule: String,
    /// What the rule saw.
    pub evidence: Evidence,
    /// How sure the rule is, 0 to 1: set per rule, not measured per artifact.
    pub confidence: f32,
}

/// What an artifact is.
#[derive(Debug, Clone, PartialEq)]
pub struct Tags {
    /// Which tool reads it; nothing when no platform owns the path.
    pub platform: Option<Tag<Platform>>,
    /// What it is for.
    pub function: Tag<Function>,
    /// For a pointer: the path it points to, from the repository's root where it can be told.
    pub resolves_to: Option<String>,
    /// Who wrote it.
    pub authorship: Tag<Authorship>,
    /// How bound to its project it is.
    pub specificity: Tag<Specificity>,
}

/// A judgement with its value as text: a row of the store.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TagRow<'t> {
    /// Which question it answers.
    pub dimension: Dimension,
    /// The value's spelling.
    pub value: &'t str,
    /// The rule.
    pub rule: &'t str,
    /// What it saw.
    pub evidence: &'t Evidence,
    /// How sure the rule is.
    pub confidence: f32,
}

impl Tags {
    /// The judgements as rows, in the order of [`Dimension::ALL`].
    pub fn rows(&self) -> impl Iterator<Item = TagRow<'_>> {
        fn row<'t, V>(dimension: Dimension, tag: &'t Tag<V>, value: &'t str) -> TagRow<'t> {
            TagRow { dimension, value, rule: &tag.rule, evidence: &tag.evidence, confidence: tag.confidence }
        }
        let platform = self.platform.iter().map(|t| row(Dimension::Platform, t, &t.value.0));
        platform.chain([
            row(Dimension::Function, &self.function, self.function.value.as_str()),
            row(Dimension::Authorship, &self.authorship, self.authorship.value.as_str()),
            row(Dimension::Specificity, &self.specificity, self.specificity.value.as_str()),
        ])
    }
}

/// The compiled rules.
#[derive(Debug)]
pub struct Tagger {
    /// Who stands behind a commit.
    pub authors: authors::AuthorRules,
    function: function::FunctionRules,
    authorship: authorship::AuthorshipRules,
    specificity: specificity::SpecificityRules,
}

impl Tagger {
    /// The rules that come with the crate.
    pub fn shipped() -> &'static Self {
        static SHIPPED: LazyLock<Tagger> = LazyLock::new(|| {
            #[expect(clippy::expect_used, reason = "the files are compiled in and a test reads them")]
            Tagger::parse(
                include_str!("../../queries/tag/authors.toml"),
                include_str!("../../queries/tag/function.toml"),
                include_str!("../../queries/tag/authorship.toml"),
                include_str!("../../queries/tag/specificity.toml"),
            )
            .expect("the shipped rules compile")
        });
        &SHIPPED
    }

    /// Rules from the texts of the four files of `queries/tag/`.
    pub fn parse(authors: &str, function: &str, authorship: &str, specificity: &str) -> Result<Self, RulesError> {
        Ok(Self {
            authors: authors::AuthorRules::parse("queries/tag/authors.toml", authors)?,
            function: function::FunctionRules::parse("queries/tag/function.toml", function)?,
            authorship: authorship::AuthorshipRules::parse("queries/tag/authorship.toml", authorship)?,
            specificity: specificity::SpecificityRules::parse("queries/tag/specificity.toml", specificity)?,
        })
    }

    /// What `input` is. Depends on nothing but `input`.
    pub fn tag(&self, input: &TagInput) -> Tags {
        let platform = input.platform.map(|p| Tag {
            value: p.platform.clone(),
            rule: "platform.path".to_owned(),
            evidence: Evidence::Fact(input.path.to_owned()),
            confidence: 1.0,
        });
        let (function, resolves_to) = self.function.judge(input);
        let authorship = self.authorship.judge(input, function.value);
        let specificity =
            self.specificity.judge(input, function.value, resolves_to.as_deref(), is_unfilled(&authorship));
        Tags { platform, function, resolves_to, authorship, specificity }
    }

    /// How far the points of specificity carry beyond the labels they were fitted to.
    pub fn fitted(&self) -> Fitted {
        self.specificity.fitted
    }

    /// The signs by which the specificity of `input` was weighed, for fitting the points; nothing where its place or
    /// what it declares settled it.
    pub fn signs(&self, input: &TagInput, tags: &Tags) -> Option<Signs> {
        let to = tags.resolves_to.as_deref();
        self.specificity.signs(input, tags.function.value, to, is_unfilled(&tags.authorship))
    }
}

/// Whether a text is a form to be filled in.
fn is_unfilled(authorship: &Tag<Authorship>) -> bool {
    authorship.rule.starts_with("template.placeholder") || authorship.rule == "template.sample-file"
}
