//! The bytes of a [`Configuration`]. Equal configurations have equal bytes, as their hash names
//! them in all that replicas say.

use super::{Access, Administrators, Configuration, Facts};
use super::{MemberEntry, RequestMeans, SealedSecret};
use crate::digest::Digest;
use crate::ids::{GroupId, MemberId};
use crate::limits::{ADDRESS_BYTES_MAX, ADMINISTRATORS_MAX, CLIENTS_LISTED_MAX};
use crate::limits::{PROTOCOL_NAME_BYTES_MAX, REPLICAS_MAX};
use crate::pillar_config::PillarConfig;
use crate::quorum::{Count, QuorumRule, ReadRule};
use crate::rules::{Authority, Counter, FaultModel, Tuning};
use crate::wire::{Malformed, Reader, Wire, Writer};
use alloc::string::String;

impl Wire for Configuration {
    fn encode(&self, to: &mut Writer) {
        self.group.encode(to);
        to.u64(self.number);
        to.bytes(self.protocol.as_bytes());
        self.facts.encode(to);
        to.u16(self.f);
        to.u8(self.lane.pillars);
        to.u8(u8::from(self.lane.rotates));
        self.tuning.encode(to);
        self.requests.encode(to);
        to.option(self.secret.as_ref());
        self.administrators.encode(to);
        self.access.encode(to);
        to.sequence(&self.members);
        self.next_member.encode(to);
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            group: GroupId::decode(from)?,
            number: from.u64()?,
            protocol: text(from, PROTOCOL_NAME_BYTES_MAX)?,
            facts: Facts::decode(from)?,
            f: from.u16()?,
            lane: PillarConfig { pillars: from.u8()?, rotates: flag(from)?, pillar: None },
            tuning: Tuning::decode(from)?,
            requests: RequestMeans::decode(from)?,
            secret: from.option::<Digest>()?,
            administrators: Administrators::decode(from)?,
            access: Access::decode(from)?,
            members: from.sequence(REPLICAS_MAX)?,
            next_member: MemberId::decode(from)?,
        })
    }
}

impl Wire for MemberEntry {
    fn encode(&self, to: &mut Writer) {
        self.id.encode(to);
        to.array(&self.identity);
        to.array(&self.signing);
        to.option(self.sealed.as_ref());
        to.bytes(self.address.as_bytes());
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (id, identity, signing) = (MemberId::decode(from)?, from.array()?, from.array()?);
        let sealed = from.option()?;
        Ok(Self { id, identity, signing, sealed, address: text(from, ADDRESS_BYTES_MAX)? })
    }
}

impl Wire for SealedSecret {
    fn encode(&self, to: &mut Writer) {
        to.array(&self.0);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        from.array().map(Self)
    }
}

impl Wire for Facts {
    fn encode(&self, to: &mut Writer) {
        to.u8(place(&FAULT_MODELS, self.fault_model));
        self.group_size.encode(to);
        to.u8(place(&QUORUMS, self.quorum));
        self.replies.encode(to);
        to.u8(place(&READS, self.reads));
        to.u8(u8::from(self.pillars));
        to.u8(u8::from(self.speculative));
        to.u8(u8::from(self.replies_itself));
        to.u8(place(&AUTHORITIES, self.authority));
        to.u8(place(&COUNTERS, self.counter));
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            fault_model: at(&FAULT_MODELS, from)?,
            group_size: Count::decode(from)?,
            quorum: at(&QUORUMS, from)?,
            replies: Count::decode(from)?,
            reads: at(&READS, from)?,
            pillars: flag(from)?,
            speculative: flag(from)?,
            replies_itself: flag(from)?,
            authority: at(&AUTHORITIES, from)?,
            counter: at(&COUNTERS, from)?,
        })
    }
}

/// Each word is written as its place here: new words go to the end.
const FAULT_MODELS: [FaultModel; 4] =
    [FaultModel::Byzantine, FaultModel::Hybrid, FaultModel::Crash, FaultModel::FailStop];
const QUORUMS: [QuorumRule; 3] = [QuorumRule::Majority, QuorumRule::Byzantine, QuorumRule::All];
const READS: [ReadRule; 2] = [ReadRule::All, ReadRule::AllButFaulty];
const AUTHORITIES: [Authority; 2] = [Authority::Members, Authority::Service];
const COUNTERS: [Option<Counter>; 4] =
    [None, Some(Counter::Usig), Some(Counter::Trinx), Some(Counter::Unbound)];

fn place<T: Copy + PartialEq>(words: &[T], word: T) -> u8 {
    words.iter().position(|it| *it == word).expect("every word is in its list") as u8
}

fn at<T: Copy>(words: &[T], from: &mut Reader<'_>) -> Result<T, Malformed> {
    words.get(usize::from(from.u8()?)).copied().ok_or(Malformed)
}

fn flag(from: &mut Reader<'_>) -> Result<bool, Malformed> {
    at(&[false, true], from)
}

fn text(from: &mut Reader<'_>, bytes_max: usize) -> Result<String, Malformed> {
    let bytes = from.bytes(bytes_max)?;
    String::from_utf8(bytes.to_vec()).map_err(|_| Malformed)
}

impl Wire for Count {
    fn encode(&self, to: &mut Writer) {
        let small = |count: usize| u8::try_from(count).expect("rules count in small numbers");
        to.u8(small(self.per_fault));
        to.u8(small(self.more));
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { per_fault: from.u8()?.into(), more: from.u8()?.into() })
    }
}

impl Wire for RequestMeans {
    fn encode(&self, to: &mut Writer) {
        match self {
            Self::Signature => to.u8(0),
            Self::Macs => to.u8(1),
            Self::Session(key) => {
                to.u8(2);
                to.array(key);
            }
        }
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        match from.u8()? {
            0 => Ok(Self::Signature),
            1 => Ok(Self::Macs),
            2 => from.array().map(Self::Session),
            _ => Err(Malformed),
        }
    }
}

impl Wire for Administrators {
    fn encode(&self, to: &mut Writer) {
        to.u8(self.threshold);
        to.u8(u8::try_from(self.keys.len()).unwrap_or(u8::MAX));
        self.keys.iter().for_each(|key| to.array(key));
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (threshold, count) = (from.u8()?, usize::from(from.u8()?));
        if count > ADMINISTRATORS_MAX {
            return Err(Malformed);
        }
        let keys = (0..count).map(|_| from.array()).collect::<Result<_, _>>()?;
        Ok(Self { threshold, keys })
    }
}

impl Wire for Access {
    fn encode(&self, to: &mut Writer) {
        match self {
            Self::Open => to.u8(0),
            Self::Only(clients) => {
                to.u8(1);
                to.sequence(clients);
            }
        }
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        match from.u8()? {
            0 => Ok(Self::Open),
            1 => from.sequence(CLIENTS_LISTED_MAX).map(Self::Only),
            _ => Err(Malformed),
        }
    }
}

/// Without what is for the simulator alone.
impl Wire for Tuning {
    fn encode(&self, to: &mut Writer) {
        to.u64(self.checkpoint_slots);
        to.u64(self.checkpoint_bytes as u64);
        to.u64(self.window_slots);
        to.u64(self.batch_requests as u64);
        to.u64(self.proposals_in_flight);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let size = |number: u64| usize::try_from(number).map_err(|_| Malformed);
        Ok(Self {
            checkpoint_slots: from.u64()?,
            checkpoint_bytes: size(from.u64()?)?,
            window_slots: from.u64()?,
            batch_requests: size(from.u64()?)?,
            proposals_in_flight: from.u64()?,
            interleaving: 0,
        })
    }
}
