//! Plots as inline SVG: drawn for a width of 360 to 720 units, so that they can be read on a phone; colours come from the
//! page, each plot carries a title and a description for those who do not see it.

use std::fmt::Write as _;

/// Text that is safe inside of HTML and its attributes.
pub(in crate::job) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() && c != '\n' => out.push(char::REPLACEMENT_CHARACTER),
            c => out.push(c),
        }
    }
    out
}

/// A count with narrow spaces between thousands.
pub(super) fn count(n: i64) -> String {
    let digits = n.unsigned_abs().to_string();
    let groups: Vec<&str> = digits.as_bytes().rchunks(3).rev().filter_map(|g| std::str::from_utf8(g).ok()).collect();
    format!("{}{}", if n < 0 { "−" } else { "" }, groups.join("\u{202f}"))
}

/// `text` cut to `limit` characters.
fn short(text: &str, limit: usize) -> String {
    if text.chars().count() <= limit {
        return text.to_owned();
    }
    text.chars().take(limit.saturating_sub(1)).chain(['…']).collect()
}

fn open(width: u32, height: u32, id: &str, title: &str, description: &str) -> String {
    format!(
        "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-labelledby=\"{id}-t {id}-d\">\
         <title id=\"{id}-t\">{}</title><desc id=\"{id}-d\">{}</desc>",
        escape(title),
        escape(description)
    )
}

/// What a plot says in one sentence: its largest values.
fn spoken(rows: &[(String, i64)]) -> String {
    let parts: Vec<String> = rows.iter().take(6).map(|(label, n)| format!("{label} {n}")).collect();
    let more = rows.len().saturating_sub(6);
    parts.join(", ") + &if more > 0 { format!(" and {more} more") } else { String::new() }
}

/// Horizontal bars with their values.
pub(super) fn bars(id: &str, title: &str, rows: &[(String, i64)]) -> String {
    const LABEL: u32 = 120;
    const WIDTH: u32 = 360;
    const STEP: u32 = 24;
    let height = rows.len() as u32 * STEP + 4;
    let most = rows.iter().map(|(_, n)| *n).max().unwrap_or(0).max(1) as f64;
    let mut svg = open(WIDTH, height, id, title, &spoken(rows));
    for (index, (label, n)) in rows.iter().enumerate() {
        let y = index as u32 * STEP + 2;
        let length = (f64::from(WIDTH - LABEL - 62) * *n as f64 / most).max(1.0);
        let _ = write!(
            svg,
            "<text x=\"{}\" y=\"{}\" class=\"l e\">{}</text><rect x=\"{LABEL}\" y=\"{y}\" width=\"{length:.1}\" \
             height=\"18\" rx=\"2\" class=\"c{}\"/><text x=\"{:.1}\" y=\"{}\" class=\"l\">{}</text>",
            LABEL - 8,
            y + 13,
            escape(&short(label, 17)),
            index % 2,
            f64::from(LABEL) + length + 5.0,
            y + 13,
            count(*n)
        );
    }
    svg + "</svg>"
}

/// Bars of one length whose parts are shares: (label, count of each class), with a legend of `classes` on top.
pub(super) fn shares(id: &str, title: &str, rows: &[(String, Vec<i64>)], classes: &[String]) -> String {
    const LABEL: u32 = 86;
    const WIDTH: u32 = 360;
    const STEP: u32 = 26;
    const COLUMNS: u32 = 3;
    let head = (classes.len() as u32).div_ceil(COLUMNS) * 20 + 6;
    let percent = |n: i64, total: i64| n as f64 * 100.0 / total.max(1) as f64;
    let spoken: Vec<String> = rows
        .iter()
        .map(|(label, counts)| {
            let total: i64 = counts.iter().sum();
            let parts: Vec<String> = classes
                .iter()
                .zip(counts)
                .filter(|(_, n)| **n > 0)
                .map(|(class, n)| format!("{class} {:.0} %", percent(*n, total)))
                .collect();
            format!("{label}: {}", parts.join(", "))
        })
        .collect();
    let mut svg = open(WIDTH, head + rows.len() as u32 * STEP, id, title, &spoken.join("; "));
    for (index, class) in classes.iter().enumerate() {
        let (x, y) = (index as u32 % COLUMNS * (WIDTH / COLUMNS), index as u32 / COLUMNS * 20);
        let _ = write!(
            svg,
            "<rect x=\"{x}\" y=\"{}\" width=\"12\" height=\"12\" rx=\"2\" class=\"t{index}\"/>\
             <text x=\"{}\" y=\"{}\" class=\"l\">{}</text>",
            y + 2,
            x + 17,
            y + 12,
            escape(&short(class, 15))
        );
    }
    for (line, (label, counts)) in rows.iter().enumerate() {
        let y = head + line as u32 * STEP;
        let total: i64 = counts.iter().sum();
        let _ = write!(
            svg,
            "<text x=\"{}\" y=\"{}\" class=\"l e\">{}</text>",
            LABEL - 8,
            y + 15,
            escape(&short(label, 12))
        );
        let mut x = f64::from(LABEL);
        for (index, n) in counts.iter().enumerate().filter(|(_, n)| **n > 0) {
            let share = percent(*n, total);
            let width = f64::from(WIDTH - LABEL) * share / 100.0;
            let _ = write!(
                svg,
                "<rect x=\"{x:.1}\" y=\"{y}\" width=\"{:.1}\" height=\"22\" class=\"t{index}\"><title>{}: {share:.1} %</title></rect>",
                (width - 1.0).max(0.4),
                escape(classes.get(index).map_or("", String::as_str))
            );
            if width >= 24.0 {
                let _ = write!(
                    svg,
                    "<text x=\"{:.1}\" y=\"{}\" class=\"s m i\">{share:.0}</text>",
                    x + width / 2.0,
                    y + 15
                );
            }
            x += width;
        }
    }
    svg + "</svg>"
}

/// Columns of a histogram: (label of the lower edge, count); `mark` is (position in columns, label).
pub(super) fn histogram(id: &str, title: &str, columns: &[(String, i64)], mark: Option<(f64, String)>) -> String {
    const WIDTH: f64 = 720.0;
    const HEIGHT: f64 = 240.0;
    const TOP: f64 = 26.0;
    const FLOOR: f64 = 210.0;
    let most = columns.iter().map(|(_, n)| *n).max().unwrap_or(0).max(1) as f64;
    let step = (WIDTH - 20.0) / columns.len().max(1) as f64;
    let mut svg = open(WIDTH as u32, HEIGHT as u32, id, title, &spoken(columns));
    // Drawn last, so that the mark does not cross them.
    let mut numbers = String::new();
    for (index, (label, n)) in columns.iter().enumerate() {
        let (x, height) = (10.0 + index as f64 * step, (FLOOR - TOP - 14.0) * *n as f64 / most);
        let _ = write!(
            svg,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{height:.1}\" class=\"c0\"><title>{}: {}</title></rect>\
             <text x=\"{:.1}\" y=\"{}\" class=\"l m\">{}</text>",
            x + 1.0,
            FLOOR - height,
            step - 2.0,
            escape(label),
            count(*n),
            x + step / 2.0,
            FLOOR + 18.0,
            escape(label)
        );
        if *n > 0 {
            let _ = write!(
                numbers,
                "<text x=\"{:.1}\" y=\"{:.1}\" class=\"s m o\">{}</text>",
                x + step / 2.0,
                FLOOR - height - 4.0,
                count(*n)
            );
        }
    }
    let _ = write!(svg, "<line x1=\"10\" x2=\"{}\" y1=\"{FLOOR}\" y2=\"{FLOOR}\" class=\"a\"/>", WIDTH - 10.0);
    if let Some((at, label)) = mark {
        let x = 10.0 + at * step;
        let _ = write!(
            svg,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"18\" y2=\"{FLOOR}\" class=\"k\"/>\
             <text x=\"{x:.1}\" y=\"13\" class=\"l m\">{}</text>",
            escape(&label)
        );
    }
    svg + &numbers + "</svg>"
}

/// A table of counts as shades; cells hold their numbers.
pub(super) fn heat(
    id: &str,
    title: &str,
    rows: &[String],
    columns: &[String],
    at: impl Fn(&str, &str) -> i64,
) -> String {
    const LABEL: u32 = 86;
    const HEAD: u32 = 84;
    const STEP: u32 = 26;
    /// Room for the slanted name of the last column.
    const TAIL: u32 = 40;
    let width = 720u32.max(LABEL + columns.len() as u32 * 46 + TAIL);
    let cell = f64::from(width - LABEL - TAIL) / columns.len().max(1) as f64;
    let height = HEAD + rows.len() as u32 * STEP + 4;
    let most = rows.iter().flat_map(|r| columns.iter().map(|c| at(r, c)).collect::<Vec<_>>()).max().unwrap_or(0).max(1);
    let total: Vec<(String, i64)> = rows.iter().map(|r| (r.clone(), columns.iter().map(|c| at(r, c)).sum())).collect();
    let mut svg = open(width, height, id, title, &spoken(&total));
    for (index, column) in columns.iter().enumerate() {
        let x = f64::from(LABEL) + (index as f64 + 0.5) * cell;
        let _ = write!(
            svg,
            "<text transform=\"translate({x:.1} {}) rotate(-40)\" class=\"l\">{}</text>",
            HEAD - 8,
            escape(&short(column, 14))
        );
    }
    for (line, row) in rows.iter().enumerate() {
        let y = HEAD + line as u32 * STEP;
        let _ =
            write!(svg, "<text x=\"{}\" y=\"{}\" class=\"l e\">{}</text>", LABEL - 8, y + 17, escape(&short(row, 12)));
        for (index, column) in columns.iter().enumerate() {
            let n = at(row, column);
            let x = f64::from(LABEL) + index as f64 * cell;
            // Counts span four orders of magnitude: shade by logarithm.
            let shade = if n == 0 { 0.0 } else { 0.12 + 0.88 * (n as f64).ln_1p() / (most as f64).ln_1p() };
            let _ = write!(
                svg,
                "<rect x=\"{:.1}\" y=\"{y}\" width=\"{:.1}\" height=\"{}\" class=\"h\" style=\"--s:{:.0}%\"/>",
                x + 1.0,
                cell - 2.0,
                STEP - 2,
                shade * 100.0
            );
            if n > 0 {
                // Black or white, whichever stands out: on light pages only the darkest cells need white text, on dark
                // ones every bright cell needs black. At these shades both are 4.5 : 1 or better.
                let dark = match shade {
                    s if s > 0.89 => " i j",
                    s if s > 0.62 => " j",
                    _ => "",
                };
                let _ = write!(
                    svg,
                    "<text x=\"{:.1}\" y=\"{}\" class=\"s m n{dark}\">{}</text>",
                    x + cell / 2.0,
                    y + 16,
                    count(n)
                );
            }
        }
    }
    svg + "</svg>"
}

/// A growing line over steps, with the value at its end.
pub(super) fn line(id: &str, title: &str, points: &[(String, i64)]) -> String {
    const WIDTH: f64 = 360.0;
    const HEIGHT: f64 = 200.0;
    const TOP: f64 = 20.0;
    const FLOOR: f64 = 168.0;
    let most = points.iter().map(|(_, n)| *n).max().unwrap_or(0).max(1) as f64;
    let step = (WIDTH - 80.0) / points.len().saturating_sub(1).max(1) as f64;
    let place = |index: usize, n: i64| (20.0 + index as f64 * step, FLOOR - (FLOOR - TOP) * n as f64 / most);
    let mut svg = open(WIDTH as u32, HEIGHT as u32, id, title, &spoken(points));
    let path: Vec<String> = points
        .iter()
        .enumerate()
        .map(|(index, (_, n))| {
            let (x, y) = place(index, *n);
            format!("{x:.1},{y:.1}")
        })
        .collect();
    let _ = write!(
        svg,
        "<line x1=\"14\" x2=\"{}\" y1=\"{FLOOR}\" y2=\"{FLOOR}\" class=\"a\"/><polyline points=\"{}\" class=\"p\"/>",
        WIDTH - 40.0,
        path.join(" ")
    );
    for (index, (label, n)) in points.iter().enumerate() {
        let (x, y) = place(index, *n);
        let _ = write!(
            svg,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" class=\"c0\"><title>{}: {}</title></circle>",
            escape(label),
            count(*n)
        );
        let anchor = if index == 0 { "" } else { " e" };
        if index == 0 || index + 1 == points.len() {
            let _ = write!(
                svg,
                "<text x=\"{x:.1}\" y=\"{:.1}\" class=\"l{anchor}\">{}</text>\
                 <text x=\"{x:.1}\" y=\"{}\" class=\"s{anchor}\">{}</text>",
                y - 8.0,
                count(*n),
                FLOOR + 18.0,
                escape(&short(label, 18))
            );
        }
    }
    svg + "</svg>"
}

/// Figures between 0 and 1 with their intervals: (label, value, low, high).
pub(super) fn intervals(id: &str, title: &str, rows: &[(String, f64, f64, f64)]) -> String {
    const LEFT: f64 = 14.0;
    const WIDTH: u32 = 360;
    const STEP: u32 = 40;
    let spoken: Vec<String> =
        rows.iter().map(|(label, v, low, high)| format!("{label} {v:.3} ({low:.3} to {high:.3})")).collect();
    let mut svg = open(WIDTH, rows.len() as u32 * STEP + 22, id, title, &spoken.join(", "));
    let span = f64::from(WIDTH) - 2.0 * LEFT;
    for (index, (label, value, low, high)) in rows.iter().enumerate() {
        let y = index as u32 * STEP;
        let _ = write!(
            svg,
            "<text x=\"{LEFT}\" y=\"{}\" class=\"l\">{}</text><text x=\"{}\" y=\"{}\" class=\"l e\">{value:.3}</text>\
             <line x1=\"{LEFT}\" x2=\"{}\" y1=\"{}\" y2=\"{}\" class=\"a\"/>\
             <rect x=\"{:.1}\" y=\"{}\" width=\"{:.1}\" height=\"8\" rx=\"4\" class=\"c1\"/>\
             <circle cx=\"{:.1}\" cy=\"{}\" r=\"5\" class=\"c0\"/>",
            y + 14,
            escape(label),
            f64::from(WIDTH) - LEFT,
            y + 14,
            f64::from(WIDTH) - LEFT,
            y + 26,
            y + 26,
            LEFT + span * low,
            y + 22,
            (span * (high - low)).max(1.0),
            LEFT + span * value,
            y + 26
        );
    }
    let base = rows.len() as u32 * STEP + 14;
    let _ = write!(
        svg,
        "<text x=\"{LEFT}\" y=\"{base}\" class=\"s\">0</text><text x=\"{}\" y=\"{base}\" class=\"s e\">1</text>",
        f64::from(WIDTH) - LEFT
    );
    svg + "</svg>"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_words_stay_text() {
        let svg = bars("x", "<b>", &[("<script>\"".to_owned(), 1_234_567)]);
        assert!(!svg.contains("<script>") && svg.contains("&lt;script&gt;&quot;") && svg.contains("&lt;b&gt;"));
        assert!(svg.contains("1\u{202f}234\u{202f}567"));
    }

    #[test]
    fn nothing_divides_by_nothing() {
        for svg in [
            bars("a", "t", &[]),
            histogram("a", "t", &[], None),
            heat("a", "t", &[], &[], |_, _| 0),
            line("a", "t", &[("only".to_owned(), 0)]),
            intervals("a", "t", &[]),
            shares("a", "t", &[("only".to_owned(), vec![0, 0])], &["x".to_owned(), "y".to_owned()]),
            shares("a", "t", &[], &[]),
        ] {
            assert!(svg.ends_with("</svg>") && !svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }
}
