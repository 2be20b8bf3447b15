//! Under which licence a repository stands, with the evidence for it; nothing is concluded from absence.
//!
//! Evidence is what GitHub answers ([`from_api`]) and the licence files of the repository's root ([`from_texts`]);
//! [`combine`] settles both. Texts are told by short phrases that distinguish them, after case, punctuation and line
//! breaks are removed. A phrase that takes rights away (Commons Clause, Business Source, "all rights reserved" without
//! a grant …) outweighs every grant in the same file.

mod text;

use crate::taxonomy::LicenseTier;
use spdx::expression::{ExprNode, Operator};
use spdx::{Expression, LicenseItem, ParseMode};

/// Version of the rules: a stored verdict of another one is stale.
pub const VERSION: u32 = 1;

/// What a verdict rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Evidence {
    /// GitHub's `licenseInfo.spdxId`, as it was given.
    Api(String),
    /// A licence file and the phrase or title in it that decided.
    File {
        /// Path in the repository.
        path: String,
        /// What was recognised, or why nothing was.
        found: String,
        /// False for a text that no rule here knows; GitHub may know it.
        recognised: bool,
    },
}

/// The licence of a repository as far as the evidence goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// How freely texts may be passed on.
    pub tier: LicenseTier,
    /// SPDX expression, when one names the licence exactly.
    pub expression: Option<String>,
    /// What it rests on, in the order it was considered.
    pub evidence: Vec<Evidence>,
    /// True when pieces of evidence disagree; the more restrictive one was followed.
    pub conflict: bool,
}

impl Verdict {
    fn none(evidence: Vec<Evidence>) -> Self {
        Self { tier: LicenseTier::None, expression: None, evidence, conflict: false }
    }
}

/// The verdict from GitHub's SPDX id. `NOASSERTION` and `Other` mean that a licence file is there which GitHub cannot
/// name: custom. An absent or empty id: none.
pub fn from_api(spdx_id: Option<&str>) -> Verdict {
    let Some(id) = spdx_id.map(str::trim).filter(|id| !id.is_empty() && !id.eq_ignore_ascii_case("none")) else {
        return Verdict::none(Vec::new());
    };
    let evidence = vec![Evidence::Api(id.to_owned())];
    let unnamed = ["noassertion", "other"].contains(&id.to_ascii_lowercase().as_str());
    match expression_tier(id).filter(|_| !unnamed) {
        Some(tier) => Verdict { tier, expression: Some(id.to_owned()), evidence, conflict: false },
        None => Verdict { tier: LicenseTier::Custom, expression: None, evidence, conflict: false },
    }
}

/// The verdict from a repository's files, given as (path, text) in any order. Only licence files at the root count.
///
/// Files named for their licence (`LICENSE-MIT`, `LICENSE-APACHE`) are a choice; several files without such names all
/// apply.
pub fn from_texts<P: AsRef<str>, T: AsRef<str>>(files: &[(P, T)]) -> Verdict {
    let mut read: Vec<(&str, FileName, text::Reading)> = files
        .iter()
        .filter_map(|(path, body)| Some((path.as_ref(), FileName::of(path.as_ref())?, text::read(body.as_ref()))))
        .collect();
    read.sort_by_key(|(path, ..)| *path);
    let evidence: Vec<Evidence> = read
        .iter()
        .map(|(path, _, reading)| Evidence::File {
            path: (*path).to_owned(),
            found: reading.found.clone(),
            recognised: reading.recognised,
        })
        .collect();
    read.retain(|(_, _, reading)| reading.tier != LicenseTier::None);
    // A lesser GPL is an addition to the GPL, whose text stands beside it.
    let lesser = |reading: &text::Reading| reading.expression.as_deref().is_some_and(|e| e.starts_with("LGPL-"));
    if read.iter().any(|(_, _, reading)| lesser(reading)) {
        read.retain(|(_, _, reading)| !reading.expression.as_deref().is_some_and(|e| e.starts_with("GPL-")));
    }
    let Some((_, _, first)) = read.first() else { return Verdict::none(evidence) };
    if let Some((.., restricted)) = read.iter().find(|(.., reading)| reading.tier == LicenseTier::Custom) {
        return Verdict { tier: restricted.tier, expression: None, evidence, conflict: false };
    }
    let mut terms: Vec<&str> = read.iter().filter_map(|(.., reading)| reading.expression.as_deref()).collect();
    terms.sort_unstable();
    terms.dedup();
    if terms.len() < 2 || read.iter().any(|(.., reading)| reading.expression.is_none()) {
        let tier = read.iter().map(|(.., reading)| reading.tier).max_by_key(|&tier| severity(tier));
        let expression =
            (read.iter().all(|(.., r)| r.expression.is_some())).then(|| first.expression.clone()).flatten();
        return Verdict { tier: tier.unwrap_or(LicenseTier::None), expression, evidence, conflict: false };
    }
    let choice = read.iter().filter(|(_, name, _)| *name == FileName::Licence).count() >= terms.len() - 1;
    let grouped = |term: &&str| if term.contains(' ') { format!("({term})") } else { (*term).to_owned() };
    let expression = terms.iter().map(grouped).collect::<Vec<_>>().join(if choice { " OR " } else { " AND " });
    let tier = expression_tier(&expression).unwrap_or(LicenseTier::Custom);
    Verdict { tier, expression: Some(expression), evidence, conflict: !choice }
}

/// One verdict from both: files decide when they say anything, since GitHub names only one licence and only whole
/// texts. When both name a licence and GitHub's is not among those of the files, the more restrictive one is followed.
pub fn combine(api: Verdict, texts: Verdict) -> Verdict {
    let evidence = [api.evidence.clone(), texts.evidence.clone()].concat();
    let unknown = |evidence: &Evidence| matches!(evidence, Evidence::File { recognised: false, .. });
    let unread = texts.expression.is_none() && texts.evidence.iter().all(unknown) && api.expression.is_some();
    if texts.tier == LicenseTier::None || unread {
        return Verdict { evidence, ..api };
    }
    let unnamed = api.expression.is_none();
    if unnamed || same_licences(&api, &texts) {
        return Verdict { evidence, ..texts };
    }
    let (chosen, _) = if severity(api.tier) > severity(texts.tier) { (api, texts) } else { (texts, api) };
    Verdict { evidence, conflict: true, ..chosen }
}

/// Every licence the API names occurs in the expression of the files (`GPL-3.0` stands for its `-only` form).
fn same_licences(api: &Verdict, texts: &Verdict) -> bool {
    let names = |verdict: &Verdict| -> Vec<String> {
        let plain = |id: &str| id.trim_end_matches("-only").trim_end_matches("-or-later").to_owned();
        let parts = verdict.expression.as_deref().unwrap_or_default().split([' ', '(', ')']);
        parts.filter(|part| !part.is_empty() && !["OR", "AND", "WITH"].contains(part)).map(plain).collect()
    };
    let of_texts = names(texts);
    !of_texts.is_empty() && names(api).iter().all(|name| of_texts.contains(name))
}

/// The kind of name a licence file at the root has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileName {
    /// `LICENSE`, `COPYING.md` …
    Plain,
    /// `LICENSE-MIT`, `COPYING.LESSER` …: named for one licence.
    Licence,
}

impl FileName {
    /// Nothing for paths that say nothing of the whole repository: other files, folders, licences of parts of it.
    fn of(path: &str) -> Option<Self> {
        let path = path.strip_prefix("./").unwrap_or(path);
        let name = path.to_ascii_lowercase();
        if name.contains('/') {
            return None;
        }
        let stem = ["unlicense", "licenses", "licences", "license", "licence", "copying", "mit-license"]
            .into_iter()
            .find(|stem| name.starts_with(stem))?;
        let mut rest = &name[stem.len()..];
        for ending in [".txt", ".md", ".rst", ".adoc", ".html"] {
            rest = rest.strip_suffix(ending).unwrap_or(rest);
        }
        let rest = rest.trim_start_matches(['-', '_', '.', ' ']);
        if rest.is_empty() {
            return Some(Self::Plain);
        }
        const LICENCES: [&str; 14] = [
            "mit",
            "apache",
            "bsd",
            "gpl",
            "lgpl",
            "agpl",
            "mpl",
            "isc",
            "zlib",
            "cc0",
            "0bsd",
            "lesser",
            "unlicense",
            "epl",
        ];
        LICENCES.iter().any(|licence| rest.starts_with(licence)).then_some(Self::Licence)
    }
}

/// The tier of an SPDX expression: the freest side of `OR`, the strictest of `AND`. Nothing when a part of it is not an
/// SPDX id.
pub fn expression_tier(expression: &str) -> Option<LicenseTier> {
    let parsed = Expression::parse_mode(expression, ParseMode::LAX).ok()?;
    let mut stack: Vec<LicenseTier> = Vec::new();
    for node in parsed.iter() {
        match node {
            ExprNode::Req(requirement) => {
                let LicenseItem::Spdx { id, .. } = requirement.req.license else { return None };
                let linkable = requirement.req.addition.is_some() && id.name.starts_with("GPL");
                stack.push(if linkable { LicenseTier::Weak } else { id_tier(id) });
            }
            ExprNode::Op(operator) => {
                let (b, a) = (stack.pop()?, stack.pop()?);
                let first_is_stricter = severity(a) > severity(b);
                let strictest = matches!(operator, Operator::And);
                stack.push(if first_is_stricter == strictest { a } else { b });
            }
        }
    }
    stack.pop()
}

/// Order of tiers from the freest to the one that allows least.
fn severity(tier: LicenseTier) -> u8 {
    match tier {
        LicenseTier::Permissive => 0,
        LicenseTier::Weak => 1,
        LicenseTier::Strong => 2,
        LicenseTier::Custom => 3,
        LicenseTier::None => 4,
    }
}

fn id_tier(id: spdx::LicenseId) -> LicenseTier {
    const WEAK: [&str; 12] =
        ["LGPL-", "MPL-", "EPL-", "CDDL-", "CPL-", "IPL-", "MS-RL", "CECILL-C", "EUPL-", "APSL-", "NPL-", "ErlPL-"];
    const STRONG: [&str; 8] = ["GPL-", "AGPL-", "OSL-", "CC-BY-SA-", "CECILL-", "ODbL-", "RPL-", "Sleepycat"];
    // Not OSI or FSF licences of software, but free to pass on.
    const FREE: [&str; 9] = ["CC-BY-", "CC0-", "CC-PDDC", "PDDL-", "ODC-By-", "MIT", "BSD-", "Unlicense", "BlueOak-"];
    let starts = |list: &[&str]| list.iter().any(|prefix| id.name.starts_with(prefix));
    let restricted =
        ["-NC-", "-ND-", "-NC", "-ND"].iter().any(|part| id.name.contains(part)) && id.name.starts_with("CC-");
    if restricted {
        LicenseTier::Custom
    } else if starts(&WEAK) {
        LicenseTier::Weak
    } else if starts(&STRONG) {
        LicenseTier::Strong
    } else if id.is_copyleft() {
        LicenseTier::Weak
    } else if id.is_osi_approved() || id.is_fsf_free_libre() || starts(&FREE) {
        LicenseTier::Permissive
    } else {
        // Named, but neither free nor open: Business Source, Elastic, SSPL and their kin.
        LicenseTier::Custom
    }
}

#[cfg(test)]
mod tests;
