//! The first byte picks the grammar, the rest is the text: spans must slice it in order, and the packed form must give
//! them back. Raw bytes must never make unpacking panic.
#![no_main]

use aac::segment::{pack, segment, unpack};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = unpack(data);
    let Some((pick, rest)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(rest) else { return };
    let path = ["a.md", "a.json", "a.yaml", "a.toml"][usize::from(*pick) % 4];
    let found = segment(path, text);
    let mut free = 0;
    for item in &found.items {
        assert!(free <= item.start && item.start < item.end && text.get(item.range()).is_some());
        free = item.end;
    }
    assert_eq!(unpack(&pack(&found)), Ok(found));
});
