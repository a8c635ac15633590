//! A group goes on with other members: links name members, and each epoch says which replicas those
//! are.

use crate::bench::{AtOnce, Bench, RULES, client, identity, request};
use crate::disk::SlowDisk;
use crate::keys::{Eyes, Hand, signature};
use bytes::Bytes;
use pentarchy_core::auth::{Signature, Verifier};
use pentarchy_core::change::{Change, Petition, Ready};
use pentarchy_core::configuration::{
    Access, Administrators, Configuration, MemberEntry, RequestMeans, SealedSecret,
};
use pentarchy_core::counter::{Instance, TrustedMac, Ui};
use pentarchy_core::digest::Digest;
use pentarchy_core::epochs::{Admission, Epochs, Handover, Message, Proof, Witnesses};
use pentarchy_core::erased::{CoreEffect, ReplicaCore};
use pentarchy_core::executor::Executor;
use pentarchy_core::ids::{
    ClientId, Epoch, GroupId, Incarnation, MemberId, Millis, ReplicaId, ReplicaSet, Slot,
};
use pentarchy_core::limits::{LEAVING_MILLIS, TRANSFER_CHUNKS_IN_FLIGHT};
use pentarchy_core::mac_vector::MacVector;
use pentarchy_core::membership::{Base, Life, Membership, PillarConfig};
use pentarchy_core::mutant;
use pentarchy_core::ports::client::{ToClient, ToReplica};
use pentarchy_core::protocol::{BadRecord, Memory, Rules, Tuning};
use pentarchy_core::request::{Draft, Envelope, Request, RequestAuth};
use pentarchy_core::standing::Standing;
use pentarchy_core::transfer::{self, Transfer};
use pentarchy_core::wire::Wire as _;
use pentarchy_machine::{
    Beginning, EPOCHS, Engine, EngineParts, EpochFactory, EpochManager, Halt, HostLimits, Kept,
    Machine, MachineParts, ObservedStore, PROTOCOL, Resuming, Started,
};
use pentarchy_services::null::Null;
use pentarchy_storage::kept::{Certificates, DurableStore};
use std::sync::{Arc, Mutex};

type Heard = Arc<Mutex<Vec<ReplicaId>>>;

/// Makes cores that note whom they hear.
struct Cores {
    me: MemberId,
    heard: Heard,
}

/// What members sign by, first in epoch 0 and then in all later ones.
const KEYS: [&str; 2] = ["replica", "replica with another key"];

/// Knows the members by their keys of an epoch.
struct EyesOf {
    place: Eyes,
    keys: &'static str,
}

impl Verifier for EyesOf {
    fn signature(&self, replica: ReplicaId, digest: &Digest, said: &[u8; 64]) -> bool {
        signature(self.keys, replica, digest).0 == *said
    }
    fn usig(&self, replica: ReplicaId, digest: &Digest, ui: &Ui) -> bool {
        self.place.usig(replica, digest, ui)
    }
    fn mac(&self, from: (ReplicaId, Instance), digest: &Digest, mac: &TrustedMac) -> bool {
        self.place.mac(from, digest, mac)
    }
    fn vector(&self, author: ReplicaId, digest: &Digest, macs: &MacVector) -> bool {
        self.place.vector(author, digest, macs)
    }
    fn authority(&self, digest: &Digest, signatures: &[(ReplicaId, Signature)]) -> bool {
        self.place.authority(digest, signatures)
    }
    fn envelope(&self, envelope: &Envelope) -> bool {
        self.place.envelope(envelope)
    }
}

impl EpochFactory for Cores {
    fn rules(&self, _: &Membership) -> Rules {
        RULES
    }
    fn verifier(&mut self, membership: &Arc<Membership>) -> Arc<dyn Verifier> {
        let place = Eyes(membership.index_of(self.me).expect("it has a place"));
        let keys = KEYS[usize::from(membership.epoch != Epoch(0))];
        Arc::new(EyesOf { place, keys })
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
    fn check_records(&self, _: &Membership, _: &[Bytes]) -> Result<(), BadRecord> {
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
        sealed: None,
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
        access: Access::Open,
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
    link_behind(Slot(0))
}

/// The same, behind this slot.
fn link_behind(slot: Slot) -> Proof {
    link_to(configuration(1, &[1, 2, 3]), slot)
}

/// How the first epoch ends behind a slot, with this configuration.
fn link_to(next: Configuration, slot: Slot) -> Proof {
    let base = Base { slot, ..Base::default() };
    let (epoch, lives) = (Epoch(0), vec![life(); next.members.len()]);
    let handover = Handover { epoch, base, lives, next: Some(next.digest()) };
    let statement = handover.statement(&first());
    let sign = |by| (ReplicaId(by), signature("replica", ReplicaId(by), &statement));
    Proof {
        handover,
        next: Some(Arc::new(next)),
        by: Witnesses::Members,
        signatures: vec![sign(1), sign(2)],
    }
}

/// A member of the group as it begins, and whom its cores hear.
fn bench(me: u32) -> (Bench, Heard) {
    of_disk(me, None)
}

/// The same, with what it keeps.
fn of_disk(me: u32, disk: Option<SlowDisk>) -> (Bench, Heard) {
    of_group(first(), me, disk)
}

/// The same, of a group that begins like this.
fn of_group(membership: Arc<Membership>, me: u32, disk: Option<SlowDisk>) -> (Bench, Heard) {
    let me = MemberId(me);
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
        store: disk
            .map(|disk| ObservedStore::new(DurableStore::new(disk, None, Certificates::default()))),
        cache: None,
        resuming: Resuming::new(false, Vec::new()),
        is_split: false,
        prepared: Vec::new(),
        limits: HostLimits::default(),
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
    tell(bench, &Message::Proofs(vec![link()]));
    bench.round(1, &[])?;
    bench.round(1_000, &[])
}

/// Member 2 says something about epochs.
fn tell(bench: &mut Bench, message: &Message) {
    tell_as(bench, 2, message);
}

/// A member says something about epochs.
fn tell_as(bench: &mut Bench, from: u32, message: &Message) {
    let message = [&[EPOCHS][..], &message.to_bytes()].concat();
    bench.machine.on_peer(MemberId(from), [Bytes::from(message)].into_iter(), false);
}

/// What the members were told about epochs since the last call.
fn take_told(bench: &mut Bench) -> Vec<(u32, Message)> {
    let told = std::mem::take(&mut bench.driver.to_peers).into_iter();
    let told = told.filter(|(_, kind, _)| *kind == "epochs");
    told.map(|(to, _, bytes)| (to.0, Message::from_bytes(&bytes.slice(1..)).unwrap())).collect()
}

/// Member 2 asks for another life of its device, with which an epoch ends.
fn asks_admission(bench: &mut Bench) {
    let life = Life::mac(Incarnation(2));
    let configuration = first().configuration;
    let asked = Petition::Admit(Admission { epoch: Epoch(0), configuration, life });
    let requests = vec![Request { number: 1, operation: asked.to_bytes() }];
    let draft = Draft { client: ClientId([102; 32]), floor: 1, events: None, requests };
    let envelope = draft.seal(RequestAuth::Signature([1; 64]));
    tell(bench, &Message::Admit(Arc::new(envelope)));
}

/// What two other members sign by these keys about the end of an epoch.
fn proof(ending: &Membership, handover: Handover, keys: &'static str) -> Proof {
    let statement = handover.statement(ending);
    let sign = |by| (ReplicaId(by), signature(keys, ReplicaId(by), &statement));
    Proof { handover, next: None, by: Witnesses::Members, signatures: vec![sign(2), sign(3)] }
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

/// Whom a replica hears in the second epoch if member 2 says something of the first one. It was
/// replica 2 there, and is replica 1 now.
fn heard_of_the_epoch_before() -> Vec<ReplicaId> {
    let (mut bench, heard) = bench(1);
    bench.round(1, &[]).unwrap();
    end(&mut bench).unwrap();
    say(&mut bench, 2, 0);
    std::mem::take(&mut *heard.lock().unwrap())
}

#[test]
fn what_is_said_in_an_epoch_counts_for_no_replica_of_the_next_one() {
    assert_eq!(heard_of_the_epoch_before(), []);
    let bug = Some("engine.index-before-epoch");
    assert_eq!(mutant::with(bug, heard_of_the_epoch_before), [ReplicaId(1)]);
}

#[test]
fn clients_are_shown_how_a_configuration_ended_when_it_does_and_when_they_ask() {
    let (mut bench, _) = bench(1);
    bench.connect(client(7));
    end(&mut bench).unwrap();
    let told = std::mem::take(&mut bench.driver.to_clients);
    let shown = |links| {
        let standing = Standing { epoch: Epoch(1), links, pending: None, states: Vec::new() };
        ToClient::Standing(standing.to_bytes())
    };
    assert_eq!(told, [(client(7), shown(vec![link()]))], "when it ends");
    for (from, links) in [(0, vec![link()]), (1, vec![]), (u64::MAX, vec![])] {
        let asked = ToReplica::Standing { from }.to_bytes();
        bench.round(1, &[(client(7), asked)]).unwrap();
        assert_eq!(std::mem::take(&mut bench.driver.to_clients), [(client(7), shown(links))]);
    }
}

/// Clients hear of another configuration a little later than replicas begin it. Where these check
/// requests in another way then, nobody is hung up on for having asked as before.
#[test]
fn clients_may_ask_as_they_did_until_they_have_heard_of_another_way() {
    let other = Configuration { requests: RequestMeans::Macs, ..configuration(1, &[1, 2, 3]) };
    for (next, grace) in [(configuration(1, &[1, 2, 3]), false), (other, true)] {
        let (mut bench, _) = bench(1);
        bench.connect(client(7));
        tell(&mut bench, &Message::Proofs(vec![link_to(next, Slot(0))]));
        bench.round(1, &[]).unwrap();
        bench.round(1_000, &[]).unwrap();
        let asks = |bench: &mut Bench, millis: u64| {
            bench.round(millis, &[(client(7), request(client(7), 1, false))]).unwrap();
            !std::mem::take(&mut bench.driver.hung_up).is_empty()
        };
        assert_eq!(asks(&mut bench, 1), !grace);
        bench.connect(client(7));
        assert!(asks(&mut bench, 5_000));
    }
}

/// A request to the group.
fn petition(by: ClientId, petition: &Petition) -> Arc<Envelope> {
    let requests = vec![Request { number: 1, operation: petition.to_bytes() }];
    let draft = Draft { client: by, floor: 1, events: None, requests };
    Arc::new(draft.seal(RequestAuth::Signature([1; 64])))
}

/// A group whose administrator has proposed no change yet, and the change by which it is to
/// continue with these members.
fn to_change(members: &[u32]) -> (Bench, Change) {
    let administrators = Administrators { threshold: 1, keys: vec![client(7).0] };
    let begins = Configuration { administrators, ..configuration(0, &[0, 1, 2, 3]) };
    let (bench, _) = of_group(Arc::new(begins.begin(&[life(); 4])), 1, None);
    let next = Configuration { number: 1, ..begins.clone() };
    let next_member = MemberId(members.len().max(4) as u32);
    let sealed = Some(SealedSecret([1; SealedSecret::BYTES]));
    let members = configuration(1, members).members.into_iter();
    let members = members.map(|member| MemberEntry { sealed, ..member }).collect();
    let secret = Some(Digest([1; 32]));
    let next = Configuration { members, next_member, secret, ..next };
    let expects = begins.digest();
    let change = Change { expects, attempt: 0, expires: Millis(900), next, needed: Vec::new() };
    (bench, change)
}

fn propose(bench: &mut Bench, change: &Change) {
    let proposes = petition(client(7), &Petition::Propose(Arc::new(change.clone())));
    bench.round(1, &[(client(7), ToReplica::Request(proposes).to_bytes())]).unwrap();
}

/// How often a replica answers a query before the last slot of its configuration, and behind it.
fn answers_around_the_end() -> [usize; 2] {
    let (mut bench, change) = to_change(&[0, 1, 2, 3]);
    bench.connect(client(8));
    let digest = change.digest();
    propose(&mut bench, &change);
    let before = answers(&mut bench);
    for member in 0..4 {
        let (signing, life) = ([150 + member; 32], life());
        let possession = Signature([0; 64]);
        let ready = Ready { epoch: Epoch(0), change: digest, signing, life, possession };
        let envelope = petition(ClientId([100 + member; 32]), &Petition::Ready(ready));
        let said = [&[EPOCHS][..], &Message::Admit(envelope).to_bytes()].concat();
        let said = [Bytes::from(said)].into_iter();
        bench.machine.on_peer(MemberId(member.into()), said, false);
    }
    bench.round(1, &[]).unwrap();
    assert!(bench.machine.executor().next_configuration().is_some(), "all members are ready");
    [before, answers(&mut bench)]
}

/// How often a replica answers a client's query.
fn answers(bench: &mut Bench) -> usize {
    bench.driver.to_clients.clear();
    let query = ToReplica::Query { number: 1, operation: Null::operation(8, 8).into() };
    bench.round(1, &[(client(8), query.to_bytes())]).unwrap();
    let told = bench.driver.to_clients.iter();
    told.filter(|(_, message)| matches!(message, ToClient::Answer { .. })).count()
}

#[test]
fn a_replica_whose_configuration_is_over_answers_no_query() {
    assert_eq!(answers_around_the_end(), [1, 0]);
    let bug = Some("epochs.reads-behind-the-end");
    assert_eq!(mutant::with(bug, answers_around_the_end), [1, 1]);
}

#[test]
fn state_is_for_members_and_for_machines_that_a_pending_change_names() {
    let (mut bench, change) = to_change(&[0, 1, 2, 3, 4]);
    let [member, joins, other] = [100, 104, 9].map(|key| ClientId([key; 32]));
    let slot = Slot(77);
    let question = transfer::Message::AskNodes { slot, since: None, below: true, places: vec![] };
    let asks = |bench: &mut Bench, who: ClientId, times: usize| {
        bench.connect(who);
        bench.driver.to_clients.clear();
        let question = (who, ToReplica::State(question.clone()).to_bytes());
        bench.round(1, &vec![question; times]).unwrap();
        let answer = transfer::Message::Gone { slot };
        let told = bench.driver.to_clients.iter();
        told.filter(|it| **it == (who, ToClient::State(answer.to_bytes()))).count()
    };
    let dropped = |bench: &Bench| bench.status().counters.transfer_dropped;
    assert_eq!((asks(&mut bench, joins, 1), dropped(&bench)), (0, 1), "nobody has proposed it");
    propose(&mut bench, &change);
    assert_eq!(asks(&mut bench, joins, 1), 1);
    for who in [member, other] {
        assert_eq!(asks(&mut bench, who, 1), 0, "it does not join");
    }
    assert_eq!(asks(&mut bench, joins, 40), TRANSFER_CHUNKS_IN_FLIGHT, "in one round");
    assert_eq!(dropped(&bench), 3 + 40 - TRANSFER_CHUNKS_IN_FLIGHT as u64);
    bench.driver.hung_up.clear();
    let answer = ToReplica::State(transfer::Message::Gone { slot }).to_bytes();
    bench.round(1, &[(joins, answer)]).unwrap();
    assert_eq!(bench.driver.hung_up.len(), 1, "it answers what nobody asked");
}

/// A member that was shown that it is left out.
fn left_out() -> Bench {
    let (mut bench, _) = bench(0);
    bench.round(1, &[]).unwrap();
    end(&mut bench).unwrap();
    assert_eq!(bench.status().phase, "leaving");
    bench
}

#[test]
fn a_replica_that_is_left_out_ends_when_all_that_stay_have_the_state() {
    let (epoch, has_ended) = (Epoch(1), |ended| matches!(ended, Err(Halt::Removed(Epoch(1)))));
    let mut bench = left_out();
    let told = take_told(&mut bench);
    for member in 1..4 {
        assert!(told.contains(&(member, Message::Leaves { epoch })), "{told:?}");
    }
    tell_as(&mut bench, 0, &Message::Settled { epoch });
    tell_as(&mut bench, 9, &Message::Settled { epoch });
    tell_as(&mut bench, 1, &Message::Settled { epoch: Epoch(0) });
    tell_as(&mut bench, 2, &Message::Settled { epoch });
    tell_as(&mut bench, 3, &Message::Settled { epoch });
    bench.round(1, &[]).unwrap();
    bench.round(600, &[]).unwrap();
    let told = take_told(&mut bench);
    let asked = told.iter().filter(|(_, it)| *it == Message::Leaves { epoch });
    assert_eq!(asked.map(|(to, _)| *to).collect::<Vec<_>>(), [1], "{told:?}");
    tell_as(&mut bench, 1, &Message::Settled { epoch });
    assert!(has_ended(bench.round(1, &[])));

    // Two may be enough, as one is faulty at most; but others may not know the way yet.
    let mut bench = left_out();
    tell_as(&mut bench, 2, &Message::Settled { epoch });
    bench.round(LEAVING_MILLIS, &[]).unwrap();
    tell_as(&mut bench, 3, &Message::Settled { epoch });
    bench.round(1, &[]).unwrap();
    bench.round(LEAVING_MILLIS - 1, &[]).unwrap();
    assert!(has_ended(bench.round(2, &[])));
}

/// Whether a replica that is left out has ended before anybody said that it has the state.
fn ends_with_a_state_that_others_lack() -> bool {
    let (mut bench, _) = bench(0);
    bench.round(1, &[]).unwrap();
    matches!(end(&mut bench), Err(Halt::Removed(Epoch(1))))
}

#[test]
fn a_replica_that_is_left_out_stays_as_long_as_others_lack_the_state() {
    assert!(!ends_with_a_state_that_others_lack());
    let early = Some("epochs.leaves-at-once");
    assert!(mutant::with(early, ends_with_a_state_that_others_lack));
}

#[test]
fn a_replica_that_is_left_out_shows_others_so_and_answers_no_query() {
    let mut bench = left_out();
    bench.connect(client(8));
    assert_eq!(answers(&mut bench), 0);
    take_told(&mut bench);
    tell_as(&mut bench, 3, &Message::At { epoch: Epoch(0), configuration: first().configuration });
    bench.round(1, &[]).unwrap();
    assert!(take_told(&mut bench).contains(&(3, Message::Proofs(vec![link()]))));
    let asked = ToReplica::Standing { from: 0 }.to_bytes();
    bench.round(1, &[(client(8), asked)]).unwrap();
    let standing =
        Standing { epoch: Epoch(1), links: vec![link()], pending: None, states: Vec::new() };
    let shown = (client(8), ToClient::Standing(standing.to_bytes()));
    assert!(bench.driver.to_clients.contains(&shown));
}

#[test]
fn a_member_says_that_it_has_the_first_state_once_it_has() {
    let settled = |bench: &mut Bench| {
        take_told(bench);
        tell_as(bench, 0, &Message::Leaves { epoch: Epoch(1) });
        bench.round(1, &[]).unwrap();
        take_told(bench).contains(&(0, Message::Settled { epoch: Epoch(1) }))
    };
    let (mut one, _) = bench(1);
    one.round(1, &[]).unwrap();
    assert!(!settled(&mut one), "it is in the epoch before");
    end(&mut one).unwrap();
    assert!(settled(&mut one));

    let (mut other, _) = bench(1);
    other.round(1, &[]).unwrap();
    tell(&mut other, &Message::Proofs(vec![link_behind(Slot(9))]));
    other.round(1, &[]).unwrap();
    other.round(1_000, &[]).unwrap();
    assert_eq!(other.status().epoch, 1);
    assert!(!settled(&mut other), "it lacks the state of slot 9");
}

/// In which epochs a replica is that was shown the end of its own, whose state it is slow to keep,
/// and then the end of the next one: signed by former keys while it waits for its disk, and by
/// present keys when it is there.
fn shown_two_ends_while_the_disk_is_slow() -> [u64; 2] {
    // One without a disk says how the epoch ends.
    let (mut fast, _) = bench(0);
    asks_admission(&mut fast);
    fast.round(1, &[]).unwrap();
    let said = fast.driver.to_peers.iter().map(|(.., bytes)| bytes.slice(1..));
    let vote =
        said.flat_map(|bytes| Message::from_bytes(&bytes)).find_map(|message| match message {
            Message::Vote(handover, _) => Some(handover),
            _ => None,
        });
    let ended = proof(&first(), vote.expect("it says how the epoch ends"), KEYS[0]);
    let second = ended.successor(&first());

    let disk = SlowDisk::new(identity(ReplicaId(1)), first());
    let (mut slow, heard) = of_disk(1, Some(disk.clone()));
    asks_admission(&mut slow);
    slow.round(1, &[]).unwrap();
    tell(&mut slow, &Message::Proofs(vec![ended]));
    slow.round(1, &[]).unwrap();
    slow.round(1_000, &[]).unwrap();
    say(&mut slow, 3, 1);
    assert!(heard.lock().unwrap().is_empty(), "the second epoch has not begun");

    let lives = vec![life(); 4];
    let handover = Handover { epoch: Epoch(1), base: second.base, lives, next: None };
    let [forged, honest] = KEYS.map(|keys| proof(&second, handover.clone(), keys));
    let settles = |shown| {
        tell(&mut slow, &Message::Proofs(vec![shown]));
        slow.round(1, &[]).unwrap();
        slow.round(1_000, &[]).unwrap();
        disk.settle();
        slow.round(1, &[]).unwrap();
        slow.status().epoch
    };
    [forged, honest].map(settles)
}

#[test]
fn former_keys_prove_nothing_while_the_next_epoch_waits_for_the_disk() {
    assert_eq!(shown_two_ends_while_the_disk_is_slow(), [1, 2]);
    let early = Some("epochs.judged-early");
    assert_eq!(mutant::with(early, shown_two_ends_while_the_disk_is_slow), [2, 2]);
}

/// Whether a replica has signed how its epoch ends while it has the state in memory only, and when
/// its disk has that too.
fn signs_before_and_behind_the_disk() -> [bool; 2] {
    let disk = SlowDisk::new(identity(ReplicaId(1)), first());
    let (mut bench, _) = of_disk(1, Some(disk.clone()));
    asks_admission(&mut bench);
    bench.round(1, &[]).unwrap();
    let before = has_voted(&mut bench);
    disk.settle();
    bench.round(1, &[]).unwrap();
    [before, has_voted(&mut bench)]
}

/// Whether a replica has told others since the last look how its epoch ends.
fn has_voted(bench: &mut Bench) -> bool {
    take_told(bench).iter().any(|(_, message)| matches!(message, Message::Vote(..)))
}

/// All that signed could lose power, and the next epoch would begin with a state that is gone.
#[test]
fn a_replica_signs_for_a_state_when_its_disk_has_it() {
    assert_eq!(signs_before_and_behind_the_disk(), [false, true]);
    let early = Some("epochs.votes-before-state-is-durable");
    assert_eq!(mutant::with(early, signs_before_and_behind_the_disk), [true, true]);
}

/// A member that keeps what it says has gone on in the second configuration, with its disk, which
/// does not know that yet.
fn ahead_of_its_disk() -> (Bench, SlowDisk) {
    let disk = SlowDisk::new(identity(ReplicaId(1)), first());
    let (mut bench, _) = of_disk(1, Some(disk.clone()));
    bench.round(1, &[]).unwrap();
    end(&mut bench).unwrap();
    bench.round(1, &[]).unwrap();
    assert_eq!(bench.status().epoch, 1);
    (bench, disk)
}

/// Whether a member has erased its keys of the first configuration before its disk knows of the
/// second one, and then.
fn erases_before_and_behind_the_disk() -> [bool; 2] {
    let (mut bench, disk) = ahead_of_its_disk();
    let (_, past) = disk.reopened(identity(ReplicaId(1)), &first());
    assert_eq!(past.membership.epoch, Epoch(0), "if power fails now, it starts with those keys");
    let before = !bench.machine.is_to_erase_keys();
    disk.settle();
    bench.round(1, &[]).unwrap();
    [before, !bench.machine.is_to_erase_keys()]
}

#[test]
fn former_keys_stay_until_no_power_failure_leads_back_to_them() {
    assert_eq!(erases_before_and_behind_the_disk(), [false, true]);
    let early = Some("epochs.erases-before-durable");
    assert_eq!(mutant::with(early, erases_before_and_behind_the_disk), [true, true]);
}

/// The members of the group in which a replica goes on that starts again with a file of the first
/// configuration, and a disk that knows the second one.
fn members_after_a_restart() -> Vec<u32> {
    let (mut bench, disk) = ahead_of_its_disk();
    disk.settle();
    bench.round(1, &[]).unwrap();
    let (disk, past) = disk.reopened(identity(ReplicaId(1)), &first());
    let (me, heard) = (MemberId(1), Heard::default());
    let beginning = Beginning {
        me,
        life: life(),
        membership: first(),
        links: Vec::new(),
        learned: None,
        factory: &mut Cores { me, heard },
        counters: &mut Vec::new(),
        is_split: false,
    };
    let kept = Kept::Log(disk, Some(Box::new(past)));
    let begun = beginning.begin(Box::new(Null::new()), kept).expect("what is kept is its own");
    begun.following.membership().members.iter().map(|member| member.id.0).collect()
}

#[test]
fn a_replica_that_starts_again_goes_by_its_log_and_not_by_its_file() {
    assert_eq!(members_after_a_restart(), [1, 2, 3]);
    let bug = Some("beginning.configuration-from-file");
    assert_eq!(mutant::with(bug, members_after_a_restart), [0, 1, 2, 3]);
}
