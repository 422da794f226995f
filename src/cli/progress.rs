//! A progress bar on standard error, for work that takes long and a person who watches.

use std::io::{IsTerminal, stderr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::Common;

/// Work that is done before this is not worth a bar.
const PATIENCE: Duration = Duration::from_millis(400);

/// One phase of the work.
pub struct Progress {
    bar: ProgressBar,
    started: Instant,
    done: AtomicU64,
}

impl Progress {
    /// A phase that reads about `bytes`.
    pub fn new(phase: &'static str, bytes: u64, common: Common) -> Self {
        let target = match common.quiet || !stderr().is_terminal() {
            true => ProgressDrawTarget::hidden(),
            false => ProgressDrawTarget::stderr_with_hz(10),
        };
        // Only the builder methods: the setters draw at once.
        let mut bar = ProgressBar::with_draw_target(Some(bytes), target).with_prefix(phase);
        let template = "{prefix:>9} [{bar:32}] {binary_bytes}/{binary_total_bytes} {eta}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar = bar.with_style(style.progress_chars("=> "));
        }
        Self {
            bar,
            started: Instant::now(),
            done: AtomicU64::new(0),
        }
    }

    /// So many more bytes are done.
    pub fn tick(&self, bytes: u64) {
        let done = self
            .done
            .fetch_add(bytes, Ordering::Relaxed)
            .saturating_add(bytes);
        if self.started.elapsed() < PATIENCE {
            return;
        }
        // The size is an estimate where a file is compressed.
        if self.bar.length().is_some_and(|length| length < done) {
            self.bar.set_length(done);
        }
        self.bar.set_position(done);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.started.elapsed() >= PATIENCE {
            self.bar.finish_and_clear();
        }
    }
}
