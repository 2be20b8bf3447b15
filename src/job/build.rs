//! The whole way, as a list of steps: each brings one part of the corpus up to date and does nothing where it already
//! is, so that a build which was cut off goes on where it stopped.

use serde::Serialize;
use serde_json::Value;
use std::time::Duration;

/// What one step of a build did.
#[derive(Debug, Clone, Serialize)]
pub struct StepReport {
    /// Name of the step: the subcommand that does it alone.
    pub name: &'static str,
    /// How long it took.
    pub seconds: f64,
    /// The step's own summary.
    #[serde(flatten)]
    pub summary: Value,
}

impl StepReport {
    /// A report of a step that took `elapsed`. A summary that is no JSON object stands under `summary`.
    pub fn new(name: &'static str, elapsed: Duration, summary: impl Serialize) -> Self {
        let summary = match serde_json::to_value(summary) {
            Ok(Value::Object(fields)) => Value::Object(fields),
            Ok(other) => serde_json::json!({ "summary": other }),
            Err(error) => serde_json::json!({ "summary": error.to_string() }),
        };
        Self { name, seconds: elapsed.as_secs_f64(), summary }
    }
}
