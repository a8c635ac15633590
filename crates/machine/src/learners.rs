//! Machines that are to become members learn the state before they are. They have no channel of a
//! peer yet, so they ask as clients. The group does not wait for an answer to reach them.

use crate::driver::Driver;
use crate::learnable::KeptForLearners;
use crate::machine::Machine;
use crate::store::Disk;
use pentarchy_core::configuration::MemberEntry;
use pentarchy_core::ids::{ClientId, MemberId, Slot};
use pentarchy_core::membership::Base;
use pentarchy_core::ports::client::ToClient;
use pentarchy_core::transfer::Message;
use pentarchy_core::wire::Wire as _;

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
        self.keep_for_learners(self.engine.core.status().stable);
        self.learner(client).map_or_else(Vec::new, |_| self.for_learners.bases())
    }

    /// Keeps states as long as a change is pending with which somebody joins. Those up to this slot
    /// are stable. To be called when another one is, and when a machine asks which there are.
    pub(crate) fn keep_for_learners(&mut self, stable: Slot) {
        if self.joins().next().is_none() {
            self.for_learners = KeptForLearners::default();
            return;
        }
        let states = self.executor.kept().filter(|state| state.slot <= stable);
        states.for_each(|state| self.for_learners.stable(state));
    }

    /// The member that a client is to become.
    fn learner(&self, client: &ClientId) -> Option<MemberId> {
        self.joins().find(|next| next.identity == client.0).map(|next| next.id)
    }

    /// The members of the next configuration that are none of this one.
    fn joins(&self) -> impl Iterator<Item = &MemberEntry> {
        let pending = self.executor.settled_change();
        let members = &self.membership().members;
        let is_new = |next: &&MemberEntry| members.iter().all(|member| member.id != next.id);
        pending.into_iter().flat_map(|(change, _)| &change.next.members).filter(is_new)
    }
}
