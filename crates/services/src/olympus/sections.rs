//! The state as sections: one that changes with each operation, one for each member's report, and
//! one for each link that is kept, so that a checkpoint writes little.

use super::answer::Accusation;
use super::choice::Key;
use super::link::{Links, Proposal};
use super::pool::Pool;
use super::reports::Reported;
use super::state::{Phase, Preparing, State, Wedge};
use super::terms::{LINKS_KEPT, history_max};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use bytes::Bytes;
use pentarchy_core::configuration::Configuration;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ClientId, Epoch, Millis, ReplicaId, ReplicaSet, Slot};
use pentarchy_core::limits::{ADMINISTRATORS_MAX, HISTORY_SLOTS_MAX, REPLICAS_MAX};
use pentarchy_core::membership::{Base, Life, Membership};
use pentarchy_core::mutant;
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

/// The section that every operation changes.
pub const MAIN: u32 = 0;

const REPORTS: u32 = 1;
const LINKS: u32 = REPORTS + REPLICAS_MAX as u32;

/// Sections of the state.
pub const SECTIONS: u32 = LINKS + LINKS_KEPT as u32;

/// Choices of one wedge that can have failed: a history and a base, each of a report.
const FAILURES_MAX: usize = REPLICAS_MAX * REPLICAS_MAX;

impl State {
    /// A checkpoint has to have this report.
    pub fn note_report(&mut self, author: ReplicaId) {
        if !mutant!("olympus.report-not-noted") {
            self.changed.insert(REPORTS + u32::from(author.0));
        }
    }

    /// No checkpoint may have these reports any more.
    pub fn note_reports_of_all(&mut self) {
        self.changed.extend(self.reports.keys().map(|author| REPORTS + u32::from(author.0)));
    }

    /// A checkpoint has to have this link.
    pub fn note_link(&mut self, epoch: Epoch) {
        self.changed.insert(LINKS + Links::place(epoch) as u32);
    }

    /// The bytes of a section; none if it holds nothing.
    pub fn section(&self, index: u32) -> Vec<u8> {
        let mut to = Writer::default();
        if index == MAIN {
            self.encode(&mut to);
        } else if let Some(place) = index.checked_sub(LINKS) {
            self.links.at(place as usize).into_iter().for_each(|link| link.encode(&mut to));
        } else {
            let author = ReplicaId((index - REPORTS) as u16);
            self.reports.get(&author).into_iter().for_each(|report| report.encode(&mut to));
        }
        to.into_vec()
    }

    /// Replaces a section.
    pub fn restore(&mut self, index: u32, bytes: &[u8]) -> Result<(), Malformed> {
        let bytes = Bytes::copy_from_slice(bytes);
        if index == MAIN {
            let mut from = Reader::new(&bytes);
            self.decode(&mut from)?;
            from.finish()
        } else if let Some(place) = index.checked_sub(LINKS) {
            self.links.restore(place as usize, optional(&bytes)?)
        } else {
            let author = ReplicaId((index - REPORTS) as u16);
            match optional::<Reported>(&bytes)? {
                Some(report) => self.reports.insert(author, report),
                None => self.reports.remove(&author),
            };
            Ok(())
        }
    }

    fn encode(&self, to: &mut Writer) {
        encode_membership(&self.membership, &self.configuration(), to);
        to.sequence(&self.inherits);
        self.clock.encode(to);
        self.halved.encode(to);
        to.option(self.wedged.as_ref());
        to.u32(self.fruitless);
        self.lease.encode(to);
        to.u16(self.spares);
        encode_map(&self.votes, to);
        self.pool.encode(to);
        self.failed.encode(to);
        self.convicted.encode(to);
        to.option(self.accusation.as_ref());
        self.phase.encode(to);
    }

    fn decode(&mut self, from: &mut Reader<'_>) -> Result<(), Malformed> {
        self.membership = decode_membership(from)?;
        self.inherits = from.sequence(history_max(&self.configuration()))?;
        self.clock = Millis::decode(from)?;
        self.halved = Millis::decode(from)?;
        self.wedged = from.option()?;
        self.fruitless = from.u32()?;
        self.lease = Millis::decode(from)?;
        self.spares = from.u16()?;
        self.votes = decode_map::<ClientId, Digest>(from, ADMINISTRATORS_MAX)?;
        self.pool = Pool::decode(from)?;
        self.failed = ReplicaSet::decode(from)?;
        self.convicted = ReplicaSet::decode(from)?;
        self.accusation = from.option::<Accusation>()?;
        self.phase = Phase::decode(from)?;
        if self.halved <= self.clock { Ok(()) } else { Err(Malformed) }
    }
}

/// What a section holds, if it is not empty.
fn optional<T: Wire>(bytes: &Bytes) -> Result<Option<T>, Malformed> {
    if bytes.is_empty() { Ok(None) } else { T::from_bytes(bytes).map(Some) }
}

fn encode_membership(membership: &Membership, stated: &Configuration, to: &mut Writer) {
    stated.encode(to);
    let lives: Vec<Life> = membership.members.iter().map(|member| member.life()).collect();
    to.sequence(&lives);
    membership.epoch.encode(to);
    membership.base.encode(to);
}

fn decode_membership(from: &mut Reader<'_>) -> Result<Membership, Malformed> {
    let stated = Configuration::decode(from)?;
    let lives: Vec<Life> = from.sequence(REPLICAS_MAX)?;
    if stated.check().is_err() || lives.len() != stated.members.len() {
        return Err(Malformed);
    }
    let (epoch, base) = (Epoch::decode(from)?, Base::decode(from)?);
    let room = base.slot.0.checked_add(HISTORY_SLOTS_MAX as u64 + 1);
    room.map(|_| Membership { epoch, base, ..stated.begin(&lives) }).ok_or(Malformed)
}

fn encode_map<K: Wire, V: Wire>(map: &BTreeMap<K, V>, to: &mut Writer) {
    to.u32(map.len() as u32);
    for (key, value) in map {
        key.encode(to);
        value.encode(to);
    }
}

fn decode_map<K: Wire + Ord, V: Wire>(
    from: &mut Reader<'_>,
    max: usize,
) -> Result<BTreeMap<K, V>, Malformed> {
    let all: Vec<(K, V)> = from.sequence(max)?;
    let in_order = all.windows(2).all(|pair| pair[0].0 < pair[1].0);
    if in_order { Ok(all.into_iter().collect()) } else { Err(Malformed) }
}

impl Wire for Phase {
    fn encode(&self, to: &mut Writer) {
        match self {
            Self::Active => to.u8(0),
            Self::Accused(due) => {
                to.u8(1);
                due.encode(to);
            }
            Self::Wedging(wedge) => {
                to.u8(2);
                wedge.encode(to);
            }
        }
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        match from.u8()? {
            0 => Ok(Self::Active),
            1 => Millis::decode(from).map(Self::Accused),
            2 => Wedge::decode(from).map(|wedge| Self::Wedging(Box::new(wedge))),
            _ => Err(Malformed),
        }
    }
}

impl Wire for Wedge {
    fn encode(&self, to: &mut Writer) {
        self.since.encode(to);
        to.u8(u8::from(self.has_blamed));
        to.u32(self.attempt);
        to.u32(self.failures.len() as u32);
        for (key, failures) in &self.failures {
            encode_key(key, to);
            to.u32(*failures);
        }
        to.option(self.preparing.as_ref());
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let since = Millis::decode(from)?;
        let has_blamed = match from.u8()? {
            0 => false,
            1 => true,
            _ => return Err(Malformed),
        };
        let attempt = from.u32()?;
        let mut failures = BTreeMap::new();
        let count = from.u32()? as usize;
        if count > FAILURES_MAX {
            return Err(Malformed);
        }
        for _ in 0..count {
            let key = decode_key(from)?;
            let is_next = failures.last_key_value().is_none_or(|(last, _)| *last < key);
            if !is_next || failures.insert(key, from.u32()?).is_some() {
                return Err(Malformed);
            }
        }
        Ok(Self { since, has_blamed, attempt, failures, preparing: from.option()? })
    }
}

fn encode_key((end, digest, base, state): &Key, to: &mut Writer) {
    end.encode(to);
    digest.encode(to);
    base.encode(to);
    state.encode(to);
}

fn decode_key(from: &mut Reader<'_>) -> Result<Key, Malformed> {
    Ok((Slot::decode(from)?, Digest::decode(from)?, Slot::decode(from)?, Digest::decode(from)?))
}

impl Wire for Preparing {
    fn encode(&self, to: &mut Writer) {
        self.proposal.encode(to);
        encode_key(&self.choice, to);
        self.deadline.encode(to);
        self.holds.encode(to);
        encode_map(&self.lacks, to);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            proposal: Proposal::decode(from)?,
            choice: decode_key(from)?,
            deadline: Millis::decode(from)?,
            holds: ReplicaSet::decode(from)?,
            lacks: decode_map(from, REPLICAS_MAX)?,
        })
    }
}
