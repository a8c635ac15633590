//! The client: whom it believes, and when.
//!
//! * *All* replicas tell a voucher for one slot and one history, and all full ones the same
//!   results: then each correct replica has the history, and whatever the next epoch begins with
//!   extends it. That `f + 1` say so is not enough: the others may never get it.
//! * Or `f + 1` full replicas say that a result is final, as they do of what they know all have
//!   ordered. This is how requests complete that were asked for again.
//!
//! Sending, and sending again, is as for other protocols, so the core of those is inside; it counts
//! what is final. Reads are ordered: what full replicas have executed may not be done.
//!
//! Memory: of each replica the last [`SLOTS_MAX`] vouchers, with at most [`HELD_BYTES_MAX`] of
//! replies.

use super::told::{Came, Told};
use crate::common::voting_client::VotingClient;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use pentarchy_core::Bytes;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ClientId, ReplicaId, Slot};
use pentarchy_core::limits::CLIENT_REPLIES_BYTES_MAX;
use pentarchy_core::mutant;
use pentarchy_core::ports::client::{ClientCore, Effect, Event, Reply, ToClient};
use pentarchy_core::ports::replica::slot_results::Results;
use pentarchy_core::quorum::Quorums;
use pentarchy_core::wire::Wire as _;

/// Vouchers of one replica that a client holds.
const SLOTS_MAX: usize = 64;

/// Replies of one replica that a client holds, as they came.
const HELD_BYTES_MAX: usize = CLIENT_REPLIES_BYTES_MAX;

/// What one replica says of a slot.
struct Voucher {
    history: Digest,
    /// The digest of the results; none of a witness.
    results: Option<Digest>,
    replies: Vec<Reply>,
    /// Bytes in which the replies came.
    bytes: usize,
}

/// See the module.
pub struct ShuttleClient {
    client: ClientId,
    group: Quorums,
    inner: VotingClient,
    vouchers: Vec<BTreeMap<Slot, Voucher>>,
}

impl ShuttleClient {
    /// A client of this group around what all clients do.
    #[must_use]
    pub fn new(client: ClientId, group: Quorums, inner: VotingClient) -> Self {
        let vouchers = (0..group.n).map(|_| BTreeMap::new()).collect();
        Self { client, group, inner, vouchers }
    }

    fn is_full(&self, id: ReplicaId) -> bool {
        usize::from(id.0) < self.group.weak()
    }

    fn on_message(&mut self, from: ReplicaId, message: ToClient, out: &mut Vec<Effect>) {
        match message {
            ToClient::Protocol(bytes) => self.on_told(from, &bytes, out),
            // They have executed nothing.
            _ if !self.is_full(from) => {}
            message => self.inner.step(Event::Message { from, message }, out),
        }
    }

    fn on_told(&mut self, from: ReplicaId, bytes: &Bytes, out: &mut Vec<Effect>) {
        let Ok(Told { slot, history, came }) = Told::from_bytes(bytes) else { return };
        let (results, replies) = match came {
            Came::Unknown => (None, Vec::new()),
            Came::Digest(digest) => (Some(digest), Vec::new()),
            Came::Whole(replies) => {
                let Results { digest, replies, .. } = Results::new(self.client, replies);
                (Some(digest), replies)
            }
        };
        let is_full = self.is_full(from);
        let Some(own) = self.vouchers.get_mut(usize::from(from.0)) else { return };
        if results.is_some() != is_full || self.inner.outstanding() == 0 {
            return;
        }
        let bytes = if replies.is_empty() { 0 } else { bytes.len() };
        own.entry(slot).or_insert(Voucher { history, results, replies, bytes });
        while own.len() > SLOTS_MAX
            || own.values().map(|it| it.bytes).sum::<usize>() > HELD_BYTES_MAX
        {
            own.pop_first();
        }
        self.believe(slot, out);
    }

    /// Completes what the client believes of a slot.
    fn believe(&mut self, slot: Slot, out: &mut Vec<Effect>) {
        let needed = if mutant!("shuttle.client-believes-results") {
            self.group.weak()
        } else {
            self.group.n
        };
        let told = self.vouchers.iter().take(needed).filter_map(|own| own.get(&slot));
        let told: Vec<&Voucher> = told.collect();
        let Some(first) = told.first().filter(|_| told.len() == needed) else { return };
        let is_one = told.iter().all(|it| it.history == first.history);
        let full = &told[..self.group.weak()];
        let is_same = full.iter().all(|it| it.results == first.results);
        let whole = full.iter().find(|it| !it.replies.is_empty());
        let Some(whole) = whole.filter(|_| is_one && is_same) else { return };
        let awaited = whole.replies.iter().filter(|reply| self.inner.awaits(reply.number));
        for Reply { number, outcome } in awaited.cloned().collect::<Vec<_>>() {
            self.inner.complete(number, outcome, out);
        }
        self.vouchers.iter_mut().for_each(|own| {
            own.remove(&slot);
        });
    }
}

impl ClientCore for ShuttleClient {
    fn step(&mut self, event: Event, out: &mut Vec<Effect>) {
        match event {
            Event::Message { from, .. } if usize::from(from.0) >= self.group.n => {}
            Event::Message { from, message } => self.on_message(from, message, out),
            Event::Query { number, operation } => {
                self.inner.step(Event::Submit { number, operation }, out);
            }
            other => self.inner.step(other, out),
        }
        if self.inner.outstanding() == 0 {
            self.vouchers.iter_mut().for_each(BTreeMap::clear);
        }
    }

    fn outstanding(&self) -> usize {
        self.inner.outstanding()
    }
}
