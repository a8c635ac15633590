//! A group whose administrators and members change its configuration, as its executor carries that
//! out: what the tests of such changes begin with.

use crate::toy;
use pentarchy_core::Bytes;
use pentarchy_core::auth::Signature;
use pentarchy_core::batch::Batch;
use pentarchy_core::change::{Change, Petition, Ready, Shown};
use pentarchy_core::configuration::{
    Access, Administrators, Configuration, Facts, MemberEntry, RequestMeans, SealedSecret,
};
use pentarchy_core::counter::Counter;
use pentarchy_core::digest::Digest;
use pentarchy_core::epochs::Handover;
use pentarchy_core::executor::Executor;
use pentarchy_core::ids::{ClientId, Epoch, GroupId, Incarnation, MemberId, Millis, View};
use pentarchy_core::membership::{Life, PillarConfig};
use pentarchy_core::ports::client::{Outcome, Place};
use pentarchy_core::protocol::{Authority, FaultModel, Tuning};
use pentarchy_core::quorum::{Count, QuorumRule, ReadRule};
use pentarchy_core::request::{Draft, Request, RequestAuth};
use pentarchy_core::sessions::Lookup;
use pentarchy_core::wire::Wire;
use std::sync::Arc;

/// Agreed time when the first change is proposed.
pub const NOW: u64 = 1_000_000;

pub const PENDING: &str = "pending; its members have to say that they are ready";

pub fn administrator(number: u8) -> ClientId {
    ClientId([90 + number; 32])
}

/// The key by which a member opens channels.
pub fn identity(member: u32) -> ClientId {
    ClientId([200 + member as u8; 32])
}

/// The key by which a member signs in the configuration of a number.
pub fn signing(member: u32, number: u8) -> [u8; 32] {
    [10 * number + member as u8; 32]
}

pub fn entry(member: u32) -> MemberEntry {
    MemberEntry {
        id: MemberId(member),
        identity: identity(member).0,
        signing: signing(member, 1),
        sealed: None,
        address: format!("host-{member}:7000"),
    }
}

pub fn life(incarnation: u64) -> Life {
    Life::mac(Incarnation(incarnation))
}

/// Three members with trusted devices, of which one may be faulty; two of three administrators have
/// to agree.
pub fn first() -> Configuration {
    Configuration {
        group: GroupId([5; 16]),
        number: 0,
        protocol: "toy".to_owned(),
        facts: Facts {
            fault_model: FaultModel::Hybrid,
            group_size: Count::per_fault_and_one(2),
            quorum: QuorumRule::Majority,
            replies: Count::per_fault_and_one(1),
            reads: ReadRule::AllButFaulty,
            pillars: false,
            speculative: false,
            replies_itself: false,
            authority: Authority::Members,
            counter: Some(Counter::Usig),
        },
        f: 1,
        lane: PillarConfig::default(),
        tuning: Tuning::default(),
        requests: RequestMeans::Signature,
        secret: None,
        administrators: Administrators {
            threshold: 2,
            keys: [0, 1, 2].map(|number| administrator(number).0).to_vec(),
        },
        access: Access::Open,
        members: [0, 1, 2].map(entry).to_vec(),
        next_member: MemberId(3),
    }
}

/// The same without devices, for which one more member is needed.
pub fn without_devices() -> Configuration {
    let mut configuration = first();
    let facts = &mut configuration.facts;
    (facts.fault_model, facts.counter) = (FaultModel::Byzantine, None);
    (facts.group_size, facts.quorum) = (Count::per_fault_and_one(3), QuorumRule::Byzantine);
    configuration.members.push(entry(3));
    configuration.next_member = MemberId(4);
    configuration
}

/// A change of this configuration that alters it like that.
pub fn change_of(current: &Configuration, alter: impl FnOnce(&mut Configuration)) -> Change {
    let mut next = current.clone();
    next.number += 1;
    next.secret = Some(Digest::of(&next.number.to_le_bytes()));
    alter(&mut next);
    if next.secret != current.secret {
        let sealed = Some(SealedSecret([next.number as u8; SealedSecret::BYTES]));
        next.members.iter_mut().for_each(|member| member.sealed = sealed);
    }
    let expires = Millis(NOW + 60_000);
    Change { expects: current.digest(), attempt: 0, expires, next, needed: Vec::new() }
}

/// A fourth member joins.
pub fn adding(current: &Configuration) -> Change {
    let joins = |next: &mut Configuration| {
        next.members.push(entry(3));
        next.next_member = MemberId(4);
    };
    let needed = vec![MemberId(3)];
    Change { needed, ..change_of(current, joins) }
}

/// An executor of a group, with what the last slots answered.
pub struct Group {
    pub executor: Executor,
    pub time: u64,
    pub asked: u64,
}

impl Group {
    pub fn of(configuration: &Configuration) -> Self {
        let lives = vec![life(1); configuration.members.len()];
        let membership = Arc::new(configuration.begin(&lives));
        let executor = Executor::new(membership, toy::Toy::boxed());
        Self { executor, time: NOW, asked: 0 }
    }

    /// One slot with one request for each of these. Gives the answers.
    pub fn slot(&mut self, asked: &[(ClientId, Petition)]) -> Vec<String> {
        let requests: Vec<_> = asked.iter().map(|(by, it)| (*by, it.to_bytes())).collect();
        self.raw(&requests)
    }

    pub fn raw(&mut self, asked: &[(ClientId, Bytes)]) -> Vec<String> {
        let text = |answer: Bytes| String::from_utf8(answer.to_vec()).unwrap();
        self.answers(asked).into_iter().map(text).collect()
    }

    pub fn answers(&mut self, asked: &[(ClientId, Bytes)]) -> Vec<Bytes> {
        let batch = self.batch(asked);
        let answer = |outcome| match outcome {
            Outcome::Done(bytes) => bytes,
            other => panic!("{other:?}"),
        };
        toy::run(&mut self.executor, &batch).into_iter().map(answer).collect()
    }

    /// One slot that may be taken back.
    pub fn speculate(&mut self, asked: &[(ClientId, Petition)]) {
        let requests: Vec<_> = asked.iter().map(|(by, it)| (*by, it.to_bytes())).collect();
        let batch = Arc::new(self.batch(&requests));
        let slot = self.executor.executed().next();
        let place = Place { view: View(0), slot, history: Digest::default() };
        self.executor.speculate(place, &batch, true, |_, _| {});
    }

    fn batch(&mut self, asked: &[(ClientId, Bytes)]) -> Batch {
        let envelope = |(client, operation): &(ClientId, Bytes)| {
            self.asked += 1;
            let requests = vec![Request { number: self.asked, operation: operation.clone() }];
            let draft = Draft { client: *client, floor: 0, events: None, requests };
            Arc::new(draft.seal(RequestAuth::Signature([0; 64])))
        };
        let envelopes: Vec<_> = asked.iter().map(envelope).collect();
        Batch { time: Millis(self.time), envelopes, digest: Digest::default() }
    }

    pub fn show(&mut self) -> Shown {
        let answers = self.answers(&[(administrator(1), Petition::Show.to_bytes())]);
        Shown::from_bytes(&answers[0]).expect("an administrator is shown")
    }

    pub fn pass(&mut self, millis: u64) {
        self.time += millis;
        toy::pass(&mut self.executor, self.time);
    }

    /// Two administrators propose the change.
    pub fn propose(&mut self, change: &Change) -> Vec<String> {
        let change = Arc::new(change.clone());
        let by = |number| (administrator(number), Petition::Propose(change.clone()));
        self.slot(&[by(0), by(2)])
    }

    pub fn pend(&mut self, change: &Change) {
        assert_eq!(self.propose(change)[1], PENDING);
    }

    pub fn ready(&mut self, change: &Change, members: &[u32]) -> Vec<String> {
        let ready: Vec<_> = members.iter().map(|member| ready(change, *member)).collect();
        self.slot(&ready)
    }

    pub fn is_open(&self, (client, petition): &(ClientId, Petition)) -> bool {
        let number = self.asked + 1;
        let requests = vec![Request { number, operation: petition.to_bytes() }];
        let draft = Draft { client: *client, floor: 0, events: None, requests };
        let envelope = draft.seal(RequestAuth::Signature([0; 64]));
        let lookups: Vec<Lookup> = self.executor.lookups(&envelope).collect();
        matches!(lookups[..], [Lookup::New])
    }

    /// Goes on in the next epoch, and gives how the last one ended.
    pub fn next_epoch(&mut self) -> (Handover, Option<Arc<Configuration>>) {
        let handover = self.executor.handover().expect("the epoch ends");
        let next = self.executor.next_configuration();
        let next_configuration = next.clone().expect("with another configuration");
        self.executor.begin_epoch(Arc::new(next_configuration.after(&handover)));
        (handover, next)
    }
}

/// A member brings its next key, and the second life of its device.
pub fn ready(change: &Change, member: u32) -> (ClientId, Petition) {
    let signing = signing(member, change.next.number as u8 + 1);
    let (epoch, change) = (Epoch(0), change.digest());
    // Replicas check it before they order the request.
    let possession = Signature([0; 64]);
    (identity(member), Petition::Ready(Ready { epoch, change, signing, life: life(2), possession }))
}
