//! Shares as lines: SVG files that stand on their own, with colours that read on any page.

use crate::job::report::plots::escape;
use std::fmt::Write as _;

/// One line of a figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// Where it lies along the axis (a round, a share) and the share from 0 to 1 there, ascending along the axis.
    pub points: Vec<(f64, f64)>,
    /// Whether it is somebody else's, or there to be compared with: drawn broken.
    pub reported: bool,
}

/// The axis along which lines run.
struct Axis<'a> {
    name: &'a str,
    low: f64,
    high: f64,
    ticks: Vec<(f64, String)>,
}

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 48.0;
const RIGHT: f64 = 470.0;
const TOP: f64 = 44.0;
const FLOOR: f64 = 350.0;
/// Points beyond which a line is shown without dots.
const DOTS: usize = 12;

/// Colours that people who see fewer of them can tell apart as well (Okabe & Ito, 2008), without the light ones.
const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a5a00", "#5b646d", "#7a4fc9"];

/// Lines over rounds, their names at the right in the order in which they end.
pub fn shares_over_rounds(title: &str, axis: &str, series: &[Series]) -> String {
    let last = series.iter().flat_map(|line| &line.points).map(|(round, _)| *round as usize).max().unwrap_or(1).max(2);
    let ticks = (1..=last).map(|round| (round as f64, round.to_string())).collect();
    let axis = Axis { name: axis, low: 1.0, high: last as f64, ticks };
    let ends = |line: &Series| line.points.last().map_or(0.0, |(_, share)| *share);
    let spoken: Vec<String> = series.iter().map(|line| format!("{} ends at {:.2}", line.name, ends(line))).collect();
    let mut order: Vec<usize> = (0..series.len()).collect();
    order.sort_by(|a, b| ends(&series[*b]).total_cmp(&ends(&series[*a])).then(a.cmp(b)));
    let named = |at: usize| (at, format!("{} {:.2}", series[at].name, ends(&series[at])));
    chart(title, &spoken.join("; "), &axis, "", series, order.into_iter().map(named))
}

/// What finding constraints costs: recall against the share that is pinned. The legend says what each line has to pin
/// for a recall of `wanted`.
pub fn recall_by_cost(title: &str, axis: &str, series: &[Series], wanted: f64) -> String {
    let ticks = (0..=5).map(|fifth| f64::from(fifth) / 5.0).map(|share| (share, format!("{share:.1}"))).collect();
    let axis = Axis { name: axis, low: 0.0, high: 1.0, ticks };
    let names: Vec<String> = series
        .iter()
        .map(|line| match line.points.iter().find(|(_, recall)| *recall >= wanted) {
            _ if line.points.len() < 2 => line.name.clone(),
            Some((share, _)) => format!("{}: {:.2} at recall {wanted:.2}", line.name, share),
            None => line.name.clone(),
        })
        .collect();
    let spoken = names.join("; ");
    chart(title, &spoken, &axis, "recall", series, names.into_iter().enumerate())
}

/// The drawing; `legend` names lines by their place in `series`, from top to bottom.
fn chart(
    title: &str,
    spoken: &str,
    axis: &Axis<'_>,
    upright: &str,
    series: &[Series],
    legend: impl Iterator<Item = (usize, String)>,
) -> String {
    let x = |at: f64| LEFT + (RIGHT - LEFT) * (at.clamp(axis.low, axis.high) - axis.low) / (axis.high - axis.low);
    let y = |share: f64| FLOOR - (FLOOR - TOP) * share.clamp(0.0, 1.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         font-family=\"system-ui,sans-serif\" font-size=\"12\" fill=\"#1d2329\"><title>{}</title><desc>{}</desc>\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/><text x=\"{LEFT}\" y=\"22\" font-size=\"15\">{}</text>\
         <text x=\"{LEFT}\" y=\"37\" text-anchor=\"middle\">{}</text>",
        escape(title),
        escape(spoken),
        escape(title),
        escape(upright)
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
    for (at, tick) in &axis.ticks {
        let _ = write!(svg, "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{tick}</text>", x(*at), FLOOR + 18.0);
    }
    let middle = (LEFT + RIGHT) / 2.0;
    let _ = write!(
        svg,
        "<text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
        FLOOR + 38.0,
        escape(axis.name)
    );
    for (place, (index, name)) in legend.enumerate() {
        let line = &series[index];
        let colour = COLOURS[index % COLOURS.len()];
        let dash = if line.reported { " stroke-dasharray=\"6 4\"" } else { "" };
        let path: Vec<String> =
            line.points.iter().map(|(at, share)| format!("{:.1},{:.1}", x(*at), y(*share))).collect();
        let _ = write!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{dash}/>",
            path.join(" ")
        );
        let dots = if line.points.len() <= DOTS { &line.points[..] } else { &[] };
        for (at, share) in dots {
            let _ = write!(
                svg,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{colour}\"><title>{}, {} {}: {share:.3}</title></circle>",
                x(*at),
                y(*share),
                escape(&line.name),
                escape(axis.name),
                (at * 1e3).round() / 1e3
            );
        }
        let height = TOP + 8.0 + 22.0 * place as f64;
        // A line of one point is a dot.
        let key = if line.points.len() == 1 {
            format!("<circle cx=\"{:.1}\" cy=\"{height:.1}\" r=\"3\" fill=\"{colour}\"/>", RIGHT + 37.0)
        } else {
            format!(
                "<line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{height:.1}\" y2=\"{height:.1}\" stroke=\"{colour}\" \
                 stroke-width=\"2\"{dash}/>",
                RIGHT + 24.0,
                RIGHT + 50.0
            )
        };
        let _ = write!(svg, "{key}<text x=\"{:.1}\" y=\"{:.1}\">{}</text>", RIGHT + 58.0, height + 4.0, escape(&name));
    }
    svg + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_lie_where_their_shares_are_and_names_stay_text() {
        let line = |name: &str, points: &[(f64, f64)], reported| Series {
            name: name.to_owned(),
            points: points.to_vec(),
            reported,
        };
        let svg = shares_over_rounds(
            "<Figure>",
            "round",
            &[line("ours", &[(1.0, 1.0), (3.0, 0.0)], false), line("<theirs>", &[(1.0, 0.5), (3.0, 0.5)], true)],
        );
        assert!(svg.contains(&format!("points=\"{LEFT:.1},{TOP:.1} {RIGHT:.1},{FLOOR:.1}\"")), "{svg}");
        assert!(!svg.contains("<theirs>") && svg.contains("&lt;theirs&gt; 0.50") && svg.contains("&lt;Figure&gt;"));
        assert_eq!((svg.matches("<polyline").count(), svg.matches("stroke-dasharray").count()), (2, 2));
        assert!(svg.find("theirs&gt; 0.50") < svg.find("ours 0.00"), "the one that ends higher is named first");
        for empty in [shares_over_rounds("t", "a", &[]), shares_over_rounds("t", "a", &[line("x", &[], false)])] {
            assert!(empty.ends_with("</svg>\n") && !empty.contains("NaN") && !empty.contains("inf"), "{empty}");
        }
    }
    #[test]
    fn what_a_recall_costs_is_read_off_the_line() {
        let line = |name: &str, points: Vec<(f64, f64)>| Series { name: name.to_owned(), points, reported: false };
        let many: Vec<(f64, f64)> = (0..=20).map(|n| f64::from(n) / 20.0).map(|share| (share, share.sqrt())).collect();
        let svg = recall_by_cost("t", "share", &[line("items", many), line("safe point", vec![(0.25, 0.93)])], 0.9);
        // The root of 0.8 falls short of 0.9, the root of 0.85 does not.
        assert!(svg.contains(">items: 0.85 at recall 0.90</text>") && svg.contains(">safe point</text>"), "{svg}");
        assert_eq!(svg.matches("<title>safe point, share 0.25: 0.930</title>").count(), 1);
        assert_eq!(svg.matches("<circle").count(), 2, "one on the plot, one beside its name: {svg}");
        let low = recall_by_cost("t", "share", &[line("x", vec![(0.0, 0.0), (1.0, 0.5)])], 0.9);
        assert!(low.contains(">x</text>"));
    }
}
