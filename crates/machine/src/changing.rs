//! Getting ready for the next configuration: while a change is pending that has a place for this
//! replica, it makes what it needs and says so to the group, in an ordered request.

use crate::driver::Driver;
use crate::factory::Prepared;
use crate::halt::Halt;
use crate::machine::Machine;
use crate::observed::Observed;
use crate::store::Disk;
use pentarchy_core::change::{Change, Petition, Ready};
use pentarchy_core::digest::Digest;
use pentarchy_core::epochs::Message;
use pentarchy_core::erased::CoreEvent;
use pentarchy_core::ids::Millis;
use pentarchy_core::mutant;
use tracing::info;

/// Between two times that a replica says that it is ready. It goes on saying so once it is counted:
/// in an idle group nothing else lets the agreed time pass for which the epoch waits for others.
const READY_AGAIN_MS: u64 = 2_000;

/// What a replica has said about a pending change.
#[derive(Clone, Copy, Default)]
pub struct SaidReady {
    /// The change's digest.
    change: Digest,
    /// When it is to say so again, by the driver's clock.
    again_ms: u64,
}

impl<D: Disk> Machine<'_, D> {
    /// Time has passed. Only what cannot be taken back any more counts as pending.
    pub(crate) fn get_ready(&mut self, now: Millis, driver: &mut impl Driver) -> Result<(), Halt> {
        let is_admitted = self.epoch_manager.epochs.is_admitted();
        if self.is_resuming() || !is_admitted || self.executor.readable().is_none() {
            return Ok(());
        }
        self.forget_void_changes();
        let Some((change, digest)) = self.executor.pending_change() else { return Ok(()) };
        let said = self.said_ready;
        if said.change == digest && self.engine.now_ms < said.again_ms {
            return Ok(());
        }
        let me = self.epoch_manager.me;
        if !change.next.members.iter().any(|member| member.identity == me.0) {
            return Ok(());
        }
        let change = change.clone();
        let Some(prepared) = self.epoch_manager.factory.prepare(&change, &digest) else {
            return Ok(());
        };
        if said.change != digest {
            info!(change = %digest, number = change.next.number, "ready for the next configuration");
        }
        self.said_ready =
            SaidReady { change: digest, again_ms: self.engine.now_ms + READY_AGAIN_MS };
        self.say_ready(digest, prepared, now, driver)
    }

    /// Each replica has its core order that, this one included.
    fn say_ready(
        &mut self,
        change: Digest,
        Prepared { signing, life }: Prepared,
        now: Millis,
        driver: &mut impl Driver,
    ) -> Result<(), Halt> {
        let petition = Petition::Ready(Ready { change, signing, life });
        let envelope = self.epoch_manager.seal(&petition, now);
        driver.observe(Observed::Petitions(&envelope));
        self.tell(self.engine.others, &Message::Admit(envelope.clone()), driver);
        match self.answer_settled(envelope, driver) {
            Some(request) => self.step(CoreEvent::Input(request), driver),
            None => Ok(()),
        }
    }

    /// Keys for changes that can never take effect any more go. That a change is not pending does
    /// not say so: after a crash, a replica executes again what was ordered before the change, and
    /// others may count it as ready.
    fn forget_void_changes(&mut self) {
        let Some(current) = &self.membership().stated else { return };
        let (number, withdrawn) = (current.number, self.executor.withdrawn_changes());
        let time = self.executor.time();
        let pending = self.executor.pending_change().map(|(change, _)| change.clone());
        let is_pending = |change: &Change| pending.as_deref().is_some_and(|it| it == change);
        let is_void = |change: &Change| match mutant!("changing.forgets-what-is-not-pending") {
            true => !is_pending(change),
            false => change.is_void(number, withdrawn, time),
        };
        self.epoch_manager.factory.forget_prepared(&is_void);
    }
}
