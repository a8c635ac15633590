//! No correct replica contradicts itself: of everything that has a topic it says one thing, to
//! whomever, and also after a crash with its disk. If it signs, there would be evidence against it
//! otherwise, whether or not anybody has both halves. What counters certify is looked at by
//! [`super::counter_uniqueness`].

use super::{Broken, Verdict};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Epoch, ReplicaId};
use pentarchy_core::protocol::Topic;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// The name of the property.
pub const PROPERTY: &str = "self_contradiction";

/// What each correct replica said in its present life, in one epoch.
#[derive(Default)]
pub struct SelfContradiction {
    said: BTreeMap<ReplicaId, (Epoch, BTreeMap<Topic, Digest>)>,
}

impl SelfContradiction {
    /// A correct replica said something.
    ///
    /// # Errors
    /// If it had said something else of the same.
    pub fn said(&mut self, replica: ReplicaId, topic: Topic, digest: Digest) -> Verdict {
        match self.said.entry(replica).or_default().1.entry(topic) {
            Entry::Vacant(place) => {
                place.insert(digest);
                Ok(())
            }
            Entry::Occupied(known) if *known.get() == digest => Ok(()),
            Entry::Occupied(known) => {
                let Topic { kind, pillar: _, view, slot } = topic;
                let (first, what) = (known.get(), format!("its {kind} of {view} {slot}"));
                let detail = format!("{replica} says {first} and then {digest} in {what}");
                Err(Broken::new(PROPERTY, detail))
            }
        }
    }

    /// A replica is in an epoch: what it said in others is about something else.
    pub fn in_epoch(&mut self, replica: ReplicaId, epoch: Epoch) {
        let (known, said) = self.said.entry(replica).or_default();
        if *known != epoch {
            (*known, *said) = (epoch, BTreeMap::new());
        }
    }

    /// A replica goes on without its memory, as somebody else.
    pub fn restarted(&mut self, replica: ReplicaId) {
        self.said.remove(&replica);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pentarchy_core::ids::{Slot, View};

    #[test]
    fn who_says_two_things_of_one_is_named() {
        let (me, a, b) = (ReplicaId(1), Digest([1; 32]), Digest([2; 32]));
        let vote = |slot| Topic { kind: "vote", pillar: 0, view: View(1), slot: Slot(slot) };
        let mut checker = SelfContradiction::default();
        checker.said(me, vote(3), a).unwrap();
        checker.said(me, vote(3), a).unwrap();
        checker.said(me, vote(4), b).unwrap();
        checker.said(me, Topic { kind: "order", ..vote(3) }, b).unwrap();
        checker.said(ReplicaId(2), vote(3), b).unwrap();
        let broken = checker.said(me, vote(3), b).unwrap_err();
        assert_eq!(broken.property, PROPERTY);
        assert!(broken.detail.starts_with("r1 "), "{broken}");
        checker.in_epoch(me, Epoch(0));
        assert!(checker.said(me, vote(3), b).is_err());
        checker.in_epoch(me, Epoch(1));
        checker.said(me, vote(3), b).unwrap();
        checker.restarted(me);
        checker.said(me, vote(3), a).unwrap();
    }
}
