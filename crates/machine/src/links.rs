//! Links: which are up, and what came over them from peers.

use crate::driver::Driver;
use crate::engine::{Opened, PROTOCOL};
use crate::epochs::EPOCHS;
use crate::halt::Halt;
use crate::inbound::Heard;
use crate::machine::Machine;
use crate::resuming::RESUMING;
use crate::store::Disk;
use crate::transfers::TRANSFER;
use bytes::Bytes;
use pentarchy_core::erased::CoreEvent;
use pentarchy_core::ids::{ClientId, MemberId, Node};
use pentarchy_core::mutant;
use pentarchy_core::protocol::Reject;
use pentarchy_core::transfer;
use pentarchy_core::wire::Wire;

impl<D: Disk> Machine<'_, D> {
    /// A connection to a peer or a client began, and takes the place of any before.
    pub fn on_link_up(&mut self, node: Node) {
        match node {
            Node::Member(peer) => {
                self.connected.insert(peer);
                self.transfer.connected(peer);
            }
            Node::Client(_) if self.has_started && mutant!("links.known-clients-only") => {}
            Node::Client(client) => self.replies.up(client),
        }
    }

    /// A connection is over, and no other took its place.
    pub fn on_link_down(&mut self, node: Node) {
        match node {
            Node::Member(peer) => _ = self.connected.remove(&peer),
            Node::Client(client) => self.replies.down(&client),
        }
    }

    /// Whether a client is connected.
    #[must_use]
    pub fn is_connected(&self, client: &ClientId) -> bool {
        self.replies.contains(client)
    }

    /// Messages of a peer came. They wait for the [share](Self::deliver_peers) of a round that each
    /// peer has. `is_new`: the first ones on a connection that takes the place of the one before.
    pub fn on_peer(&mut self, peer: MemberId, messages: impl Iterator<Item = Bytes>, is_new: bool) {
        self.inbound.take(peer, messages, is_new);
    }

    /// Whether messages of a peer wait, so that no more of it are to be read.
    #[must_use]
    pub fn has_waiting(&self, peer: MemberId) -> bool {
        self.inbound.has(peer)
    }

    /// Whether messages of any peer wait for the next round.
    #[must_use]
    pub fn has_inbound(&self) -> bool {
        !self.inbound.is_empty()
    }

    /// Gives every peer its share of the round.
    ///
    /// # Errors
    /// [`Halt`]
    pub fn deliver_peers(&mut self, driver: &mut impl Driver) -> Result<(), Halt> {
        let mut inbound = std::mem::take(&mut self.inbound);
        let forgers = inbound.deliver(
            &mut (&mut *self, &mut *driver),
            |(_, driver)| driver.elapsed(),
            |(machine, driver), peer, bytes| machine.open_peer(peer, bytes, &mut **driver),
        );
        self.inbound = inbound;
        if std::mem::take(&mut self.has_leavers) {
            let places = &self.engine.places;
            self.inbound.retain(|member| places.replica(member).is_some());
        }
        forgers?.into_iter().for_each(|peer| driver.pause_peer(peer));
        Ok(())
    }

    /// Takes one message of a peer.
    fn open_peer(
        &mut self,
        peer: MemberId,
        bytes: &Bytes,
        driver: &mut impl Driver,
    ) -> Result<Heard, Halt> {
        self.others.on_message(peer, self.engine.now_ms);
        let refused = match bytes.first() {
            // Those of pillars come to them.
            Some(&PROTOCOL) if !self.is_split => {
                return match self.engine.open(peer, bytes, driver) {
                    Opened::Message(incoming) => {
                        self.resuming.seen.note(self.engine.epoch, &incoming);
                        self.step(CoreEvent::Message(incoming), driver)?;
                        Ok(Heard::Taken)
                    }
                    Opened::OtherEpoch(epoch) => {
                        self.on_other_epoch(peer, epoch, driver);
                        Ok(Heard::Taken)
                    }
                    Opened::Nothing(heard) => Ok(heard),
                };
            }
            Some(&RESUMING) => {
                self.engine.messages.came("resuming", bytes.len());
                self.on_resuming(peer, &bytes.slice(1..), driver)?;
                return Ok(Heard::Taken);
            }
            Some(&EPOCHS) => {
                self.engine.messages.came("epochs", bytes.len());
                self.on_epochs(peer, &bytes.slice(1..), driver)?;
                return Ok(Heard::Taken);
            }
            Some(&TRANSFER) => match transfer::Message::from_bytes(&bytes.slice(1..)) {
                Ok(message) => {
                    self.engine.messages.came("transfer", bytes.len());
                    self.on_transfer(peer, message, driver)?;
                    return Ok(Heard::Taken);
                }
                Err(_) => Reject::Malformed,
            },
            _ => Reject::Malformed,
        };
        Ok(self.engine.refuse(peer, bytes, refused, driver))
    }
}
