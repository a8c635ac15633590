//! What happens to clients, and what their applications do.

use super::log::{Deed, Place, What};
use super::{AFTERMATH, Happening, World};
use crate::checker::Verdict;
use crate::hostile::Harm;
use crate::packet::{Address, Packet};
use crate::swarm::Options;
use crate::time::Micros;
use crate::workload::ClientAct;
use pentarchy_core::ports::client::ToClient;
use pentarchy_core::wire::Wire as _;

impl World<'_> {
    pub(super) fn client_arrive(
        &mut self,
        from: Address,
        index: usize,
        packet: &Packet,
    ) -> Verdict {
        let Address::Replica(from) = from else { return Ok(()) };
        if let Some(hostile) = index.checked_sub(self.clients.len()) {
            self.hostile_arrive(hostile, packet);
            return Ok(());
        }
        if self.possessed.contains(from) && !self.convinces(from, index) {
            return Ok(());
        }
        self.audit.note(self.now, packet.kind(), 1_000 + index as u64, packet.bytes());
        let mut acts = core::mem::take(&mut self.client_acts);
        self.clients[index].node.on_packet(from, packet, &mut acts);
        self.client_round_by(index, self.now);
        self.carry_out_client(index, acts)
    }

    pub(super) fn client_round(&mut self, index: usize) -> Verdict {
        let client = &mut self.clients[index];
        if client.round_at != Some(self.now) {
            return Ok(());
        }
        client.round_at = None;
        let now = client.clock.read(self.now);
        let mut acts = core::mem::take(&mut self.client_acts);
        client.node.on_round(now, &mut acts);
        self.carry_out_client(index, acts)
    }

    pub(super) fn client_round_by(&mut self, index: usize, at: Micros) {
        let client = &mut self.clients[index];
        if client.round_at.is_none_or(|known| at < known) {
            client.round_at = Some(at);
            self.schedule(at, Happening::ClientRound(index));
        }
    }

    pub(super) fn carry_out_client(&mut self, index: usize, mut acts: Vec<ClientAct>) -> Verdict {
        let from = Address::Client(index as u16);
        let mut verdict = Ok(());
        for act in acts.drain(..) {
            match act {
                ClientAct::Send { to, packet } => self.transmit(from, to, packet),
                ClientAct::WakeAt(time) => {
                    // At least a millisecond on, as for replicas.
                    let at = self.clients[index].clock.when(time, self.now).max(self.now + 1_000);
                    self.client_round_by(index, at);
                }
                ClientAct::Completed { number, since, outcome } => {
                    self.last_completion = self.now;
                    self.note(Place::Client(index as u16), |_| {
                        What::Does(Deed::Other, format!("has its answer to {number}"))
                    });
                    self.took.push(self.now - since);
                    self.oracle.promptness.completed(self.now, since);
                    self.oracle.completed(self.clients[index].node.id(), number, outcome);
                }
                ClientAct::Heard { number, body } => {
                    self.last_completion = self.now;
                    let id = self.clients[index].node.id();
                    let place = Place::Client(index as u16);
                    self.note(place, |_| What::Does(Deed::Other, format!("hears event {number}")));
                    verdict = verdict.and(self.oracle.events().heard(id, number, &body));
                }
                ClientAct::Missed(upto) => {
                    self.last_completion = self.now;
                    let id = self.clients[index].node.id();
                    let place = Place::Client(index as u16);
                    self.note(place, |_| {
                        What::Does(Deed::Other, format!("misses events below {upto}"))
                    });
                    verdict = verdict.and(self.oracle.events().missed(id, upto));
                }
                ClientAct::ReadsAgain { number, base } => {
                    self.oracle.reads_again(self.clients[index].node.id(), number, base);
                }
                ClientAct::OrdersAgain(number) => {
                    self.oracle.orders_again(self.clients[index].node.id(), number);
                }
            }
        }
        self.client_acts = acts;
        verdict
    }

    /// The application submits its next operation, or waits if enough are outstanding.
    pub(super) fn think(&mut self, index: usize) -> Verdict {
        let client = &mut self.clients[index];
        if client.node.left() == 0 {
            return Ok(());
        }
        let Options { heal_at, rest_us, think_us, .. } = self.options;
        let next = self.now + 1 + self.rng.around(think_us);
        if (heal_at..heal_at + rest_us).contains(&self.now) {
            self.schedule(next.max(heal_at + rest_us), Happening::Think(index));
            return Ok(());
        }
        self.schedule(next, Happening::Think(index));
        self.give_up(index)?;
        let client = &mut self.clients[index];
        if client.node.outstanding() < self.options.outstanding {
            let mut acts = core::mem::take(&mut self.client_acts);
            let operation = client.node.submit(self.now, &mut acts);
            let number = operation.number;
            let place = Place::Client(index as u16);
            self.note(place, |_| What::Does(Deed::Other, format!("submits {number}")));
            let client = &self.clients[index];
            self.oracle.submitted(client.node.id(), operation);
            self.client_round_by(index, self.now);
            return self.carry_out_client(index, acts);
        }
        Ok(())
    }

    /// The application may wait no longer for something.
    fn give_up(&mut self, index: usize) -> Verdict {
        let mut acts = core::mem::take(&mut self.client_acts);
        let client = &mut self.clients[index];
        let Some(number) = client.node.give_up(&mut acts) else {
            self.client_acts = acts;
            return Ok(());
        };
        let place = Place::Client(index as u16);
        self.note(place, |_| What::Does(Deed::Other, format!("gives up {number}")));
        self.oracle.given_up(self.clients[index].node.id(), number);
        self.client_round_by(index, self.now);
        self.carry_out_client(index, acts)
    }

    /// A hostile client does some harm.
    pub(super) fn harm(&mut self, index: usize) {
        if self.now > self.options.heal_at + AFTERMATH {
            return;
        }
        let harm = self.hostile[index].act();
        self.do_harm(index, harm);
        let next = self.now + 5_000 + self.rng.below(400_000);
        self.schedule(next, Happening::Harm(index));
    }

    fn do_harm(&mut self, index: usize, harm: Harm) {
        let id = self.hostile[index].id();
        let from = Address::Client((self.clients.len() + index) as u16);
        harm.asked.into_iter().for_each(|operation| self.oracle.may_run(id, &operation));
        for (to, packet) in harm.packets {
            self.transmit(from, Address::Replica(to), packet);
        }
    }

    /// A hostile client is told something.
    fn hostile_arrive(&mut self, index: usize, packet: &Packet) {
        // Nobody else is there but administrators, who go by what they see of the group.
        if let Packet::ToClient(_, bytes) = packet
            && let Ok(message) = ToClient::from_bytes(bytes)
            && let Some(hostile) = self.hostile.get_mut(index)
        {
            let harm = hostile.hear(&message);
            self.do_harm(index, harm);
        }
    }
}
