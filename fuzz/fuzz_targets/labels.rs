//! Imported labels are read or refused, and what was read is found in the text or not. The part before the first blank
//! line is the labels, the rest the text.
#![no_main]

use aac::segment::segment;
use aac::train::labels::parse_labels;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &str| {
    let (labels, text) = data.split_once("\n\n").unwrap_or((data, data));
    let Ok(records) = parse_labels("fuzz.jsonl", labels) else { return };
    let found = segment("a.md", text);
    for record in records {
        let _ = (record.without_text(), record.as_given(), record.hydrate(text, &found), record.with_text(text, &found));
    }
});
