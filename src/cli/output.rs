//! What goes to standard output: one JSON document for scripts, or text for people.

use super::Failure;
use crate::terminal::printable;
use serde::Serialize;
use std::io::Write as _;

/// Which of the two forms is wanted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Output {
    /// JSON.
    pub(super) json: bool,
}

impl Output {
    /// Print `value` as the one JSON document, or what `text` makes of it for people.
    pub(super) fn print<T: Serialize>(self, value: &T, text: impl FnOnce(&T) -> String) -> Result<(), Failure> {
        let mut shown = if self.json { serde_json::to_string_pretty(value)? } else { printable(&text(value)) };
        if !shown.is_empty() && !shown.ends_with('\n') {
            shown.push('\n');
        }
        self.raw(shown.as_bytes())
    }

    /// `value` as one line of JSON.
    pub(super) fn line<T: Serialize>(self, value: &T) -> Result<(), Failure> {
        self.raw((serde_json::to_string(value)? + "\n").as_bytes())
    }

    /// Bytes as they are. A reader that has gone away is no failure.
    pub(super) fn raw(self, bytes: &[u8]) -> Result<(), Failure> {
        let mut out = std::io::stdout().lock();
        match out.write_all(bytes).and_then(|()| out.flush()) {
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
            other => Ok(other?),
        }
    }
}

/// A table with aligned columns: the first to the left, the others to the right.
pub(super) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain(head.get(column).map(|h| h.chars().count())).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let cells: Vec<String> = cells
            .zip(&widths)
            .enumerate()
            .map(|(i, (cell, width))| if i == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") })
            .collect();
        cells.join("  ").trim_end().to_owned()
    };
    let mut lines = vec![line(&mut head.iter().copied())];
    lines.extend(rows.iter().map(|row| line(&mut row.iter().map(String::as_str))));
    lines.join("\n") + "\n"
}

/// A count with a thin space between thousands, as in 396 934.
pub(super) fn count(n: i64) -> String {
    let digits = n.unsigned_abs().to_string();
    let groups: Vec<&str> = digits.as_bytes().rchunks(3).rev().filter_map(|g| std::str::from_utf8(g).ok()).collect();
    format!("{}{}", if n < 0 { "-" } else { "" }, groups.join(" "))
}

/// So many of a thing, by the name of one: "1 file", "2 files".
pub(super) fn counted(n: usize, one: &str) -> String {
    format!("{n} {one}{}", if n == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_not_many() {
        assert_eq!([0, 1, 2].map(|n| counted(n, "file")), ["0 files", "1 file", "2 files"]);
    }

    #[test]
    fn columns_line_up_and_counts_are_grouped() {
        let rows = vec![vec!["claude".to_owned(), count(396_934)], vec!["x".to_owned(), count(-7)]];
        assert_eq!(
            table(&["platform", "artifacts"], &rows),
            "platform  artifacts\nclaude      396 934\nx                -7\n"
        );
    }
}
