//! Clients that do harm with keys of their own: what strangers may do to a group that lets them in.
//! They write only to registers that no correct client uses, so that what correct clients see can
//! be judged alone.

use crate::crypto::Crypto;
use crate::packet::Packet;
use crate::rng::Rng;
use crate::service::{Action, Operation};
use pentarchy_core::Bytes;
use pentarchy_core::ids::{ClientId, ReplicaId, ReplicaSet};
use pentarchy_core::limits::{CLIENT_ENVELOPES_MAX, CLIENT_WINDOW, PENDING_CLIENT_ENVELOPES_MAX};
use pentarchy_core::ports::client::{ToClient, ToReplica};
use pentarchy_core::request::{Draft, Request, RequestAuth};
use pentarchy_core::wire::Wire;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The first register of hostile clients.
const FIRST_KEY: u16 = 30_000;

/// The last number that a hoarder has wait at the primary.
const HOARDED_MAX: u64 = 2_000;

/// Envelopes that a flood sends at a time.
const FLOOD: u64 = 96;

/// What a hostile client does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hostility {
    /// Sends each request to some replicas only, seldom to the primary.
    Partial,
    /// Gives one number to different requests, and sends them to different replicas.
    Reuse,
    /// Sends many requests at a time.
    Flood,
    /// Sends overlapping envelopes, in any order, with floors that jump.
    Jump,
    /// Sends what does not convince: in the name of others, spoilt, cut.
    Forge,
    /// Keeps as much waiting at the primary as it may, one more for each reply, and gives each
    /// backup something else: what the backups wait for is not to make the primary look silent.
    Hoard,
    /// Convinces some replicas and not others. Only MACs make that possible (the big-MAC attack,
    /// Clement et al., 2009); liveness is not promised then.
    PartialMacs,
}

impl Hostility {
    /// One of those that are to be borne.
    #[must_use]
    pub fn draw(rng: &mut Rng) -> Self {
        *rng.pick(&[Self::Partial, Self::Reuse, Self::Flood, Self::Jump, Self::Forge, Self::Hoard])
    }

    /// Its name, for summaries.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Partial => "partial",
            Self::Reuse => "reuse",
            Self::Flood => "flood",
            Self::Jump => "jump",
            Self::Forge => "forge",
            Self::Hoard => "hoard",
            Self::PartialMacs => "partial_macs",
        }
    }
}

/// What one act of a hostile client comes to.
#[derive(Default)]
pub struct Harm {
    /// What it sends to whom.
    pub packets: Vec<(ReplicaId, Packet)>,
    /// What it asked for; any of it may run.
    pub asked: Vec<Operation>,
}

/// A hostile client.
pub struct HostileClient {
    id: ClientId,
    kind: Hostility,
    crypto: Arc<Crypto>,
    /// In whose name it forges.
    victim: ClientId,
    n: usize,
    next_number: u64,
    /// What it has waiting at the primary.
    hoard: BTreeSet<u64>,
    rng: Rng,
}

impl HostileClient {
    /// A client of this name who does this, to `n` replicas.
    #[must_use]
    pub const fn new(
        (id, victim): (ClientId, ClientId),
        kind: Hostility,
        crypto: Arc<Crypto>,
        n: usize,
        rng: Rng,
    ) -> Self {
        Self { id, kind, crypto, victim, n, next_number: 1, hoard: BTreeSet::new(), rng }
    }

    /// Who it is.
    #[must_use]
    pub const fn id(&self) -> ClientId {
        self.id
    }

    /// Does some harm.
    pub fn act(&mut self) -> Harm {
        let mut harm = Harm::default();
        match self.kind {
            Hostility::Partial => {
                let (number, to) = (self.number(), self.some());
                self.ask(&[number], to, &mut harm);
            }
            Hostility::Reuse => {
                let number = self.number();
                for id in 0..self.n as u16 {
                    self.ask(&[number], ReplicaSet::from_iter([ReplicaId(id)]), &mut harm);
                }
            }
            Hostility::Flood => {
                for _ in 0..FLOOD {
                    let (number, to) = (self.number(), self.some());
                    self.ask(&[number], to, &mut harm);
                }
            }
            Hostility::Jump => self.jump(&mut harm),
            Hostility::Forge => self.forge(&mut harm),
            Hostility::Hoard => {
                for backup in 1..self.n as u16 {
                    for _ in 0..CLIENT_ENVELOPES_MAX {
                        let number = self.number();
                        self.ask(&[number], ReplicaSet::from_iter([ReplicaId(backup)]), &mut harm);
                    }
                }
                self.fill_hoard(ReplicaId(0), &mut harm);
            }
            Hostility::PartialMacs => {
                let number = self.number();
                let (draft, convinced) = (self.draft(&[number], &mut harm), self.some());
                let envelope = Arc::new(self.crypto.seal_for(draft, convinced));
                self.send(self.all(), &ToReplica::Request(envelope).to_bytes(), &mut harm);
            }
        }
        harm
    }

    /// Hears what a replica says to it, and does some harm.
    pub fn hear(&mut self, message: &ToClient) -> Harm {
        let mut harm = Harm::default();
        if let (Hostility::Hoard, ToClient::Replies { view, replies }) = (self.kind, message) {
            let before = self.hoard.len();
            replies.iter().for_each(|reply| {
                self.hoard.remove(&reply.number);
            });
            if self.hoard.len() < before {
                let primary = ReplicaId((view.0 % self.n as u64) as u16);
                self.fill_hoard(primary, &mut harm);
            }
        }
        harm
    }

    /// Has as much waiting at the primary as it may, until it has had its fill.
    fn fill_hoard(&mut self, primary: ReplicaId, harm: &mut Harm) {
        while self.hoard.len() < PENDING_CLIENT_ENVELOPES_MAX && self.next_number < HOARDED_MAX {
            let number = self.number();
            self.hoard.insert(number);
            self.ask(&[number], ReplicaSet::from_iter([primary]), harm);
        }
    }

    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number - 1
    }

    fn all(&self) -> ReplicaSet {
        (0..self.n as u16).map(ReplicaId).collect()
    }

    fn some(&mut self) -> ReplicaSet {
        ReplicaSet(self.rng.range(1, (1 << self.n) - 1))
    }

    /// Requests with these numbers, each with a content of its own.
    fn draft(&mut self, numbers: &[u64], harm: &mut Harm) -> Draft {
        let floor = self.next_number.saturating_sub(200).max(1);
        let mut requests = Vec::new();
        for number in numbers {
            let value = Bytes::from(self.rng.next_u64().to_le_bytes().to_vec());
            let key = FIRST_KEY + self.rng.below(8) as u16;
            let operation = Operation { number: *number, key, action: Action::Put(value) };
            requests.push(Request { number: *number, operation: operation.to_bytes() });
            harm.asked.push(operation);
        }
        let events = self.rng.percent(20).then(|| self.rng.below(1_000));
        Draft { client: self.id, floor, events, requests }
    }

    fn ask(&mut self, numbers: &[u64], to: ReplicaSet, harm: &mut Harm) {
        let draft = self.draft(numbers, harm);
        let envelope = Arc::new(self.crypto.seal(draft));
        self.send(to, &ToReplica::Request(envelope).to_bytes(), harm);
    }

    fn send(&self, to: ReplicaSet, bytes: &Bytes, harm: &mut Harm) {
        let to = to.iter().filter(|id| usize::from(id.0) < self.n);
        harm.packets.extend(to.map(|id| (id, Packet::ToReplica(bytes.clone()))));
    }

    fn jump(&mut self, harm: &mut Harm) {
        let first = self.next_number + self.rng.below(4);
        self.next_number += 2;
        let numbers: Vec<u64> = (first..first + self.rng.range(1, 6)).collect();
        let mut draft = self.draft(&numbers, harm);
        draft.floor = match self.rng.below(8) {
            0 => {
                self.next_number += 2 * CLIENT_WINDOW;
                self.next_number
            }
            1 => 0,
            2 => first + 2,
            3 => first.saturating_sub(CLIENT_WINDOW + 2),
            _ => draft.floor,
        };
        let to = self.some();
        let envelope = Arc::new(self.crypto.seal(draft));
        self.send(to, &ToReplica::Request(envelope).to_bytes(), harm);
    }

    fn forge(&mut self, harm: &mut Harm) {
        // It does not know what the victim has asked so far, and the next numbers alone are news.
        let number = self.number() + self.rng.below(CLIENT_WINDOW / 2);
        let mut draft = self.draft(&[number], harm);
        let good = self.crypto.seal(draft.clone());
        let mut to = self.some();
        let bytes = match self.rng.below(4) {
            0 => {
                // Whoever might believe it.
                to = self.all();
                draft.client = self.victim;
                let auth = self.auth_for(&draft, good.auth);
                ToReplica::Request(Arc::new(draft.seal(auth))).to_bytes()
            }
            1 => {
                let byte = self.rng.next_u64() as u8;
                let auth = match good.auth {
                    RequestAuth::Session(_) => RequestAuth::Session([byte; 16]),
                    _ => RequestAuth::Signature([byte; 64]),
                };
                ToReplica::Request(Arc::new(draft.seal(auth))).to_bytes()
            }
            2 => {
                let auth = RequestAuth::Macs(Bytes::from(vec![9; 16 * self.n]));
                ToReplica::Request(Arc::new(draft.seal(auth))).to_bytes()
            }
            _ => {
                let whole = ToReplica::Request(Arc::new(good)).to_bytes();
                whole.slice(..self.rng.below(whole.len() as u64) as usize)
            }
        };
        self.send(to, &bytes, harm);
    }

    /// What could pass for the victim's authentication of its draft: that of an envelope of this
    /// client, or with sessions this client's tag, or what the victim says to another group.
    fn auth_for(&mut self, draft: &Draft, own: RequestAuth) -> RequestAuth {
        let RequestAuth::Session(_) = own else { return own };
        let digest = draft.digest();
        let tag = match self.rng.below(3) {
            0 => self.crypto.tag(&self.id, &digest),
            1 => self.crypto.tag_elsewhere(&self.victim, &digest),
            _ => None,
        };
        tag.map_or(own, RequestAuth::Session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::{Means, client_id};
    use pentarchy_core::auth::Verifier;
    use pentarchy_core::ids::View;
    use pentarchy_core::ports::client::{Outcome, Reply};
    use pentarchy_core::request::Envelope;

    fn client(kind: Hostility, means: Means) -> (HostileClient, Arc<Crypto>) {
        let crypto = Arc::new(Crypto::new(1, 3, 2).with(means));
        let ids = (client_id(1, 1), client_id(1, 0));
        (HostileClient::new(ids, kind, crypto.clone(), 3, Rng::new(5)), crypto)
    }

    fn envelopes(harm: &Harm) -> Vec<Envelope> {
        let envelope =
            |(_, packet): &(ReplicaId, Packet)| match ToReplica::from_bytes(packet.bytes()) {
                Ok(ToReplica::Request(envelope)) => Some((*envelope).clone()),
                _ => None,
            };
        harm.packets.iter().filter_map(envelope).collect()
    }

    #[test]
    fn one_number_has_different_contents_at_different_replicas() {
        let (mut client, crypto) = client(Hostility::Reuse, Means::Signature);
        let harm = client.act();
        let sent = envelopes(&harm);
        let contents: BTreeSet<_> = sent.iter().map(|it| it.digest).collect();
        assert_eq!((sent.len(), contents.len(), harm.asked.len()), (3, 3, 3));
        assert!(sent.iter().all(|it| it.range() == (1, 1) && crypto.envelope(it)));
    }

    #[test]
    fn nothing_that_is_forged_convinces() {
        for means in [Means::Signature, Means::Macs, Means::Session] {
            let (mut client, crypto) = client(Hostility::Forge, means);
            let mut seen = 0;
            for _ in 0..100 {
                let sent = envelopes(&client.act());
                seen += sent.len();
                assert!(!sent.iter().any(|it| crypto.envelope(it)));
            }
            assert!(seen > 50);
        }
    }

    #[test]
    fn floods_and_jumps_come_from_the_client_itself() {
        for kind in [Hostility::Flood, Hostility::Jump, Hostility::Partial] {
            let (mut client, crypto) = client(kind, Means::Signature);
            let sent: Vec<_> = (0..50).flat_map(|_| envelopes(&client.act())).collect();
            assert!(sent.iter().all(|it| it.client == client.id() && crypto.envelope(it)));
            assert_eq!(sent.len() > 1_000, kind == Hostility::Flood);
        }
    }

    #[test]
    fn a_hoarder_sends_the_primary_one_more_for_each_reply() {
        let (mut client, _) = client(Hostility::Hoard, Means::Signature);
        let to = |harm: &Harm, id| harm.packets.iter().filter(|it| it.0 == ReplicaId(id)).count();
        let first = client.act();
        assert_eq!([0, 1, 2].map(|id| to(&first, id)), [32, 8, 8]);
        let number = envelopes(&first).last().expect("it asked").range().0;
        let replies = vec![Reply { number, outcome: Outcome::Forgotten }];
        let reply = ToClient::Replies { view: View(4), replies };
        let more = client.hear(&reply);
        assert_eq!([0, 1, 2].map(|id| to(&more, id)), [0, 1, 0], "view 4 is led by r1");
        assert!(client.hear(&reply).packets.is_empty(), "what others say is no other reply");
    }

    #[test]
    fn with_macs_some_are_convinced_and_others_are_not() {
        let (mut client, crypto) = client(Hostility::PartialMacs, Means::Macs);
        let membership = Arc::new(crate::world::membership(1, 3, 1));
        let keys = |me| crate::crypto::Keys {
            crypto: crypto.clone(),
            me: ReplicaId(me),
            membership: membership.clone(),
            lets_anyone_in: false,
        };
        let split = |it: &Envelope| keys(0).envelope(it) != keys(1).envelope(it);
        assert!((0..20).any(|_| envelopes(&client.act()).iter().any(split)));
    }
}
