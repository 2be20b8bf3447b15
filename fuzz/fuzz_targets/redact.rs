//! Spans must be sorted, disjoint and on character boundaries, and a redacted text must hold nothing more to redact.
#![no_main]

use aac::redact::{apply, spans};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let found = spans(text);
    let mut free = 0;
    for span in &found {
        assert!(free <= span.start && span.start < span.end && text.get(span.start..span.end).is_some());
        free = span.end;
    }
    assert_eq!(spans(&apply(text, &found)), []);
});
