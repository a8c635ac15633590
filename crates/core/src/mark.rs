//! Coverage marks: which handlers a simulation reached. Nothing in builds without `marks`.

/// Notes that this place was reached.
#[macro_export]
macro_rules! mark {
    ($name:literal) => {
        #[cfg(feature = "marks")]
        $crate::mark::hit($name);
    };
}

#[cfg(feature = "marks")]
mod table {
    use std::collections::BTreeMap;
    use std::sync::Mutex;

    static HITS: Mutex<BTreeMap<&'static str, u64>> = Mutex::new(BTreeMap::new());

    std::thread_local! {
        static LOCAL: std::cell::RefCell<BTreeMap<&'static str, u64>> =
            const { std::cell::RefCell::new(BTreeMap::new()) };
    }

    /// Counts a hit in this thread.
    pub fn hit(name: &'static str) {
        LOCAL.with_borrow_mut(|hits| *hits.entry(name).or_default() += 1);
    }

    /// Adds this thread's hits to the table of the process.
    pub fn publish() {
        let local = LOCAL.with_borrow_mut(core::mem::take);
        let mut hits = HITS.lock().expect("no panic while counting");
        for (name, count) in local {
            *hits.entry(name).or_default() += count;
        }
    }

    /// All marks that were published, with their counts.
    #[must_use]
    pub fn table() -> BTreeMap<&'static str, u64> {
        HITS.lock().expect("no panic while counting").clone()
    }
}

#[cfg(feature = "marks")]
pub use table::{hit, publish, table};
