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

mod list;
#[cfg(feature = "mutants")]
mod switch;

pub use list::MUTANTS;

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
    /// What is to find it.
    pub finder: Finder,
}

/// What is to find a mutant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Finder {
    /// Random worlds, in which nothing was arranged for it.
    Swarm,
    /// A search through every order of events in a small group: it needs one particular order of
    /// many events, which random worlds hit too seldom.
    Explorer,
    /// A schedule by hand, which is a test written for it: nothing that nobody arranged finds it.
    Schedule,
    /// The specification, which refuses what replicas do in worlds that were recorded for it:
    /// `cargo xtask spec --runs`. Nothing need have gone wrong in them.
    Specification,
    /// A randomized model test of its module, in which nothing was arranged for it: the module is
    /// in no simulated world yet.
    Model,
    /// Nobody for certain: its protocol is young, or random worlds hit it too seldom. It is hunted
    /// by name only, and nothing is claimed of what finds it.
    Nobody,
}

const fn mutant(name: &'static str, about: &'static str) -> Mutant {
    Mutant { name, about, finder: Finder::Swarm }
}

impl Mutant {
    const fn explored(self) -> Self {
        Self { finder: Finder::Explorer, ..self }
    }

    const fn scheduled(self) -> Self {
        Self { finder: Finder::Schedule, ..self }
    }

    const fn specified(self) -> Self {
        Self { finder: Finder::Specification, ..self }
    }

    const fn modelled(self) -> Self {
        Self { finder: Finder::Model, ..self }
    }

    const fn unclaimed(self) -> Self {
        Self { finder: Finder::Nobody, ..self }
    }

    /// The part of the code in which it is: the first word of its name.
    #[must_use]
    pub fn module(&self) -> &'static str {
        self.name.split_once('.').map_or(self.name, |(module, _)| module)
    }

    /// Whether it is part of the product, not of the [module](self)'s example.
    #[must_use]
    pub fn is_real(&self) -> bool {
        !self.name.starts_with("example.")
    }
}

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
pub use switch::{choose, is_on, times_reached, with};

#[cfg(test)]
mod tests;
