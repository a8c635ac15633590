//! A faulty member that abuses what replicas say to each other about epochs. It has its own key and
//! no other.

use super::{Act, ReplicaNode};
use crate::crypto::{Crypto, member_id};
use crate::packet::{Address, Packet};
use crate::rng::Rng;
use pentarchy_core::Bytes;
use pentarchy_core::auth::Signature;
use pentarchy_core::change::Petition;
use pentarchy_core::digest::Digest;
use pentarchy_core::epochs::{Admission, Handover, Message, Proof, Witnesses};
use pentarchy_core::ids::{Epoch, Incarnation, ReplicaId, ReplicaSet, Slot};
use pentarchy_core::membership::{Base, Life, Member, Membership};
use pentarchy_core::request::{Draft, Request};
use pentarchy_core::wire::Wire;
use std::sync::Arc;

/// Messages of others that are kept, to be said again.
const HEARD_MAX: usize = 64;

/// In how many of a million rounds it abuses that a configuration ended, if one did: somebody may
/// have been away.
const LINK_PPM: u32 = 200_000;

/// Milliseconds between two abuses at least. Each may be an ordered request, which makes rounds, in
/// which it would abuse again: in a fast network, more often than any host could.
const REST_MILLIS: u64 = 1;

/// How a member abuses epochs.
pub struct Usurping {
    /// Its choices.
    pub rng: Rng,
    /// In how many of a million rounds.
    pub rate_ppm: u32,
    /// What others said.
    heard: Vec<Message>,
    /// The number of its last request.
    asked: u64,
    /// It rests before this, by a clock that nobody sets.
    rests_until: u64,
}

/// Who it is and where it stands.
struct Own<'a> {
    /// At which place.
    id: ReplicaId,
    /// Which replica of its epoch.
    me: ReplicaId,
    crypto: &'a Crypto,
    membership: &'a Membership,
    /// How configurations ended.
    links: &'a [Proof],
}

impl Usurping {
    /// One that has heard nothing yet.
    #[must_use]
    pub const fn new(rng: Rng, rate_ppm: u32) -> Self {
        Self { rng, rate_ppm, heard: Vec::new(), asked: 0, rests_until: 0 }
    }

    fn hear(&mut self, message: &Message) {
        if self.heard.len() < HEARD_MAX {
            self.heard.push(message.clone());
        } else {
            let index = self.rng.below(HEARD_MAX as u64) as usize;
            self.heard[index] = message.clone();
        }
    }

    fn make_up(&mut self, own: &Own<'_>) -> Message {
        if !own.links.is_empty() && self.rng.percent(80) {
            return self.false_link(own);
        }
        if let Some(ready) = self.steal_key(own) {
            return ready;
        }
        match self.rng.below(6) {
            0 => Message::At {
                epoch: Epoch(self.rng.below(own.membership.epoch.0 + 3)),
                configuration: self.configuration(own),
            },
            1 => self.ask(own),
            2 => {
                let handover = self.false_handover(own);
                let signature = sign(own, &handover);
                Message::Vote(handover, signature)
            }
            3 => self.false_proofs(own),
            _ if !self.heard.is_empty() => self.rng.pick(&self.heard).clone(),
            _ => self.ask(own),
        }
    }

    /// How a configuration ended, with a key in the next one for which nobody signed. Whoever was
    /// away hears it, with luck, before what is so.
    fn false_link(&mut self, own: &Own<'_>) -> Message {
        let mut link = self.rng.pick(own.links).clone();
        if let Some(next) = &link.next {
            let mut other = (**next).clone();
            let victim = self.rng.below(other.members.len() as u64) as usize;
            other.members[victim].signing = Digest::of(&self.rng.next_u64().to_le_bytes()).0;
            link.next = Some(Arc::new(other));
        }
        Message::Proofs(vec![link])
    }

    /// To be ready with a key that another member has just named, and of which it has no secret. If
    /// it is ordered first, the other one is refused. That is drawn aside, and changes no other
    /// choice.
    fn steal_key(&mut self, own: &Own<'_>) -> Option<Message> {
        let me = member_id(own.id);
        let said = self.heard.iter().rev().find_map(|message| match message {
            Message::Admit(envelope) if envelope.client != me => {
                envelope.requests.iter().find_map(|request| {
                    match Petition::from_bytes(&request.operation) {
                        Ok(Petition::Ready(ready)) if ready.epoch == own.membership.epoch => {
                            Some(ready)
                        }
                        _ => None,
                    }
                })
            }
            _ => None,
        })?;
        let mut aside = Rng::new(self.rng.clone().next_u64().rotate_left(29));
        if !aside.percent(50) {
            return None;
        }
        let mut ready = said;
        let digest = ready.statement(&me);
        ready.possession = Signature(own.crypto.sign(own.id, &ready.signing, &digest));
        Some(self.request(own, Petition::Ready(ready).to_bytes()))
    }

    /// The group's, or one that it never had. That is drawn aside, and changes no other choice.
    fn configuration(&self, own: &Own<'_>) -> Digest {
        let mut aside = Rng::new(self.rng.clone().next_u64().rotate_left(23));
        match aside.percent(40) {
            true => Digest::of(b"another configuration"),
            false => own.membership.configuration,
        }
    }

    /// To be admitted with any device: its own of another life, one of another kind, or garbage.
    fn ask(&mut self, own: &Own<'_>) -> Message {
        let device_key = [u8::from(self.rng.percent(10)); 32];
        let life = Life { incarnation: Incarnation(self.rng.below(5)), device_key };
        let operation = match self.rng.percent(10) {
            true => Bytes::from_static(b"admit me"),
            false => {
                let epoch = Epoch(own.membership.epoch.0.saturating_sub(self.rng.below(4) / 3));
                let configuration = own.membership.configuration;
                Admission { epoch, configuration, life }.to_operation()
            }
        };
        self.request(own, operation)
    }

    fn request(&mut self, own: &Own<'_>, operation: Bytes) -> Message {
        self.asked += self.rng.below(3);
        let number = match self.rng.percent(1) {
            true => u64::MAX,
            false => self.asked,
        };
        let floor = number.saturating_sub(self.rng.below(3));
        let requests = vec![Request { number, operation }];
        let client = member_id(own.id);
        let draft = Draft { client, floor, events: None, requests };
        Message::Admit(Arc::new(own.crypto.seal(draft)))
    }

    fn false_handover(&mut self, own: &Own<'_>) -> Handover {
        let heard = self.heard.iter().filter_map(|message| match message {
            Message::Vote(handover, _) => Some(handover),
            Message::Proofs(proofs) => proofs.last().map(|proof| &proof.handover),
            _ => None,
        });
        let heard: Vec<&Handover> = heard.collect();
        if !heard.is_empty() && self.rng.percent(60) {
            let mut handover = (*self.rng.pick(&heard)).clone();
            match self.rng.below(4) {
                0 => handover.base.slot = Slot(handover.base.slot.0 + 1),
                1 => handover.base.state = Digest::of(b"another state"),
                2 => handover.lives.truncate(1),
                _ => handover.lives[0].incarnation.0 ^= 1,
            }
            return handover;
        }
        let mut lives: Vec<Life> = own.membership.members.iter().map(Member::life).collect();
        let victim = self.rng.below(lives.len() as u64) as usize;
        lives[victim].incarnation = Incarnation(self.rng.below(5));
        let base = Base { slot: Slot(self.rng.below(300)), state: Digest::of(b"a lie") };
        Handover { epoch: own.membership.epoch, base, lives, next: None }
    }

    /// Its own signature as often as one likes, and under others' names.
    fn false_proofs(&mut self, own: &Own<'_>) -> Message {
        let handover = self.false_handover(own);
        let signature = sign(own, &handover);
        let same = self.rng.percent(50);
        let name = |id: ReplicaId| if same { own.me } else { id };
        let signatures = own.membership.ids().map(|id| (name(id), signature)).collect();
        let mut proofs = vec![Proof { handover, next: None, by: Witnesses::Members, signatures }];
        if self.rng.percent(30) {
            proofs.extend(proofs.clone());
        }
        Message::Proofs(proofs)
    }
}

fn sign(own: &Own<'_>, handover: &Handover) -> Signature {
    let key = &own.membership.members[usize::from(own.me.0)].signing;
    Signature(own.crypto.sign(own.id, key, &handover.statement(own.membership)))
}

impl ReplicaNode<'_> {
    fn usurping(&mut self) -> Option<&mut Usurping> {
        self.faulty.as_mut()?.usurping.as_mut()
    }

    /// Lets the usurper know what was said.
    pub(super) fn overhear_epochs(&mut self, message: &Message) {
        if let Some(usurping) = self.usurping() {
            usurping.hear(message);
        }
    }

    /// Says something about epochs that is not so, now and then, to some of the others.
    pub(super) fn usurp(&mut self, out: &mut Vec<Act>) {
        let (others, me) = (self.others(), self.me());
        let Self { id, crypto, watch, faulty, machine, .. } = self;
        let Some(usurping) = faulty.as_mut().and_then(|fault| fault.usurping.as_mut()) else {
            return;
        };
        let links = machine.epochs().links();
        let rate_ppm = if links.is_empty() { usurping.rate_ppm } else { LINK_PPM };
        if watch.elapsed_ms < usurping.rests_until || !usurping.rng.chance(rate_ppm) {
            return;
        }
        usurping.rests_until = watch.elapsed_ms + REST_MILLIS;
        let own = Own { id: *id, me, crypto, membership: &watch.membership, links };
        let message = usurping.make_up(&own);
        let to = match usurping.rng.percent(60) {
            true => others,
            false => ReplicaSet(usurping.rng.next_u64() & others.0),
        };
        let bytes = message.to_bytes();
        for peer in to.iter() {
            let packet = Packet::Epochs(bytes.clone());
            out.push(Act::Send { to: Address::Replica(peer), packet });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_usurper_names_the_configuration_of_its_group_and_others() {
        let (membership, crypto) = (crate::world::membership(1, 3, 1), Crypto::new(1, 3, 1));
        let own = Own {
            id: ReplicaId(0),
            me: ReplicaId(0),
            crypto: &crypto,
            membership: &membership,
            links: &[],
        };
        let mut usurping = Usurping::new(Rng::new(1), 0);
        let is_its_own = |message| match message {
            Message::At { configuration, .. } => Some(configuration == membership.configuration),
            _ => None,
        };
        let said: BTreeSet<bool> =
            (0..100).filter_map(|_| is_its_own(usurping.make_up(&own))).collect();
        assert_eq!(said, BTreeSet::from([false, true]));
    }
}
