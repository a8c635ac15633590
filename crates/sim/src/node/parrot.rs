//! A faulty replica that repeats what others say as if it said so itself, and changes a byte of it
//! now and then. It knows nothing of its protocol, so whatever a replica forgets to check in a
//! statement of another, this says wrongly some day.

use super::{Act, ReplicaNode};
use crate::observation::Observation;
use crate::packet::{Address, Packet};
use crate::rng::Rng;
use pentarchy_core::Bytes;
use pentarchy_core::auth::{Auth, AuthTag, Checksum};
use pentarchy_core::authored;
use pentarchy_core::counter::Counters as _;
use pentarchy_core::erased::Outgoing;
use pentarchy_core::ids::ReplicaSet;
use std::collections::VecDeque;

/// Messages of others that it knows.
const HEARD_MAX: usize = 64;

/// A faulty replica that repeats what others say under its own name, with a changed byte.
pub struct Parrot {
    rng: Rng,
    /// Whether its own core is cut off, so that only the parrot uses the device's positions.
    alone: bool,
    rate_ppm: u32,
    heard: VecDeque<Bytes>,
}

impl Parrot {
    /// One that has heard nothing yet, and speaks in this many of a million rounds.
    #[must_use]
    pub const fn new(rng: Rng, alone: bool, rate_ppm: u32) -> Self {
        Self { rng, alone, rate_ppm, heard: VecDeque::new() }
    }

    /// Whether its core is kept from everything.
    pub const fn is_alone(&self) -> bool {
        self.alone
    }

    /// Takes note of a message of another replica.
    pub fn hear(&mut self, wire: &Bytes) {
        if self.heard.len() == HEARD_MAX {
            self.heard.pop_front();
        }
        self.heard.push_back(wire.clone());
    }

    /// What the parrot says now, and to which other replicas; in most rounds it says nothing.
    fn choose(&mut self, others: ReplicaSet) -> Option<(Bytes, ReplicaSet)> {
        if !self.rng.chance(self.rate_ppm) || self.heard.is_empty() {
            return None;
        }
        let index = self.rng.below(self.heard.len() as u64) as usize;
        let (_, _, mut body) = authored::divide(&self.heard[index]).ok()?;
        let body = body.rest();
        let body = if self.rng.percent(70) { self.change(&body) } else { body };
        let to = match self.rng.percent(60) {
            true => others,
            false => ReplicaSet(self.rng.next_u64() & others.0),
        };
        Some((body, to))
    }

    /// The same but for one byte: a number that is one off, or anything else.
    fn change(&mut self, body: &Bytes) -> Bytes {
        let mut body = body.to_vec();
        if body.is_empty() {
            return Bytes::new();
        }
        let at = self.rng.below(body.len() as u64) as usize;
        body[at] = match self.rng.below(3) {
            0 => body[at].wrapping_add(1),
            1 => body[at].wrapping_sub(1),
            _ => self.rng.next_u64() as u8,
        };
        Bytes::from(body)
    }
}

impl ReplicaNode<'_> {
    /// Lets a parrot know what another replica said.
    pub(super) fn teach(&mut self, wire: &Bytes) {
        if let Some(parrot) = self.faulty.as_mut().and_then(|faulty| faulty.parrot.as_mut()) {
            parrot.hear(wire);
        }
    }

    /// Says what another said, if it is a message of the protocol and the device certifies it.
    pub(super) fn repeat(&mut self, out: &mut Vec<Act>) {
        let others = self.others();
        let parrot = self.faulty.as_mut().and_then(|faulty| faulty.parrot.as_mut());
        let Some((body, to)) = parrot.and_then(|parrot| parrot.choose(others)) else { return };
        let Some(outgoing) = self.core().compose(&body) else { return };
        let Some(tag) = self.authenticate(&outgoing, out) else { return };
        let wire = authored::join(self.me(), &tag, &outgoing.body);
        for peer in to.iter() {
            let packet = Packet::Protocol(self.epoch(), wire.clone());
            out.push(Act::Send { to: Address::Replica(peer), packet });
        }
    }

    /// By its own key and device, unless the device refuses.
    fn authenticate(&self, outgoing: &Outgoing, out: &mut Vec<Act>) -> Option<AuthTag> {
        let Outgoing { auth, digest, .. } = outgoing;
        let mut devices = self.watch.device.lock().expect("a panic ends the world");
        Some(match *auth {
            Auth::Channel => AuthTag::Channel,
            Auth::Checksum => AuthTag::Checksum(Checksum::of(digest)),
            Auth::Signature => AuthTag::Signature(self.sign(digest)),
            Auth::Vector => AuthTag::Vector(self.macs(digest)),
            Auth::Usig(instance, position) => {
                let ui = devices.create(instance, position, digest).ok()?;
                let (epoch, digest) = (devices.epoch(), *digest);
                out.push(Act::Saw(Observation::Certified { epoch, ui, digest }));
                AuthTag::Usig(ui)
            }
            Auth::Mac(instance) => AuthTag::Mac(devices.of(instance).ok()?.mac(digest).ok()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pentarchy_core::ids::{ReplicaId, View};

    #[test]
    fn it_repeats_what_it_heard_with_at_most_one_other_byte() {
        let mut parrot = Parrot::new(Rng::new(1), true, 1_000_000);
        assert!(parrot.choose(ReplicaSet(6)).is_none(), "it has heard nothing");
        parrot.hear(&Bytes::new());
        assert!(parrot.choose(ReplicaSet(6)).is_none(), "that is no message");
        for view in 0..2 * HEARD_MAX as u64 {
            parrot.hear(&authored::encode(ReplicaId(2), &AuthTag::Channel, &View(view << 32)));
        }
        assert_eq!(parrot.heard.len(), HEARD_MAX);
        let said: Vec<_> = (0..200).filter_map(|_| parrot.choose(ReplicaSet(6))).collect();
        assert!(said.iter().all(|(body, to)| body.len() == 8 && to.0 & !6 == 0));
        let exact = |(body, _): &&(Bytes, ReplicaSet)| {
            let view = u64::from_le_bytes(body[..].try_into().unwrap());
            view & 0xffff_ffff == 0 && view >> 32 >= HEARD_MAX as u64 && view >> 32 < 128
        };
        let exact = said.iter().filter(exact).count();
        assert!((20..160).contains(&exact), "{exact} of 200");
    }
}
