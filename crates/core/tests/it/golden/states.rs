//! What the executor has of a state: a checkpoint's digest covers it, files hold it, and replicas
//! fetch it. The service's own sections are its own affair.

use super::parts::{
    Sample, administrator, change, configuration, counting, draft, identity, membership, signature,
};
use pentarchy_core::Bytes;
use pentarchy_core::batch::Batch;
use pentarchy_core::change::{Change, Petition, Ready, Withdrawal};
use pentarchy_core::digest::Digest;
use pentarchy_core::epochs::Admission;
use pentarchy_core::executor::Executor;
use pentarchy_core::ids::{ClientId, Epoch, Incarnation, Millis, Slot};
use pentarchy_core::limits::CHUNK_BYTES_MAX;
use pentarchy_core::membership::{Life, Membership};
use pentarchy_core::ports::client::ToClient;
use pentarchy_core::request::{Draft, FENCE, Request, RequestAuth};
use pentarchy_core::service::{Context, Event, SmallService, Whole};
use pentarchy_core::snapshot::Snapshot;
use pentarchy_core::tree::{Change as Section, Leaf, Tree};
use pentarchy_core::wire::{Malformed, Reader, Wire as _, Writer};
use std::sync::Arc;

/// Gives back what it is asked, and tells the client the same.
#[derive(Default)]
struct Echo(Vec<Event>);

impl SmallService for Echo {
    fn execute(&mut self, context: &Context, operation: &[u8]) -> Vec<u8> {
        let body = Bytes::copy_from_slice(operation);
        self.0.push(Event { client: context.client, body });
        operation.to_vec()
    }
    fn query(&self, operation: &[u8]) -> Vec<u8> {
        operation.to_vec()
    }
    fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.0)
    }
    fn save(&self) -> Vec<u8> {
        Vec::new()
    }
    fn load(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        if bytes.is_empty() { Ok(()) } else { Err(Malformed) }
    }
}

fn executor(membership: Arc<Membership>) -> Executor {
    Executor::new(membership, Box::new(Whole::new(Echo::default())))
}

/// Of the sections of a state those that are the executor's own, one behind the other.
fn own(state: &Snapshot) -> Bytes {
    let mut to = Writer::default();
    for leaf in state.tree.iter().filter(|leaf| is_own(leaf.section())) {
        to.u32(leaf.section());
        to.bytes(&leaf.joined().expect("it is in memory"));
    }
    to.into_bytes()
}

fn is_own(section: u32) -> bool {
    !Executor::section_name(section).ends_with("of the service")
}

/// The state that has these sections of the executor's own.
fn state_of(own: &Bytes, (sections, slot): (u32, Slot)) -> Result<Snapshot, Malformed> {
    let mut from = Reader::new(own);
    let mut changes: Vec<Section> = Vec::new();
    while !from.is_empty() {
        let (section, bytes) = (from.u32()?, from.bytes(CHUNK_BYTES_MAX)?);
        let in_order = changes.last().is_none_or(|(last, _)| *last < section);
        if !in_order || section >= sections {
            return Err(Malformed);
        }
        changes.push((section, Some(Arc::new(Leaf::small(section, bytes, slot)))));
    }
    Ok(Snapshot::new(slot, Tree::new(sections).changed(&changes, slot)))
}

/// What a replica tells the client of the samples.
fn told(executor: &Executor) -> ToClient {
    executor.events(&draft(None).client, 0)
}

/// The state that this executor has now.
fn sample(name: &str, executor: &mut Executor) -> Sample {
    let digest = executor.checkpoint();
    let state = executor.latest().expect("a checkpoint was taken");
    let (shape, told) = ((state.tree.sections(), state.slot), told(executor));
    let membership = executor.membership().clone();
    Sample::read_by(format!("state.{name}"), own(state), move |bytes| {
        let Ok(state) = state_of(bytes, shape) else { return false };
        let mut fresh = self::executor(membership.clone());
        // An executor that reads these bytes has the same state, and writes them again.
        fresh.install(state).is_ok()
            && (fresh.checkpoint(), self::told(&fresh)) == (digest, told.clone())
    })
}

/// A group in which things are ordered, one slot after the other.
struct Group {
    executor: Executor,
    asked: u64,
}

impl Group {
    /// A slot that orders these.
    fn slot(&mut self, envelopes: Vec<Draft>) {
        let slot = self.executor.executed().next();
        let sealed = |draft: Draft| Arc::new(draft.seal(RequestAuth::Signature([0; 64])));
        let envelopes = envelopes.into_iter().map(sealed).collect();
        let batch = Batch { time: Millis(100 * slot.0), envelopes, digest: Digest::default() };
        self.executor.execute(slot, &batch, |_, _| {});
    }

    /// Something is asked of the group itself.
    fn asks(&mut self, client: ClientId, petition: &Petition) -> Draft {
        self.asked += 1;
        let requests = vec![Request { number: self.asked, operation: petition.to_bytes() }];
        Draft { client, floor: 0, events: None, requests }
    }

    /// A member's device begins another life, and with it the next epoch begins.
    fn admit(&mut self) {
        let (epoch, configuration) = (Epoch(0), configuration(0).digest());
        let life = Life::mac(Incarnation(9));
        let asked = Petition::Admit(Admission { epoch, configuration, life });
        let asked = self.asks(identity(2), &asked);
        self.slot(vec![asked]);
        let handover = self.executor.handover().expect("the epoch ends");
        let next = self.executor.membership().after(&handover);
        self.executor.begin_epoch(Arc::new(next));
    }

    /// A client's requests: one number is skipped, and one given up.
    fn work(&mut self) {
        let mut draft = draft(Some(1));
        let given_up = Request { number: 10, operation: Bytes::from_static(FENCE) };
        draft.requests.push(given_up);
        self.slot(vec![draft]);
    }

    fn ready(&mut self, change: &Change, member: u32) -> Draft {
        let ready = Ready {
            epoch: Epoch(1),
            change: change.digest(),
            signing: counting(0x40 + member as u8),
            life: Life::mac(Incarnation(u64::from(member))),
            possession: signature(1),
        };
        self.asks(identity(member), &Petition::Ready(ready))
    }
}

/// States of a group in which a change is proposed, and then pending.
pub fn states() -> Vec<Sample> {
    let executor = executor(Arc::new(membership()));
    let mut group = Group { executor, asked: 0 };
    group.admit();
    group.work();
    let (change, expects) = (change(), configuration(0).digest());
    let propose = Petition::Propose(Arc::new(change.clone()));
    let withdraw = Petition::Withdraw(Withdrawal { expects, attempt: 0 });
    let asked =
        vec![group.asks(administrator(0), &propose), group.asks(administrator(1), &withdraw)];
    group.slot(asked);
    let proposed = sample("proposed", &mut group.executor);
    let mut asked = vec![group.asks(administrator(2), &propose)];
    asked.extend([4, 2, 1].map(|member| group.ready(&change, member)));
    group.slot(asked);
    let (_, digest) = group.executor.pending_change().expect("two administrators proposed it");
    assert_eq!(digest, change.digest());
    let is_ready = |member| group.executor.ready_as(&identity(member)).is_some();
    assert_eq!([1, 2, 3, 4].map(is_ready), [true, true, false, true]);
    assert!(!group.executor.is_ending(), "not all are ready, and nobody has waited");
    vec![proposed, sample("pending", &mut group.executor)]
}
