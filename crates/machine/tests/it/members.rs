//! A group goes on with other members: links name members, and each epoch says which replicas those
//! are.

use crate::bench::{AtOnce, Bench, RULES};
use crate::disk::SlowDisk;
use crate::keys::{Eyes, Hand, signature};
use bytes::Bytes;
use pentarchy_core::auth::Verifier;
use pentarchy_core::configuration::{Administrators, Configuration, MemberEntry, RequestMeans};
use pentarchy_core::epochs::{Epochs, Handover, Message, Proof};
use pentarchy_core::erased::{CoreEffect, ReplicaCore};
use pentarchy_core::executor::Executor;
use pentarchy_core::ids::{Epoch, GroupId, Incarnation, MemberId, ReplicaId, ReplicaSet};
use pentarchy_core::membership::{Base, Life, Membership, PillarConfig};
use pentarchy_core::protocol::{BadRecord, Memory, Tuning};
use pentarchy_core::request::{Draft, RequestAuth};
use pentarchy_core::transfer::Transfer;
use pentarchy_core::wire::Wire as _;
use pentarchy_machine::{
    EPOCHS, Engine, EngineParts, EpochFactory, EpochManager, Halt, HostLimits, Machine,
    MachineParts, PROTOCOL, Resuming, Started,
};
use pentarchy_services::null::Null;
use std::sync::{Arc, Mutex};

type Heard = Arc<Mutex<Vec<ReplicaId>>>;

/// Makes cores that note whom they hear.
struct Cores {
    me: MemberId,
    heard: Heard,
}

impl EpochFactory for Cores {
    fn verifier(&mut self, membership: &Arc<Membership>) -> Arc<dyn Verifier> {
        Arc::new(Eyes(membership.index_of(self.me).expect("it has a place")))
    }
    fn core(
        &mut self,
        _: &Arc<Membership>,
        _: Option<ReplicaSet>,
        _: Memory,
        _: &mut Vec<CoreEffect>,
    ) -> Box<dyn ReplicaCore> {
        Box::new(AtOnce::heard_by(self.heard.clone()))
    }
    fn check_records(&self, _: &[Bytes]) -> Result<(), BadRecord> {
        Ok(())
    }
}

fn life() -> Life {
    Life::mac(Incarnation(1))
}

fn configuration(number: u64, members: &[u32]) -> Configuration {
    let entry = |id: &u32| MemberEntry {
        id: MemberId(*id),
        identity: [100 + *id as u8; 32],
        signing: [200 + *id as u8; 32],
        address: format!("host-{id}:7000"),
    };
    Configuration {
        group: GroupId([5; 16]),
        number,
        protocol: "at-once".to_owned(),
        facts: RULES.facts(),
        f: 1,
        lane: PillarConfig::default(),
        tuning: Tuning::default(),
        requests: RequestMeans::Signature,
        secret: None,
        administrators: Administrators::default(),
        members: members.iter().map(entry).collect(),
        next_member: MemberId(4),
    }
}

/// The group as it begins, with four members.
fn first() -> Arc<Membership> {
    Arc::new(configuration(0, &[0, 1, 2, 3]).begin(&[life(); 4]))
}

/// How its first epoch ends: member 0 leaves, so that all others have other places.
fn link() -> Proof {
    let next = configuration(1, &[1, 2, 3]);
    let (epoch, base, lives) = (Epoch(0), Base::default(), vec![life(); 3]);
    let handover = Handover { epoch, base, lives, next: Some(next.digest()) };
    let statement = handover.statement(&first());
    let sign = |by| (ReplicaId(by), signature("replica", ReplicaId(by), &statement));
    Proof { handover, next: Some(Arc::new(next)), signatures: vec![sign(1), sign(2)] }
}

/// A member of the group as it begins, and whom its cores hear.
fn bench(me: u32) -> (Bench, Heard) {
    let (membership, me) = (first(), MemberId(me));
    let heard = Heard::default();
    let mut factory = Cores { me, heard: heard.clone() };
    let place = membership.index_of(me).expect("it is a member");
    let (verifier, mut effects) = (factory.verifier(&membership), Vec::new());
    let core = factory.core(&membership, None, Memory::Volatile, &mut effects);
    let engine = Engine::new(EngineParts {
        core: Started { core, effects },
        verifier,
        authenticator: Box::new(Hand { me: place, remembers: false }),
        me,
        membership: membership.clone(),
        checks_itself: true,
    });
    let epochs = Epochs::new(me, life(), membership.clone());
    let sealer = Box::new(|draft: Draft| draft.seal(RequestAuth::Signature([1; 64])));
    let machine: Machine<'static, SlowDisk> = Machine::new(MachineParts {
        engine,
        executor: Executor::new(membership, Box::new(Null::new())),
        transfer: Transfer::new(me),
        spooling: None,
        epoch_manager: EpochManager::new(epochs, life(), Box::new(factory), sealer),
        store: None,
        cache: None,
        resuming: Resuming::new(false, Vec::new()),
        is_split: false,
        prepared: Vec::new(),
        limits: HostLimits::default(),
        protocol: "at once".to_owned(),
    });
    (Bench::of_machine(machine), heard)
}

/// A member says something to the core of an epoch.
fn say(bench: &mut Bench, from: u32, epoch: u64) {
    let message = [&[PROTOCOL][..], &epoch.to_le_bytes(), &[0; 3]].concat();
    bench.machine.on_peer(MemberId(from), [Bytes::from(message)].into_iter(), false);
    bench.round(1, &[]).unwrap();
}

/// Shows the end of the first epoch, and lets the time pass in which the core might get there.
fn end(bench: &mut Bench) -> Result<(), Halt> {
    let shown = Message::Proofs(vec![link()]).to_bytes();
    let message = [&[EPOCHS][..], &shown].concat();
    bench.machine.on_peer(MemberId(2), [Bytes::from(message)].into_iter(), false);
    bench.round(1, &[])?;
    bench.round(1_000, &[])
}

#[test]
fn a_member_is_the_replica_that_its_epoch_says() {
    let (mut bench, heard) = bench(1);
    bench.round(1, &[]).unwrap();
    say(&mut bench, 3, 0);
    assert_eq!(std::mem::take(&mut *heard.lock().unwrap()), [ReplicaId(3)]);
    let before = bench.status();
    assert_eq!((before.replica, before.member), (1, 1));
    assert!(bench.driver.members.is_empty(), "links are as they were");

    end(&mut bench).unwrap();
    let after = bench.status();
    assert_eq!((after.epoch, after.replica, after.member), (1, 0, 1));
    assert_eq!(after.members, [1, 2, 3]);
    assert_eq!(bench.driver.members, [1, 2, 3].map(MemberId), "the driver is told");
    say(&mut bench, 3, 1);
    assert_eq!(std::mem::take(&mut *heard.lock().unwrap()), [ReplicaId(2)]);
}

#[test]
fn one_who_left_has_no_place_and_is_shown_how_its_epoch_ended() {
    let (mut bench, heard) = bench(1);
    bench.round(1, &[]).unwrap();
    say(&mut bench, 0, 0);
    assert_eq!(std::mem::take(&mut *heard.lock().unwrap()), [ReplicaId(0)]);
    let refused_from = |bench: &Bench| bench.status().refused_from;
    assert_eq!(refused_from(&bench)[&0], 1, "the core knows no messages");
    end(&mut bench).unwrap();
    assert!(!refused_from(&bench).contains_key(&0), "what it did counts no more");
    let told = bench.driver.to_peers.iter().filter(|(to, kind, _)| (to.0, *kind) == (0, "epochs"));
    assert!(told.count() > 0, "it is shown that it is left out");

    say(&mut bench, 0, 1);
    assert!(heard.lock().unwrap().is_empty(), "no core hears it");
    assert_eq!(bench.status().rejects["wrong_author"], 1);
    bench.driver.to_peers.clear();
    say(&mut bench, 0, 0);
    let [(to, kind, bytes)] = &bench.driver.to_peers[..] else {
        panic!("{:?}", bench.driver.to_peers)
    };
    assert_eq!((*to, *kind), (MemberId(0), "epochs"));
    assert_eq!(Message::from_bytes(&bytes.slice(1..)), Ok(Message::Proofs(vec![link()])));
}

#[test]
fn a_replica_that_is_left_out_ends() {
    let (mut bench, _) = bench(0);
    bench.round(1, &[]).unwrap();
    assert!(matches!(end(&mut bench), Err(Halt::Removed(Epoch(1)))));
}
