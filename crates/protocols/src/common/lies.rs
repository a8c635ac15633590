//! What a liar of any protocol has heard, and the lies that it can tell in any: what its protocol
//! adds is in that protocol's `byzantine.rs`.
//!
//! | lie | what it says |
//! | --- | --- |
//! | `ask` | for a view, without cause |
//! | `checkpoint`, `checkpoint-false` | signs a state that others have, or none has |
//! | `body` | gives a batch that somebody lacks |
//! | `body-rewritten` | the same, and only names what travels whole in it |
//! | `report` | pretends to lack everything, so that others send it |

use super::certificate::{CheckpointProof, Vouched};
use super::message::{More, Report, Shared, Statements};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use pentarchy_core::auth::{Auth, AuthTag, Signature};
use pentarchy_core::batch::{Item, Proposal};
use pentarchy_core::digest::Digest;
use pentarchy_core::forge::{Hand, Lie};
use pentarchy_core::ids::{Millis, ReplicaId, Slot, View};
use pentarchy_core::limits::{BATCH_BYTES_MAX, BATCH_REQUESTS_MAX};
use pentarchy_core::membership::{Base, Membership};
use pentarchy_core::protocol;
use pentarchy_core::request::Envelope;

/// Entries of each table; a liar that forgets old things lies about new ones.
pub const KEPT_MAX: usize = 64;

/// Lies remembered, so as not to repeat them; then they may be repeated.
pub const TOLD_MAX: usize = 1024;

/// Envelopes that a lying primary chooses among.
pub const CHOICES_MAX: usize = 4;

/// Adds to a table, which forgets its first entry when it is full.
pub fn keep<K: Ord + Clone, V>(table: &mut BTreeMap<K, V>, key: K, value: V) {
    table.insert(key, value);
    if table.len() > KEPT_MAX {
        table.pop_first();
    }
}

/// Sets of VIEW-CHANGEs that a lying primary chooses among.
const SETS_MAX: usize = 16;

/// Of how many replicas it makes such sets.
const SETS_OF_MAX: usize = 16;

/// Sets of so many of the `n` replicas of which it has what it needs, as masks.
#[must_use]
pub fn sets(known: impl Iterator<Item = ReplicaId>, n: usize, size: usize) -> Vec<u64> {
    let authors: u64 = known.fold(0, |mask, id| mask | 1 << (id.0 % 64));
    if (authors.count_ones() as usize) < size {
        return Vec::new();
    }
    let fits = |set: &u64| set & !authors == 0 && set.count_ones() as usize == size;
    (1..1u64 << n.min(SETS_OF_MAX)).filter(fits).take(SETS_MAX).collect()
}

/// A checkpoint of a state that nobody else signed, with the liar's signature as often as it takes.
#[must_use]
pub fn vouched_alone<S: Vouched>(
    (statements, membership): (&Statements, &Membership),
    (slot, state): (Slot, S),
    quorum: usize,
    hand: &dyn Hand,
) -> CheckpointProof<S> {
    let statement = statements.checkpoint(&membership.domain(), slot, &state);
    let signature = Signature(hand.sign(&statement));
    let signatures = membership.ids().take(quorum).map(|id| (id, signature)).collect();
    CheckpointProof { slot, state, signatures }
}

/// By what a message of a liar convinces, if it uses no counter of its device.
pub fn authenticate<M: protocol::Message>(
    message: &M,
    membership: &Membership,
    hand: &mut dyn Hand,
) -> Option<AuthTag> {
    let digest = message.statement(&membership.domain());
    Some(match message.auth() {
        Auth::Channel => AuthTag::Channel,
        Auth::Signature => AuthTag::Signature(hand.sign(&digest)),
        Auth::Mac(_) => AuthTag::Mac(hand.mac(membership.instance(), &digest).ok()?),
        Auth::Checksum | Auth::Usig(..) | Auth::Vector => return None,
    })
}

/// How many of the last proposals of a view a liar changes.
const REWRITTEN_MAX: usize = 4;

/// A proposal as its primary made it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Made {
    /// The primary.
    pub author: ReplicaId,
    /// By what it convinces.
    pub tag: AuthTag,
    /// What it orders.
    pub proposal: Arc<Proposal>,
}

/// The same envelopes at the same time, all of them only named; none if they were anyway.
#[must_use]
pub fn rewritten(proposal: &Proposal) -> Option<Proposal> {
    proposal.whole().next()?;
    let items = proposal.items.iter().map(|item| Item::Named(item.digest())).collect();
    Some(Proposal::new(proposal.time, items))
}

/// All that can be used again, of what every protocol says.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Hearsay<S: Ord = Digest> {
    /// By digest.
    pub envelopes: BTreeMap<Digest, Arc<Envelope>>,
    /// By digest.
    pub proposals: BTreeMap<Digest, Arc<Proposal>>,
    /// By view and slot.
    pub made: BTreeMap<(View, Slot), Made>,
    /// The highest view that each replica asked for.
    pub asks: BTreeMap<ReplicaId, (View, Signature)>,
    /// Who signed which state.
    pub states: BTreeMap<(Slot, S), BTreeMap<ReplicaId, Signature>>,
    /// The highest proven checkpoint.
    pub checkpoint: CheckpointProof<S>,
    /// Digests of batches that somebody lacks.
    pub wanted: BTreeSet<Digest>,
    /// The highest view of which another replica spoke.
    pub highest: View,
    /// The highest time proposed.
    pub time: Millis,
}

impl<S: Vouched + Ord> Hearsay<S> {
    /// Of one who has heard nothing in an epoch that begins here.
    #[must_use]
    pub fn at(base: Base) -> Self {
        Self {
            envelopes: BTreeMap::new(),
            proposals: BTreeMap::new(),
            made: BTreeMap::new(),
            asks: BTreeMap::new(),
            states: BTreeMap::new(),
            checkpoint: CheckpointProof::initial(base),
            wanted: BTreeSet::new(),
            highest: View(0),
            time: Millis(0),
        }
    }

    /// Takes note of a message.
    pub fn note<M: More<State = S>>(
        &mut self,
        author: ReplicaId,
        tag: &AuthTag,
        message: &Shared<M>,
    ) {
        match (message, tag) {
            (Shared::RequestViewChange { view }, AuthTag::Signature(signature)) => {
                self.note_ask(author, *view, Signature(*signature));
            }
            (Shared::Checkpoint { slot, state }, AuthTag::Signature(signature)) => {
                let signed = Signature(*signature);
                self.states.entry((*slot, *state)).or_default().insert(author, signed);
                if self.states.len() > KEPT_MAX {
                    self.states.pop_first();
                }
            }
            (Shared::Stable(proof), _) => self.note_checkpoint(proof),
            (Shared::Body(proposal), _) => self.note_proposal(proposal),
            (Shared::Forward(envelope) | Shared::Envelope(envelope), _) => {
                self.note_envelope(envelope);
            }
            (Shared::AskBody { batch }, _) if self.wanted.len() < KEPT_MAX => {
                self.wanted.insert(*batch);
            }
            _ => {}
        }
    }

    /// Takes note of an envelope.
    pub fn note_envelope(&mut self, envelope: &Arc<Envelope>) {
        keep(&mut self.envelopes, envelope.digest, envelope.clone());
    }

    /// Takes note of a proposal.
    pub fn note_proposal(&mut self, proposal: &Arc<Proposal>) {
        self.time = self.time.max(proposal.time);
        proposal.whole().for_each(|envelope| self.note_envelope(envelope));
        keep(&mut self.proposals, proposal.digest(), proposal.clone());
    }

    /// Takes note of what a primary proposed.
    pub fn note_made(&mut self, view: View, slot: Slot, made: Made) {
        self.note_proposal(&made.proposal);
        keep(&mut self.made, (view, slot), made);
    }

    /// The last slots of a view with proposals that can be rewritten.
    pub fn rewritable(&self, view: View) -> impl Iterator<Item = Slot> {
        let made = self.made.range((view, Slot(0))..=(view, Slot(u64::MAX))).rev();
        let carries = |made: &Made| made.proposal.whole().next().is_some();
        let slots = made.filter(move |(_, made)| carries(made)).map(|((_, slot), _)| *slot);
        slots.take(REWRITTEN_MAX)
    }

    /// What a primary proposed in a slot, rewritten under its own signature or certificate.
    #[must_use]
    pub fn rewrite(&self, view: View, slot: Slot) -> Option<Made> {
        let Made { author, tag, proposal } = self.made.get(&(view, slot))?;
        let proposal = Arc::new(rewritten(proposal)?);
        Some(Made { author: *author, tag: tag.clone(), proposal })
    }

    /// Takes note of who asks for a view.
    pub fn note_ask(&mut self, id: ReplicaId, view: View, signature: Signature) {
        if self.asks.get(&id).is_none_or(|(before, _)| *before < view) {
            self.asks.insert(id, (view, signature));
        }
    }

    /// Takes note of a stable checkpoint.
    pub fn note_checkpoint(&mut self, proof: &CheckpointProof<S>) {
        if proof.slot > self.checkpoint.slot {
            self.checkpoint = proof.clone();
        }
    }

    /// Who else asks for a view or a higher one.
    pub fn others_asking(
        &self,
        me: ReplicaId,
        view: View,
    ) -> impl Iterator<Item = (ReplicaId, (View, Signature))> {
        let asks = self.asks.iter().filter(move |(id, ask)| **id != me && ask.0 >= view);
        asks.map(|(id, ask)| (*id, *ask))
    }

    /// Views worth lying about: the one that others are in, and the ones around it.
    #[must_use]
    pub fn views(&self) -> BTreeSet<View> {
        let high = self.highest;
        [View(0), View(high.0.saturating_sub(1)), high, high.next()].into_iter().collect()
    }

    /// From how many envelopes a lying primary chooses.
    #[must_use]
    pub fn choices(&self) -> u64 {
        self.envelopes.len().min(CHOICES_MAX) as u64
    }

    /// Whether all envelopes that it knows are too much for one batch.
    #[must_use]
    pub fn knows_too_much(&self) -> bool {
        let all = || self.envelopes.values();
        let requests: usize = all().map(|envelope| envelope.requests.len()).sum();
        let bytes: usize = all().map(|envelope| envelope.len()).sum();
        requests > BATCH_REQUESTS_MAX || bytes > BATCH_BYTES_MAX
    }

    /// A batch with no request (`choice` 0) or the `choice`-th envelope; of a kind that ends in
    /// `-oversize`, with all; in `-names-small`, without carrying it; in `-future`, of a time
    /// that has not come.
    #[must_use]
    pub fn proposal(&self, kind: &str, choice: u64) -> Option<Proposal> {
        let index = choice.checked_sub(1).and_then(|index| usize::try_from(index).ok());
        let items = match index.map(|index| self.envelopes.values().nth(index)) {
            _ if kind.ends_with("-oversize") => self.envelopes.keys().map(named).collect(),
            Some(known) if kind.ends_with("-names-small") => vec![named(&known?.digest)],
            Some(known) => vec![Item::Whole(known?.clone())],
            None => Vec::new(),
        };
        let future = kind.ends_with("-future");
        let time = if future { Millis(u64::MAX / 2) } else { self.time };
        Some(Proposal::new(time, items))
    }

    /// A batch that is not this one.
    #[must_use]
    pub fn other_batch(&self, right: Digest) -> Option<Digest> {
        self.proposals.keys().find(|digest| **digest != right).copied()
    }

    /// What a lie says that can be told in every protocol; none if it is another one.
    #[must_use]
    pub fn compose<M: More<State = S>>(&self, lie: &Lie) -> Option<Shared<M>> {
        let Lie { kind, view, slot, choice } = *lie;
        Some(match kind {
            "ask" => Shared::RequestViewChange { view },
            "checkpoint" => {
                let mut states = self.states.keys().filter(|(at, _)| *at == slot);
                Shared::Checkpoint { slot, state: states.next()?.1 }
            }
            "checkpoint-false" => Shared::Checkpoint { slot, state: false_state() },
            "body" => {
                let wanted = self.wanted.iter().nth(usize::try_from(choice).ok()?)?;
                Shared::Body(self.proposals.get(wanted)?.clone())
            }
            "body-rewritten" => {
                let wanted = self.wanted.iter().nth(usize::try_from(choice).ok()?)?;
                Shared::Body(Arc::new(rewritten(self.proposals.get(wanted)?)?))
            }
            "report" => Shared::Report(Report { view, entered: true, ..Report::default() }),
            _ => return None,
        })
    }
}

const fn named(digest: &Digest) -> Item {
    Item::Named(*digest)
}

/// A state that no replica has.
#[must_use]
pub fn false_state<S: Vouched>() -> S {
    S::initial(Base { slot: Slot(0), state: Digest::of(b"a lie") })
}

/// The lies that were told.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Told(BTreeSet<Lie>);

impl Told {
    /// Notes a lie.
    pub fn remember(&mut self, lie: &Lie) {
        if self.0.len() >= TOLD_MAX {
            self.0.clear();
        }
        self.0.insert(*lie);
    }

    /// Adds a lie to those that can be told, unless it was.
    pub fn add(
        &self,
        lies: &mut Vec<Lie>,
        kind: &'static str,
        view: View,
        slot: Slot,
        choice: u64,
    ) {
        let lie = Lie { kind, view, slot, choice };
        if !self.0.contains(&lie) {
            lies.push(lie);
        }
    }

    /// Adds lies of these kinds about states, and those about batches and reports.
    pub fn add_shared<S: Vouched + Ord>(
        &self,
        lies: &mut Vec<Lie>,
        heard: &Hearsay<S>,
        about_states: &[&'static str],
        view: View,
    ) {
        for (slot, _) in heard.states.keys() {
            about_states.iter().for_each(|kind| self.add(lies, kind, view, *slot, 0));
        }
        for (choice, batch) in (0..).zip(&heard.wanted) {
            if heard.proposals.contains_key(batch) {
                self.add(lies, "body", View(0), Slot(0), choice);
                self.add(lies, "body-rewritten", View(0), Slot(0), choice);
            }
        }
        self.add(lies, "report", heard.highest, Slot(0), 0);
    }
}
