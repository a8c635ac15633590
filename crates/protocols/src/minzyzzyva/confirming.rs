//! MinZyzzyva: what replicas confirm to clients. A client that was not answered alike by all asks
//! whether a *place* is final: what one view ordered up to one slot. It relies on the result when
//! `f + 1` replicas say so, as one of them is correct.

use super::speculation::Speculation;
use super::views::{Ordered, Views};
use crate::common::usig::message::Message;
use crate::common::usig::replica::{OnUsig, Phase};
use alloc::vec::Vec;
use pentarchy_core::ids::{ClientId, Slot};
use pentarchy_core::mutant;
use pentarchy_core::ports::client::{Place, ToClient};
use pentarchy_core::ports::replica::speculation;
use pentarchy_core::protocol::Effects;

impl<W: Views> OnUsig<Ordered<W>> {
    /// Whether the order of the view that was entered last is final up to a slot, if so much is
    /// `proven` in this view. If not, it was proven in an earlier view, which this one took it over
    /// from: the last final slot tells that only above an installed state.
    fn is_confirmed(&self, slot: Slot, proven: Slot) -> bool {
        let Speculation { stands, last_final, .. } = self.speculation;
        let any = mutant!("minzyzzyva.installed-state-proves-order");
        let was_proven = slot <= last_final && (slot > stands || any);
        slot <= self.frame.executed && (was_proven || slot <= proven)
    }

    /// Whether it can say of its view what is final there.
    fn may_confirm(&self) -> bool {
        self.phase == Phase::Entered && !self.has_hole()
    }

    /// All places that it would confirm to clients that ask now.
    pub(super) fn all_confirmed(&self) -> Vec<Place> {
        if !self.may_confirm() {
            return Vec::new();
        }
        let proven = self.proven();
        let slots = (self.slots.window.low().0 + 1..=self.frame.executed.0).map(Slot);
        let confirmed = slots.filter(|slot| self.is_confirmed(*slot, proven));
        confirmed.filter_map(|slot| self.place(slot)).collect()
    }

    /// A client was answered alike by some, and not by all: it waits until that is final.
    pub(super) fn settle_for(
        &mut self,
        client: ClientId,
        message: &Message,
        out: &mut Effects<Self>,
    ) {
        // The ingress refuses anything else.
        let Message::Settle { view, slot } = *message else { return };
        let here = view == self.frame.entered && self.may_confirm();
        let Some(place) = self.place(slot).filter(|_| here && slot <= self.frame.executed) else {
            return;
        };
        if !self.frame.concerns(self.slots.ordered(slot), &client) {
            return;
        }
        if self.is_confirmed(slot, self.proven()) {
            out.output(speculation::Output::Tell { client, message: ToClient::Committed(place) });
        } else {
            self.speculation.asking.entry(slot).or_default().insert(client);
            self.want_final(slot, out);
            // Below an installed state nothing else has it commit.
            self.commit_to(slot, out);
        }
    }

    /// The order up to a slot is proven in this view: tells clients that waited for that.
    pub(super) fn tell_asking(&mut self, upto: Slot, out: &mut Effects<Self>) {
        if self.speculation.asking.is_empty() {
            return;
        }
        let later = self.speculation.asking.split_off(&upto.next());
        for (slot, clients) in core::mem::replace(&mut self.speculation.asking, later) {
            let Some(place) = self.place(slot) else { continue };
            for client in clients {
                out.output(speculation::Output::Tell {
                    client,
                    message: ToClient::Committed(place),
                });
            }
        }
    }
}
