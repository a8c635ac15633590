//! What a core hears of results, and what it tells clients itself: two capabilities, for chains.

use crate::driver::Driver;
use crate::halt::Halt;
use crate::machine::Machine;
use crate::observed::Observed;
use crate::replies::in_messages;
use crate::store::Disk;
use pentarchy_core::erased::CoreEvent;
use pentarchy_core::executor::Notice;
use pentarchy_core::ids::{ClientId, Slot};
use pentarchy_core::ports::client::{Reply, ToClient};
use pentarchy_core::ports::replica::replying;
use pentarchy_core::ports::replica::slot_results::{self, Results};
use pentarchy_core::protocol::Rules;
use std::collections::BTreeMap;

/// What came of a slot, for a core that wants to know.
pub struct SlotResults {
    /// None if the core does not want to know.
    by_client: Option<BTreeMap<ClientId, Vec<Reply>>>,
    /// The host replies to clients.
    host_replies: bool,
}

impl SlotResults {
    pub fn new(rules: &Rules) -> Self {
        let by_client = rules.hears_slot_results.then(BTreeMap::new);
        Self { by_client, host_replies: !rules.replies_itself }
    }

    /// Of a slot of which the core hears nothing.
    pub const fn for_clients(rules: &Rules) -> Self {
        Self { by_client: None, host_replies: !rules.replies_itself }
    }

    /// Takes note of a reply. True if the host tells the client.
    pub fn note(&mut self, client: &ClientId, reply: &Reply) -> bool {
        if let Some(by_client) = &mut self.by_client {
            by_client.entry(*client).or_default().push(reply.clone());
        }
        self.host_replies
    }

    /// The same of all that a client may be told: events the host tells in any case.
    pub fn note_notice(&mut self, client: &ClientId, notice: &Notice) -> bool {
        match notice {
            Notice::Reply(reply) => self.note(client, reply),
            Notice::Event { .. } => true,
        }
    }

    /// What the core is told of this slot.
    pub fn event(self, slot: Slot) -> Option<CoreEvent> {
        let results = |(client, replies)| Results::new(client, replies);
        let results = self.by_client?.into_iter().map(results).collect();
        Some(CoreEvent::Input(slot_results::Input::Executed { slot, results }.into()))
    }
}

impl<D: Disk> Machine<'_, D> {
    /// The core says something to a client.
    pub(crate) fn on_replying(&mut self, output: replying::Output, driver: &mut impl Driver) {
        match output {
            replying::Output::Reply { client, replies } => {
                self.reply(client, replies, driver);
            }
            replying::Output::Tell { client, message } => {
                self.tell_client(client, ToClient::Protocol(message), driver);
            }
        }
    }

    /// Tells a client what is final, once what the core asked to be kept before is durable.
    fn reply(&mut self, client: ClientId, replies: Vec<Reply>, driver: &mut impl Driver) {
        driver.observe(Observed::Answered(&client, &replies));
        if !self.replies.contains(&client) {
            return;
        }
        let view = self.engine.core.hint(&client);
        for replies in in_messages(self.as_told(replies)) {
            self.tell_client(client, ToClient::Replies { view, replies }, driver);
        }
    }

    /// Has a core that replies itself answer what is settled, at the end of the round. False if the
    /// host has to.
    pub(crate) fn asks_core(&mut self, client: ClientId, replies: &[Reply]) -> bool {
        let is_asked = self.engine.core.rules().replies_itself;
        if is_asked && !replies.is_empty() {
            let asked = self.admission.asked_again.entry(client).or_default();
            asked.extend(replies.iter().map(|reply| (reply.number, reply.clone())));
        }
        is_asked
    }

    /// Has the core answer what clients asked for in this round that is settled: all that one of
    /// them asked for at once. While it hears nothing, nobody is answered: clients ask again.
    pub(crate) fn ask_core(&mut self, driver: &mut impl Driver) -> Result<(), Halt> {
        for (client, replies) in std::mem::take(&mut self.admission.asked_again) {
            let replies = replies.into_values().collect();
            let asked = replying::Input::Asked { client, replies };
            self.step(CoreEvent::Input(asked.into()), driver)?;
        }
        Ok(())
    }
}
