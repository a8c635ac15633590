//! The program's own log, on standard error, as text or as one JSON object for each line.
//!
//! `PENTARCHY_LOG` chooses levels, like `debug` or `warn,pentarchy_machine=info`. Every line of a
//! replica carries its number and epoch. Some lines can be provoked by peers and clients; so no
//! place in the program writes more than [`LINES_MAX`] lines in [`WINDOW`].

use std::collections::HashMap;
use std::io::IsTerminal as _;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tracing::callsite::Identifier;
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

/// Lines that one place in the program may write in one [`WINDOW`].
pub const LINES_MAX: u64 = 50;

/// See [`LINES_MAX`].
pub const WINDOW: Duration = Duration::from_secs(10);

/// How the log is written.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// For programs: one object a line, with `timestamp`, `level`, `target`, `message`, the
    /// event's own fields, and `span` with whose it is.
    Json,
}

static DROPPED: AtomicU64 = AtomicU64::new(0);

/// Lines that were left out since the start of the process.
#[must_use]
pub fn dropped_lines() -> u64 {
    DROPPED.load(Relaxed)
}

/// Sends the log to stderr, as `PENTARCHY_LOG` asks, or from `level` on. Once in a process.
pub fn start(format: Format, level: &str) {
    let asked = std::env::var("PENTARCHY_LOG").unwrap_or_default();
    let asked = if asked.is_empty() { level } else { &asked };
    let (filter, mistake) = match asked.parse::<Targets>() {
        Ok(filter) => (filter, None),
        Err(error) => (level.parse().unwrap_or_default(), Some(error)),
    };
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    // A log whose reader is gone is no reason to fail.
    let lines = fmt::layer().with_writer(std::io::stderr).log_internal_errors(false);
    let log = tracing_subscriber::registry().with(filter).with(Throttle::default());
    match format {
        Format::Text => log.with(lines.with_ansi(colour)).init(),
        Format::Json => log.with(lines.json().flatten_event(true).with_span_list(false)).init(),
    }
    if let Some(error) = mistake {
        tracing::warn!("PENTARCHY_LOG is not understood ({error}); showing {level}");
    }
}

/// Says now and then how many lines were left out, until the process ends.
pub fn report_dropped() {
    let thread = std::thread::Builder::new().name("log".to_owned());
    let started = thread.spawn(|| {
        let mut said = 0;
        loop {
            std::thread::sleep(WINDOW);
            let dropped = dropped_lines();
            if dropped > said {
                tracing::warn!(lines = dropped - said, "repeated log lines left out");
                said = dropped;
            }
        }
    });
    if let Err(error) = started {
        tracing::warn!(%error, "lines that the log leaves out will not be counted in it");
    }
}

/// Leaves out what one place in the program says too often. Places are part of the program, so
/// there are few.
#[derive(Default)]
struct Throttle(Mutex<HashMap<Identifier, Window>>);

/// What one place has said lately.
#[derive(Clone, Copy)]
struct Window {
    begun: Instant,
    lines: u64,
}

impl Window {
    /// Whether another line is within bounds.
    fn admits(&mut self, now: Instant) -> bool {
        if now.duration_since(self.begun) >= WINDOW {
            *self = Self { begun: now, lines: 0 };
        }
        self.lines += 1;
        self.lines <= LINES_MAX
    }
}

impl<S: Subscriber> Layer<S> for Throttle {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let now = Instant::now();
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = places.entry(event.metadata().callsite());
        let admits = place.or_insert(Window { begun: now, lines: 0 }).admits(now);
        DROPPED.fetch_add(u64::from(!admits), Relaxed);
        admits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// Counts what gets past.
    struct Count(Arc<AtomicU64>);

    impl<S: Subscriber> Layer<S> for Count {
        fn on_event(&self, _: &Event<'_>, _: Context<'_, S>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    #[test]
    fn one_place_that_repeats_itself_is_cut_off_and_others_are_not() {
        let passed = Arc::new(AtomicU64::new(0));
        let log =
            tracing_subscriber::registry().with(Throttle::default()).with(Count(passed.clone()));
        let before = dropped_lines();
        tracing::subscriber::with_default(log, || {
            for _ in 0..3 * LINES_MAX {
                tracing::warn!("the same");
            }
            tracing::warn!("another");
        });
        assert_eq!(passed.load(Relaxed), LINES_MAX + 1);
        assert!(dropped_lines() - before >= 2 * LINES_MAX);
    }

    #[test]
    fn a_new_window_admits_again() {
        let begun = Instant::now();
        let mut window = Window { begun, lines: LINES_MAX };
        assert!(!window.admits(begun));
        assert!(window.admits(begun + WINDOW));
    }
}
