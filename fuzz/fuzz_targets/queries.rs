//! Platform files and rule files are read or refused, and what was read decides on any path. The first byte picks the
//! file.
#![no_main]

use aac::plan::Targets;
use aac::tag::Tagger;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((pick, rest)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(rest) else { return };
    let mut rules = [
        include_str!("../../queries/tag/authors.toml"),
        include_str!("../../queries/tag/function.toml"),
        include_str!("../../queries/tag/authorship.toml"),
        include_str!("../../queries/tag/specificity.toml"),
    ];
    match usize::from(*pick) % 5 {
        4 => {
            if let Ok(targets) = Targets::from_files(&[("fuzz.toml", text)]) {
                let _ = (targets.owner("CLAUDE.md"), targets.collected(text), targets.root_paths());
            }
        }
        which => {
            rules[which] = text;
            let _ = Tagger::parse(rules[0], rules[1], rules[2], rules[3]);
        }
    }
});
