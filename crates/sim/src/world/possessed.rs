//! Machines that have left the group, and that an attacker has compromised. The attacker finds what
//! a correct member keeps that leaves: its identity key, by which clients know it that have not
//! heard of the change yet, and no key by which it signed. With the faulty members, these machines
//! tell a client one lie. Nobody counts them among the faulty of any configuration, so a client may
//! not count what they say.

use super::{World, is_sound};
use crate::key_ring::KeyRing;
use crate::packet::{Address, Packet, member_of, place_of};
use pentarchy_core::Bytes;
use pentarchy_core::auth::Signature;
use pentarchy_core::ids::{ReplicaId, View};
use pentarchy_core::membership::Membership;
use pentarchy_core::ports::client::{Outcome, Reply, ToClient, ToReplica};
use pentarchy_core::welcome::Welcome;
use pentarchy_core::wire::Wire as _;

/// What all of them say.
const LIE: Bytes = Bytes::from_static(b"a lie");

impl World<'_> {
    /// A correct member has left the group, and an attacker compromises its machine.
    pub(super) fn possess(&mut self, id: ReplicaId) {
        if self.options.possesses {
            self.possessed.insert(id);
        }
    }

    /// A client asks a machine that has left the group: everybody who lies answers it.
    pub(super) fn deceive(&mut self, from: Address, packet: &Packet) {
        let (Address::Client(index), Packet::ToReplica(bytes)) = (from, packet) else { return };
        let Some(client) = self.clients.get(usize::from(index)) else { return };
        let Some(group) = client.node.membership().cloned() else { return };
        let lie = match ToReplica::from_bytes(bytes) {
            Ok(ToReplica::Request(envelope)) => {
                let reply = |number| Reply { number, outcome: Outcome::Done(LIE) };
                let numbers = envelope.requests.iter().map(|request| request.number);
                ToClient::Replies { view: View(0), replies: numbers.map(reply).collect() }
            }
            Ok(ToReplica::Query { number, .. }) => ToClient::Answer { number, result: LIE },
            _ => return,
        };
        let packet = Packet::ToClient(client.node.configuration(), lie.to_bytes());
        for liar in self.liars(&group) {
            self.transmit(Address::Replica(liar), from, packet.clone());
        }
    }

    /// The members that lie, or whose machines do.
    fn liars(&self, group: &Membership) -> Vec<ReplicaId> {
        let lies = |id: &ReplicaId| {
            let runs = usize::from(id.0) < self.replicas.len();
            let faulty = self.options.byzantine.iter().find(|(liar, _)| liar == id);
            self.possessed.contains(*id) || runs && faulty.is_some_and(|(_, it)| !is_sound(it))
        };
        group.ids().filter_map(|id| place_of(group, id)).filter(lies).collect()
    }

    /// Whether a machine that has left speaks as a member to this client, by what it has.
    pub(super) fn convinces(&self, liar: ReplicaId, client: usize) -> bool {
        let node = &self.clients[client].node;
        let Some(group) = node.membership() else { return false };
        let Some(member) = member_of(group, liar) else { return false };
        let mut channel = [0; 32];
        (channel[0], channel[1]) = (liar.0 as u8, client as u8);
        let statement = Welcome::statement(&group.configuration, &channel);
        let has_key = self.rings[usize::from(liar.0)].lock().has(&member.signing);
        let signature = match has_key {
            true => self.crypto.sign(liar, &member.signing, &statement),
            false => KeyRing::nothing(&statement),
        };
        let number = node.configuration();
        let welcome = Welcome { number, signature: Signature(signature) };
        let here = (number, &group.configuration);
        welcome.convinces(here, &channel, &member.signing, |key, digest, signature| {
            self.crypto.is_signed((liar, key), digest, signature)
        })
    }
}
