//! Which configurations a group can have. A configuration is judged by what it says alone, so a
//! replica can judge that of a protocol which its program does not have.

use super::{Access, Administrators, Configuration, Facts, MemberEntry, RequestMeans};
use crate::limits::{
    ADDRESS_BYTES_MAX, ADMINISTRATORS_MAX, CLIENTS_LISTED_MAX, PILLARS_MAX,
    PROTOCOL_NAME_BYTES_MAX, REPLICAS_MAX,
};
use crate::pillar_config::PillarConfig;
use crate::quorum::Quorums;
use crate::rules::{Authority, FaultModel, Tuning};
use alloc::vec::Vec;
use core::fmt;

/// A membership in which no protocol can be safe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadMembership {
    /// Members named.
    pub n: usize,
    /// Faults asked for.
    pub f: usize,
    /// Members that the protocol needs for so many.
    pub needed: usize,
}

impl fmt::Display for BadMembership {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { n, f, needed } = self;
        write!(
            out,
            "{n} replicas cannot tolerate f = {f}: the protocol needs {needed} of at most \
             {REPLICAS_MAX}"
        )
    }
}

impl core::error::Error for BadMembership {}

/// Why no group can have a configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadConfiguration {
    /// Too few or too many members for its faults.
    Members(BadMembership),
    /// Two members have one number, a key of one is a key of another, or a number is not yet
    /// given.
    SameMember,
    /// The protocol's name is empty or too long, or has other letters than `a` to `z`, digits and
    /// hyphens.
    Protocol,
    /// The configuration contradicts itself about its protocol: clients would believe no reply, or
    /// wait for more than there are members; replicas would need devices that have no counter; a
    /// service would have to stop several pillars together.
    Facts,
    /// An address is empty or too long.
    Address,
    /// Its order is split where the protocol does not allow that, or into too many pillars.
    Pillars,
    /// A size is 0, or the window is no multiple of the distance between checkpoints.
    Sizes,
    /// Clients are to convince devices that the protocol does not have.
    Requests,
    /// The threshold of administrators is 0 or above their number, there are too many, or a key is
    /// named twice.
    Administrators,
    /// No client is listed, or too many are, or they are not in the order of their keys.
    Access,
}

impl fmt::Display for BadConfiguration {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Members(error) => return error.fmt(out),
            Self::SameMember => "two members have the same number or key",
            Self::Protocol => "a protocol has no such name",
            Self::Facts => "what is said of the protocol contradicts itself",
            Self::Address => "a member has no address, or one that is too long",
            Self::Pillars => "the protocol does not split its order so",
            Self::Sizes => {
                "a size is 0, or the window is no multiple of the slots between checkpoints"
            }
            Self::Requests => "sessions need a protocol whose replicas have trusted devices",
            Self::Administrators => {
                "the administrators' keys must differ, at most 16 can be named, and the threshold \
                 must be from 1 to their number"
            }
            Self::Access => {
                "the clients' keys must differ, and from 1 to 512 can be listed; a group without \
                 a list is open to all"
            }
        })
    }
}

impl core::error::Error for BadConfiguration {}

impl Configuration {
    /// Whether a group can work by it.
    ///
    /// # Errors
    /// [`BadConfiguration`] if not.
    pub fn check(&self) -> Result<(), BadConfiguration> {
        let group = Quorums { n: self.members.len(), f: self.f.into() };
        self.facts.check(group).map_err(BadConfiguration::Members)?;
        let rules = [
            (self.has_name(), BadConfiguration::Protocol),
            (self.facts.are_consistent(group), BadConfiguration::Facts),
            (self.has_addresses(), BadConfiguration::Address),
            (self.splits_as_it_may(), BadConfiguration::Pillars),
            (has_sizes(&self.tuning), BadConfiguration::Sizes),
            (self.has_devices_for_sessions(), BadConfiguration::Requests),
            (self.has_one_of_each_member(), BadConfiguration::SameMember),
            (self.administrators.is_possible(), BadConfiguration::Administrators),
            (self.access.is_possible(), BadConfiguration::Access),
        ];
        rules.into_iter().try_for_each(|(holds, broken)| holds.then_some(()).ok_or(broken))
    }

    fn has_name(&self) -> bool {
        let name = self.protocol.as_bytes();
        let is_letter = |c: &u8| c.is_ascii_lowercase() || c.is_ascii_digit() || *c == b'-';
        (1..=PROTOCOL_NAME_BYTES_MAX).contains(&name.len()) && name.iter().all(is_letter)
    }

    fn has_addresses(&self) -> bool {
        let mut lengths = self.members.iter().map(|member| member.address.len());
        lengths.all(|length| (1..=ADDRESS_BYTES_MAX).contains(&length))
    }

    fn splits_as_it_may(&self) -> bool {
        let PillarConfig { pillars, rotates, pillar } = self.lane;
        let splits = if self.facts.pillars { 2..=PILLARS_MAX } else { 1..=1 };
        splits.contains(&pillars) && (self.facts.pillars || !rotates) && pillar.is_none()
    }

    fn has_devices_for_sessions(&self) -> bool {
        self.facts.counter.is_some() || !matches!(self.requests, RequestMeans::Session(_))
    }

    /// A member may use one key for both of its purposes; no key belongs to two members.
    fn has_one_of_each_member(&self) -> bool {
        let ids: Vec<_> = self.members.iter().map(|member| member.id).collect();
        let keys_of = |member: &MemberEntry| {
            let other = (member.signing != member.identity).then_some(member.signing);
            other.into_iter().chain([member.identity])
        };
        let keys: Vec<_> = self.members.iter().flat_map(keys_of).collect();
        ids.iter().all(|id| *id < self.next_member) && differ(ids) && differ(keys)
    }
}

impl Administrators {
    fn is_possible(&self) -> bool {
        let (threshold, count) = (usize::from(self.threshold), self.keys.len());
        let fits = if count == 0 { threshold == 0 } else { (1..=count).contains(&threshold) };
        fits && count <= ADMINISTRATORS_MAX && differ(self.keys.clone())
    }
}

impl Access {
    fn is_possible(&self) -> bool {
        let Self::Only(clients) = self else { return true };
        let is_sorted = clients.windows(2).all(|pair| pair[0] < pair[1]);
        is_sorted && (1..=CLIENTS_LISTED_MAX).contains(&clients.len())
    }
}

/// Whether no value is there twice.
fn differ<T: Ord>(mut values: Vec<T>) -> bool {
    values.sort_unstable();
    values.windows(2).all(|pair| pair[0] != pair[1])
}

/// Whether replicas with these sizes get anywhere.
fn has_sizes(tuning: &Tuning) -> bool {
    let slots = [tuning.checkpoint_slots, tuning.window_slots, tuning.proposals_in_flight];
    let sizes = [tuning.checkpoint_bytes, tuning.batch_requests];
    slots.iter().all(|slots| *slots > 0)
        && sizes.iter().all(|size| *size > 0)
        && tuning.window_slots.is_multiple_of(tuning.checkpoint_slots)
}

impl Facts {
    /// Whether a protocol of which these are true is safe and live in a group of this size.
    ///
    /// # Errors
    /// [`BadMembership`] if it is not.
    pub const fn check(&self, group: Quorums) -> Result<(), BadMembership> {
        let Quorums { n, f } = group;
        let (needed, least) = (self.group_size.of(f), self.fault_model.replicas_min(f));
        let is_enough = n >= needed && n >= least && n <= REPLICAS_MAX;
        if is_enough && self.quorum.works_in(group) {
            Ok(())
        } else {
            Err(BadMembership { n, f, needed })
        }
    }

    /// Whether they fit together.
    fn are_consistent(&self, group: Quorums) -> bool {
        let replies = 1..=group.n;
        let has_device = self.fault_model != FaultModel::Hybrid || self.counter.is_some();
        let is_stopped = self.authority == Authority::Service;
        replies.contains(&self.replies.of(group.f))
            && has_device
            && !(self.pillars && is_stopped)
            && !(self.speculative && self.replies_itself)
    }
}
