//! How a job tells of its progress without knowing who listens, and how it learns that it should stop.

use std::sync::atomic::{AtomicBool, Ordering};

/// Receives progress. Implementations: the terminal, and [`Silent`] for library use and tests.
pub trait Monitor: Send + Sync {
    /// A step begins; `total` is how many units it expects, when that is known.
    fn begin(&self, step: &str, total: Option<u64>);
    /// The running step's expectation changed.
    fn expect(&self, total: u64) {
        let _ = total;
    }
    /// `units` more of the running step are done.
    fn advance(&self, units: u64);
    /// One line about the present state of the running step, replacing the one before (found, budget, ETA …).
    fn state(&self, line: &str) {
        let _ = line;
    }
    /// Something a person should know that does not stop the job.
    fn warn(&self, line: &str);
    /// The running step ended.
    fn end(&self);
    /// True once the job should finish the write in flight and return.
    fn stop_requested(&self) -> bool {
        false
    }
}

/// A monitor that says nothing; [`Silent::stop`] asks the job to pause.
#[derive(Debug, Default)]
pub struct Silent {
    stop: AtomicBool,
}

impl Silent {
    /// Ask the running job to stop at the next safe point.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Monitor for Silent {
    fn begin(&self, _step: &str, _total: Option<u64>) {}
    fn advance(&self, _units: u64) {}
    fn warn(&self, _line: &str) {}
    fn end(&self) {}
    fn stop_requested(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}
