//! What a person at the terminal sees, and how they ask a job to stop.

use crate::monitor::Monitor;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// How often a step without a terminal tells where it is.
const PLAIN_EVERY: Duration = Duration::from_secs(10);

/// How much is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Show {
    /// A bar with rate and expected end.
    Bar,
    /// A line when a step begins and ends, and now and then between.
    Lines,
    /// Warnings only.
    Nothing,
}

impl Show {
    /// What fits standard error: nothing when asked to be quiet, a bar on a terminal, else lines.
    pub fn fitting(quiet: bool) -> Self {
        if quiet {
            Self::Nothing
        } else if std::io::stderr().is_terminal() {
            Self::Bar
        } else {
            Self::Lines
        }
    }
}

struct Step {
    name: String,
    begun: Instant,
    told: Instant,
    done: u64,
    total: Option<u64>,
    state: String,
}

/// Progress on standard error; the first Ctrl-C or SIGTERM asks the job to stop, the second ends the process.
pub struct Terminal {
    show: Show,
    bar: ProgressBar,
    step: Mutex<Option<Step>>,
    stop: Arc<AtomicBool>,
    told: Arc<Notify>,
    signals: Arc<AtomicU64>,
}

impl Terminal {
    /// A terminal that shows `show`.
    pub fn new(show: Show) -> Self {
        let target = if show == Show::Bar { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        Self {
            show,
            bar: ProgressBar::with_draw_target(None, target),
            step: Mutex::new(None),
            stop: Arc::default(),
            told: Arc::default(),
            signals: Arc::default(),
        }
    }

    /// Watch for Ctrl-C and SIGTERM until the runtime ends. `second` is called at the second signal.
    pub fn watch_signals(&self, second: fn() -> !) -> std::io::Result<()> {
        #[cfg(unix)]
        let mut asked = {
            use tokio::signal::unix::{SignalKind, signal};
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
        };
        #[cfg(windows)]
        let mut asked = {
            use tokio::signal::windows::{ctrl_c, ctrl_shutdown};
            (ctrl_c()?, ctrl_shutdown()?)
        };
        let (stop, told, signals, bar) = (self.stop.clone(), self.told.clone(), self.signals.clone(), self.bar.clone());
        tokio::spawn(async move {
            loop {
                tokio::select! { _ = asked.0.recv() => {}, _ = asked.1.recv() => {} }
                if signals.fetch_add(1, Ordering::SeqCst) > 0 {
                    second();
                }
                stop.store(true, Ordering::SeqCst);
                told.notify_one();
                bar.suspend(|| say("Stopping after the write in flight; once more to stop at once"));
            }
        });
        Ok(())
    }

    /// Whether a signal asked the job to stop.
    pub fn interrupted(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// Wait for the first signal. For one waiter.
    pub async fn interruption(&self) {
        while !self.interrupted() {
            self.told.notified().await;
        }
    }

    fn with_step(&self, change: impl FnOnce(&mut Step)) {
        // A panic elsewhere cannot leave a step half changed.
        if let Some(step) = self.step.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            change(step);
        }
    }
}

/// One line on standard error.
#[expect(clippy::print_stderr, reason = "the one place that writes for people")]
pub fn say(line: &str) {
    eprintln!("{}", printable(line));
}

/// `text` without control characters, so that a hostile path or message cannot steer the terminal.
pub fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() && c != '\n' && c != '\t' { char::REPLACEMENT_CHARACTER } else { c })
        .collect()
}

impl Monitor for Terminal {
    fn begin(&self, step: &str, total: Option<u64>) {
        let now = Instant::now();
        *self.step.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(Step { name: step.to_owned(), begun: now, told: now, done: 0, total, state: String::new() });
        match self.show {
            Show::Bar => {
                let template = match total {
                    Some(_) => "{prefix:>10} {bar:24} {human_pos}/{human_len} {per_sec:.dim} {eta:.dim} {wide_msg}",
                    None => "{prefix:>10} {spinner} {human_pos} {per_sec:.dim} {wide_msg}",
                };
                // The templates are constants that parse; the default style is the fallback all the same.
                let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
                self.bar.reset();
                self.bar.set_style(style);
                self.bar.set_prefix(step.to_owned());
                self.bar.set_message("");
                if let Some(total) = total {
                    self.bar.set_length(total);
                } else {
                    self.bar.unset_length();
                }
                self.bar.set_position(0);
                self.bar.enable_steady_tick(Duration::from_millis(120));
            }
            Show::Lines => say(&match total {
                Some(total) => format!("{step}: {total} to do"),
                None => format!("{step} …"),
            }),
            Show::Nothing => {}
        }
    }

    fn expect(&self, total: u64) {
        self.with_step(|step| step.total = Some(total));
        self.bar.set_length(total);
    }

    fn advance(&self, units: u64) {
        self.bar.inc(units);
        let show = self.show;
        self.with_step(|step| {
            step.done += units;
            if show == Show::Lines && step.told.elapsed() >= PLAIN_EVERY {
                step.told = Instant::now();
                let of = step.total.map(|t| format!("/{t}")).unwrap_or_default();
                say(&format!("{}: {}{of} {}", step.name, step.done, step.state));
            }
        });
    }

    fn state(&self, line: &str) {
        self.bar.set_message(printable(line));
        self.with_step(|step| line.clone_into(&mut step.state));
    }

    fn warn(&self, line: &str) {
        self.bar.suspend(|| say(&format!("warning: {line}")));
    }

    fn end(&self) {
        let step = self.step.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.bar.disable_steady_tick();
        self.bar.finish_and_clear();
        if let (Some(step), true) = (step, self.show != Show::Nothing) {
            let seconds = step.begun.elapsed().as_secs_f64();
            say(format!("{:>10} {} in {seconds:.1} s {}", step.name, step.done, step.state).trim_end());
        }
    }

    fn stop_requested(&self) -> bool {
        self.interrupted()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_in_foreign_text_do_not_reach_the_terminal() {
        assert_eq!(printable("a\u{1b}[31mb\tc"), "a\u{fffd}[31mb\tc");
    }
}
