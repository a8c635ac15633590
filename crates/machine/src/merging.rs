//! A replica whose order is split: what its core tells the pillars, and what those with threads of
//! their own tell it.

use crate::driver::Driver;
use crate::engine::Engine;
use crate::halt::Halt;
use crate::machine::Machine;
use crate::pillar::{FromPillar, ToPillar};
use crate::store::Disk;
use pentarchy_core::erased::CoreEvent;
use pentarchy_core::ports::replica::pillar;

impl<D: Disk> Machine<'_, D> {
    /// What pillars with threads of their own are to be told, in the order of each.
    pub fn to_pillars(&mut self) -> impl Iterator<Item = (u8, ToPillar)> {
        self.admission.take_to_pillars().chain(self.to_pillars.drain(..))
    }

    /// A pillar with a thread of its own says something. What it said in another epoch is gone.
    ///
    /// # Errors
    /// [`Halt`]
    pub fn on_pillar(
        &mut self,
        pillar: u8,
        said: FromPillar,
        driver: &mut impl Driver,
    ) -> Result<(), Halt> {
        match said {
            FromPillar::Output(epoch, output) if epoch == self.engine.epoch => {
                let said = pillar::Input::Said { pillar, output };
                self.step(CoreEvent::Input(said.into()), driver)
            }
            FromPillar::OtherEpoch(peer, epoch) => {
                self.on_other_epoch(peer, epoch, driver);
                self.begin_epoch(driver)
            }
            FromPillar::KeptAgain(epoch, begins) if epoch == self.engine.epoch => {
                self.on_kept_again(pillar, begins)
            }
            FromPillar::Checked(checked) => {
                self.admission.on_checked(checked);
                Ok(())
            }
            FromPillar::Output(..) | FromPillar::KeptAgain(..) => Ok(()),
        }
    }

    /// The core, which has pillars or merges those that have threads of their own, says something.
    pub(crate) fn on_pillars_core(&mut self, output: pillar::Output) -> Result<(), Halt> {
        match output {
            pillar::Output::Tell { pillar, input } => {
                self.to_pillars.push((pillar, ToPillar::Input(input)));
                Ok(())
            }
            pillar::Output::Compacting { pillar, is_done } => self.on_compacting(pillar, is_done),
            // For the merger.
            pillar::Output::Status(_) => Ok(()),
        }
    }

    /// A pillar inside of the core keeps again what it needs, or has done so.
    fn on_compacting(&mut self, pillar: u8, is_done: bool) -> Result<(), Halt> {
        let Some(store) = &mut self.store else { return Ok(()) };
        let Engine { authenticator, taken, .. } = &self.engine;
        Ok(store.keeps_again(pillar, is_done, authenticator.memories(), *taken)?)
    }

    /// A pillar has kept again all that it needs, from this entry on.
    fn on_kept_again(&mut self, pillar: u8, begins: u64) -> Result<(), Halt> {
        let Some(store) = &mut self.store else { return Ok(()) };
        Ok(store.compacted(pillar, begins)?)
    }
}
