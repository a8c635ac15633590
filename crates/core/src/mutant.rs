//! Mutants: seeded bugs that tests switch on by name, to see that something finds them. In builds
//! without the feature `mutants` each is a constant `false` and compiles to nothing.
//!
//! A mutant is one entry in [`MUTANTS`] and one condition in the code, on one line:
//!
//! ```
//! # use pentarchy_core::mutant;
//! # fn quorum(f: usize) -> usize {
//! if mutant!("example.quorum-of-f") { f } else { f + 1 }
//! # }
//! ```
//!
//! A name that is not in the list does not compile; `cargo xtask tidy` sees to it that each is used
//! in exactly one place. At most one mutant is on at a time: `with` for the calling thread, so
//! that simulations side by side can run different ones, `choose` for all other threads.

/// Whether the seeded bug of this name is on.
#[macro_export]
macro_rules! mutant {
    ($name:literal) => {
        $crate::mutant::is_on(const { $crate::mutant::index($name) })
    };
}

/// A seeded bug.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mutant {
    /// Where it is and what it does: `<protocol or module>.<words>`.
    pub name: &'static str,
    /// What it breaks, in one sentence.
    pub about: &'static str,
}

const fn mutant(name: &'static str, about: &'static str) -> Mutant {
    Mutant { name, about }
}

/// Every mutant. The first is used by this page and by the tests of the mechanism only.
pub const MUTANTS: &[Mutant] = &[
    mutant("example.quorum-of-f", "f votes are enough in the example of the module page"),
    mutant("sessions.runs-again", "a request that is ordered twice runs twice"),
    mutant("device.certifies-twice", "a device gives its last position to another statement too"),
    mutant("device.not-bound-to-views", "a device may go back to a view that its replica left"),
    mutant("epochs.handover-of-f", "f votes prove how an epoch ends"),
    mutant("epochs.begins-elsewhere", "an epoch begins where the one before began"),
    mutant("roster.admits-another", "the device of the next member is admitted too"),
    mutant("minbft.execute-on-new-view", "a NEW-VIEW takes effect without agreement on it"),
];

/// The place of a name in [`MUTANTS`].
///
/// # Panics
/// If there is no such mutant; at compile time, where [`mutant!`](crate::mutant!) is used.
#[must_use]
pub const fn index(name: &str) -> usize {
    let mut index = 0;
    while index < MUTANTS.len() {
        if equal(MUTANTS[index].name.as_bytes(), name.as_bytes()) {
            return index;
        }
        index += 1;
    }
    panic!("no mutant of this name is in pentarchy_core::mutant::MUTANTS")
}

/// `==` is not for constants yet.
const fn equal(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut index = 0;
    while index < a.len() {
        if a[index] != b[index] {
            return false;
        }
        index += 1;
    }
    true
}

/// Whether the mutant at this place of the list is on. Never, in this build.
#[cfg(not(feature = "mutants"))]
#[must_use]
#[inline(always)]
pub const fn is_on(_index: usize) -> bool {
    false
}

#[cfg(feature = "mutants")]
pub use switch::{choose, is_on, with};

#[cfg(feature = "mutants")]
mod switch {
    use super::MUTANTS;
    use core::cell::Cell;
    use core::sync::atomic::{AtomicUsize, Ordering};

    /// What no index is.
    const NONE: usize = usize::MAX;

    static PROCESS: AtomicUsize = AtomicUsize::new(NONE);

    std::thread_local! {
        static THREAD: Cell<Option<usize>> = const { Cell::new(None) };
    }

    /// Whether the mutant at this place of the list is on, here and now.
    #[must_use]
    pub fn is_on(index: usize) -> bool {
        THREAD.get().unwrap_or_else(|| PROCESS.load(Ordering::Relaxed)) == index
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
}

#[cfg(test)]
mod tests {
    use super::{MUTANTS, index};

    fn enough(votes: usize, f: usize) -> bool {
        votes >= if mutant!("example.quorum-of-f") { f } else { f + 1 }
    }

    #[test]
    fn names_are_unique_and_sorted_into_modules() {
        for (at, mutant) in MUTANTS.iter().enumerate() {
            assert_eq!(index(mutant.name), at, "{} is there twice", mutant.name);
            let (module, words) = mutant.name.split_once('.').expect("<module>.<words>");
            assert!(!module.is_empty() && !words.is_empty() && !mutant.about.is_empty());
        }
    }

    #[test]
    fn without_a_choice_nothing_is_broken() {
        assert!(!enough(1, 1) && enough(2, 1));
    }

    #[cfg(feature = "mutants")]
    #[test]
    fn a_thread_breaks_what_it_chose_and_nothing_else() {
        use super::with;
        let chosen = with(Some("example.quorum-of-f"), || {
            let elsewhere = std::thread::spawn(|| enough(1, 1)).join();
            let inside = with(None, || enough(1, 1));
            (enough(1, 1), inside, elsewhere.expect("no panic"))
        });
        assert_eq!(chosen, (true, false, false));
        assert!(!enough(1, 1));
        let other = with(Some("minbft.execute-on-new-view"), || enough(1, 1));
        assert!(!other);
        let panicked = std::panic::catch_unwind(|| {
            with(Some("example.quorum-of-f"), || panic!("a test that fails"))
        });
        assert!(panicked.is_err() && !enough(1, 1));
    }
}
