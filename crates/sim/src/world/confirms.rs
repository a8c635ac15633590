//! What correct replicas would confirm to clients, compared with what becomes final.

use super::World;
use crate::checker::Verdict;
use crate::time::Micros;
use pentarchy_core::ids::{Slot, View};

/// So long it may do without a look, if nothing else changes.
const LOOK_EVERY: Micros = 20_000;

/// Where a replica stood when it was looked at, and when to look again.
#[derive(Default)]
pub(super) struct Looked {
    at: Option<(View, &'static str, Slot, Slot)>,
    again: Micros,
}

impl World<'_> {
    /// Looks at what a correct replica would confirm, if it stands elsewhere than before, or has
    /// not been looked at for a while. What one confirms behind the end of its epoch was executed
    /// by nobody.
    pub(super) fn look_at_confirmed(&mut self, index: usize) -> Verdict {
        let replica = &mut self.replicas[index];
        // Who has no counter any more confirms until it notices.
        let confirms = !replica.crashed && !replica.behind && replica.adversary.is_none();
        if !confirms || !replica.node.core().rules().speculative {
            return Ok(());
        }
        // It says so to nobody before what makes it confirm a place is on its disk.
        if !replica.node.kept().is_none_or(|kept| kept.has_all()) {
            return Ok(());
        }
        let status = replica.node.core().status();
        let at = (status.view, status.phase, status.committed, status.stable);
        if replica.looked.at == Some(at) && self.now < replica.looked.again {
            return Ok(());
        }
        replica.looked = Looked { at: Some(at), again: self.now + LOOK_EVERY };
        let executed = replica.node.executor().executed();
        let places = replica.node.core().confirms();
        let mut places = places.into_iter().filter(|place| place.slot <= executed);
        places.try_for_each(|place| self.oracle.confirmed(replica.id, place))
    }
}
