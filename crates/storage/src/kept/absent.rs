//! Sections that a state lacks which is to be saved: they are in files only, and cannot be read
//! there. Whoever has states in memory is told, and mends what can be mended. What is absent again
//! after that was told to somebody, who has mended what there was to mend, nobody has.

use std::collections::BTreeSet;

/// See the [module](self).
#[derive(Default)]
pub(super) struct Absences {
    /// Nobody has been told of these.
    found: BTreeSet<u32>,
    /// These are to be mended.
    told: BTreeSet<u32>,
    /// Of these, what could be mended has been since.
    tried: BTreeSet<u32>,
}

impl Absences {
    /// A state lacks these. Gives those of them that nobody has.
    pub fn find(&mut self, sections: &[u32]) -> Vec<u32> {
        self.found.extend(sections);
        sections.iter().filter(|section| self.tried.contains(section)).copied().collect()
    }

    /// What was found is being told.
    pub fn tell(&mut self) {
        self.told.append(&mut self.found);
    }

    /// Somebody has mended what could be mended of what was told. Gives that, and says whether
    /// nothing else was found meanwhile.
    pub fn mend(&mut self) -> (Vec<u32>, bool) {
        let told = std::mem::take(&mut self.told);
        self.tried.extend(&told);
        (told.into_iter().collect(), self.found.is_empty())
    }
}
