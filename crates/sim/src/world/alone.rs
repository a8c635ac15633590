//! A replica that enters a view alone, and is left alone there. From the moment at which it enters,
//! what could lead others into that view is lost; nobody hears it for a while, and it hears of
//! checkpoints alone, while the others go on in a later view.

use super::{Address, Packet, World};
use crate::time::Micros;
use pentarchy_core::ids::View;

/// Kinds of messages by which replicas leave a view.
const LEADS_AWAY: [&str; 2] = ["request_view_change", "view_change"];

/// Who is alone in a view.
#[derive(Clone, Copy)]
pub(super) struct Alone {
    index: usize,
    view: View,
    /// Until then nobody hears it.
    until: Micros,
}

impl World<'_> {
    /// Leaves a replica alone, if it is the first to enter a view.
    pub(super) fn look_whether_alone(&mut self, index: usize) {
        let lasts = self.options.left_alone_us;
        if lasts == 0 || self.healed || self.alone.is_some_and(|alone| self.now < alone.until) {
            return;
        }
        let status = self.replicas[index].node.core().status();
        let last = self.alone.map_or(View(0), |alone| alone.view);
        let is_correct = self.replicas[index].adversary.is_none();
        if !is_correct || status.phase != "normal" || status.view <= last {
            return;
        }
        let entered = self.correct().filter(|(_, replica)| {
            let other = replica.node.core().status();
            other.phase == "normal" && other.view >= status.view
        });
        // It is one of them.
        if entered.count() == 1 {
            let until = self.now + lasts;
            self.alone = Some(Alone { index, view: status.view, until });
            self.replicas[index].deaf_until = until + self.rng.below(lasts);
        }
    }

    /// Whether what a replica said is lost because somebody is left alone.
    pub(super) fn is_left_unheard(&self, to: usize, from: Address, packet: &Packet) -> bool {
        let (Packet::Protocol(_, wire), Address::Replica(author)) = (packet, from) else {
            return false;
        };
        let Some(alone) = self.alone.filter(|alone| self.now < alone.until && !self.healed) else {
            return false;
        };
        let speaker = usize::from(author.0);
        if speaker == alone.index || to == alone.index {
            // What the lonely one hears is not decided here.
            return to != alone.index;
        }
        let is_of_view = self.replicas[speaker].node.core().status().view == alone.view;
        let kind = || self.replicas[to].node.kind_of(author, wire).unwrap_or_default();
        is_of_view && !LEADS_AWAY.contains(&kind())
    }
}
