//! Groups whose epochs a service outside ends, and that service as far as tests need it: it has
//! replicas that sign, and says what the test says.

use crate::bench::{Bench, client, disk, identity, member, membership, pass, request};
use crate::disk::SlowDisk;
use crate::keys::{Eyes, Hand, N, by_authority};
use crate::stopping::{HEAD, Order, SOUND, Stopping};
use bytes::Bytes;
use pentarchy_core::auth::Verifier;
use pentarchy_core::batch::Proposal;
use pentarchy_core::epochs::Handover;
use pentarchy_core::erased::{CoreEffect, Erased, ReplicaCore};
use pentarchy_core::ids::{Epoch, Incarnation, ReplicaId, ReplicaSet, Slot};
use pentarchy_core::membership::{Base, Life, Member, Membership};
use pentarchy_core::protocol::{BadRecord, Memory, Protocol, Rules, Setup, Tuning};
use pentarchy_core::request::{Draft, RequestAuth};
use pentarchy_core::snapshot::Snapshot;
use pentarchy_core::succession::{Body, Issued, SignedReport, Succession};
use pentarchy_core::transfer::Transfer;
use pentarchy_core::wire::Wire;
use pentarchy_machine::{
    Beginning, Engine, EngineParts, EpochFactory, EpochManager, FromAuthority, HostLimits, Kept,
    Machine, MachineParts, Resuming, StateCache, ToAuthority,
};
use pentarchy_services::null::Null;
use std::sync::Arc;

/// Makes the cores of one replica.
struct Cores<const KIND: u8>(ReplicaId);

impl<const KIND: u8> EpochFactory for Cores<KIND> {
    fn rules(&self, _: &Membership) -> Rules {
        Stopping::<KIND>::RULES
    }
    fn verifier(&mut self, _: &Arc<Membership>) -> Arc<dyn Verifier> {
        Arc::new(Eyes(self.0))
    }
    fn core(
        &mut self,
        membership: &Arc<Membership>,
        fetch: Option<ReplicaSet>,
        memory: Memory,
        effects: &mut Vec<CoreEffect>,
    ) -> Box<dyn ReplicaCore> {
        let (me, membership, tuning) = (self.0, membership.clone(), Tuning::default());
        let setup = Setup { me, membership, fetch, memory, tuning };
        Box::new(Erased::<Stopping<KIND>>::start(setup, effects))
    }
    fn check_records(&self, _: &Membership, records: &[Bytes]) -> Result<(), BadRecord> {
        Erased::<Stopping<KIND>>::check_records(records)
    }
}

/// A replica that begins, or goes on from what is on its disk.
pub fn replica<const KIND: u8>(me: ReplicaId, kept: Kept<SlowDisk>) -> Bench {
    let membership = membership();
    let life = membership.members[usize::from(me.0)].life();
    let mut factory = Cores::<KIND>(me);
    let beginning = Beginning {
        me: member(me),
        life,
        membership: membership.clone(),
        links: Vec::new(),
        learned: None,
        factory: &mut factory,
        counters: &mut Vec::new(),
        is_split: false,
    };
    let begun = beginning.begin(Box::new(Null::new()), kept).expect("what is kept is its own");
    let engine = Engine::new(EngineParts {
        core: begun.core,
        verifier: Arc::new(Eyes(me)),
        authenticator: Box::new(Hand { me, remembers: false }),
        me: member(me),
        membership: begun.following.membership().clone(),
        checks_itself: true,
    });
    let sealer = Box::new(|draft: Draft| draft.seal(RequestAuth::Signature([1; 64])));
    let machine = Machine::new(MachineParts {
        engine,
        executor: begun.executor,
        transfer: Transfer::new(member(me)),
        spooling: None,
        epoch_manager: EpochManager::new(begun.following, life, Box::new(factory), sealer),
        store: begun.store,
        cache: None,
        resuming: Resuming::new(false, Vec::new()),
        is_split: false,
        prepared: Vec::new(),
        limits: HostLimits::default(),
    });
    let mut bench = Bench::of_machine(machine);
    bench.connect(client(1));
    bench
}

/// Saves nothing.
struct NoCache;

impl StateCache for NoCache {
    fn offer(&self, _: &Snapshot) {}
    fn cooled(&self) -> Option<Snapshot> {
        None
    }
    fn unread(&self) -> Vec<u32> {
        Vec::new()
    }
    fn has_ended(&self) -> bool {
        false
    }
    fn saved(&self) -> Option<Slot> {
        None
    }
}

/// What a replica has executed that begins with this state of an earlier incarnation, and waits to
/// be admitted.
pub fn reminded(newest: Snapshot) -> Slot {
    let (me, membership) = (ReplicaId(2), membership());
    let life = Life { incarnation: Incarnation(2), ..membership.members[2].life() };
    let beginning = Beginning {
        me: member(me),
        life,
        membership,
        links: Vec::new(),
        learned: None,
        factory: &mut Cores::<SOUND>(me),
        counters: &mut Vec::new(),
        is_split: false,
    };
    let kept = Kept::<SlowDisk>::States(Box::new(NoCache), Some(newest));
    beginning.begin(Box::new(Null::new()), kept).expect("nothing was kept").executor.executed()
}

/// A group, and what its head has ordered.
pub struct Group {
    pub replicas: [Bench; N as usize],
    /// By slot, from the first on.
    pub ordered: Vec<Arc<Proposal>>,
    numbers: u64,
}

impl Group {
    /// In which nobody keeps anything.
    pub fn new<const KIND: u8>() -> Self {
        let replicas = [0, 1, 2].map(|me| replica::<KIND>(ReplicaId(me), Kept::Nothing));
        Self { replicas, ordered: Vec::new(), numbers: 0 }
    }

    /// In which the last one has a disk.
    pub fn with_a_disk<const KIND: u8>() -> (Self, SlowDisk) {
        let (mut group, disk) = (Self::new::<KIND>(), disk(ReplicaId(2)));
        group.replicas[2] = replica::<KIND>(ReplicaId(2), Kept::Log(disk.clone(), None));
        (group, disk)
    }

    /// The last one stops, and goes on from its disk.
    pub fn restart<const KIND: u8>(&mut self, disk: &SlowDisk) -> SlowDisk {
        let disk = self.reopen::<KIND>(disk);
        self.round();
        disk
    }

    /// The same, before its first round.
    pub fn reopen<const KIND: u8>(&mut self, disk: &SlowDisk) -> SlowDisk {
        let me = ReplicaId(2);
        let (disk, past) = disk.reopened(identity(me), &membership());
        self.replicas[2] = replica::<KIND>(me, Kept::Log(disk.clone(), Some(Box::new(past))));
        disk
    }

    /// A client asks, the head orders that, and these hear of it.
    pub fn order(&mut self, by: &[u16]) {
        self.numbers += 1;
        let sent = request(client(1), self.numbers, true);
        self.order_this(sent, by);
    }

    pub fn order_this(&mut self, sent: Bytes, by: &[u16]) {
        let [head, backups @ ..] = &mut self.replicas;
        head.round(1, &[(client(1), sent)]).unwrap();
        let said = head.driver.to_peers.iter().find(|(_, kind, _)| *kind == "message");
        // Behind kind, epoch, author and tag.
        let order = said.map(|(.., bytes)| Order::from_bytes(&bytes.slice(12..)).unwrap());
        self.ordered.extend(order.map(|order| order.proposal));
        for (id, backup) in (1..).zip(backups) {
            if by.contains(&id) {
                pass(head, HEAD.0, backup, id);
            }
            backup.round(1, &[]).unwrap();
        }
        head.driver.to_peers.retain(|(_, kind, _)| *kind != "message");
    }

    /// All replicas hear this from the authority.
    pub fn tell(&mut self, said: &FromAuthority) {
        for it in &mut self.replicas {
            tell(it, said);
        }
    }

    /// A round of each, and of what they then say to each other.
    pub fn round(&mut self) {
        for it in &mut self.replicas {
            it.round(1, &[]).unwrap();
        }
        for from in 0..usize::from(N) {
            for to in (0..usize::from(N)).filter(|to| *to != from) {
                let [one, other] = self.replicas.get_disjoint_mut([from, to]).unwrap();
                pass(one, from as u16, other, to as u16);
            }
        }
    }

    /// So many slots behind this state, as the head ordered them, are what the next epoch inherits.
    pub fn issued(&self, base: Base, slots: usize) -> FromAuthority {
        let lives = membership().members.iter().map(Member::life).collect();
        self.issued_for(Epoch(0), base, slots, lives)
    }

    pub fn issued_for(
        &self,
        epoch: Epoch,
        base: Base,
        slots: usize,
        lives: Vec<Life>,
    ) -> FromAuthority {
        let bodies = self.ordered.iter().skip(base.slot.0 as usize).take(slots);
        let body =
            |proposal: &Arc<Proposal>| Body { proposal: proposal.clone(), named: Vec::new() };
        let bodies: Vec<Body> = bodies.map(body).collect();
        assert_eq!(bodies.len(), slots);
        let inherits = bodies.iter().map(|body| body.proposal.digest()).collect();
        let succession =
            Succession { handover: Handover { epoch, base, lives, next: None }, inherits };
        begin(succession, &[0, 1], bodies)
    }

    pub fn epochs(&self) -> [u64; 3] {
        self.replicas.each_ref().map(|it| it.machine.epoch().0)
    }

    pub fn requests(&self) -> [u64; 3] {
        self.replicas.each_ref().map(|it| it.status().requests)
    }

    /// What each has executed, and the digest of its state.
    pub fn states(&mut self) -> [Base; 3] {
        self.replicas.each_mut().map(|it| {
            let executor = it.machine.executor_mut();
            Base { slot: executor.executed(), state: executor.checkpoint() }
        })
    }

    pub fn assert_equal_states(&mut self) {
        let [one, two, three] = self.states();
        assert_eq!((one, one), (two, three));
    }
}

/// The word of these replicas of the authority.
pub fn begin(succession: Succession, by: &[u16], bodies: Vec<Body>) -> FromAuthority {
    let statement = succession.statement(&membership());
    let signatures = by.iter().map(|id| by_authority(*id, &statement)).collect();
    FromAuthority::Begin { issued: Box::new(Issued { succession, signatures }), bodies }
}

/// A replica hears this from the authority.
pub fn tell(bench: &mut Bench, said: &FromAuthority) {
    let Bench { machine, driver, .. } = bench;
    machine.on_authority(said.clone(), driver).unwrap();
}

pub fn wedge(epoch: u64) -> FromAuthority {
    FromAuthority::Wedge { epoch: Epoch(epoch) }
}

/// What a replica reported since the last call.
pub fn take_reports(bench: &mut Bench) -> Vec<SignedReport> {
    let told = std::mem::take(&mut bench.driver.to_authority).into_iter();
    let report = |message| match message {
        ToAuthority::Report(report) => Some(*report),
        _ => None,
    };
    told.filter_map(report).collect()
}
