//! What commands print.

use std::io::{ErrorKind, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether something that was said did not reach standard output.
static LOST_OUTPUT: AtomicBool = AtomicBool::new(false);

/// Whether something that was said did not reach standard output.
pub fn is_incomplete() -> bool {
    LOST_OUTPUT.load(Ordering::Relaxed)
}

/// Prints to standard output; a reader that has gone away (`| head`) is no error.
pub fn say(text: &str) {
    let mut out = std::io::stdout();
    if let Err(error) = writeln!(out, "{text}").and_then(|()| out.flush()) {
        LOST_OUTPUT.fetch_or(error.kind() != ErrorKind::BrokenPipe, Ordering::Relaxed);
    }
}

/// Prints to standard error, where nothing can be done if that fails: the disk with the log may be
/// full, which is no reason to stop.
pub fn complain(text: &str) {
    let _ = writeln!(std::io::stderr(), "pentarchy: {text}");
}
