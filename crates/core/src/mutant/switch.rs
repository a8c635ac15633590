//! Which mutant is on.

use super::MUTANTS;
use core::cell::Cell;
use core::sync::atomic::{AtomicUsize, Ordering};

/// What no index is.
const NONE: usize = usize::MAX;

static PROCESS: AtomicUsize = AtomicUsize::new(NONE);

std::thread_local! {
    static THREAD: Cell<Option<usize>> = const { Cell::new(None) };
    static REACHED: Cell<u64> = const { Cell::new(0) };
}

/// Whether the mutant at this place of the list is on, here and now.
#[must_use]
pub fn is_on(index: usize) -> bool {
    let is_on = THREAD.get().unwrap_or_else(|| PROCESS.load(Ordering::Relaxed)) == index;
    if is_on {
        REACHED.set(REACHED.get() + 1);
    }
    is_on
}

/// How often this thread has come to the code of a mutant that was on. What a mutant changes
/// need not have mattered each time: a condition that it breaks may have been true anyway.
#[must_use]
pub fn times_reached() -> u64 {
    REACHED.get()
}

fn find(name: Option<&str>) -> Option<usize> {
    let Some(name) = name else { return Some(NONE) };
    MUTANTS.iter().position(|mutant| mutant.name == name)
}

/// Runs with this mutant, or with none, on this thread; what was on before comes back, also
/// after a panic.
///
/// # Panics
/// If there is no such mutant.
pub fn with<R>(name: Option<&str>, run: impl FnOnce() -> R) -> R {
    struct Back(Option<usize>);
    impl Drop for Back {
        fn drop(&mut self) {
            THREAD.set(self.0);
        }
    }
    let index = find(name).unwrap_or_else(|| panic!("no mutant is called {name:?}"));
    let _back = Back(THREAD.replace(Some(index)));
    run()
}

/// Switches this mutant on, or all off, for every thread that has not chosen [`with`]. False,
/// and nothing happens, if there is no such mutant.
#[must_use]
pub fn choose(name: Option<&str>) -> bool {
    find(name).map(|index| PROCESS.store(index, Ordering::Relaxed)).is_some()
}
