//! What a faulty replica says beside, or instead of, what its core wants to say.

use super::{Act, ReplicaNode, SharedDevice};
use crate::crypto::Crypto;
use crate::observation::Observation;
use crate::packet::{Address, Packet, member_of};
use crate::rng::Rng;
use pentarchy_core::Bytes;
use pentarchy_core::counter::{Counters, Instance, Position, Refused, TrustedMac, Ui};
use pentarchy_core::digest::Digest;
use pentarchy_core::forge::{Forger, Hand, MakeForger};
use pentarchy_core::ids::{Epoch, Millis, ReplicaId, ReplicaSet};
use pentarchy_core::request::Envelope;
use pentarchy_core::wire::{Reader, Wire as _};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// Messages that a liar takes along into another epoch.
const HEARD_MAX: usize = 64;

/// A replica that nobody relies on: its device may refuse, and then it says nothing.
pub struct Fault {
    /// What it makes up, if it does.
    pub lying: Option<Lying>,
    /// How it abuses what replicas say to each other about epochs, if it does.
    pub usurping: Option<super::Usurping>,
    /// How it speaks in clients' names, if it does.
    pub impostor: Option<super::Impostor>,
    /// How it repeats what others say, if it does.
    pub parrot: Option<super::Parrot>,
    /// Whether the replica takes requests also of clients that its configuration does not list.
    pub lets_anyone_in: bool,
}

/// A liar in the place of a core, or beside one.
pub struct Lying {
    /// What it could say.
    pub forger: Box<dyn Forger>,
    /// What makes such a forger for another epoch.
    pub make: MakeForger,
    /// Its choices.
    pub rng: Rng,
    /// The last messages of others that it heard, of whatever epoch.
    pub heard: VecDeque<Bytes>,
    /// The core inside hears nothing and says nothing.
    pub alone: bool,
    /// In how many of a million rounds it lies.
    pub rate_ppm: u32,
    /// For so long it keeps what it hears, and does not lie.
    pub quiet_ms: u64,
    /// The time at its first round.
    pub began: Option<Millis>,
}

/// Key and device of the liar, and of nobody else.
struct Own<'a> {
    id: ReplicaId,
    key: [u8; 32],
    crypto: &'a Crypto,
    device: &'a SharedDevice,
    certified: Vec<(Epoch, Ui, Digest)>,
}

impl Hand for Own<'_> {
    fn sign(&self, digest: &Digest) -> [u8; 64] {
        self.crypto.sign(self.id, &self.key, digest)
    }

    fn certify(
        &mut self,
        instance: Instance,
        position: Position,
        digest: &Digest,
    ) -> Result<Ui, Refused> {
        let mut device = self.device.lock().expect("a panic ends the world");
        let ui = device.create(instance, position, digest)?;
        self.certified.push((device.epoch(), ui, *digest));
        Ok(ui)
    }

    fn mac(&mut self, instance: Instance, digest: &Digest) -> Result<TrustedMac, Refused> {
        self.device.lock().expect("a panic ends the world").of(instance)?.mac(digest)
    }
}

impl ReplicaNode<'_> {
    fn lying(&mut self) -> Option<&mut Lying> {
        self.faulty.as_mut()?.lying.as_mut()
    }

    /// Whether the core inside is kept from everything.
    pub(super) fn is_mute(&self) -> bool {
        self.faulty.as_ref().is_some_and(|Fault { lying, parrot, .. }| {
            let is_mute = lying.as_ref().is_some_and(|lying| lying.alone);
            is_mute || parrot.as_ref().is_some_and(super::Parrot::is_alone)
        })
    }

    /// Lets the liar know what its own core said, which was in this epoch. In another one, the liar
    /// begins anew, with the last messages of others: votes, certificates and proofs that mean
    /// nothing there. The liar forgets what it certified itself, or it would take those positions
    /// of its device for used.
    pub(super) fn overhear_itself(&mut self, epoch: Epoch) {
        for wire in core::mem::take(&mut self.watch.said) {
            self.overhear(&wire);
        }
        if epoch != self.watch.membership.epoch {
            let (me, membership) = (self.me(), self.watch.membership.clone());
            if let Some(lying) = self.lying() {
                lying.forger = (lying.make)(me, &membership);
                lying.heard.iter().for_each(|wire| lying.forger.hear(wire));
            }
        }
    }

    /// Lets the liar know what was said.
    pub(super) fn overhear(&mut self, wire: &Bytes) {
        let (me, author) = (self.me(), ReplicaId::decode(&mut Reader::new(wire)));
        if let Some(lying) = self.lying() {
            lying.forger.hear(wire);
            if author == Ok(me) {
                return;
            }
            if lying.heard.len() == HEARD_MAX {
                lying.heard.pop_front();
            }
            lying.heard.push_back(wire.clone());
        }
    }

    /// Lets the liar know what a client wants.
    pub(super) fn overhear_request(&mut self, envelope: &Arc<Envelope>) {
        if let Some(lying) = self.lying() {
            lying.forger.hear_request(envelope);
        }
    }

    /// Says something that is not so, now and then, to some of the others.
    pub(super) fn lie(&mut self, now: Millis, out: &mut Vec<Act>) {
        let (others, epoch) = (self.others(), self.epoch());
        let Self { id, faulty, crypto, watch, .. } = self;
        let Some(lying) = faulty.as_mut().and_then(|fault| fault.lying.as_mut()) else { return };
        let began = *lying.began.get_or_insert(now);
        if now.0 < began.0 + lying.quiet_ms || !lying.rng.chance(lying.rate_ppm) {
            return;
        }
        let lies = lying.forger.lies();
        if lies.is_empty() {
            return;
        }
        // A kind first, or the many lies about slots would leave little to all others.
        let kinds: BTreeSet<&str> = lies.iter().map(|lie| lie.kind).collect();
        let kinds: Vec<&str> = kinds.into_iter().collect();
        let kind = *lying.rng.pick(&kinds);
        let lies: Vec<_> = lies.into_iter().filter(|lie| lie.kind == kind).collect();
        let lie = *lying.rng.pick(&lies);
        let key = member_of(&watch.membership, *id).expect("it has a place").signing;
        let mut own = Own { id: *id, key, crypto, device: &watch.device, certified: Vec::new() };
        let told = lying.forger.tell(&lie, &mut own);
        let to = match lying.rng.percent(60) {
            true => others,
            false => ReplicaSet(lying.rng.next_u64() & others.0),
        };
        for (epoch, ui, digest) in own.certified {
            out.push(Act::Saw(Observation::Certified { epoch, ui, digest }));
        }
        if let Some(wire) = told {
            out.push(Act::Saw(Observation::Lied { to, lie }));
            for peer in to.iter() {
                let packet = Packet::Protocol(epoch, wire.clone());
                out.push(Act::Send { to: Address::Replica(peer), packet });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::client_id;
    use crate::devices::SimDevices;
    use crate::node::Parts;
    use crate::service::{Journal, Registers};
    use crate::tests::start_correct;
    use pentarchy_core::erased::CoreEvent;
    use pentarchy_core::executor::Executor;
    use pentarchy_core::forge::Lie;
    use pentarchy_core::membership::Membership;
    use pentarchy_core::ports::client::ToReplica;
    use pentarchy_core::ports::replica::Input;
    use pentarchy_core::protocol::{Memory, Setup, Tuning};
    use pentarchy_core::request::{Draft, Request};
    use pentarchy_machine::Started;
    use std::hash::Hasher;
    use std::sync::Mutex;

    /// Knows no lie.
    struct Dumb;

    impl Forger for Dumb {
        fn hear(&mut self, _: &Bytes) {}
        fn hear_request(&mut self, _: &Arc<Envelope>) {}
        fn lies(&self) -> Vec<Lie> {
            Vec::new()
        }
        fn tell(&mut self, _: &Lie, _: &mut dyn Hand) -> Option<Bytes> {
            None
        }
        fn fingerprint(&self, _: &mut dyn Hasher) {}
        fn boxed_clone(&self) -> Box<dyn Forger> {
            Box::new(Self)
        }
    }

    fn make(_: ReplicaId, _: &Membership) -> Box<dyn Forger> {
        Box::new(Dumb)
    }

    /// How many events the core of the first primary takes that is a liar, alone or beside it, when
    /// a client asks for something and rounds end.
    fn taken(alone: bool) -> u64 {
        let (me, membership) = (ReplicaId(0), Arc::new(crate::world::membership(1, 3, 1)));
        let crypto = Arc::new(Crypto::new(1, 3, 1));
        let mut effects = Vec::new();
        let (tuning, memory) = (Tuning::default(), Memory::Volatile);
        let setup = Setup { me, membership: membership.clone(), fetch: None, memory, tuning };
        let core = Started { core: start_correct(setup, &mut effects), effects };
        let device = Arc::new(Mutex::new(SimDevices::new(me, 1, &crypto)));
        let client = client_id(1, 0);
        let keys = (crypto.clone(), Arc::from([client]), device);
        let journal = Journal::default();
        let service = Box::new(Registers::new(journal.clone()));
        let executes = (Executor::new(membership.clone(), service), journal);
        let (rng, forger) = (Rng::new(1), make(me, &membership));
        let lying = Lying {
            forger,
            make,
            rng,
            heard: VecDeque::new(),
            alone,
            rate_ppm: 0,
            quiet_ms: 0,
            began: None,
        };
        let faulty = Some(Fault {
            lying: Some(lying),
            usurping: None,
            impostor: None,
            parrot: None,
            lets_anyone_in: true,
        });
        let parts = Parts::of_one_epoch(me, &membership, keys, core, executes);
        let mut acts = Vec::new();
        let mut node = ReplicaNode::new(Parts { faulty, ..parts }, 0, &mut acts);
        let before = node.watch.steps;
        let requests = vec![Request { number: 1, operation: Bytes::new() }];
        let asks = Arc::new(crypto.seal(Draft { client, floor: 1, events: None, requests }));
        let packet = Packet::ToReplica(ToReplica::Request(asks.clone()).to_bytes());
        node.on_packet(Address::Client(0), &packet, &mut acts);
        let input = Input::Request { envelope: asks, settled: Vec::new(), passed_on: false };
        node.feed(CoreEvent::Input(input), &mut acts);
        for now in 1..4 {
            node.on_clock(now, Millis(now));
            node.on_round(&mut acts);
        }
        node.watch.steps - before
    }

    #[test]
    fn the_core_of_a_liar_that_is_alone_hears_neither_clients_nor_the_clock() {
        assert!(taken(false) >= 4);
        assert_eq!(taken(true), 0);
    }
}
