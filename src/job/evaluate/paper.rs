//! What the paper reports of its classifiers: Tables 4 and 9, Figure 4 (its §4.2 and §4.4).

use serde::Serialize;

/// Why none of these figures can be held against ours.
pub const NOT_COMPARABLE: [&str; 3] = [
    "Table 4 is against human labels of 2,000 items that were not published with their texts; ours are labels of language models on other items",
    "Table 9 is against labels of gpt-5.4-mini, one of the models it scores, on 200 items",
    "Figure 4 is on 200 phrasings of 50 rules; ours on 600 phrasings of 150 other rules and 600 hard negatives",
];

/// A row of the paper's Table 4, in percent and shares.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TypeRow {
    /// Knowledge type.
    pub name: &'static str,
    /// Percent of the items.
    pub percent: f64,
    /// Precision.
    pub precision: f64,
    /// Recall.
    pub recall: f64,
    /// F1.
    pub f1: f64,
}

const fn type_row(name: &'static str, percent: f64, precision: f64, recall: f64, f1: f64) -> TypeRow {
    TypeRow { name, percent, precision, recall, f1 }
}

/// Table 4.
pub const TABLE_4: [TypeRow; 5] = [
    type_row("constraint", 12.3, 0.91, 0.87, 0.89),
    type_row("procedural", 28.7, 0.94, 0.92, 0.93),
    type_row("belief", 31.4, 0.86, 0.84, 0.85),
    type_row("preference", 14.2, 0.83, 0.80, 0.81),
    type_row("episodic", 13.4, 0.90, 0.88, 0.89),
];

/// A row of the paper's Table 9.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct VariantRow {
    /// Variant.
    pub name: &'static str,
    /// Recall of constraints.
    pub constraint_recall: f64,
    /// F1 of constraints.
    pub constraint_f1: f64,
    /// Macro-F1 over five types.
    pub macro_f1: f64,
    /// Accuracy.
    pub accuracy: f64,
    /// Milliseconds a call, as printed.
    pub latency: &'static str,
}

const fn variant(name: &'static str, figures: [f64; 4], latency: &'static str) -> VariantRow {
    let [constraint_recall, constraint_f1, macro_f1, accuracy] = figures;
    VariantRow { name, constraint_recall, constraint_f1, macro_f1, accuracy, latency }
}

/// Table 9.
pub const TABLE_9: [VariantRow; 11] = [
    variant("regex", [0.60, 0.63, 0.35, 0.53], "<< 1 ms"),
    variant("encoder", [0.27, 0.32, 0.33, 0.41], "387 ms"),
    variant("regex+encoder", [0.70, 0.63, 0.40, 0.46], "266 ms"),
    variant("distilled", [0.77, 0.61, 0.44, 0.52], "~5 ms"),
    variant("gpt-5.4-nano", [0.93, 0.74, 0.62, 0.69], "684 ms"),
    variant("gpt-5.4-mini", [0.87, 0.84, 0.68, 0.75], "667 ms"),
    variant("Sonnet 4.6", [0.83, 0.77, 0.50, 0.56], "3,452 ms"),
    variant("Opus 4.7", [0.73, 0.80, 0.61, 0.67], "3,853 ms"),
    variant("Qwen3-Next-80B", [0.87, 0.83, 0.64, 0.73], "606 ms"),
    variant("cascade", [0.93, 0.80, 0.59, 0.75], "1,096 ms"),
    variant("cascade+abstain", [0.90, 0.73, 0.69, 0.73], "1,008 ms"),
];

/// A bar group of the paper's Figure 4, as far as its text gives numbers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PhrasingRow {
    /// Variant.
    pub name: &'static str,
    /// Recall of imperative, conditional and passive rules.
    pub others: Option<f64>,
    /// Recall of declarative rules.
    pub declarative: f64,
    /// Mean over the four forms.
    pub mean: Option<f64>,
}

/// Figure 4.
pub const FIGURE_4: [PhrasingRow; 4] = [
    PhrasingRow { name: "regex", others: None, declarative: 0.0, mean: None },
    PhrasingRow { name: "cascade", others: Some(1.0), declarative: 0.52, mean: None },
    PhrasingRow { name: "gpt-5.4-mini", others: Some(1.0), declarative: 0.62, mean: Some(0.91) },
    PhrasingRow { name: "safety-margin", others: None, declarative: 0.90, mean: Some(0.93) },
];
