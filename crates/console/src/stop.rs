//! When to stop: Ctrl-C, SIGTERM, or the end of the leash by which a parent holds its children.

use crate::failure::{Failure, Outcome};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::Read as _;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

/// A channel that yields once this process should stop. With `leash`, also when standard input
/// ends: the other end of that pipe is in the parent, and is closed however the parent dies.
pub fn stop_signal(leash: bool) -> Outcome<Receiver<()>> {
    let (sender, receiver) = sync_channel(4);
    let mut signals = Signals::new([SIGINT, SIGTERM])
        .map_err(|error| Failure::Internal(format!("cannot watch for signals: {error}")))?;
    let on_signal = sender.clone();
    thread::spawn(move || {
        for _ in signals.forever() {
            let _ = on_signal.try_send(());
        }
    });
    if leash {
        thread::spawn(move || {
            wait_for_end_of_leash();
            let _ = sender.try_send(());
        });
    }
    Ok(receiver)
}

/// Reads standard input to its end.
pub fn wait_for_end_of_leash() {
    let mut buffer = [0; 64];
    let mut input = std::io::stdin().lock();
    loop {
        match input.read(&mut buffer) {
            Ok(0) => break,
            Err(error) if error.kind() != std::io::ErrorKind::Interrupted => break,
            Ok(_) | Err(_) => {}
        }
    }
}
