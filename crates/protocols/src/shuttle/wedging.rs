//! The end: when the authority says so, a replica stops, and says what it has ordered.

use super::mode::Mode;
use super::record::Record;
use super::replica::{Phase, Shuttle};
use pentarchy_core::membership::Base;
use pentarchy_core::mutant;
use pentarchy_core::ports::replica::wedging::{self, History};
use pentarchy_core::protocol::Effects;

impl<M: Mode> Shuttle<M> {
    /// Stops. Who ordered, executed or vouched from now on would do what its report does not say.
    pub(super) fn wedge(&mut self, out: &mut Effects<Self>) {
        if !mutant!("shuttle.wedge-not-in-log") {
            out.persist(Record::Wedged);
        }
        if !mutant!("shuttle.orders-behind-wedge") {
            self.phase = Phase::Wedged;
        }
        self.report(out);
    }

    /// Says what it has ordered.
    pub(super) fn report(&self, out: &mut Effects<Self>) {
        let base = Base { slot: self.stable.slot, state: self.stable.state.state };
        let batches = self.log.iter().map(|entry| entry.batch.digest).collect();
        out.output(wedging::Output::Wedged(History { base, batches }));
    }
}
