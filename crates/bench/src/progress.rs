//! How far a command has come, for who waits at a terminal. Results on a pipe do not hide it, as it
//! goes to stderr; where that is no terminal there is none.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal as _;
use std::time::Duration;

/// So many measurements.
pub fn bar(measurements: usize) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(measurements as u64);
    // The template is a constant; the default style stands in for one that is wrong.
    let style = ProgressStyle::with_template("{bar:20} {pos}/{len} {elapsed} {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

/// What is going on, where nobody knows how long it takes.
pub fn spinner() -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new_spinner();
    // The template is a constant; the default style stands in for one that is wrong.
    let style = ProgressStyle::with_template("{spinner} {elapsed} {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}
