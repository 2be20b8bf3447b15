//! Whatever a server answers, reading it ends, and answers nothing that was not asked.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| aac::github::hostile::read_answer(data));
