//! From sockets to a machine: what is read in a round, and in which order.

use crate::driver::SocketDriver;
use crate::network::Sender;
use bytes::Bytes;
use pentarchy_core::ids::{ClientId, MemberId, Node};
use pentarchy_machine::pillar::PillarLog;
use pentarchy_machine::{Disk, Machine, Newer, PillarInstance};

/// What is told what was read.
pub trait Receiver {
    /// Whether messages of a peer wait, so that no more of it are to be read.
    fn has_waiting(&self, peer: MemberId) -> bool;

    /// Messages of a peer; `is_new` if they are the first ones on a connection.
    fn on_peer(&mut self, peer: MemberId, messages: impl Iterator<Item = Bytes>, is_new: bool);

    /// A message of someone who says to be a member that is not known here yet. It came over the
    /// connection with this token.
    fn on_newer(&mut self, token: usize, bytes: &Bytes, driver: &mut SocketDriver);

    /// A client's message.
    fn on_client(&mut self, client: ClientId, bytes: &Bytes, driver: &mut SocketDriver);

    /// A connection began, or ended.
    fn on_link(&mut self, node: Node, is_up: bool);
}

impl<D: Disk> Receiver for Machine<'_, D> {
    fn has_waiting(&self, peer: MemberId) -> bool {
        Self::has_waiting(self, peer)
    }
    fn on_peer(&mut self, peer: MemberId, messages: impl Iterator<Item = Bytes>, is_new: bool) {
        Self::on_peer(self, peer, messages, is_new);
    }
    fn on_newer(&mut self, token: usize, bytes: &Bytes, driver: &mut SocketDriver) {
        match Self::on_newer(self, bytes, driver) {
            Newer::Ignored => {}
            Newer::Answer(answer) => driver.network.answer_newer(token, &answer),
            Newer::Shown => driver.hang_up_on_newer(token),
        }
    }
    fn on_client(&mut self, client: ClientId, bytes: &Bytes, driver: &mut SocketDriver) {
        Self::on_client(self, client, bytes, driver);
    }
    fn on_link(&mut self, node: Node, is_up: bool) {
        if is_up { self.on_link_up(node) } else { self.on_link_down(node) }
    }
}

/// Neither a client nor a newer member is let in to a pillar, and it does not care which peers are
/// there.
impl<L: PillarLog> Receiver for PillarInstance<L> {
    fn has_waiting(&self, peer: MemberId) -> bool {
        Self::has_waiting(self, peer)
    }
    fn on_peer(&mut self, peer: MemberId, messages: impl Iterator<Item = Bytes>, is_new: bool) {
        Self::on_peer(self, peer, messages, is_new);
    }
    fn on_newer(&mut self, _: usize, _: &Bytes, _: &mut SocketDriver) {}
    fn on_client(&mut self, _: ClientId, _: &Bytes, _: &mut SocketDriver) {}
    fn on_link(&mut self, _: Node, _: bool) {}
}

/// Reads sockets. Has room for a round's connections to read, and for what is read of one.
#[derive(Default)]
pub struct Reader {
    ready: Vec<usize>,
    messages: Vec<Bytes>,
}

impl Reader {
    /// Reads every connection that has something, up to its share.
    pub fn read(&mut self, driver: &mut SocketDriver, now_ms: u64, to: &mut impl Receiver) {
        let Self { ready, messages } = self;
        driver.network.take_ready(now_ms, ready);
        for (index, token) in ready.iter().copied().enumerate() {
            let network = &mut driver.network;
            if network.has_read_enough() {
                network.postpone(&ready[index..]);
                break;
            }
            let known = network.peer(token);
            if known.is_some_and(|peer| to.has_waiting(peer)) {
                network.postpone(&[token]);
                continue;
            }
            let sender = network.read(token, now_ms, messages);
            tell_links(driver, to);
            match sender {
                Some(Sender::Peer(id)) => to.on_peer(id, messages.drain(..), known.is_none()),
                Some(Sender::Client(id)) => {
                    for bytes in messages.drain(..) {
                        // What it said before may have ended the connection.
                        if driver.network.clients.token(&id) != Some(token) {
                            break;
                        }
                        to.on_client(id, &bytes, driver);
                    }
                }
                Some(Sender::Newer(_)) => {
                    for bytes in messages.drain(..) {
                        // An earlier message may have had the replica close the connection.
                        if !driver.network.is_newer(token) {
                            break;
                        }
                        to.on_newer(token, &bytes, driver);
                    }
                }
                None => messages.clear(),
            }
        }
        ready.clear();
    }

    /// Reads only those connections that a peer was dialled on and has not answered, while nothing
    /// else is read: a peer gives up a connection whose handshake is not done in time. What comes
    /// with the last of that waits.
    pub fn settle(&mut self, driver: &mut SocketDriver, now_ms: u64, to: &mut impl Receiver) {
        let Self { ready, messages } = self;
        let network = &mut driver.network;
        network.take_ready(now_ms, ready);
        let (dialled, others): (Vec<usize>, Vec<usize>) =
            ready.drain(..).partition(|token| network.is_dialled(*token));
        network.postpone(&others);
        for token in dialled {
            match network.read(token, now_ms, messages) {
                Some(Sender::Peer(id)) => to.on_peer(id, messages.drain(..), true),
                _ => messages.clear(),
            }
        }
    }
}

/// Tells which connections began and ended since the last time.
pub fn tell_links(driver: &mut SocketDriver, to: &mut impl Receiver) {
    for (node, is_up) in driver.network.take_link_changes() {
        to.on_link(node, is_up);
    }
}
