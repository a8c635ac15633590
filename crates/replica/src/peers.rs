//! The other members: who is connected, and when to dial whom.

use crate::error::StartError;
use pentarchy_core::ids::MemberId;
use pentarchy_core::membership::{Member, Membership};
use pentarchy_core::welcome::Welcome;
use pentarchy_crypto::keys::channel_public;
use pentarchy_io::backoff::Backoff;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// What is known of one member.
pub struct Peer {
    /// None while nobody knows where it is.
    pub address: Option<SocketAddr>,
    /// The X25519 key by which it is known.
    pub key: [u8; 32],
    pub state: PeerState,
    pub backoff: Backoff,
    /// It took this connection for what it is.
    pub has_welcomed: bool,
    /// What it said last over this connection of its right to speak, ...
    pub welcome: Option<Welcome>,
    /// ... and whether that convinces in the present configuration.
    pub is_convincing: bool,
    /// It hung up on us before it did, and that was said.
    pub has_refused: bool,
    /// It is a member no more, and links to it end at this time: until then it can be shown so.
    pub leaves_at_ms: Option<u64>,
}

/// How it is connected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PeerState {
    /// Not connected, and it is the one to dial; or it is ourselves.
    Awaited,
    /// Not connected; to be dialled at this time.
    Down { dial_at_ms: u64 },
    /// Being dialled under this token; given up at this time.
    Dialled { token: usize, give_up_at_ms: u64 },
    /// Connected under this token.
    Up { token: usize },
}

/// All members of the group. Of two, the one with the higher id dials, so that there is one
/// connection between them and not two.
pub struct Peers {
    pub me: MemberId,
    peers: BTreeMap<MemberId, Peer>,
}

impl Peers {
    pub fn new(
        me: MemberId,
        membership: &Membership,
        addresses: &[SocketAddr],
    ) -> Result<Self, StartError> {
        let (members, given) = (membership.n(), addresses.len());
        if members != given {
            return Err(StartError::Addresses { members, addresses: given });
        }
        let peer = |(member, address): (&Member, &SocketAddr)| {
            let key = channel_public(&member.identity);
            let peer = Peer {
                address: Some(*address),
                key: key.ok_or(StartError::MemberKey(member.id))?,
                state: idle(me, member.id, 0),
                backoff: Backoff::default(),
                has_welcomed: false,
                welcome: None,
                is_convincing: false,
                has_refused: false,
                leaves_at_ms: None,
            };
            Ok((member.id, peer))
        };
        let peers = membership.members.iter().zip(addresses).map(peer);
        Ok(Self { me, peers: peers.collect::<Result<_, StartError>>()? })
    }

    pub fn get(&self, id: MemberId) -> Option<&Peer> {
        self.peers.get(&id)
    }

    pub fn get_mut(&mut self, id: MemberId) -> Option<&mut Peer> {
        self.peers.get_mut(&id)
    }

    /// The token under which a member is connected.
    pub fn token(&self, id: MemberId) -> Option<usize> {
        match self.get(id)?.state {
            PeerState::Up { token } => Some(token),
            _ => None,
        }
    }

    /// A member whose turn it is to be dialled.
    pub fn due(&self, now_ms: u64) -> Option<MemberId> {
        let is_due = |peer: &Peer| match peer.state {
            PeerState::Down { dial_at_ms } => dial_at_ms <= now_ms && peer.address.is_some(),
            _ => false,
        };
        self.peers.iter().find(|(_, peer)| is_due(peer)).map(|(id, _)| *id)
    }

    /// The token of a connection that is being dialled for too long.
    pub fn overdue(&self, now_ms: u64) -> Option<usize> {
        self.peers.values().find_map(|peer| match peer.state {
            PeerState::Dialled { token, give_up_at_ms } if give_up_at_ms <= now_ms => Some(token),
            _ => None,
        })
    }

    /// When [`Self::due`], [`Self::overdue`] or [`Self::gone`] has someone.
    pub fn next_ms(&self) -> Option<u64> {
        let at = |peer: &Peer| match peer.state {
            PeerState::Down { dial_at_ms } => peer.address.map(|_| dial_at_ms),
            PeerState::Dialled { give_up_at_ms, .. } => Some(give_up_at_ms),
            PeerState::Awaited | PeerState::Up { .. } => None,
        };
        let leaves = self.peers.values().filter_map(|peer| peer.leaves_at_ms);
        self.peers.values().filter_map(at).chain(leaves).min()
    }

    /// Takes note that a member is connected; gives the token of the connection that this one
    /// replaces.
    pub fn up(&mut self, id: MemberId, token: usize) -> Option<usize> {
        let old = self.token(id).filter(|old| *old != token);
        if let Some(peer) = self.get_mut(id) {
            peer.state = PeerState::Up { token };
            (peer.welcome, peer.is_convincing) = (None, false);
        }
        old
    }

    /// Takes note that a connected member took the connection for what it is.
    pub fn welcomed(&mut self, id: MemberId) {
        if let Some(peer) = self.get_mut(id).filter(|peer| !peer.has_welcomed) {
            peer.has_refused = false;
            peer.has_welcomed = true;
        }
    }

    /// Takes note that a connected member said something: if the connection is lost, the next one
    /// is dialled at once. One that hangs up each time without a word is dialled less and less
    /// often.
    pub fn heard(&mut self, id: MemberId) {
        self.welcomed(id);
        if let Some(peer) = self.get_mut(id) {
            peer.backoff.reset();
        }
    }

    /// Takes note that a connection to a member, or the attempt at one, is over.
    pub fn down(&mut self, id: MemberId, now_ms: u64) {
        let me = self.me;
        if let Some(peer) = self.get_mut(id) {
            let dial_at_ms = now_ms + peer.backoff.delay_ms();
            peer.has_welcomed = false;
            (peer.welcome, peer.is_convincing) = (None, false);
            peer.state = idle(me, id, dial_at_ms);
        }
    }

    /// Takes note of who is a member no more, so that links to it end at this time. Gives those of
    /// which it had not known.
    pub fn leave(&mut self, membership: &Membership, at_ms: u64) -> Vec<MemberId> {
        let mut leavers = Vec::new();
        for (id, peer) in &mut self.peers {
            if membership.index_of(*id).is_some() {
                peer.leaves_at_ms = None;
            } else if peer.leaves_at_ms.is_none() {
                peer.leaves_at_ms = Some(at_ms);
                leavers.push(*id);
            }
        }
        leavers
    }

    /// One that has left, to which links end now.
    pub fn gone(&self, now_ms: u64) -> Option<MemberId> {
        let is_gone = |peer: &Peer| peer.leaves_at_ms.is_some_and(|at_ms| at_ms <= now_ms);
        self.peers.iter().find(|(_, peer)| is_gone(peer)).map(|(id, _)| *id)
    }

    /// A member is gone. There is no connection to it any more.
    pub fn remove(&mut self, id: MemberId) {
        self.peers.remove(&id);
    }

    /// A member has come. Nobody knows yet where it is. False if its key is not usable: then nobody
    /// connects to it.
    pub fn add(&mut self, member: &Member, now_ms: u64) -> bool {
        let Some(key) = channel_public(&member.identity) else { return false };
        let peer = Peer {
            address: None,
            key,
            state: idle(self.me, member.id, now_ms),
            backoff: Backoff::default(),
            has_welcomed: false,
            welcome: None,
            is_convincing: false,
            has_refused: false,
            leaves_at_ms: None,
        };
        self.peers.insert(member.id, peer);
        true
    }

    /// Where a member is from now on. It is dialled there at once, if it is not connected.
    pub fn moved(&mut self, id: MemberId, address: SocketAddr, now_ms: u64) {
        let me = self.me;
        let Some(peer) = self.get_mut(id) else { return };
        if peer.address.replace(address) != Some(address)
            && let PeerState::Down { .. } = peer.state
        {
            peer.backoff.reset();
            peer.state = idle(me, id, now_ms);
        }
    }

    /// Ids of the connected members.
    pub fn connected(&self) -> impl Iterator<Item = (MemberId, usize)> + '_ {
        self.peers.keys().filter_map(|id| self.token(*id).map(|token| (*id, token)))
    }
}

fn idle(me: MemberId, id: MemberId, dial_at_ms: u64) -> PeerState {
    if me > id { PeerState::Down { dial_at_ms } } else { PeerState::Awaited }
}
