//! The coverage of a world, as a set of numbers: which message or timer moved each correct replica
//! from where to where, its last moves in a row, and where all stood when one of them left a view
//! or entered one. A world that covers something new is worth a variation: [`crate::guided`].

use std::hash::{DefaultHasher, Hash, Hasher};

/// Things that are told apart. Two that share a place count as one.
const PLACES: usize = 1 << 15;

/// So often something has to happen to count as something else than when it happens less often.
const STEPS: [u8; 5] = [1, 2, 4, 16, 64];

/// See the [module](self).
#[derive(Clone, Debug)]
pub struct Coverage {
    /// How often each thing happened.
    times: Vec<u8>,
}

impl Default for Coverage {
    fn default() -> Self {
        Self { times: vec![0; PLACES] }
    }
}

impl Coverage {
    /// Every number of [`Self::covered`] is below this.
    pub const NUMBERS: usize = PLACES * STEPS.len();

    /// Something happened.
    pub fn note(&mut self, what: impl Hash) {
        let mut hasher = DefaultHasher::new();
        what.hash(&mut hasher);
        let place = hasher.finish() as usize % PLACES;
        self.times[place] = self.times[place].saturating_add(1);
    }

    /// All that the world covers.
    pub fn covered(&self) -> impl Iterator<Item = usize> + '_ {
        self.times.iter().enumerate().flat_map(|(place, times)| {
            let steps = STEPS.iter().take_while(|least| *times >= **least).count();
            (0..steps).map(move |step| place * STEPS.len() + step)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happens_more_often_counts_as_something_else() {
        let mut coverage = Coverage::default();
        assert_eq!(coverage.covered().count(), 0);
        coverage.note("a view begins");
        let once: Vec<usize> = coverage.covered().collect();
        coverage.note("a view begins");
        let twice: Vec<usize> = coverage.covered().collect();
        assert_eq!((once.len(), twice.len()), (1, 2));
        assert_eq!(once[0], twice[0]);
        (0..300).for_each(|_| coverage.note("a view begins"));
        assert_eq!(coverage.covered().count(), STEPS.len());
        coverage.note("a replica waits");
        assert_eq!(coverage.covered().count(), STEPS.len() + 1);
        assert!(coverage.covered().all(|number| number < Coverage::NUMBERS));
    }
}
