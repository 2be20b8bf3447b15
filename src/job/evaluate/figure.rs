//! Shares over rounds as lines: an SVG file that stands on its own, with colours that read on any page.

use crate::job::report::plots::escape;
use std::fmt::Write as _;

/// One line of a figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// (round, share from 0 to 1), ascending.
    pub points: Vec<(usize, f64)>,
    /// Whether somebody else reports it: drawn broken.
    pub reported: bool,
}

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 48.0;
const RIGHT: f64 = 470.0;
const TOP: f64 = 44.0;
const FLOOR: f64 = 350.0;

/// Colours that people who see fewer of them can tell apart as well (Okabe & Ito, 2008), without the light ones.
const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a5a00", "#5b646d", "#7a4fc9"];

/// Lines over rounds, their names at the right in the order in which they end.
pub fn shares_over_rounds(title: &str, axis: &str, series: &[Series]) -> String {
    let last = series.iter().flat_map(|line| &line.points).map(|(round, _)| *round).max().unwrap_or(1).max(2);
    let x = |round: usize| LEFT + (RIGHT - LEFT) * (round.max(1) - 1) as f64 / (last - 1) as f64;
    let y = |share: f64| FLOOR - (FLOOR - TOP) * share.clamp(0.0, 1.0);
    let ends = |line: &Series| line.points.last().map_or(0.0, |(_, share)| *share);
    let spoken: Vec<String> = series.iter().map(|line| format!("{} ends at {:.2}", line.name, ends(line))).collect();
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         font-family=\"system-ui,sans-serif\" font-size=\"12\" fill=\"#1d2329\"><title>{}</title><desc>{}</desc>\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/><text x=\"{LEFT}\" y=\"22\" font-size=\"15\">{}</text>",
        escape(title),
        escape(&spoken.join("; ")),
        escape(title)
    );
    for fifth in 0..=5 {
        let share = f64::from(fifth) / 5.0;
        let _ = write!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{:.1}\" y2=\"{:.1}\" stroke=\"#dfe3e6\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{share:.1}</text>",
            y(share),
            y(share),
            LEFT - 8.0,
            y(share) + 4.0
        );
    }
    for round in 1..=last {
        let _ =
            write!(svg, "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{round}</text>", x(round), FLOOR + 18.0);
    }
    let middle = (LEFT + RIGHT) / 2.0;
    let _ =
        write!(svg, "<text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>", FLOOR + 38.0, escape(axis));
    let mut order: Vec<usize> = (0..series.len()).collect();
    order.sort_by(|a, b| ends(&series[*b]).total_cmp(&ends(&series[*a])).then(a.cmp(b)));
    for (place, index) in order.into_iter().enumerate() {
        let line = &series[index];
        let colour = COLOURS[index % COLOURS.len()];
        let dash = if line.reported { " stroke-dasharray=\"6 4\"" } else { "" };
        let path: Vec<String> =
            line.points.iter().map(|(round, share)| format!("{:.1},{:.1}", x(*round), y(*share))).collect();
        let _ = write!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{dash}/>",
            path.join(" ")
        );
        for (round, share) in &line.points {
            let _ = write!(
                svg,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{colour}\"><title>{}, round {round}: {share:.3}</title></circle>",
                x(*round),
                y(*share),
                escape(&line.name)
            );
        }
        let height = TOP + 8.0 + 22.0 * place as f64;
        let _ = write!(
            svg,
            "<line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{height:.1}\" y2=\"{height:.1}\" stroke=\"{colour}\" \
             stroke-width=\"2\"{dash}/><text x=\"{:.1}\" y=\"{:.1}\">{} {:.2}</text>",
            RIGHT + 24.0,
            RIGHT + 50.0,
            RIGHT + 58.0,
            height + 4.0,
            escape(&line.name),
            ends(line)
        );
    }
    svg + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_lie_where_their_shares_are_and_names_stay_text() {
        let line = |name: &str, points: &[(usize, f64)], reported| Series {
            name: name.to_owned(),
            points: points.to_vec(),
            reported,
        };
        let svg = shares_over_rounds(
            "<Figure>",
            "round",
            &[line("ours", &[(1, 1.0), (3, 0.0)], false), line("<theirs>", &[(1, 0.5), (3, 0.5)], true)],
        );
        assert!(svg.contains(&format!("points=\"{LEFT:.1},{TOP:.1} {RIGHT:.1},{FLOOR:.1}\"")), "{svg}");
        assert!(!svg.contains("<theirs>") && svg.contains("&lt;theirs&gt; 0.50") && svg.contains("&lt;Figure&gt;"));
        assert_eq!((svg.matches("<polyline").count(), svg.matches("stroke-dasharray").count()), (2, 2));
        assert!(svg.find("theirs&gt; 0.50") < svg.find("ours 0.00"), "the one that ends higher is named first");
        for empty in [shares_over_rounds("t", "a", &[]), shares_over_rounds("t", "a", &[line("x", &[], false)])] {
            assert!(empty.ends_with("</svg>\n") && !empty.contains("NaN") && !empty.contains("inf"), "{empty}");
        }
    }
}
