//! Samples, and the values of which many of them consist. Each field has a value that no other
//! field of the same type has, as far as that is possible, so that none can take another's place.

use pentarchy_core::Bytes;
use pentarchy_core::auth::Signature;
use pentarchy_core::change::Change;
use pentarchy_core::configuration::{
    Access, Administrators, Configuration, Facts, MemberEntry, RequestMeans, SealedSecret,
};
use pentarchy_core::counter::Counter;
use pentarchy_core::digest::Digest;
use pentarchy_core::epochs::{Handover, Proof, Witnesses};
use pentarchy_core::ids::{
    ClientId, Epoch, GroupId, Incarnation, MemberId, Millis, ReplicaId, Slot,
};
use pentarchy_core::membership::{Base, Life, Membership, PillarConfig};
use pentarchy_core::protocol::{Authority, FaultModel, Tuning};
use pentarchy_core::quorum::{Count, QuorumRule, ReadRule};
use pentarchy_core::request::{Draft, Envelope, Request, RequestAuth};
use pentarchy_core::wire::Wire;
use std::sync::Arc;

/// One value, and its encoding today.
pub struct Sample {
    pub name: String,
    pub bytes: Bytes,
    reads: Box<dyn Fn(&Bytes) -> bool>,
}

impl Sample {
    /// Of a value that is equal to what is read if all of it is.
    pub fn of<T: Wire + PartialEq + 'static>(name: impl Into<String>, value: T) -> Self {
        let bytes = value.to_bytes();
        Self::read_by(name, bytes, move |bytes| T::from_bytes(bytes).as_ref() == Ok(&value))
    }

    /// Of these bytes, with what says whether others are read as the same value.
    pub fn read_by(
        name: impl Into<String>,
        bytes: Bytes,
        reads: impl Fn(&Bytes) -> bool + 'static,
    ) -> Self {
        Self { name: name.into(), bytes, reads: Box::new(reads) }
    }

    /// Whether these bytes are read as the value.
    pub fn is_read_from(&self, bytes: &Bytes) -> bool {
        (self.reads)(bytes)
    }
}

/// Bytes that count up from this one.
pub fn counting<const N: usize>(first: u8) -> [u8; N] {
    std::array::from_fn(|at| first.wrapping_add(at as u8))
}

pub fn digest(first: u8) -> Digest {
    Digest(counting(first))
}

pub fn signature(first: u8) -> Signature {
    Signature(counting(first))
}

pub fn life(incarnation: u64) -> Life {
    Life { incarnation: Incarnation(incarnation), device_key: counting(0x70) }
}

pub fn base(slot: u64) -> Base {
    Base { slot: Slot(slot), state: digest(0xb0) }
}

pub fn signatures() -> Vec<(ReplicaId, Signature)> {
    vec![(ReplicaId(0), signature(0x50)), (ReplicaId(2), signature(0x60))]
}

pub fn administrator(number: u8) -> ClientId {
    ClientId([0xa0 + number; 32])
}

/// The client as which a member asks something of its group.
pub fn identity(member: u32) -> ClientId {
    ClientId([0x10 + member as u8; 32])
}

pub fn member(id: u32, sealed: Option<u8>) -> MemberEntry {
    MemberEntry {
        id: MemberId(id),
        identity: identity(id).0,
        signing: [0x20 + id as u8; 32],
        sealed: sealed.map(|first| SealedSecret(counting(first))),
        address: format!("host-{id}:700{id}"),
    }
}

pub fn facts() -> Facts {
    Facts {
        fault_model: FaultModel::Hybrid,
        group_size: Count { per_fault: 2, more: 1 },
        quorum: QuorumRule::Majority,
        replies: Count { per_fault: 1, more: 1 },
        reads: ReadRule::AllButFaulty,
        pillars: false,
        speculative: false,
        replies_itself: false,
        authority: Authority::Members,
        counter: Some(Counter::Usig),
    }
}

/// Three members with trusted devices, of which one may be faulty; two of three administrators
/// have to agree.
pub fn configuration(number: u64) -> Configuration {
    Configuration {
        group: GroupId(counting(0xc0)),
        number,
        protocol: "toy".to_owned(),
        facts: facts(),
        f: 1,
        lane: PillarConfig::default(),
        tuning: Tuning {
            checkpoint_slots: 64,
            checkpoint_bytes: 12 << 20,
            window_slots: 256,
            batch_requests: 2048,
            proposals_in_flight: 4,
            interleaving: 0,
        },
        requests: RequestMeans::Session(counting(0xd0)),
        secret: (number > 0).then(|| digest(0xe0)),
        administrators: Administrators {
            threshold: 2,
            keys: [0, 1, 2].map(|number| administrator(number).0).to_vec(),
        },
        access: match number {
            0 => Access::Open,
            _ => Access::only([4, 5].map(|client| ClientId(counting(client)))),
        },
        members: [1, 2, 3].map(|id| member(id, (number > 0).then_some(0x80))).to_vec(),
        next_member: MemberId(4),
    }
}

/// A fourth member joins the group with which it began.
pub fn change() -> Change {
    let mut next = configuration(1);
    next.members.push(member(4, Some(0x90)));
    next.next_member = MemberId(5);
    let (expects, needed) = (configuration(0).digest(), vec![MemberId(4), MemberId(2)]);
    Change { expects, attempt: 0, expires: Millis(1_000_000), next, needed }
}

/// The first epoch of the group.
pub fn membership() -> Membership {
    configuration(0).begin(&[1, 2, 3].map(|number| Life::mac(Incarnation(number))))
}

/// How an epoch ends.
pub fn handover() -> Handover {
    Handover { epoch: Epoch(6), base: base(64), lives: [1, 2, 3].map(life).to_vec(), next: None }
}

/// What proves it: in the same configuration, or with the next one, by these witnesses' word.
pub fn proof(by: Option<Witnesses>) -> Proof {
    let next = by.map(|_| Arc::new(configuration(1)));
    let named = next.as_ref().map(|next| next.digest());
    let handover = Handover { next: named, ..handover() };
    let by = by.unwrap_or(Witnesses::Members);
    Proof { handover, next, by, signatures: signatures() }
}

pub fn draft(events: Option<u64>) -> Draft {
    let request = |number: u64, operation: &'static [u8]| Request {
        number,
        operation: Bytes::from_static(operation),
    };
    let requests = vec![request(7, b"put a 1"), request(9, b"get a")];
    Draft { client: ClientId(counting(0x30)), floor: 5, events, requests }
}

pub fn envelope() -> Arc<Envelope> {
    Arc::new(draft(None).seal(RequestAuth::Signature(counting(0x40))))
}
