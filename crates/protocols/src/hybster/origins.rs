//! NEW-VIEWs of lower views: which of them are worth keeping, and who vouches for them.
//!
//! A faulty primary may keep a sound NEW-VIEW back and show it, or a useless later one, to whom it
//! likes and when it likes. So what a correct replica accepted counts whatever came since, and who
//! has accepted a later one still says of an earlier one that it is sound.

use super::message::{Message, Report};
use super::replica::Hybster;
use alloc::collections::{BTreeMap, BTreeSet};
use pentarchy_core::auth::Verified;
use pentarchy_core::ids::{ReplicaId, View};
use pentarchy_core::mutant;

impl Hybster {
    /// Whether a NEW-VIEW for a view may be accepted once its batches are here: it is the last of
    /// its primary, or a peer says that this is the one that it accepted last. A liar fills no
    /// other places with what it makes up than its own.
    pub(super) fn may_accept(&self, view: View) -> bool {
        let primary = |view: View| self.frame.membership.primary(view);
        let later = self.candidates.range(view.next()..);
        let is_last = || later.clone().all(|(later, _)| primary(*later) != primary(view));
        let accepted = |report: &Report| report.more.from == view;
        let vouched =
            !mutant!("hybster.last-of-primary-only") && self.frame.peers.reports().any(accepted);
        view > self.from() && (vouched || is_last())
    }

    /// The views that VIEW-CHANGEs for the wanted one come from.
    fn origins(&self) -> BTreeSet<View> {
        let view = self.frame.view;
        let of_view = self.heard.range((view, ReplicaId(0))..=(view, ReplicaId(u16::MAX)));
        of_view.map(|(_, heard)| heard.change.from()).collect()
    }

    /// Whether others may need this replica's word on the NEW-VIEW of a view, as it has accepted a
    /// later one and a VIEW-CHANGE comes from there. All that its word says is that the NEW-VIEW is
    /// sound, which does not depend on what was accepted since.
    pub(super) fn is_doubted(&self, view: View) -> bool {
        view <= self.from()
            && !self.acknowledged.contains_key(&(view, self.frame.me))
            && self.origins().contains(&view)
            && !mutant!("hybster.last-acknowledgement-only")
    }

    /// Whether an acknowledgement is worth keeping.
    pub(super) fn counts_acknowledgement(&self, view: View, author: ReplicaId) -> bool {
        let later = |(of, by): &(View, ReplicaId)| *by == author && *of > view;
        let is_last = || !self.acknowledged.keys().any(later);
        !self.frame.is_entered() && (is_last() || self.origins().contains(&view))
    }

    pub(super) fn note_acknowledgement(&mut self, verified: Verified<Message>, view: View) {
        if self.counts_acknowledgement(view, verified.author) {
            self.acknowledged.insert((view, verified.author), verified);
            self.forget_acknowledgements();
        }
    }

    /// Keeps of each replica the highest, and those for views that somebody comes from.
    pub(super) fn forget_acknowledgements(&mut self) {
        let (origins, is_over) = (self.origins(), self.frame.is_entered());
        let last: BTreeMap<ReplicaId, View> =
            self.acknowledged.keys().map(|(view, author)| (*author, *view)).collect();
        self.acknowledged.retain(|(view, author), _| {
            !is_over && (origins.contains(view) || last.get(author) == Some(view))
        });
    }
}
