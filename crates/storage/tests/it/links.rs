//! The chain of proofs by which configurations ended, through crashes, damage and mix-ups.

use crate::workload::{identity, options};
use pentarchy_core::auth::Signature;
use pentarchy_core::configuration::{
    Access, Administrators, Configuration, Facts, MemberEntry, RequestMeans,
};
use pentarchy_core::digest::Digest;
use pentarchy_core::epochs::{Handover, Proof, Witnesses};
use pentarchy_core::ids::{GroupId, Incarnation, MemberId, ReplicaId, Slot};
use pentarchy_core::membership::{Base, Life, Member, Membership, PillarConfig};
use pentarchy_core::protocol::{Authority, FaultModel, Tuning};
use pentarchy_core::quorum::{Count, QuorumRule, ReadRule};
use pentarchy_core::wire::Wire as _;
use pentarchy_sim::disk::{Fate, Faults, SimDisk};
use pentarchy_storage::error::StorageError;
use pentarchy_storage::kept::{CHAIN, EpochStart, Kept, Past, read_chain};
use std::sync::Arc;

/// Four members, with new keys in each configuration.
fn configuration(group: GroupId, number: u64) -> Configuration {
    let signing = |member: u8| [10 * (number as u8 + 1) + member; 32];
    let entry = |member: u8| MemberEntry {
        id: MemberId(member.into()),
        identity: [200 + member; 32],
        signing: signing(member),
        sealed: None,
        address: format!("host-{member}:7000"),
    };
    Configuration {
        group,
        number,
        protocol: "toy".to_owned(),
        facts: Facts {
            fault_model: FaultModel::Byzantine,
            group_size: Count::per_fault_and_one(3),
            quorum: QuorumRule::Byzantine,
            replies: Count::per_fault_and_one(1),
            reads: ReadRule::AllButFaulty,
            pillars: false,
            speculative: false,
            replies_itself: false,
            authority: Authority::Members,
            counter: None,
        },
        f: 1,
        lane: PillarConfig::default(),
        tuning: Tuning::default(),
        requests: RequestMeans::Signature,
        secret: None,
        administrators: Administrators { threshold: 1, keys: vec![[90; 32]] },
        access: Access::Open,
        members: [0, 1, 2, 3].map(entry).to_vec(),
        next_member: MemberId(4),
    }
}

fn first() -> Arc<Membership> {
    Arc::new(configuration(identity().group, 0).begin(&[Life::mac(Incarnation(1)); 4]))
}

/// How a configuration ends in the next one, and the epoch with which that begins. Nobody checks
/// the signatures here.
fn next(before: &Membership) -> (Arc<Membership>, Proof) {
    let number = before.stated.as_ref().map_or(0, |stated| stated.number) + 1;
    let next = configuration(before.group, number);
    let base = Base { slot: Slot(0), state: Digest::default() };
    let lives = before.members.iter().map(Member::life).collect();
    let handover = Handover { epoch: before.epoch, base, lives, next: Some(next.digest()) };
    let membership = Arc::new(next.after(&handover));
    let signatures = vec![(ReplicaId(1), Signature([number as u8; 64]))];
    (membership, Proof { handover, next: Some(Arc::new(next)), by: Witnesses::Members, signatures })
}

/// So many configurations behind the first one: of each how it began.
fn chain(length: usize) -> Vec<(Arc<Membership>, Proof)> {
    let mut chain: Vec<(Arc<Membership>, Proof)> = Vec::new();
    while chain.len() < length {
        let before = chain.last().map_or_else(first, |(membership, _)| membership.clone());
        chain.push(next(&before));
    }
    chain
}

fn tearing(seed: u64) -> SimDisk {
    SimDisk::new(seed, Faults { tears_sectors: true, ..Faults::default() })
}

fn open(disk: &SimDisk) -> Result<(Kept, Past), StorageError> {
    Kept::open(&mut *disk.root(), identity(), &first(), options(5))
}

fn begin(
    kept: &mut Kept,
    (membership, link): &(Arc<Membership>, Proof),
) -> Result<(), StorageError> {
    let links = vec![link.clone()];
    let start = EpochStart { membership: membership.clone(), proof: None, links };
    let begun = kept.begin_epoch(start)?;
    kept.commit()?;
    kept.stable(Slot(0), begun)?;
    kept.commit().map(drop)
}

/// A disk of a replica that went through this chain.
fn with(chain: &[(Arc<Membership>, Proof)]) -> SimDisk {
    let disk = tearing(5);
    let created = Kept::create(&mut *disk.root(), identity(), first(), options(5));
    let mut kept = created.expect("an empty disk");
    chain.iter().for_each(|link| begin(&mut kept, link).expect("nothing fails"));
    disk
}

fn path(number: u64) -> String {
    format!("{CHAIN}/{number:016x}.link")
}

#[test]
fn a_replica_that_starts_again_has_the_whole_chain() {
    let chain = chain(5);
    for length in 0..=5 {
        let disk = with(&chain[..length]);
        let past = open(&disk).expect("intact").1;
        let links: Vec<Proof> = chain[..length].iter().map(|(_, link)| link.clone()).collect();
        assert_eq!(past.links, links);
        assert_eq!(past.proof, None, "what is in the chain is not in the log too");
        let last = chain[..length].last().map_or_else(first, |(membership, _)| membership.clone());
        assert_eq!(past.membership, last);
    }
}

/// Power fails at each operation while configurations begin, one after the other.
#[test]
fn the_log_never_names_a_configuration_of_which_a_link_is_missing() {
    let chain = chain(3);
    let mut lengths = [0; 4];
    for run in 0..400 {
        let disk = tearing(run);
        let created = Kept::create(&mut *disk.root(), identity(), first(), options(5));
        let mut kept = created.expect("an empty disk");
        disk.choose(disk.operations() + run / 10, Fate::Stops);
        let mut done = 0;
        while done < chain.len() && begin(&mut kept, &chain[done]).is_ok() {
            done += 1;
        }
        drop(kept);
        disk.restart();
        disk.lose_power();
        let (mut kept, past) = open(&disk).unwrap_or_else(|error| panic!("run {run}: {error}"));
        let length = past.membership.stated.as_ref().expect("it is stated").number as usize;
        assert!((done..=done + 1).contains(&length), "run {run}: {length} of {done}");
        assert!(past.links.iter().eq(chain[..length].iter().map(|(_, link)| link)), "run {run}");
        // It goes on from there.
        chain[length..].iter().for_each(|link| begin(&mut kept, link).expect("nothing fails"));
        assert_eq!(open(&disk).expect("intact").1.links.len(), chain.len());
        lengths[length] += 1;
    }
    assert!(lengths.iter().all(|runs| *runs > 5), "{lengths:?}");
}

/// Power fails at each operation while a replica that joins begins to keep things.
#[test]
fn one_that_joins_begins_with_the_whole_chain_or_begins_again() {
    let chain = chain(3);
    let links: Vec<Proof> = chain.iter().map(|(_, link)| link.clone()).collect();
    let base = Base { slot: Slot(9), state: Digest::of(b"state") };
    let membership = Arc::new(Membership { base, ..Membership::clone(&chain[2].0) });
    let joins = |disk: &SimDisk| {
        let (membership, links) = (membership.clone(), links.clone());
        let start = EpochStart { membership, proof: None, links };
        Kept::create_in(&mut *disk.root(), identity(), start, options(5)).map(drop)
    };
    let mut begun = [0; 2];
    for run in 0..200 {
        let disk = tearing(run);
        disk.choose(disk.operations() + run / 4, Fate::Stops);
        let is_whole = joins(&disk).is_ok();
        disk.restart();
        disk.lose_power();
        // Nobody was told of one that did not come so far.
        if !is_whole {
            joins(&disk).unwrap_or_else(|error| panic!("run {run}: {error}"));
        }
        let opened = Kept::open(&mut *disk.root(), identity(), &membership, options(5));
        let (_, past) = opened.unwrap_or_else(|error| panic!("run {run}: {error}"));
        assert_eq!((&past.membership, &past.links), (&membership, &links), "run {run}");
        assert!(!past.is_whole(), "it lacks the state with which the epoch begins");
        let there = read_chain(disk.root().folder(CHAIN).unwrap(), identity().group);
        assert_eq!(there.unwrap(), links);
        begun[usize::from(is_whole)] += 1;
    }
    assert!(begun.iter().all(|runs| *runs > 5), "{begun:?}");
}

#[test]
fn a_link_that_the_log_does_not_know_goes() {
    let chain = chain(2);
    let (disk, longer) = (with(&chain[..1]), with(&chain));
    disk.tamper(&path(2), Some(longer.content(&path(2))));
    assert_eq!(open(&disk).expect("intact").1.links.len(), 1);
    assert!(!disk.paths().contains(&path(2)));
}

#[test]
fn a_file_is_laid_out_as_the_document_says() {
    let chain = chain(1);
    let proof = chain[0].1.to_bytes();
    let mut bytes = b"PENTLINK".to_vec();
    bytes.extend(1_u32.to_le_bytes());
    bytes.extend(identity().group.0);
    bytes.extend(1_u64.to_le_bytes());
    bytes.extend((proof.len() as u32).to_le_bytes());
    bytes.extend(&proof[..]);
    let check = Digest::of(&bytes);
    bytes.extend(check.0);
    assert_eq!(with(&chain).content(&path(1)), bytes);
}

fn refusal(disk: &SimDisk) -> StorageError {
    match open(disk) {
        Err(error) => error,
        Ok((_, past)) => panic!("it resumes with {} links", past.links.len()),
    }
}

#[test]
fn a_damaged_link_is_refused_wherever_the_damage_is() {
    let disk = with(&chain(2));
    let intact = disk.content(&path(1));
    for place in 0..intact.len() {
        let mut damaged = intact.clone();
        damaged[place] ^= 1;
        disk.tamper(&path(1), Some(damaged));
        let error = refusal(&disk);
        let is_plain = matches!(error, StorageError::Corrupt { .. } | StorageError::Version { .. });
        assert!(is_plain, "{place}: {error}");
    }
    for length in [0, 7, 20, 60, intact.len() - 1] {
        disk.tamper(&path(1), Some(intact[..length].to_vec()));
        assert!(matches!(refusal(&disk), StorageError::Corrupt { .. }), "{length}");
    }
    disk.tamper(&path(1), None);
    let error = refusal(&disk).to_string();
    assert!(error.starts_with("0000000000000001.link, the proof with which"), "{error}");
    disk.tamper(&path(1), Some(vec![0; 1 << 17]));
    assert!(matches!(refusal(&disk), StorageError::Disk(_)), "too large to be one");
}

#[test]
fn a_link_of_another_place_or_group_is_refused() {
    let disk = with(&chain(2));
    let (one, two) = (disk.content(&path(1)), disk.content(&path(2)));
    disk.tamper(&path(1), Some(two));
    assert!(matches!(refusal(&disk), StorageError::Foreign { .. }), "of another number");
    disk.tamper(&path(1), Some(one.clone()));
    assert_eq!(open(&disk).expect("intact").1.links.len(), 2);
    // The whole chain of a group of another name.
    let mut other = one[..one.len() - 32].to_vec();
    other[12] ^= 1;
    let check = Digest::of(&other);
    other.extend(check.0);
    disk.tamper(&path(1), Some(other));
    let error = refusal(&disk).to_string();
    assert!(error.contains("it belongs to another group"), "{error}");
}

#[test]
fn nothing_goes_before_the_chain_is_judged() {
    let (disk, longer) = (with(&chain(2)), with(&chain(3)));
    disk.tamper(&path(3), Some(longer.content(&path(3))));
    let second = disk.content(&path(2));
    disk.tamper(&path(2), Some(vec![0; 7]));
    refusal(&disk);
    assert!(disk.paths().contains(&path(3)), "an operator may have mixed up folders");
    disk.tamper(&path(2), Some(second));
    assert_eq!(open(&disk).expect("intact").1.links.len(), 2);
    assert!(!disk.paths().contains(&path(3)));
}

/// A proof of the same number that leads elsewhere: as from another chain of a group of this name.
#[test]
fn a_chain_that_does_not_end_in_the_configuration_of_the_log_is_refused() {
    let disk = with(&chain(1));
    let (_, mut link) = next(&first());
    let mut elsewhere = configuration(identity().group, 1);
    elsewhere.members[0].signing = [77; 32];
    link.handover.next = Some(elsewhere.digest());
    link.next = Some(Arc::new(elsewhere.clone()));
    let membership = Arc::new(elsewhere.after(&link.handover));
    let other = with(&[(membership, link)]);
    disk.tamper(&path(1), Some(other.content(&path(1))));
    assert!(refusal(&disk).to_string().contains("is not the one in the log"));
}
