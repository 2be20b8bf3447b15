//! Times as the API writes them.

use jiff::Timestamp;
use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since 1970.
pub(crate) fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// `2026-01-31T10:20:30Z`. Seconds that no calendar holds become the start of 1970.
pub(crate) fn iso(seconds: i64) -> String {
    Timestamp::from_second(seconds).unwrap_or(Timestamp::UNIX_EPOCH).to_string()
}

/// The form of the `date` header.
pub(crate) fn http_date(seconds: f64) -> Option<String> {
    let time = Timestamp::from_second(seconds as i64).ok()?;
    jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&time).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_githubs_forms() {
        assert_eq!(iso(0), "1970-01-01T00:00:00Z");
        assert_eq!(http_date(784_111_777.9).as_deref(), Some("Sun, 06 Nov 1994 08:49:37 GMT"));
    }
}
