//! The epochs of a replica, and what each begins with.

use crate::factory::{EpochFactory, Split, Started};
use pentarchy_core::change::Petition;
use pentarchy_core::digest::Digest;
use pentarchy_core::epochs::{Admission, Epochs, Step};
use pentarchy_core::ids::{ClientId, Epoch, MemberId, Millis, ReplicaSet, Slot};
use pentarchy_core::limits::LEAVING_MILLIS;
use pentarchy_core::membership::{Life, Membership};
use pentarchy_core::outsider::Outsider;
use pentarchy_core::protocol::Memory;
use pentarchy_core::request::{Draft, Envelope, Request};
use pentarchy_core::wire::Wire as _;
use pentarchy_storage::kept::EpochStart;
use std::collections::BTreeSet;
use std::sync::Arc;

/// First byte of a peer's message: a [`Message`](pentarchy_core::epochs::Message) follows.
pub const EPOCHS: u8 = 2;

/// Authenticates a replica's requests to its own group, as a client's are.
pub type Sealer = Box<dyn Fn(Draft) -> Envelope + Send>;

/// The epochs of one replica, and what makes the parts that change with them.
pub struct EpochManager<'f> {
    /// They are ahead of the core that runs until the present event is dealt with.
    pub epochs: Epochs,
    pub(crate) factory: Box<dyn EpochFactory + 'f>,
    /// Authenticates what it asks of its group.
    sealer: Sealer,
    pub(crate) me: ClientId,
    pub(crate) life: Life,
    /// The number of the last request to the group.
    asked: u64,
    pub(crate) steps: Vec<Step>,
    /// So many of the links of the chain were handed over to be kept.
    kept_links: usize,
    /// To be started when the present event is dealt with.
    pub(crate) next: Option<(Arc<Membership>, ReplicaSet)>,
    /// Keys of an earlier configuration are to be erased.
    pub(crate) has_former_keys: bool,
    /// The group goes on without this replica.
    pub(crate) leaving: Option<Leaving>,
}

impl<'f> EpochManager<'f> {
    /// Of these epochs, in the present one of which this replica has a place. It asks to be
    /// admitted there if need be.
    ///
    /// # Panics
    /// If it has none.
    #[must_use]
    pub fn new(
        epochs: Epochs,
        life: Life,
        factory: Box<dyn EpochFactory + 'f>,
        sealer: Sealer,
    ) -> Self {
        let place = epochs.index().expect("a replica without a place ends");
        let me = ClientId(epochs.membership().members[usize::from(place.0)].identity);
        let (steps, kept_links) = (Vec::new(), epochs.links().len());
        // It may have stopped before it erased them, or have joined with keys that are for that.
        let has_former_keys = factory.has_former_keys();
        Self {
            epochs,
            factory,
            sealer,
            me,
            life,
            asked: 0,
            steps,
            kept_links,
            next: None,
            has_former_keys,
            leaving: None,
        }
    }

    /// How this epoch began, to be kept. It may have been reached by several links at once.
    pub(crate) fn start(&mut self, membership: Arc<Membership>) -> EpochStart {
        let proof = self.epochs.proof().cloned();
        let links = self.epochs.links()[self.kept_links..].to_vec();
        self.kept_links += links.len();
        EpochStart { membership, proof, links }
    }

    /// A request under this replica's key to count by the device that it has now.
    pub(crate) fn admission(&mut self, now: Millis) -> Arc<Envelope> {
        let Membership { epoch, configuration, .. } = **self.epochs.membership();
        let admission = Admission { epoch, configuration, life: self.life };
        self.seal(&Petition::Admit(admission), now)
    }

    /// What this replica asks of its group, under its identity key.
    pub(crate) fn seal(&mut self, petition: &Petition, now: Millis) -> Arc<Envelope> {
        self.asked = now.0.max(self.asked + 1);
        let operation = petition.to_bytes();
        let request = Request { number: self.asked, operation };
        let requests = vec![request];
        let draft = Draft { client: self.me, floor: self.asked, events: None, requests };
        Arc::new((self.sealer)(draft))
    }
}

/// What a replica has said about a pending change.
#[derive(Clone, Default)]
pub struct SaidReady {
    /// The change's digest.
    pub change: Digest,
    /// The epoch in which it said so last.
    pub epoch: Epoch,
    /// The request in which it said so last.
    pub request: Option<Arc<Envelope>>,
    /// When it is to say so again, by the driver's clock.
    pub again_ms: u64,
    /// What was executed when it said so last.
    pub executed: Slot,
}

/// What decides which cores an epoch begins with.
pub struct Starting<'a> {
    pub is_admitted: bool,
    /// In parts, for threads of their own.
    pub is_split: bool,
    pub factory: &'a mut dyn EpochFactory,
}

/// The core of an epoch, and those that it merges if it is in parts.
pub struct Parts {
    pub core: Started,
    pub pillar_cores: Vec<Started>,
}

impl Starting<'_> {
    /// Starts the core; nothing that takes part where the device is not admitted.
    pub fn start(
        self,
        membership: &Arc<Membership>,
        fetch: Option<ReplicaSet>,
        memory: Memory,
    ) -> Parts {
        let Self { is_admitted, is_split, factory } = self;
        let pillars = if is_split { membership.lane.pillars } else { 0 };
        if !is_admitted {
            let rules = factory.rules(membership);
            let outsider = |_| Started { core: Box::new(Outsider { rules }), effects: Vec::new() };
            return Parts { core: outsider(0), pillar_cores: (0..pillars).map(outsider).collect() };
        }
        if is_split
            && let Some(Split { merger, pillar_cores }) = factory.split(membership, fetch, &memory)
        {
            return Parts { core: merger, pillar_cores };
        }
        let mut effects = Vec::new();
        let core = factory.core(membership, fetch, memory, &mut effects);
        Parts { core: Started { core, effects }, pillar_cores: Vec::new() }
    }
}

/// What a replica waits for that the group goes on without: see [`crate::leaving`].
pub struct Leaving {
    /// The group that goes on.
    pub(crate) next: Arc<Membership>,
    /// Those of its members that this replica knows, ...
    pub(crate) stay: BTreeSet<MemberId>,
    /// ... and of these, those that have the first state.
    pub(crate) settled: BTreeSet<MemberId>,
    /// Since when these are more than may be faulty, by the driver's clock.
    enough_ms: Option<u64>,
    /// When to ask again.
    pub(crate) ask_ms: u64,
}

impl Leaving {
    /// `peers` are the members that are linked.
    pub(crate) fn new(next: Arc<Membership>, peers: impl Iterator<Item = MemberId>) -> Self {
        let stay = peers.filter(|peer| next.index_of(*peer).is_some()).collect();
        Self { next, stay, settled: BTreeSet::new(), enough_ms: None, ask_ms: 0 }
    }

    /// Whether nobody needs this replica any more.
    pub(crate) fn is_over(&mut self, now_ms: u64) -> bool {
        if self.settled.len() > self.next.f {
            self.enough_ms.get_or_insert(now_ms);
        }
        let over_ms = self.enough_ms.map(|since| since.saturating_add(LEAVING_MILLIS));
        self.settled.len() == self.stay.len() || over_ms.is_some_and(|over_ms| now_ms >= over_ms)
    }

    /// Those to be asked now.
    pub(crate) fn unsettled(&self) -> impl Iterator<Item = MemberId> {
        self.stay.difference(&self.settled).copied()
    }
}
