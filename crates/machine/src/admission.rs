//! What clients sent and what is to become of it, until it is handed to the core.

use crate::checking::{Checked, UnderCheck};
use crate::pillar::ToPillar;
use crate::queries::QueryTime;
use bytes::Bytes;
use pentarchy_core::ids::ClientId;
use pentarchy_core::ports::client::Reply;
use pentarchy_core::ports::replica::Input;
use pentarchy_core::request::Envelope;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The envelopes of a round, which are checked together, and the clients that asked for the status.
#[derive(Default)]
pub struct Admission {
    /// Those that nobody has begun to check.
    pub(crate) fresh: Vec<Arc<Envelope>>,
    /// What pillars are checking, and what they have checked since the last round.
    pub(crate) under_check: UnderCheck,
    pub(crate) checked: Vec<Checked>,
    /// What they are to check.
    pub(crate) to_pillars: Vec<(u8, ToPillar)>,
    /// Messages of the protocol that clients sent in this round, unopened.
    pub(crate) said: Vec<(ClientId, Bytes)>,
    /// Requests that each client sent in this round, taken or not.
    pub(crate) sent: BTreeMap<ClientId, usize>,
    /// Envelopes that wait in the core, as of the first envelope of the round.
    pub(crate) waiting: Option<usize>,
    pub(crate) asked_status: BTreeSet<ClientId>,
    /// What is settled and was asked for in this round, by number: the core is to answer it.
    pub(crate) asked_again: BTreeMap<ClientId, BTreeMap<u64, Reply>>,
    /// Before this, clients may not have heard that requests are checked in another way now.
    pub(crate) strict_from_ms: u64,
    /// How long queries, and questions for events, took lately.
    pub(crate) query_time: QueryTime,
}

impl Admission {
    /// A pillar has checked these.
    pub fn on_checked(&mut self, checked: Checked) {
        checked.envelopes.iter().for_each(|envelope| self.under_check.end(envelope.client));
        self.checked.push(checked);
    }

    /// What pillars are to be told at the end of the round, whatever happens to their epoch.
    pub fn take_to_pillars(&mut self) -> impl Iterator<Item = (u8, ToPillar)> {
        self.to_pillars.drain(..)
    }

    /// How many envelopes pillars are checking.
    pub fn under_check(&self) -> usize {
        self.under_check.all()
    }
}

/// An envelope for the core, unless all of it is settled.
pub fn request(envelope: Arc<Envelope>, settled: Vec<u64>, passed_on: bool) -> Option<Input> {
    let is_new = settled.len() < envelope.requests.len();
    is_new.then_some(Input::Request { envelope, settled, passed_on })
}
