//! What one licence file says.

use crate::taxonomy::LicenseTier;

/// The reading of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reading {
    pub tier: LicenseTier,
    pub expression: Option<String>,
    /// What decided.
    pub found: String,
    /// False when no rule knows the text.
    pub recognised: bool,
}

/// A licence told by phrases: all of `all` and none of `none` must occur.
struct Known {
    id: &'static str,
    all: &'static [&'static str],
    none: &'static [&'static str],
}

/// Phrases in the form of [`plain`]. None of them is long enough to be the licence; together they are in no other.
const KNOWN: &[Known] = &[
    Known {
        id: "MIT",
        all: &["permission is hereby granted free of charge to any person obtaining a copy", "permission notice"],
        none: &["except as contained in this notice the name", "university of illinois"],
    },
    Known {
        id: "MIT-0",
        all: &["permission is hereby granted free of charge to any person obtaining a copy", "without restriction"],
        none: &["permission notice", "the above copyright notice", "the following conditions"],
    },
    Known {
        id: "Apache-2.0",
        all: &["apache license version 2 0", "grant of copyright license", "redistribution"],
        none: &[],
    },
    Known {
        id: "BSD-3-Clause",
        all: &[
            "redistribution and use in source and binary forms",
            "endorse or promote products",
            "in binary form must reproduce",
        ],
        none: &["all advertising materials", "as is and without any express or implied patent"],
    },
    Known {
        id: "BSD-2-Clause",
        all: &["redistribution and use in source and binary forms", "in binary form must reproduce"],
        none: &["endorse or promote products", "all advertising materials"],
    },
    Known {
        id: "BSD-4-Clause",
        all: &["redistribution and use in source and binary forms", "all advertising materials"],
        none: &[],
    },
    Known {
        id: "ISC",
        all: &["permission to use copy modify and or distribute this software for any purpose", "appear in all copies"],
        none: &[],
    },
    Known {
        id: "0BSD",
        all: &["permission to use copy modify and or distribute this software for any purpose", "the author disclaims"],
        none: &["appear in all copies"],
    },
    Known {
        id: "Zlib",
        all: &["the origin of this software must not be misrepresented", "altered source versions"],
        none: &[],
    },
    Known { id: "Unlicense", all: &["released into the public domain", "unencumbered software"], none: &[] },
    Known { id: "WTFPL", all: &["do what the fuck you want to public license"], none: &[] },
    Known { id: "BSL-1.0", all: &["boost software license version 1 0", "machine executable object code"], none: &[] },
    Known { id: "CC0-1.0", all: &["cc0 1 0 universal"], none: &[] },
    Known {
        id: "CC-BY-4.0",
        all: &["attribution 4 0 international"],
        none: &["noncommercial", "noderivatives", "sharealike 4 0"],
    },
    Known {
        id: "CC-BY-SA-4.0",
        all: &["attribution sharealike 4 0 international"],
        none: &["noncommercial 4 0", "noncommercial sharealike"],
    },
    Known { id: "MPL-2.0", all: &["mozilla public license version 2 0", "covered software"], none: &[] },
    Known { id: "EPL-2.0", all: &["eclipse public license v 2 0", "contributor"], none: &[] },
    Known { id: "EPL-1.0", all: &["eclipse public license v 1 0", "contributor"], none: &[] },
    Known { id: "EUPL-1.2", all: &["european union public licence", "v 1 2"], none: &[] },
    Known { id: "Artistic-2.0", all: &["the artistic license 2 0", "standard version"], none: &[] },
    Known { id: "MulanPSL-2.0", all: &["mulan permissive software license", "version 2"], none: &[] },
    Known { id: "BlueOak-1.0.0", all: &["blue oak model license", "1 0 0"], none: &[] },
];

/// Conditions that take away what a standard text grants, and licences that are not open at all. `true`: also looked
/// for beside copyleft texts, which use some of the other words themselves.
const RESTRICTIONS: &[(&str, bool)] = &[
    ("commons clause", true),
    ("business source license", true),
    ("elastic license", true),
    ("server side public license", true),
    ("functional source license", true),
    ("sustainable use license", true),
    ("polyform", true),
    ("prosperity public license", true),
    ("responsible ai license", true),
    ("community license agreement", true),
    ("hippocratic license", true),
    ("use based restrictions", true),
    ("attribution noncommercial", true),
    ("attribution noderivatives", true),
    ("noderivatives 4 0", true),
    ("portions of this software are licensed as follows", true),
    ("do not have the right to sell", true),
    ("not grant you the right to sell", true),
    ("non commercial use only", true),
    ("noncommercial use only", true),
    ("for non commercial", false),
    ("for noncommercial", false),
    ("not for commercial", false),
    ("commercial use is prohibited", true),
    ("commercial use is not", true),
    ("commercial use requires", true),
    ("may not be used commercially", true),
    ("no license is granted", true),
    ("no licence is granted", true),
    ("no rights are granted", true),
    ("no permission is granted", true),
    ("no part of this", true),
    ("proprietary", false),
    ("confidential", false),
    ("unauthorized copying", true),
    ("unauthorised copying", true),
    ("unauthorized use", true),
    ("may not be copied", true),
    ("may not copy", true),
    ("may not redistribute", true),
    ("without the express written", true),
    ("without express written", true),
    ("without prior written consent", false),
    ("without the prior written", true),
    ("end user license agreement", true),
    ("strictly prohibited", true),
];

/// Titles of the GNU family, longest name first.
const GNU: [(&str, &str); 3] = [
    ("gnu affero general public license", "AGPL"),
    ("gnu lesser general public license", "LGPL"),
    ("gnu general public license", "GPL"),
];

/// Names by which a short notice may refer to a licence.
const REFERRED: &[(&str, &str)] = &[
    ("mit license", "MIT"),
    ("apache license version 2 0", "Apache-2.0"),
    ("apache 2 0 license", "Apache-2.0"),
    ("apache license 2 0", "Apache-2.0"),
    ("apache 2 0", "Apache-2.0"),
    ("bsd 3 clause", "BSD-3-Clause"),
    ("bsd 2 clause", "BSD-2-Clause"),
    ("isc license", "ISC"),
    ("mozilla public license 2 0", "MPL-2.0"),
    ("mozilla public license version 2 0", "MPL-2.0"),
];

/// Words up to which a file counts as a notice that refers to a licence instead of containing it.
const NOTICE_WORDS: usize = 80;

/// Lower case words and numbers with single spaces between and around them.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push(' ');
    for c in text.chars() {
        if c.is_alphanumeric() {
            out.extend(c.to_lowercase());
        } else if !out.ends_with(' ') && !matches!(c, '\'' | '’') {
            out.push(' ');
        }
    }
    if !out.ends_with(' ') {
        out.push(' ');
    }
    out
}

/// Read a licence file.
pub(super) fn read(text: &str) -> Reading {
    let text = plain(text);
    let words = text.split(' ').filter(|word| !word.is_empty()).count();
    let gnu = gnu(&text);
    let known: Vec<&'static str> = KNOWN
        .iter()
        .filter(|known| known.all.iter().all(|p| has(&text, p)) && !known.none.iter().any(|p| has(&text, p)))
        .map(|known| known.id)
        .collect();
    let copyleft = gnu.is_some() || known.iter().any(|id| id.starts_with("MPL") || id.starts_with("EPL"));
    let legal_code = copyleft || known.iter().any(|id| id.starts_with("CC"));
    let restriction = RESTRICTIONS.iter().find(|(phrase, always)| (*always || !legal_code) && has(&text, phrase));
    if let Some((phrase, _)) = restriction {
        let found = format!("restricted: \"{phrase}\"");
        return Reading { tier: LicenseTier::Custom, expression: None, found, recognised: true };
    }

    // A GPL text inside another licence's file (exceptions, notices) would be an addition; the first title counts.
    let mut ids: Vec<String> = known.iter().map(|&id| id.to_owned()).collect();
    match gnu {
        Some(Gnu { expression: Some(expression), .. }) if ids.is_empty() => ids.push(expression),
        Some(Gnu { expression: Some(expression), in_full: true }) => ids.push(expression),
        Some(Gnu { expression: None, .. }) if ids.is_empty() => {
            let found = "GNU licence without a version".to_owned();
            return Reading { tier: LicenseTier::Strong, expression: None, found, recognised: true };
        }
        _ => {}
    }
    let mut found = "text";
    if ids.is_empty() && words <= NOTICE_WORDS {
        found = "notice";
        let negated = has(&text, "not licensed") || has(&text, "not under");
        for (_, id) in REFERRED.iter().filter(|(name, _)| !negated && has(&text, name)) {
            if !ids.iter().any(|known| known == id) {
                ids.push((*id).to_owned());
            }
        }
        if ids.len() == 1
            && !["licensed under", "released under", "distributed under", "available under", "license mit"]
                .iter()
                .any(|phrase| has(&text, phrase))
        {
            // A bare title, as in a text that was cut off after it, grants nothing.
            ids.clear();
        }
    }
    ids.sort_unstable();
    if ids.is_empty() {
        return unread(&text, words);
    }
    let offered = [" or ", " at your option ", " either ", " dual licensed ", " dual license ", " choice of "];
    let outside_gnu = ids.len() > 1 && offered[1..].iter().any(|phrase| text.contains(phrase));
    let named_or = ids.len() > 1 && words <= NOTICE_WORDS && text.contains(offered[0]);
    let joint = if outside_gnu || named_or || joined_by_or(&text) { " OR " } else { " AND " };
    let expression = ids.join(joint);
    let tier = super::expression_tier(&expression).unwrap_or(LicenseTier::Custom);
    Reading { tier, found: format!("{found}: {expression}"), expression: Some(expression), recognised: true }
}

/// `MIT OR Apache-2.0` as a heading above both texts.
fn joined_by_or(text: &str) -> bool {
    const JOINED: [&str; 8] = [
        "mit or apache",
        "mit license or apache",
        "mit license or the apache",
        "apache 2 0 or mit",
        "apache license or mit",
        "apache 2 0 or the mit",
        "apache license version 2 0 or the mit",
        "apache license version 2 0 or mit",
    ];
    JOINED.iter().any(|phrase| has(text, phrase))
}

/// A file in which no licence was recognised.
fn unread(text: &str, words: usize) -> Reading {
    let pointer = words <= NOTICE_WORDS
        && ["see ", "refer to ", "found in "].iter().any(|phrase| has(text, phrase.trim()))
        && !has(text, "all rights reserved");
    if words == 0 || pointer {
        let found = if words == 0 { "empty" } else { "points elsewhere" };
        return Reading { tier: LicenseTier::None, expression: None, found: found.to_owned(), recognised: true };
    }
    let recognised = has(text, "all rights reserved");
    let found = if recognised { "all rights reserved" } else { "no licence recognised" };
    Reading { tier: LicenseTier::Custom, expression: None, found: found.to_owned(), recognised }
}

/// What a text of the GNU family says.
struct Gnu {
    expression: Option<String>,
    /// True for a whole licence, false for a notice that refers to one.
    in_full: bool,
}

fn gnu(text: &str) -> Option<Gnu> {
    let (at, phrase, name) =
        GNU.iter().filter_map(|&(phrase, name)| find(text, phrase).map(|at| (at, phrase, name))).min()?;
    let in_full = has(text, "verbatim copies of this license document");
    let after: String = text.get(at + phrase.len()..).unwrap_or_default().chars().take(80).collect();
    let mut words = after.split(' ').skip_while(|word| !matches!(*word, "version" | "v" | "v2" | "v3"));
    let version = match words.next() {
        Some("v2") => "2.0",
        Some("v3") => "3.0",
        Some(_) => match (words.next(), words.next()) {
            (Some("2"), Some("1")) => "2.1",
            (Some("2"), _) => "2.0",
            (Some("3"), _) => "3.0",
            _ => return Some(Gnu { expression: None, in_full }),
        },
        None => return Some(Gnu { expression: None, in_full }),
    };
    // Every full text explains "any later version" in its appendix; only a notice grants it.
    let later = !in_full && has(text, "any later version");
    let expression = Some(format!("{name}-{version}-{}", if later { "or-later" } else { "only" }));
    Some(Gnu { expression, in_full })
}

fn find(text: &str, phrase: &str) -> Option<usize> {
    text.match_indices(phrase).map(|(at, _)| at).find(|&at| {
        let end = text.as_bytes().get(at + phrase.len());
        at > 0 && text.as_bytes()[at - 1] == b' ' && end == Some(&b' ')
    })
}

/// Whole words only.
fn has(text: &str, phrase: &str) -> bool {
    find(text, phrase).is_some()
}
