//! Parts of states, which replicas give to a machine that is to become a member.

use crate::completion::{Completion, Completions};
use bytes::Bytes;
use pentarchy_core::ids::ReplicaId;
use pentarchy_core::limits::TRANSFER_CHUNKS_IN_FLIGHT;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What replicas were asked for.
#[derive(Default)]
pub struct Fetching {
    /// Where answers go.
    to: Option<Arc<Completions>>,
    /// Questions to each replica that it may still answer. It may have lost some of them.
    open: BTreeMap<ReplicaId, usize>,
}

impl Fetching {
    /// A replica is asked for one more.
    pub fn asked(&mut self, replica: ReplicaId, to: Arc<Completions>) {
        self.to = Some(to);
        let open = self.open.entry(replica).or_default();
        *open = TRANSFER_CHUNKS_IN_FLIGHT.min(*open + 1);
    }

    /// A replica sent one. This client drops what it did not ask for, so that no replica can fill
    /// its memory.
    pub fn came(&mut self, from: ReplicaId, part: Bytes) {
        let Some(open) = self.open.get_mut(&from).filter(|open| **open > 0) else { return };
        *open -= 1;
        if let Some(to) = &self.to {
            Completion::queue(to, from.0.into()).complete(Ok(part));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_replica_is_heard_as_often_as_it_was_asked() {
        let (mut fetching, completions) = (Fetching::default(), Completions::new());
        let part = Bytes::from_static(b"part");
        fetching.came(ReplicaId(1), part.clone());
        fetching.asked(ReplicaId(1), completions.clone());
        for from in [1, 1, 0] {
            fetching.came(ReplicaId(from), part.clone());
        }
        let mut came = Vec::new();
        completions.wait(Duration::ZERO, &mut came);
        assert_eq!(came, [(1, Ok(part.clone()))]);

        (0..100).for_each(|_| fetching.asked(ReplicaId(0), completions.clone()));
        (0..100).for_each(|_| fetching.came(ReplicaId(0), part.clone()));
        assert_eq!(completions.wait(Duration::ZERO, &mut came), TRANSFER_CHUNKS_IN_FLIGHT);
    }
}
