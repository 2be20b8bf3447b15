//! Owners, names, facts and commits of generated repositories.

use super::phrases::STACKS;
use crate::corpus::GitOid;
use crate::sandbox::dice::{Dice, mix};
use crate::sandbox::world::{CommitFacts, Person};

/// The stack of a repository: its position in [`STACKS`].
pub(super) fn stack_of(seed: u64, repo: u32) -> usize {
    let mut dice = Dice::new(seed, &[0x57AC, u64::from(repo)]);
    let total: u32 = STACKS.iter().map(|(_, weight)| weight).sum();
    let mut left = dice.below(total as usize) as u32;
    for (position, (_, weight)) in STACKS.iter().enumerate() {
        if left < *weight {
            return position;
        }
        left -= weight;
    }
    0
}

const FIRST: &[&str] = &[
    "amber", "brisk", "cedar", "delta", "ember", "fjord", "granite", "harbor", "indigo", "juniper", "kelp", "lumen",
    "maple", "north", "ochre", "pebble", "quartz", "river", "sable", "tidal", "umber", "violet", "willow", "zephyr",
];
const SECOND: &[&str] =
    &["labs", "works", "dev", "studio", "systems", "forge", "collective", "io", "craft", "soft", "data", "tools"];
const THINGS: &[&str] = &[
    "ferry", "ledger", "beacon", "atlas", "kiln", "loom", "orchard", "relay", "sextant", "quill", "turbine", "canvas",
    "lattice", "prism", "rudder", "silo", "trellis", "vault", "whisk", "yarn", "anvil", "bellows", "compass",
];
const SUFFIX: &[&str] = &["sync", "kit", "api", "cli", "app", "core", "ui", "server", "bot", "sdk", "web", "db"];

/// Owner and name. Some owners have hundreds of repositories, most have one or two.
pub(super) fn slug_of(seed: u64, repo: u32, repos_at_first: u32) -> (String, String) {
    let mut dice = Dice::new(seed, &[0x51C6, u64::from(repo)]);
    let owners = f64::from(repos_at_first.max(2));
    let owner = (owners * dice.unit().powf(1.6)) as u64;
    let mut of_owner = Dice::new(seed, &[0x0E12, owner]);
    let owner = format!("{}-{}-{owner}", of_owner.pick(FIRST), of_owner.pick(SECOND));
    // The number keeps names apart without a table of those taken.
    (owner, format!("{}-{}-{}", dice.pick(THINGS), dice.pick(SUFFIX), base36(repo)))
}

fn base36(mut number: u32) -> String {
    let mut digits = Vec::new();
    loop {
        digits.push(char::from_digit(number % 36, 36).unwrap_or('0'));
        number /= 36;
        if number == 0 {
            return digits.iter().rev().collect();
        }
    }
}

/// Licences with their weights; nothing for the rest.
pub(super) const LICENSES: &[(Option<&str>, u32)] = &[
    (Some("MIT"), 38),
    (Some("Apache-2.0"), 14),
    (Some("GPL-3.0"), 4),
    (Some("AGPL-3.0"), 3),
    (Some("BSD-3-Clause"), 3),
    (Some("MPL-2.0"), 1),
    (Some("NOASSERTION"), 4),
    (None, 33),
];

/// Stars: most have none, a few have tens of thousands.
pub(super) fn stars(dice: &mut Dice) -> u32 {
    if dice.chance(0.45) {
        return 0;
    }
    let tail: f64 = 1.0 - dice.unit();
    tail.powf(-1.4).min(180_000.0) as u32
}

/// How many commits a repository has when the world begins.
pub(super) fn commit_count(seed: u64, repo: u32) -> u32 {
    2 + Dice::new(seed, &[0xC0117, u64::from(repo)]).below(30) as u32
}

/// The id of commit `number` of a repository.
pub(super) fn commit_oid(seed: u64, repo: u32, number: u32) -> GitOid {
    let mut bytes = [0; 20];
    for (place, chunk) in bytes.chunks_mut(8).enumerate() {
        let part = mix(seed, &[0xC017, u64::from(repo), u64::from(number), place as u64]).to_be_bytes();
        chunk.copy_from_slice(&part[..chunk.len()]);
    }
    GitOid(bytes)
}

/// Commit `number` of a repository, which touched `paths`.
pub(super) fn commit(seed: u64, repo: u32, number: u32, at: i64, owner: &str, paths: &[&str]) -> CommitFacts {
    let mut dice = Dice::new(seed, &[0xA07E, u64::from(repo), u64::from(number)]);
    let human = Person {
        name: owner.split('-').next().unwrap_or(owner).to_owned(),
        email: format!("{owner}@users.noreply.github.com"),
        login: Some(owner.to_owned()),
    };
    let bot = |name: &str| Person {
        name: name.to_owned(),
        email: format!("49699333+{name}@users.noreply.github.com"),
        login: Some(name.to_owned()),
    };
    let what = paths.first().copied().unwrap_or("the code");
    let verb = dice.pick(&["Update", "Add", "Rework", "Trim", "Document", "Fix"]);
    let mut message = format!("{verb} {what}");
    let author = match dice.below(100) {
        0..4 => {
            message = "Bump the lock file".to_owned();
            bot("renovate[bot]")
        }
        4..8 => bot("copilot-swe-agent[bot]"),
        8..10 => Person { name: "Cursor Agent".into(), email: "cursoragent@cursor.com".into(), login: None },
        10..34 => {
            let trailer = dice.pick(&[
                "\n\n🤖 Generated with [Claude Code](https://claude.com/claude-code)\n\nCo-Authored-By: Claude <noreply@anthropic.com>",
                "\n\nCo-authored-by: Cursor <cursoragent@cursor.com>",
                "\n\nCo-authored-by: Copilot <175728472+Copilot@users.noreply.github.com>",
            ]);
            message.push_str(trailer);
            human
        }
        _ => human,
    };
    CommitFacts {
        oid: commit_oid(seed, repo, number),
        message,
        author,
        authored_at: at,
        committed_at: at,
        parents: u32::from(number > 0),
    }
}
