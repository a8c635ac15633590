//! The machine asks its peers before it speaks again, and answers peers that do: see
//! [`Resuming`](crate::Resuming).

use crate::driver::Driver;
use crate::engine::Engine;
use crate::halt::Halt;
use crate::machine::Machine;
use crate::observed::Observed;
use crate::resuming::{Message, Next, RESUMING};
use crate::store::Disk;
use bytes::Bytes;
use pentarchy_core::counter::{Instance, Memory, Ui};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::MemberId;
use pentarchy_core::protocol::Reject;
use pentarchy_core::wire::{Malformed, Wire};
use tracing::{info, warn};

impl<D: Disk> Machine<'_, D> {
    /// Whether it waits for its peers' answers, and says nothing until then.
    #[must_use]
    pub const fn is_resuming(&self) -> bool {
        self.resuming.is_waiting()
    }

    /// Asks the peers that have not answered; goes on when enough have, or have not for long
    /// enough.
    pub(crate) fn ask_before_resuming(&mut self, driver: &mut impl Driver) -> Result<(), Halt> {
        if !self.is_resuming() {
            return Ok(());
        }
        // A device that keeps its own memory cannot be put back with a folder: nobody is needed.
        let keeps_itself = self.memories().is_empty();
        let wanted = if keeps_itself { 0 } else { self.membership().f + 1 };
        let next = self.resuming.next(self.engine.places.peers(), wanted, self.engine.now_ms);
        let others = self.resuming.answered.len();
        let is_answered = next == Some(Next::Speak);
        match next {
            None => return Ok(()),
            Some(Next::Ask(peers)) => {
                let ask = Message::Ask { epoch: self.engine.epoch };
                peers.into_iter().for_each(|peer| tell(peer, &ask, driver));
                return Ok(());
            }
            Some(Next::Speak) => {
                info!(
                    others,
                    "resumes: no peer that answered has a later message of this replica than the \
                     log"
                );
            }
            Some(Next::SpeakAnyway) => {
                warn!(
                    others,
                    "resumes, although fewer than f + 1 peers reported the last message that they \
                     saw of this replica"
                );
            }
        }
        driver.observe(Observed::Resumes { epoch: self.engine.epoch, is_answered });
        self.begin_process(driver)
    }

    /// A peer asks, or answers.
    pub(crate) fn on_resuming(
        &mut self,
        peer: MemberId,
        bytes: &Bytes,
        driver: &mut impl Driver,
    ) -> Result<(), Halt> {
        match Message::from_bytes(bytes) {
            Err(Malformed) => self.engine.reject(peer, Reject::Malformed, driver),
            Ok(Message::Ask { epoch }) => {
                let places = &self.engine.places;
                match self.resuming.answer(self.engine.epoch, epoch, || places.replica(peer)) {
                    Some(seen) => tell(peer, &seen, driver),
                    None => self.on_other_epoch(peer, epoch, driver),
                }
            }
            Ok(Message::Seen { epoch, .. }) if epoch != self.engine.epoch => {}
            // It has no part in that epoch.
            Ok(Message::Seen { .. }) if self.engine.places.replica(peer).is_none() => {}
            // Nor does whoever has a former member's machine.
            Ok(Message::Seen { .. }) if !driver.is_convinced_by(peer) => {}
            Ok(Message::Seen { lasts, .. }) => return self.on_seen(peer, &lasts, driver),
        }
        Ok(())
    }

    /// What its devices remember, before it speaks.
    fn memories(&self) -> Vec<(Instance, Memory)> {
        let mut memories = self.engine.authenticator.memories();
        memories.extend(self.resuming.elsewhere.iter().cloned());
        memories
    }

    fn on_seen(
        &mut self,
        peer: MemberId,
        lasts: &[(Digest, Ui)],
        driver: &mut impl Driver,
    ) -> Result<(), Halt> {
        let memories = self.memories();
        let Engine { verifier, places, now_ms, .. } = &self.engine;
        let is_mine = |digest: &Digest, ui: &Ui| verifier.usig(places.me, digest, ui);
        if let Err(why) = self.resuming.on_seen(peer, lasts, &memories, is_mine, *now_ms)? {
            self.engine.reject(peer, why, driver);
        }
        Ok(())
    }
}

fn tell(peer: MemberId, message: &Message, driver: &mut impl Driver) {
    driver.send_peer(peer, "resuming", |to| {
        to.u8(RESUMING);
        message.encode(to);
    });
}
