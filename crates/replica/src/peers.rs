//! The other replicas: who is connected, and when to dial whom.

use crate::error::StartError;
use pentarchy_core::ids::ReplicaId;
use pentarchy_core::membership::Membership;
use pentarchy_crypto::keys::channel_public;
use pentarchy_io::backoff::Backoff;
use std::net::SocketAddr;

/// What is known of one replica.
pub struct Peer {
    pub address: SocketAddr,
    /// The X25519 key by which it is known.
    pub key: [u8; 32],
    pub state: PeerState,
    pub backoff: Backoff,
    /// It took this connection for what it is.
    pub has_welcomed: bool,
    /// It hung up on us before it did, and that was said.
    pub has_refused: bool,
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

/// All replicas of the group. Of two, the one with the higher id dials, so that there is one
/// connection between them and not two.
pub struct Peers {
    pub me: ReplicaId,
    peers: Vec<Peer>,
}

impl Peers {
    pub fn new(
        me: ReplicaId,
        membership: &Membership,
        addresses: &[SocketAddr],
    ) -> Result<Self, StartError> {
        let (members, given) = (membership.n(), addresses.len());
        if members != given {
            return Err(StartError::Addresses { members, addresses: given });
        }
        let peer = |id: ReplicaId| {
            let index = usize::from(id.0);
            let key = channel_public(&membership.members[index].identity);
            Ok(Peer {
                address: addresses[index],
                key: key.ok_or(StartError::MemberKey(id))?,
                state: idle(me, id, 0),
                backoff: Backoff::default(),
                has_welcomed: false,
                has_refused: false,
            })
        };
        let peers = membership.ids().map(peer).collect::<Result<_, StartError>>()?;
        Ok(Self { me, peers })
    }

    pub fn get(&self, id: ReplicaId) -> Option<&Peer> {
        self.peers.get(usize::from(id.0))
    }

    pub fn get_mut(&mut self, id: ReplicaId) -> Option<&mut Peer> {
        self.peers.get_mut(usize::from(id.0))
    }

    /// The token under which a replica is connected.
    pub fn token(&self, id: ReplicaId) -> Option<usize> {
        match self.get(id)?.state {
            PeerState::Up { token } => Some(token),
            _ => None,
        }
    }

    /// A replica whose turn it is to be dialled.
    pub fn due(&self, now_ms: u64) -> Option<ReplicaId> {
        let is_due = |peer: &Peer| match peer.state {
            PeerState::Down { dial_at_ms } => dial_at_ms <= now_ms,
            _ => false,
        };
        self.peers.iter().position(is_due).map(|index| ReplicaId(index as u16))
    }

    /// The token of a connection that is being dialled for too long.
    pub fn overdue(&self, now_ms: u64) -> Option<usize> {
        self.peers.iter().find_map(|peer| match peer.state {
            PeerState::Dialled { token, give_up_at_ms } if give_up_at_ms <= now_ms => Some(token),
            _ => None,
        })
    }

    /// When [`Self::due`] or [`Self::overdue`] has someone.
    pub fn next_ms(&self) -> Option<u64> {
        let at = |peer: &Peer| match peer.state {
            PeerState::Down { dial_at_ms } => Some(dial_at_ms),
            PeerState::Dialled { give_up_at_ms, .. } => Some(give_up_at_ms),
            PeerState::Awaited | PeerState::Up { .. } => None,
        };
        self.peers.iter().filter_map(at).min()
    }

    /// Takes note that a replica is connected; gives the token of the connection that this one
    /// replaces.
    pub fn up(&mut self, id: ReplicaId, token: usize) -> Option<usize> {
        let old = self.token(id).filter(|old| *old != token);
        if let Some(peer) = self.get_mut(id) {
            peer.state = PeerState::Up { token };
        }
        old
    }

    /// Takes note that a connected replica took the connection for what it is.
    pub fn welcomed(&mut self, id: ReplicaId) {
        if let Some(peer) = self.get_mut(id).filter(|peer| !peer.has_welcomed) {
            peer.backoff.reset();
            peer.has_refused = false;
            peer.has_welcomed = true;
        }
    }

    /// Takes note that a connection to a replica, or the attempt at one, is over.
    pub fn down(&mut self, id: ReplicaId, now_ms: u64) {
        let me = self.me;
        if let Some(peer) = self.get_mut(id) {
            let dial_at_ms = now_ms + peer.backoff.delay_ms();
            peer.has_welcomed = false;
            peer.state = idle(me, id, dial_at_ms);
        }
    }

    /// Ids of the connected replicas.
    pub fn connected(&self) -> impl Iterator<Item = ReplicaId> + '_ {
        let ids = (0..self.peers.len() as u16).map(ReplicaId);
        ids.filter(|id| self.token(*id).is_some())
    }

    /// Ids of all other replicas.
    pub fn others(&self) -> impl Iterator<Item = ReplicaId> + use<> {
        let me = self.me;
        (0..self.peers.len() as u16).map(ReplicaId).filter(move |id| *id != me)
    }
}

fn idle(me: ReplicaId, id: ReplicaId, dial_at_ms: u64) -> PeerState {
    if me > id { PeerState::Down { dial_at_ms } } else { PeerState::Awaited }
}
