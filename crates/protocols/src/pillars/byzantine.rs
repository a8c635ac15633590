//! A lying replica of several pillars: a liar in each, with one key and one device for each pillar,
//! and what can be made of several.
//!
//! Its lies are those of the pillar's protocol. The number of the pillar is in the lowest bits of
//! `choice`, and above them that of the device which is to certify the lie, so that a liar may use
//! one pillar's device for what it says in another.

use super::merge::Rows;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::hash::Hasher;
use pentarchy_core::Bytes;
use pentarchy_core::counter::{Instance, Position, Refused, TrustedMac, Ui};
use pentarchy_core::digest::Digest;
use pentarchy_core::forge::{Forger, Hand, Lie, MakeForger};
use pentarchy_core::ids::ReplicaId;
use pentarchy_core::membership::Membership;
use pentarchy_core::request::Envelope;

/// Bits of `choice` for a number of a pillar.
const BITS: u32 = 3;

/// See the head of this file.
pub struct Byzantine {
    liars: Vec<Box<dyn Forger>>,
}

/// The devices of the liar, of which one is used.
struct Device<'a> {
    hand: &'a mut dyn Hand,
    instance: Instance,
}

impl Hand for Device<'_> {
    fn sign(&self, digest: &Digest) -> [u8; 64] {
        self.hand.sign(digest)
    }
    fn certify(
        &mut self,
        _instance: Instance,
        position: Position,
        digest: &Digest,
    ) -> Result<Ui, Refused> {
        self.hand.certify(self.instance, position, digest)
    }
    fn mac(&mut self, _instance: Instance, digest: &Digest) -> Result<TrustedMac, Refused> {
        self.hand.mac(self.instance, digest)
    }
}

impl Byzantine {
    /// A liar that has heard nothing, and that lies in each pillar as these do.
    #[must_use]
    pub fn boxed(me: ReplicaId, membership: &Membership, make: MakeForger) -> Box<dyn Forger> {
        let base = Rows::of(membership).base();
        let liar = |pillar| make(me, &membership.of_pillar(pillar, base));
        Box::new(Self { liars: (0..membership.lane.pillars).map(liar).collect() })
    }

    fn count(&self) -> u64 {
        self.liars.len() as u64
    }
}

impl Forger for Byzantine {
    fn hear(&mut self, wire: &Bytes) {
        let Some((pillar, rest)) = wire.split_last() else { return };
        if let Some(liar) = self.liars.get_mut(usize::from(*pillar)) {
            liar.hear(&wire.slice(..rest.len()));
        }
    }

    fn hear_request(&mut self, envelope: &Arc<Envelope>) {
        // In whatever pillar: it may have another one order what is not its own.
        self.liars.iter_mut().for_each(|liar| liar.hear_request(envelope));
    }

    fn lies(&self) -> Vec<Lie> {
        let mut lies = Vec::new();
        for (pillar, liar) in (0..).zip(&self.liars) {
            for lie in liar.lies() {
                // Mostly with its own device, and now and then with the next one's.
                let next = (pillar + 1) % self.count();
                let instance =
                    if lie.choice % 4 == 3 || lie.slot.0 % 8 == 7 { next } else { pillar };
                let choice = ((lie.choice << BITS | instance) << BITS) | pillar;
                lies.push(Lie { choice, ..lie });
            }
        }
        lies
    }

    fn tell(&mut self, lie: &Lie, hand: &mut dyn Hand) -> Option<Bytes> {
        let number = |bits: u64| (bits & ((1 << BITS) - 1)) as u8;
        let (pillar, instance) = (number(lie.choice), number(lie.choice >> BITS));
        let inner = Lie { choice: lie.choice >> (2 * BITS), ..*lie };
        let mut device = Device { hand, instance: Instance(instance) };
        let liar = self.liars.get_mut(usize::from(pillar))?;
        let mut wire = liar.tell(&inner, &mut device)?.to_vec();
        wire.push(pillar);
        Some(Bytes::from(wire))
    }

    fn fingerprint(&self, hasher: &mut dyn Hasher) {
        self.liars.iter().for_each(|liar| liar.fingerprint(hasher));
    }

    fn boxed_clone(&self) -> Box<dyn Forger> {
        let liars = self.liars.iter().map(|liar| liar.boxed_clone()).collect();
        Box::new(Self { liars })
    }
}
