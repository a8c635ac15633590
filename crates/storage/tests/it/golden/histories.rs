//! Fixed histories of a replica, with one of each thing that it keeps.

use super::{Bytes, disk};
use pentarchy_core::auth::Signature;
use pentarchy_core::configuration::{
    Access, Administrators, Configuration, Facts, MemberEntry, RequestMeans, SealedSecret,
};
use pentarchy_core::counter::{Certificate, Counter, Instance, Memory, Position, Statement, Ui};
use pentarchy_core::digest::Digest;
use pentarchy_core::epochs::{Handover, Proof, Witnesses};
use pentarchy_core::ids::{Epoch, GroupId, Incarnation, MemberId, ReplicaId, Slot, View};
use pentarchy_core::membership::{Base, Life, Membership, PillarConfig};
use pentarchy_core::protocol::{Authority, FaultModel, Tuning};
use pentarchy_core::quorum::{Count, QuorumRule, ReadRule};
use pentarchy_core::snapshot::Snapshot;
use pentarchy_core::tree::Tree;
use pentarchy_sim::disk::SimDisk;
use pentarchy_storage::error::StorageError;
use pentarchy_storage::identity::Identity;
use pentarchy_storage::kept::{
    Backing as _, Entry, EntryLog as _, EpochStart, Job, Kept, LOG, Needed, Past, Stepped,
};
use pentarchy_storage::log::{Log, Options, Record};
use std::sync::Arc;

/// Bytes that count up from this one.
fn counting<const N: usize>(first: u8) -> [u8; N] {
    std::array::from_fn(|at| first.wrapping_add(at as u8))
}

fn digest(first: u8) -> Digest {
    Digest(counting(first))
}

pub fn identity() -> Identity {
    let (replica, incarnation) = (ReplicaId(2), Incarnation(5));
    Identity { group: GroupId(counting(0xc0)), replica, incarnation }
}

/// Of a log whose segments have so many blocks of 512 bytes.
fn options(blocks: u64) -> Options {
    Options {
        segment_bytes: blocks * 512,
        bytes_max: 1 << 18,
        reserve_bytes: 1 << 16,
        state_bytes_max: 900,
        growth_bytes_max: 1 << 20,
        cold_states: false,
        seed: counting(0x90),
    }
}

fn configuration(number: u64) -> Configuration {
    let member = |id: u8| MemberEntry {
        id: MemberId(id.into()),
        identity: [0x10 + id; 32],
        signing: [0x20 + id; 32],
        sealed: (number > 0).then_some(SealedSecret(counting(0x80))),
        address: format!("host-{id}:700{id}"),
    };
    let facts = Facts {
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
    };
    let tuning = Tuning {
        checkpoint_slots: 64,
        checkpoint_bytes: 12 << 20,
        window_slots: 256,
        batch_requests: 2048,
        proposals_in_flight: 4,
        interleaving: 0,
    };
    Configuration {
        group: identity().group,
        number,
        protocol: "toy".to_owned(),
        facts,
        f: 1,
        lane: PillarConfig::default(),
        tuning,
        requests: RequestMeans::Signature,
        secret: (number > 0).then(|| digest(0xe0)),
        administrators: Administrators { threshold: 1, keys: vec![[0xa0; 32]] },
        access: Access::Open,
        members: [1, 2, 3].map(member).to_vec(),
        next_member: MemberId(4),
    }
}

fn lives(of_the_last: u64) -> Vec<Life> {
    [1, 2, of_the_last].map(|number| Life::mac(Incarnation(number))).to_vec()
}

fn signatures() -> Vec<(ReplicaId, Signature)> {
    [0, 2].map(|author| (ReplicaId(author), Signature(counting(author as u8)))).to_vec()
}

/// The epoch with which the group begins.
pub fn first() -> Arc<Membership> {
    Arc::new(configuration(0).begin(&lives(3)))
}

/// How the first configuration ended in the next one.
pub fn link() -> Proof {
    let next = configuration(1);
    let (base, lives) = (Base::default(), lives(3));
    let handover = Handover { epoch: Epoch(0), base, lives, next: Some(next.digest()) };
    let (next, by) = (Some(Arc::new(next)), Witnesses::Members);
    Proof { handover, next, by, signatures: signatures() }
}

/// The epoch that follows on it.
pub fn second() -> Arc<Membership> {
    Arc::new(link().successor(&first()))
}

/// The one that follows in the same configuration, and how that began.
pub fn third() -> (Arc<Membership>, Proof) {
    let Snapshot { slot, digest: state, .. } = state(64);
    let (base, lives) = (Base { slot, state }, lives(4));
    let handover = Handover { epoch: Epoch(1), base, lives, next: None };
    let membership = Arc::new(second().after(&handover));
    let (next, by) = (None, Witnesses::Members);
    (membership, Proof { handover, next, by, signatures: signatures() })
}

fn ui(instance: u8, certificate: Certificate) -> Ui {
    Ui {
        incarnation: Incarnation(5),
        instance: Instance(instance),
        position: Position::new(View(2), 3),
        committed: Position::new(View(1), 4),
        certificate,
    }
}

fn memory() -> Memory {
    let (last, committed) = (Position::new(View(2), 3), Position::new(View(1), 4));
    let statement = Statement { position: last, committed, digest: digest(5) };
    Memory { last, committed, recent: vec![statement] }
}

/// One of each kind of entry.
pub fn entries() -> Vec<Entry> {
    let position = Position::new(View(2), 3);
    let certified = |instance, first| {
        let (instance, digest) = (Instance(instance), digest(first));
        Entry::Certified { instance, position, digest }
    };
    vec![
        Entry::Record(Bytes::from_static(b"what the core asked to be kept")),
        certified(0, 6),
        certified(1, 7),
        Entry::Memory(Instance(0), memory()),
        Entry::Memory(Instance(1), memory()),
        Entry::Issued { ui: ui(0, Certificate::Mac(counting(8))), digest: digest(9) },
        Entry::Issued { ui: ui(1, Certificate::Signature(counting(10))), digest: digest(11) },
    ]
}

/// A state of 20 sections: one has several chunks, two small ones are in one piece, and most are
/// empty. Another one is empty in later states.
pub fn state(slot: u64) -> Snapshot {
    let is_later = slot > 64;
    let section = |index: u8| match index {
        0 => vec![slot as u8; 40],
        1 if is_later => b"one".to_vec(),
        2 => b"two".to_vec(),
        3 => [&[1][..], &[0; 300 << 10], &[2]].concat(),
        16 => b"sixteen".to_vec(),
        17 if !is_later => b"seventeen".to_vec(),
        _ => Vec::new(),
    };
    Snapshot::new(Slot(slot), Tree::of(Slot(slot), (0..20).map(section)))
}

/// A replica goes through two changes of epochs and two states, of which the second one is in the
/// log, as what changed.
pub fn kept() -> SimDisk {
    let disk = disk(&super::Files::new());
    let created = Kept::create(&mut *disk.root(), identity(), first(), options(24));
    let mut kept = Stepped::new(created.expect("an empty disk"));
    let of_first = Entry::Record(Bytes::from_static(b"of the first epoch"));
    kept.append(of_first).expect("nothing failed");
    write(&mut kept);
    let start = EpochStart { membership: second(), proof: None, links: vec![link()] };
    kept.begin_epoch(start).expect("nothing failed");
    kept.save(state(64)).expect("nothing failed");
    write(&mut kept);
    let (membership, proof) = third();
    let begun = kept.begin_epoch(EpochStart::within(membership, Some(proof)));
    kept.stable(Slot(64), begun.expect("nothing failed")).expect("nothing failed");
    for entry in entries() {
        kept.append(entry).expect("nothing failed");
    }
    write(&mut kept);
    kept.save(state(128)).expect("nothing failed");
    write(&mut kept);
    disk
}

/// The disk does all that it can.
fn write(kept: &mut Stepped) {
    while Job::ALL.into_iter().any(|job| kept.begin(job)) {
        for job in Job::ALL {
            kept.end(job).expect("nothing fails");
        }
    }
}

pub fn open(disk: &SimDisk) -> Result<(Kept, Past), StorageError> {
    Kept::open(&mut *disk.root(), identity(), &first(), options(24))
}

/// A group of keys alone, whose order is split.
pub fn of_pillars() -> Arc<Membership> {
    let lane = PillarConfig { pillars: 2, rotates: true, pillar: None };
    let members = [1, 2, 3].map(|id| ([0x10 + id; 32], Life::mac(Incarnation(id.into()))));
    Arc::new(Membership { lane, ..Membership::of_keys(identity().group, 1, members) })
}

/// What two pillars keep: the first byte of a record, or the device, says which.
pub fn parts() -> Vec<Entry> {
    let record = |part: u8, text: &[u8]| Entry::Record([&[part], text].concat().into());
    let (instance, position) = (Instance(1), Position::new(View(2), 3));
    vec![
        record(0, b"before"),
        record(1, b"before"),
        record(1, b"again"),
        record(0, b"again"),
        Entry::Certified { instance, position, digest: digest(6) },
        Entry::Memory(instance, memory()),
        Entry::Issued { ui: ui(1, Certificate::Mac(counting(7))), digest: digest(8) },
        record(0, b"behind"),
    ]
}

/// A replica of two pillars, each of which writes again from another place on what it needs.
pub fn in_pillars() -> SimDisk {
    let disk = disk(&super::Files::new());
    let created = Kept::create(&mut *disk.root(), identity(), of_pillars(), options(16));
    let mut kept = created.expect("an empty disk");
    let entries = parts();
    let (before, later) = entries.split_at(2);
    let (again, behind) = later.split_at(2);
    for entry in before {
        kept.append(entry).expect("room");
    }
    kept.save(&state(64)).expect("nothing fails");
    let again = [&again[0], &again[1]].map(|entry| kept.append(entry).expect("room"));
    kept.stable(Slot(64), Needed::of_parts(&[again[1], again[0]])).expect("room");
    kept.commit().expect("nothing fails");
    for entry in behind {
        kept.append(entry).expect("room");
    }
    kept.commit().expect("nothing fails");
    disk
}

pub fn open_pillars(disk: &SimDisk) -> Result<(Kept, Past), StorageError> {
    Kept::open(&mut *disk.root(), identity(), &of_pillars(), options(16))
}

/// Two blocks, but for one.
pub fn record(number: u64) -> Record {
    let size = if number == 4 { 100 } else { 600 };
    Record { number, kind: 0x70 + number as u8, body: vec![number as u8; size].into() }
}

/// Each record is in a segment of its own. The first two segments go, and the last two are in their
/// files: of those the first is sealed, and behind the end of the second is what was there before.
pub fn in_segments() -> SimDisk {
    let disk = disk(&super::Files::new());
    let folder = disk.root().folder(LOG).expect("no folder needs to be made");
    let mut log = Log::create(folder, identity(), options(4)).expect("an empty folder");
    for number in 1..=5 {
        let Record { kind, body, .. } = record(number);
        assert_eq!(log.append(kind, &body).expect("room"), number);
        log.commit().expect("nothing fails");
        if number == 3 {
            log.truncate_below(3).expect("nothing fails");
            assert_eq!(log.segments(), 1);
        }
    }
    assert_eq!(log.segments(), 3);
    disk
}

pub fn open_segments(disk: &SimDisk) -> Result<Log, StorageError> {
    let folder = disk.root().folder(LOG)?;
    Log::open(folder, identity(), options(4), Some(3), |_| ()).map(|(log, _)| log)
}
