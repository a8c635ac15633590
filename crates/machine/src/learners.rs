//! Machines that are to become members learn the state before they are. They have no channel of a
//! peer yet, so they ask as clients; what they do not get costs the group nothing.

use crate::driver::Driver;
use crate::machine::Machine;
use crate::store::Disk;
use pentarchy_core::configuration::MemberEntry;
use pentarchy_core::executor::Executor;
use pentarchy_core::ids::{ClientId, MemberId, Slot};
use pentarchy_core::limits::{LEARNERS_STATE_MILLIS, LEARNERS_STATES};
use pentarchy_core::membership::Base;
use pentarchy_core::ports::client::ToClient;
use pentarchy_core::snapshot::Snapshot;
use pentarchy_core::transfer::{Held, Message};
use pentarchy_core::wire::Wire as _;
use std::collections::VecDeque;

/// States that are kept for them. A stable state is soon dropped for the next one, so a machine far
/// away would always ask for one that is gone, and could never find one that `f + 1` replicas have.
#[derive(Default)]
pub struct KeptForLearners(VecDeque<(u64, Snapshot)>);

impl KeptForLearners {
    /// This state is stable. Of all states in a period of agreed time, replicas keep the first: so
    /// they keep the same ones, but for the first period in which they look.
    fn stable(&mut self, state: &Snapshot) {
        let Some(time) = Executor::time_of(state) else { return };
        let period = time.0 / LEARNERS_STATE_MILLIS;
        if self.0.back().is_none_or(|(last, _)| period > *last) {
            self.0.push_back((period, state.clone()));
            self.0.drain(..self.0.len().saturating_sub(LEARNERS_STATES));
        }
    }

    fn bases(&self) -> Vec<Base> {
        let base = |(_, state): &(u64, Snapshot)| Base { slot: state.slot, state: state.digest };
        self.0.iter().map(base).collect()
    }
}

impl Held for KeptForLearners {
    fn snapshot(&self, slot: Slot) -> Option<&Snapshot> {
        self.0.iter().map(|(_, state)| state).find(|state| state.slot == slot)
    }
    fn latest(&self) -> Option<&Snapshot> {
        self.0.back().map(|(_, state)| state)
    }
}

impl<D: Disk> Machine<'_, D> {
    /// A machine asks for a part of a state.
    pub(crate) fn on_learner(
        &mut self,
        client: ClientId,
        question: &Message,
        driver: &mut impl Driver,
    ) {
        let learner = self.learner(&client).filter(|_| !self.is_resuming());
        let queued = driver.client_queued_bytes(&client);
        let Some(learner) = learner.filter(|learner| self.may_ask(*learner, queued)) else {
            self.engine.counters.transfer_dropped += 1;
            return;
        };
        let answer = self.transfer.answer(learner, question, &self.for_learners);
        driver.send_client(&client, &ToClient::State(answer.to_bytes()));
    }

    /// The states that are kept for this client: none unless it is to become a member.
    pub(crate) fn states_for(&mut self, client: &ClientId) -> Vec<Base> {
        self.keep_for_learners();
        self.learner(client).map_or_else(Vec::new, |_| self.for_learners.bases())
    }

    /// Keeps states as long as a change is pending with which somebody joins.
    pub(crate) fn keep_for_learners(&mut self) {
        if self.joins().next().is_none() {
            self.for_learners = KeptForLearners::default();
            return;
        }
        let stable = self.engine.core.status().stable;
        if let Some(state) = self.executor.snapshot(stable) {
            self.for_learners.stable(state);
        }
    }

    /// The member that a client is to become.
    fn learner(&self, client: &ClientId) -> Option<MemberId> {
        self.joins().find(|next| next.identity == client.0).map(|next| next.id)
    }

    /// The members of the next configuration that are none of this one.
    fn joins(&self) -> impl Iterator<Item = &MemberEntry> {
        // What is only speculated may be taken back.
        let pending = self.executor.pending_change();
        let pending = pending.filter(|_| self.executor.readable().is_some());
        let members = &self.membership().members;
        let is_new = |next: &&MemberEntry| members.iter().all(|member| member.id != next.id);
        pending.into_iter().flat_map(|(change, _)| &change.next.members).filter(is_new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pentarchy_core::ids::Millis;
    use pentarchy_core::tree::Tree;
    use pentarchy_core::wire::Writer;

    fn state(slot: u64, millis: u64) -> Snapshot {
        let mut header = Writer::default();
        Slot(slot).encode(&mut header);
        Millis(millis).encode(&mut header);
        Snapshot::new(Slot(slot), Tree::of(Slot(slot), [header.into_vec()]))
    }

    #[test]
    fn replicas_keep_the_same_states_whenever_they_began() {
        let times = [10, 1_990, 2_000, 2_001, 3_999, 4_400, 9_000, 11_000];
        let states: Vec<_> = (1..).zip(times).map(|(slot, time)| state(slot, time)).collect();
        let kept_from = |first: usize, last: usize| {
            let mut kept = KeptForLearners::default();
            states[first..last].iter().for_each(|state| kept.stable(state));
            kept.bases().iter().map(|base| base.slot.0).collect::<Vec<_>>()
        };
        assert_eq!(kept_from(0, 6), [1, 3, 6]);
        assert_eq!(kept_from(0, 8), [6, 7, 8]);
        assert_eq!(kept_from(3, 6), [4, 6], "it did not see the first one of a period");
        assert_eq!(kept_from(3, 8), kept_from(0, 8));
        let mut kept = KeptForLearners::default();
        kept.stable(&states[0]);
        kept.stable(&Snapshot::new(Slot(9), Tree::of(Slot(9), [vec![1]])));
        assert_eq!(kept.snapshot(Slot(1)), Some(&states[0]));
        assert_eq!((kept.snapshot(Slot(2)), kept.snapshot(Slot(9))), (None, None));
    }
}
