//! How far a command has come, for who waits at a terminal. Results on a pipe do not hide it, as it
//! goes to stderr; where that is no terminal there is none.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal as _;
use std::time::Duration;

/// Shows how many of these measurements a command has made.
pub fn bar(measurements: usize) -> ProgressBar {
    let bar = ProgressBar::new(measurements as u64);
    shown(bar, "{bar:20} {pos}/{len} {elapsed} {msg}")
}

/// Shows that a command works, if it cannot know how long its work takes.
pub fn spinner() -> ProgressBar {
    let bar = shown(ProgressBar::new_spinner(), "{spinner} {elapsed} {msg}");
    if !bar.is_hidden() {
        bar.enable_steady_tick(Duration::from_millis(100));
    }
    bar
}

/// A bar that looks like this.
pub fn shown(bar: ProgressBar, template: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    // The templates are constants; the default style stands in for one that is wrong.
    let style = ProgressStyle::with_template(template);
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
