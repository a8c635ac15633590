//! What a liar has heard of what devices certified, and what it can say of it. Certificates cannot
//! be forged: the lies are as bad as the liar's own device allows.
//!
//! | lie | what it says |
//! | --- | --- |
//! | `prepare` | as primary: no request (`choice` 0) or the `choice`-th envelope that it knows |
//! | `prepare-again` | another batch in the same slot, if its device lets it |
//! | `prepare-skip` | the same, leaving out a slot |
//! | `prepare-taken-over` | the same, in a slot that the view took over |
//! | `prepare-future` | a batch whose time has not come |
//! | `prepare-unknown` | names an envelope that nobody has |
//! | `prepare-oversize` | names so many envelopes that the batch is past the limits of one |
//! | `prepare-names-small` | names an envelope that should travel inside |
//! | `prepare-rewritten` | any primary's PREPARE, with its envelopes only named |
//! | `commit` | to what the slot orders, whether it was asked to or has left the view |
//! | `commit-other` | to another batch |
//! | `ask` | for a view, without cause |

use super::certificate::{CertifiedViewChange, Header, Opened, Prepared};
use super::order::Order;
use crate::common::lies::{Hearsay, Made, TOLD_MAX, Told, keep};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use pentarchy_core::auth::{Auth, AuthTag, Checksum, Signature};
use pentarchy_core::batch::{Item, Proposal};
use pentarchy_core::counter::{Position, Ui};
use pentarchy_core::digest::Digest;
use pentarchy_core::forge::{Hand, Lie};
use pentarchy_core::ids::{ReplicaId, Slot, View};
use pentarchy_core::limits::WINDOW_SLOTS;
use pentarchy_core::membership::Membership;
use pentarchy_core::protocol::Message;

/// A NEW-VIEW that was heard.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct HeardOpening<E> {
    /// Its header.
    pub header: Header,
    /// From what it follows.
    pub members: Vec<CertifiedViewChange<E>>,
    /// Digest of its statement.
    pub digest: Digest,
}

/// See the [module](self).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Liar<E: Opened> {
    /// Who lies.
    pub me: ReplicaId,
    /// To whom.
    pub membership: Membership,
    /// What every protocol says.
    pub heard: Hearsay,
    /// PREPAREs that were heard or shown.
    pub prepares: BTreeMap<(View, Slot), Prepared>,
    /// VIEW-CHANGEs.
    pub changes: BTreeMap<(View, ReplicaId), CertifiedViewChange<E>>,
    /// NEW-VIEWs.
    pub openings: BTreeMap<View, HeardOpening<E>>,
    /// What it said.
    pub told: Told,
    /// Positions that its device has certified, of the last views.
    pub used: BTreeSet<Position>,
}

/// What was heard.
impl<E: Opened> Liar<E> {
    /// A liar that has heard nothing.
    #[must_use]
    pub fn new(me: ReplicaId, membership: &Membership) -> Self {
        Self {
            me,
            membership: membership.clone(),
            heard: Hearsay::at(membership.base),
            prepares: BTreeMap::new(),
            changes: BTreeMap::new(),
            openings: BTreeMap::new(),
            told: Told::default(),
            used: BTreeSet::new(),
        }
    }

    /// Takes note of a PREPARE.
    pub fn note_order(&mut self, author: ReplicaId, ui: &Ui, order: &Order) {
        if let Order::Prepare { view, slot, proposal } = order {
            let batch = proposal.digest();
            keep(&mut self.prepares, (*view, *slot), Prepared { slot: *slot, batch, ui: *ui });
            let made = Made { author, tag: AuthTag::Usig(*ui), proposal: proposal.clone() };
            self.heard.note_made(*view, *slot, made);
        }
    }

    /// Takes note of a VIEW-CHANGE that shows PREPAREs of this view.
    pub fn note_change(&mut self, certified: CertifiedViewChange<E>, of: View) {
        let change = &certified.change;
        for (id, (view, signature)) in &change.requests {
            self.heard.note_ask(*id, *view, *signature);
        }
        self.heard.note_checkpoint(&change.checkpoint);
        for prepared in &change.prepares {
            keep(&mut self.prepares, (of, prepared.slot), *prepared);
        }
        keep(&mut self.changes, (change.view, certified.author), certified);
    }

    /// The device of this replica certified something: for a lie, or for a core that shares it.
    pub fn note_certified(&mut self, position: Position) {
        self.used.insert(position);
        if self.used.len() > TOLD_MAX {
            self.used.pop_first();
        }
    }

    /// The batch that a view orders in a slot, by its PREPARE or by what it took over.
    fn batch_at(&self, view: View, slot: Slot) -> Option<Digest> {
        let prepared = self.prepares.get(&(view, slot)).map(|prepared| prepared.batch);
        prepared.or_else(|| {
            let members = &self.openings.get(&view)?.members;
            members.iter().find_map(|member| member.change.batch(slot))
        })
    }

    /// The last slot that a view took over.
    fn taken_over(&self, view: View) -> Slot {
        let heard = self.openings.get(&view);
        heard.map_or(self.heard.checkpoint.slot, |heard| heard.header.start.end())
    }

    /// The PREPAREs of a view from a slot on, without a gap, up to a slot.
    #[must_use]
    pub fn run_of_prepares(&self, view: View, after: Slot, end: Slot) -> Vec<Prepared> {
        let slots = (after.0.saturating_add(1)..=end.0).map(Slot);
        slots.map_while(|slot| self.prepares.get(&(view, slot)).copied()).collect()
    }

    /// The highest slot for which a PREPARE of this view was heard.
    #[must_use]
    pub fn last_prepared(&self, view: View) -> Slot {
        let of_view = self.prepares.range((view, Slot(0))..=(view, Slot(u64::MAX)));
        of_view.last().map_or(Slot(0), |((_, slot), _)| *slot)
    }

    /// Whether this replica is the primary of a view.
    #[must_use]
    pub fn leads(&self, view: View) -> bool {
        self.membership.primary(view) == self.me
    }

    /// The last view in which its device certified something.
    #[must_use]
    pub fn at(&self) -> View {
        self.used.last().map_or(View(0), |position| position.view)
    }

    /// Views worth lying about: the one that others are in, the ones around it, and the own.
    #[must_use]
    pub fn views(&self) -> BTreeSet<View> {
        let high = self.heard.highest.max(self.at());
        let low = View(high.0.saturating_sub(1));
        [View(0), low, high, high.next()].into_iter().collect()
    }

    /// Each set of a quorum of the VIEW-CHANGEs for a view, as a mask of their authors.
    #[must_use]
    pub fn quorums(&self, view: View) -> Vec<u64> {
        let known = self.changes.range((view, ReplicaId(0))..=(view, ReplicaId(u16::MAX)));
        let authors: u64 = known.fold(0, |mask, ((_, id), _)| mask | 1 << (id.0 % 64));
        let quorum = self.membership.quorums().majority() as u32;
        let n = self.membership.n().min(8) as u32;
        (1..1u64 << n).filter(|set| set & !authors == 0 && set.count_ones() == quorum).collect()
    }

    /// The VIEW-CHANGEs for a view by these.
    #[must_use]
    pub fn members(&self, of: View, set: u64) -> Vec<CertifiedViewChange<E>> {
        let chosen = |id: &ReplicaId| set & (1 << (id.0 % 64)) != 0;
        let ids = self.membership.ids().filter(chosen);
        ids.filter_map(|id| self.changes.get(&(of, id)).cloned()).collect()
    }
}

/// What can be said of it.
impl<E: Opened> Liar<E> {
    /// Adds lies about the slots of a view.
    pub fn add_orders(&self, view: View, lies: &mut Vec<Lie>) {
        if self.leads(view) && (view == View(0) || self.openings.contains_key(&view)) {
            self.add_prepares(view, lies);
        }
        if !self.leads(view) {
            self.add_commits(view, lies);
        }
        for slot in self.heard.rewritable(view) {
            self.told.add(lies, "prepare-rewritten", view, slot, 0);
        }
    }

    fn add_prepares(&self, view: View, lies: &mut Vec<Lie>) {
        let position = |slot| E::TERMS.position(view, slot);
        let in_view = self.used.range(position(Slot(0))..position(Slot(u64::MAX)));
        let last = in_view.last().and_then(|position| E::TERMS.slot_at(position.index));
        let last = last.unwrap_or_default();
        let slot = last.max(self.taken_over(view)).max(self.heard.checkpoint.slot).next();
        let choices = self.heard.choices();
        for choice in 0..=choices {
            self.told.add(lies, "prepare", view, slot, choice);
        }
        for choice in (1..=choices).filter(|_| last > Slot(0)) {
            self.told.add(lies, "prepare-again", view, last, choice);
        }
        for choice in 1..=choices {
            self.told.add(lies, "prepare-skip", view, slot.next(), choice);
        }
        let first = last.max(self.heard.checkpoint.slot).next();
        for choice in (0..=choices).filter(|_| first <= self.taken_over(view)) {
            self.told.add(lies, "prepare-taken-over", view, first, choice);
        }
        self.told.add(lies, "prepare-future", view, slot, 0);
        self.told.add(lies, "prepare-unknown", view, slot, 0);
        for choice in 1..=choices {
            self.told.add(lies, "prepare-names-small", view, slot, choice);
        }
        if self.heard.knows_too_much() {
            self.told.add(lies, "prepare-oversize", view, slot, 0);
        }
    }

    fn add_commits(&self, view: View, lies: &mut Vec<Lie>) {
        let first = self.heard.checkpoint.slot.next();
        // Another liar may have proposed in a slot that nobody ever reaches.
        let slots = (first.0..=self.last_prepared(view).0).take(WINDOW_SLOTS as usize);
        for slot in slots.map(Slot) {
            if !self.used.contains(&E::TERMS.position(view, slot)) {
                self.told.add(lies, "commit", view, slot, 0);
                self.told.add(lies, "commit-other", view, slot, 0);
            }
        }
    }

    /// Adds these ways to leave for a view, if enough ask for that.
    pub fn add_changes(&self, view: View, kinds: &[&'static str], lies: &mut Vec<Lie>) {
        if view == View(0) || self.used.contains(&Position::new(view, Position::LEAVE)) {
            return;
        }
        let asked = self.heard.others_asking(self.me, view);
        if asked.count() + 1 >= self.membership.quorums().weak() {
            kinds.iter().for_each(|kind| self.told.add(lies, kind, view, Slot(0), 0));
        }
    }

    /// Adds an ask for a view.
    pub fn add_ask(&self, view: View, lies: &mut Vec<Lie>) {
        if view > View(0) && view >= self.heard.highest {
            self.told.add(lies, "ask", view, Slot(0), 0);
        }
    }

    /// Adds what can be told in every protocol.
    pub fn add_shared(&self, lies: &mut Vec<Lie>) {
        let about_states = ["checkpoint", "checkpoint-false"];
        self.told.add_shared(lies, &self.heard, &about_states, self.at());
    }

    /// What a lie says of a slot; none if it is another one.
    #[must_use]
    pub fn compose(&self, lie: &Lie) -> Option<Order> {
        let Lie { kind, view, slot, choice } = *lie;
        Some(match kind {
            "prepare-unknown" => {
                let items = vec![Item::Named(Digest::of(b"nobody has it"))];
                let proposal = Arc::new(Proposal::new(self.heard.time, items));
                Order::Prepare { view, slot, proposal }
            }
            "commit" => Order::Commit { view, slot, batch: self.batch_at(view, slot)? },
            "commit-other" => {
                let right = self.batch_at(view, slot)?;
                Order::Commit { view, slot, batch: self.heard.other_batch(right)? }
            }
            kind if kind.starts_with("prepare") => {
                let proposal = Arc::new(self.heard.proposal(kind, choice)?);
                Order::Prepare { view, slot, proposal }
            }
            _ => return None,
        })
    }

    /// What another primary proposed, rewritten, if the lie is that.
    pub fn rewrite(&mut self, lie: &Lie) -> Option<(ReplicaId, AuthTag, Order)> {
        let Made { author, tag, proposal } = self.heard.rewrite(lie.view, lie.slot)?;
        self.told.remember(lie);
        let order = Order::Prepare { view: lie.view, slot: lie.slot, proposal };
        Some((author, tag, order))
    }

    /// Those who ask for a view, itself among them.
    pub fn requests(&self, view: View, hand: &dyn Hand) -> Vec<(ReplicaId, (View, Signature))> {
        let statement = E::TERMS.signed.request_view_change(&self.membership.domain(), view);
        let own = (self.me, (view, Signature(hand.sign(&statement))));
        let others = self.heard.others_asking(self.me, view);
        let weak = self.membership.quorums().weak();
        core::iter::once(own).chain(others).take(weak).collect()
    }

    /// Makes what it says convince, if its device lets it.
    pub fn authenticate<M: Message>(
        &mut self,
        lie: &Lie,
        message: &M,
        hand: &mut dyn Hand,
    ) -> Option<AuthTag> {
        let digest = message.statement(&self.membership.domain());
        Some(match message.auth() {
            Auth::Channel => {
                self.told.remember(lie);
                AuthTag::Channel
            }
            Auth::Checksum => AuthTag::Checksum(Checksum::of(&digest)),
            Auth::Signature => {
                self.told.remember(lie);
                AuthTag::Signature(hand.sign(&digest))
            }
            Auth::Mac(_) => {
                self.told.remember(lie);
                AuthTag::Mac(hand.mac(self.membership.instance(), &digest).ok()?)
            }
            Auth::Vector => return None,
            // The position is used up, which is memory enough.
            Auth::Usig(_, position) => {
                let ui = hand.certify(self.membership.instance(), position, &digest).ok()?;
                self.note_certified(position);
                AuthTag::Usig(ui)
            }
        })
    }
}
