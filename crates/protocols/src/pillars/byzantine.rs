//! A lying replica of several pillars: a liar in each, with one key and one device for each pillar,
//! and what can be made of several.
//!
//! Its lies are those of the pillar's protocol. The number of the pillar is in the lowest bits of
//! `choice`, and above them that of the device which is to certify the lie, so that a liar may use
//! one pillar's device for what it says in another. Beside them:
//!
//! | lie | what it says |
//! | --- | --- |
//! | `prepare-again` | after every second `prepare`: another batch there, by the next device |
//! | `moved` | what somebody said in a pillar (`slot`: which), in the next one |
//!
//! Neither does much alone: two PREPAREs for one slot have to come to different replicas, before
//! these tell each other, and a slot takes several votes. So while it is about one, the liar says
//! nothing else.

use super::merge::Rows;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::hash::{Hash as _, Hasher};
use pentarchy_core::Bytes;
use pentarchy_core::counter::{Instance, Position, Refused, TrustedMac, Ui};
use pentarchy_core::digest::Digest;
use pentarchy_core::forge::{Forger, Hand, Lie, MakeForger};
use pentarchy_core::ids::{ReplicaId, Slot, View};
use pentarchy_core::membership::Membership;
use pentarchy_core::request::Envelope;

/// Bits of `choice` for a number of a pillar.
const BITS: u32 = 3;

/// Of what was said in each pillar, the last is remembered, to be moved.
const MOVABLE_MAX: usize = 32;

/// So much of what was said in a pillar is moved, one right after the other.
const MOVED: usize = 16;

/// See the head of this file.
pub struct Byzantine {
    liars: Vec<Box<dyn Forger>>,
    /// What was said in each pillar, with a number.
    heard: Vec<VecDeque<(u64, Bytes)>>,
    /// The last of those numbers.
    last: u64,
    /// What is to be said next.
    again: Option<Lie>,
    /// From which pillar how much is to be moved next.
    moving: (u8, usize),
}

/// The devices of the liar, of which one is used.
struct Device<'a> {
    hand: &'a mut dyn Hand,
    instance: Instance,
    has_certified: bool,
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
        self.has_certified = true;
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
        let count = membership.lane.pillars;
        let liar = |pillar| make(me, &membership.of_pillar(pillar, base));
        Box::new(Self {
            liars: (0..count).map(liar).collect(),
            heard: vec![VecDeque::new(); usize::from(count)],
            last: 0,
            again: None,
            moving: (0, 0),
        })
    }

    fn next(&self, pillar: u8) -> u8 {
        ((usize::from(pillar) + 1) % self.liars.len()) as u8
    }

    /// The oldest of what was said in a pillar, to be said in the next one.
    fn movable(&self, pillar: u8) -> Option<Lie> {
        let (number, _) = self.heard.get(usize::from(pillar))?.front()?;
        let choice = u64::from(pillar);
        Some(Lie { kind: "moved", view: View(0), slot: Slot(*number), choice })
    }

    fn moved(&mut self, pillar: u8) -> Option<Bytes> {
        let left = if self.moving.1 > 0 { self.moving.1 } else { MOVED };
        self.moving = (pillar, left - 1);
        let (_, wire) = self.heard.get_mut(usize::from(pillar))?.pop_front()?;
        let mut wire = wire.to_vec();
        wire.push(self.next(pillar));
        Some(Bytes::from(wire))
    }
}

/// A lie of a pillar's liar, told there and certified by this device.
fn outer(lie: &Lie, instance: u8, pillar: u8) -> Lie {
    let choice = (lie.choice << BITS | u64::from(instance)) << BITS | u64::from(pillar);
    Lie { choice, ..*lie }
}

impl Forger for Byzantine {
    fn hear(&mut self, wire: &Bytes) {
        let Some((pillar, rest)) = wire.split_last() else { return };
        let Some(liar) = self.liars.get_mut(usize::from(*pillar)) else { return };
        let inner = wire.slice(..rest.len());
        liar.hear(&inner);
        self.last += 1;
        let heard = &mut self.heard[usize::from(*pillar)];
        heard.push_back((self.last, inner));
        if heard.len() > MOVABLE_MAX {
            heard.pop_front();
        }
    }

    fn hear_request(&mut self, envelope: &Arc<Envelope>) {
        // In whatever pillar: it may have another one order what is not its own.
        self.liars.iter_mut().for_each(|liar| liar.hear_request(envelope));
    }

    fn lies(&self) -> Vec<Lie> {
        if let Some(lie) = self.again {
            return vec![lie];
        }
        let (pillar, left) = self.moving;
        if let Some(lie) = self.movable(pillar).filter(|_| left > 0) {
            return vec![lie];
        }
        let mut lies = Vec::new();
        for (pillar, liar) in (0..).zip(&self.liars) {
            for lie in liar.lies() {
                // Mostly with its own device, and now and then with the next one's.
                let is_next = lie.choice % 4 == 3 || lie.slot.0 % 8 == 7;
                let instance = if is_next { self.next(pillar) } else { pillar };
                lies.push(outer(&lie, instance, pillar));
            }
            lies.extend(self.movable(pillar));
        }
        lies
    }

    fn tell(&mut self, lie: &Lie, hand: &mut dyn Hand) -> Option<Bytes> {
        self.again = None;
        let number = |bits: u64| (bits & ((1 << BITS) - 1)) as u8;
        let pillar = number(lie.choice);
        if lie.kind == "moved" {
            return self.moved(pillar);
        }
        let instance = number(lie.choice >> BITS);
        let inner = Lie { choice: lie.choice >> (2 * BITS), ..*lie };
        let mut device = Device { hand, instance: Instance(instance), has_certified: false };
        let liar = self.liars.get_mut(usize::from(pillar))?;
        let mut wire = liar.tell(&inner, &mut device)?.to_vec();
        wire.push(pillar);
        if device.has_certified && lie.kind == "prepare" && lie.slot.0.is_multiple_of(2) {
            let choice = inner.choice.checked_sub(1).unwrap_or(1);
            let again = Lie { kind: "prepare-again", choice, ..inner };
            self.again = Some(outer(&again, self.next(instance), pillar));
        }
        Some(Bytes::from(wire))
    }

    fn fingerprint(&self, mut hasher: &mut dyn Hasher) {
        self.liars.iter().for_each(|liar| liar.fingerprint(hasher));
        (&self.heard, self.last, self.again, self.moving).hash(&mut hasher);
    }

    fn boxed_clone(&self) -> Box<dyn Forger> {
        Box::new(Self {
            liars: self.liars.iter().map(|liar| liar.boxed_clone()).collect(),
            heard: self.heard.clone(),
            ..*self
        })
    }
}
