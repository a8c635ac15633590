//! Connections to pillars: the replica's listener accepts them, finds out whose they are and
//! hands them over to the pillar's own network.

use super::{Credentials, Network, Sender};
use crate::config::HostLimits;
use crate::links::Role;
use crate::peers::Peers;
use bytes::Bytes;
use pentarchy_core::ids::MemberId;
use pentarchy_io::channel::Identity;
use pentarchy_io::connection::Connection;
use pentarchy_io::poll::Token;
use std::io;
use tracing::debug;

/// What a connection counts beside what was said on it.
const CONNECTION_BYTES: usize = 64 << 10;

/// What each message of those counts beside its bytes.
const MESSAGE_BYTES: usize = 64;

/// An open connection to a pillar of this replica. Dropping it closes it.
pub struct Handed {
    /// Which pillar's.
    pub pillar: u8,
    /// Who dialled: the same pillar of this member.
    pub peer: MemberId,
    connection: Connection,
    /// What it has said already.
    messages: Vec<Bytes>,
}

impl Handed {
    /// The bytes that it takes while it waits.
    pub fn bytes(&self) -> usize {
        let bytes = |message: &Bytes| MESSAGE_BYTES + message.len();
        CONNECTION_BYTES + self.messages.iter().map(bytes).sum::<usize>()
    }
}

impl Network {
    /// The network of one pillar: for the same pillar at its peers, and nobody else.
    pub fn of_pillar(
        pillar: u8,
        identity: Identity,
        credentials: Credentials,
        limits: HostLimits,
        peers: Peers,
    ) -> io::Result<Self> {
        Ok(Self { pillar: Some(pillar), ..Self::closed(identity, credentials, limits, peers)? })
    }

    /// From now on connections to so many pillars are let in, to be [handed
    /// over](Self::take_handed).
    pub fn let_in_pillars(&mut self, pillars: u8) {
        if let Some(acceptor) = &mut self.acceptor {
            acceptor.pillars = pillars;
        }
    }

    /// The connections that are to be handed over.
    pub fn take_handed(&mut self) -> Vec<Handed> {
        self.acceptor
            .as_mut()
            .map(|acceptor| std::mem::take(&mut acceptor.handed))
            .unwrap_or_default()
    }

    /// Has a stranger's connection be handed over that is to a pillar. False if it is not who it
    /// says, or there is no such pillar.
    pub(super) fn hand_over(
        &mut self,
        (peer, pillar): (MemberId, u8),
        token: usize,
        messages: &mut Vec<Bytes>,
    ) -> bool {
        let is_peer = self.is_peer_dialling(peer, token);
        let Some(acceptor) =
            self.acceptor.as_mut().filter(|acceptor| is_peer && pillar < acceptor.pillars)
        else {
            return false;
        };
        let Some(link) = self.links.remove(token) else { return false };
        self.strangers.remove(token);
        let mut connection = link.connection;
        self.poller.deregister(connection.stream());
        let messages = std::mem::take(messages);
        acceptor.handed.push(Handed { pillar, peer, connection, messages });
        true
    }

    /// Takes over a connection that was handed to this pillar. Says whose it is and appends what it
    /// has said already; none if the system does not let it be waited for.
    pub fn adopt(
        &mut self,
        handed: Handed,
        now_ms: u64,
        messages: &mut Vec<Bytes>,
    ) -> Option<Sender> {
        let Handed { peer, mut connection, messages: mut said, .. } = handed;
        // It may have left the group on the way.
        self.peers.get(peer)?;
        let token = Token(self.links.next_token());
        if let Err(error) = self.poller.register(connection.stream(), token) {
            debug!(peer = peer.0, %error, "cannot register a connection");
            return None;
        }
        let token = self.links.add(connection, Role::Unknown);
        self.peer_up(peer, token, now_ms);
        self.traffic.peers.came(0, said.len());
        self.take_welcomes(peer, &mut said);
        messages.extend(said);
        Some(Sender::Peer(peer))
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::config::Listen;
    use pentarchy_core::configuration::Access;
    use pentarchy_core::ids::{GroupId, Incarnation};
    use pentarchy_core::membership::{Life, Membership};
    use pentarchy_crypto::keys::KeyPair;
    use pentarchy_crypto::signing_keys::SigningKeys;
    use std::net::{SocketAddr, TcpListener};
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    /// Two members, and a listener for the first.
    pub struct Group {
        pub keys: [KeyPair; 2],
        pub membership: Arc<Membership>,
        addresses: Vec<SocketAddr>,
    }

    impl Group {
        pub fn new() -> (Self, TcpListener) {
            let keys = [1, 2].map(|seed| KeyPair::from_seed([seed; 32]));
            let member = |keys: &KeyPair| (keys.public(), Life::mac(Incarnation(1)));
            let members = keys.iter().map(member);
            let membership = Membership::of_keys(GroupId([5; 16]), 0, members);
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let addresses = vec![listener.local_addr().unwrap(); 2];
            (Self { keys, membership: Arc::new(membership), addresses }, listener)
        }

        pub fn peers(&self, id: u32) -> Peers {
            Peers::new(MemberId(id), &self.membership, &self.addresses).unwrap()
        }

        pub fn identity(&self, id: usize) -> Identity {
            Identity::new(*self.keys[id].channel_secret(), &self.membership.group_domain())
        }

        /// Members sign by their identity keys.
        pub fn credentials(&self, id: u32) -> Credentials {
            let key = &self.keys[id as usize];
            let signing = SigningKeys::in_memory(key.clone(), key.clone(), None);
            Credentials::new(MemberId(id), signing, &self.membership)
        }

        /// The first one's, with a listener.
        pub fn acceptor(&self, listener: TcpListener, pillars: u8) -> Network {
            let (listen, limits) = (Listen::Bound(listener), HostLimits::default());
            let network = Network::new(
                listen,
                self.identity(0),
                self.credentials(0),
                Access::Open,
                limits,
                self.peers(0),
            );
            let mut network = network.unwrap();
            network.let_in_pillars(pillars);
            network
        }

        pub fn of_pillar(&self, pillar: u8, id: u32) -> Network {
            let (identity, credentials) = (self.identity(id as usize), self.credentials(id));
            let limits = HostLimits::default();
            Network::of_pillar(pillar, identity, credentials, limits, self.peers(id)).unwrap()
        }
    }

    /// One round of a network; gives what peers said.
    pub fn round(network: &mut Network, now_ms: u64) -> Vec<(Option<Sender>, Bytes)> {
        network.wait(Duration::from_millis(1), true).unwrap();
        network.open(now_ms);
        let (mut tokens, mut messages, mut said) = (Vec::new(), Vec::new(), Vec::new());
        network.take_ready(now_ms, &mut tokens);
        for token in tokens {
            let sender = network.read(token, now_ms, &mut messages);
            said.extend(messages.drain(..).map(|message| (sender, message)));
        }
        network.flush(now_ms);
        said
    }

    pub fn until(mut is_so: impl FnMut(u64) -> bool) {
        let begun = Instant::now();
        while !is_so(begun.elapsed().as_millis() as u64) {
            assert!(begun.elapsed() < Duration::from_secs(30), "it never was so");
        }
    }

    #[test]
    fn a_connection_to_a_pillar_is_handed_to_its_network_and_works_both_ways_there() {
        let (group, listener) = Group::new();
        let (mut acceptor, mut mine) = (group.acceptor(listener, 2), group.of_pillar(1, 0));
        let mut theirs = group.of_pillar(1, 1);
        let mut heard = Vec::new();
        until(|now_ms| {
            round(&mut theirs, now_ms);
            theirs.send_peer(MemberId(0), "test", |to| to.u8(7));
            round(&mut acceptor, now_ms);
            for handed in acceptor.take_handed() {
                assert_eq!((handed.pillar, handed.peer), (1, MemberId(1)));
                let mut said = Vec::new();
                let sender = mine.adopt(handed, now_ms, &mut said);
                heard.extend(said.into_iter().map(|message| (sender, message)));
            }
            heard.extend(round(&mut mine, now_ms));
            !heard.is_empty()
        });
        let expected = (Some(Sender::Peer(MemberId(1))), Bytes::from_static(&[7]));
        assert!(heard.iter().all(|it| *it == expected), "{heard:?}");
        assert_eq!(acceptor.peers.connected().count(), 0, "it is no connection of the replica");
        assert_eq!((acceptor.report(0).strangers, acceptor.counters.hellos_refused), (0, 0));
        mine.send_peer(MemberId(1), "test", |to| to.u8(8));
        let mut answer = Vec::new();
        until(|now_ms| {
            round(&mut mine, now_ms);
            answer.extend(round(&mut theirs, now_ms));
            !answer.is_empty()
        });
        let expected = (Some(Sender::Peer(MemberId(0))), Bytes::from_static(&[8]));
        assert_eq!(answer, [expected]);
        // Another one takes its place, and the end of one is noticed.
        theirs = group.of_pillar(1, 1);
        until(|now_ms| {
            round(&mut theirs, now_ms);
            round(&mut acceptor, now_ms);
            acceptor
                .take_handed()
                .into_iter()
                .for_each(|it| assert!(mine.adopt(it, now_ms, &mut vec![]).is_some()));
            round(&mut mine, now_ms);
            theirs.peers.connected().count() == 1 && mine.peers.connected().count() == 1
        });
        drop(theirs);
        until(|now_ms| {
            round(&mut mine, now_ms);
            mine.peers.connected().count() == 0
        });
    }

    /// Whoever asks for a pillar that is not there is refused, and asks less and less often.
    #[test]
    fn there_are_no_pillars_but_those_that_are_let_in() {
        let (group, listener) = Group::new();
        let mut acceptor = group.acceptor(listener, 1);
        let mut theirs = group.of_pillar(1, 1);
        until(|now_ms| {
            round(&mut theirs, now_ms);
            round(&mut acceptor, now_ms);
            assert!(acceptor.take_handed().is_empty());
            acceptor.counters.hellos_refused == 4
        });
        let begun = Instant::now();
        until(|now_ms| {
            round(&mut theirs, now_ms);
            round(&mut acceptor, now_ms);
            acceptor.counters.hellos_refused == 6
        });
        assert!(begun.elapsed() >= Duration::from_millis(100), "{:?}", begun.elapsed());
        assert!(theirs.counters.dials_refused >= 5);
    }

    /// A client who says that it is a pillar of a member, and a member whose part it is to be
    /// dialled, are refused.
    #[test]
    fn a_pillar_has_the_key_of_its_replica_and_the_higher_id_dials() {
        let (mut group, listener) = Group::new();
        let mut acceptor = group.acceptor(listener, 2);
        let known = std::mem::replace(&mut group.keys[1], KeyPair::from_seed([66; 32]));
        let mut stranger = group.of_pillar(1, 1);
        until(|now_ms| {
            round(&mut stranger, now_ms);
            round(&mut acceptor, now_ms);
            acceptor.counters.hellos_refused > 0
        });
        // The second one listens now, and is dialled by who says that it is higher.
        let (mut group, listener) = (Group { keys: [group.keys[0].clone(), known], ..group }, {
            drop(acceptor);
            TcpListener::bind("127.0.0.1:0").unwrap()
        });
        group.addresses = vec![listener.local_addr().unwrap(); 2];
        let (listen, limits) = (Listen::Bound(listener), HostLimits::default());
        let mut acceptor = Network::new(
            listen,
            group.identity(1),
            group.credentials(1),
            Access::Open,
            limits,
            group.peers(1),
        )
        .unwrap();
        acceptor.let_in_pillars(2);
        let mut lower = group.of_pillar(1, 0);
        lower.peers.down(MemberId(1), 0);
        lower.peers.get_mut(MemberId(1)).unwrap().state =
            crate::peers::PeerState::Down { dial_at_ms: 0 };
        until(|now_ms| {
            round(&mut lower, now_ms);
            acceptor.wait(Duration::from_millis(1), true).unwrap();
            round(&mut acceptor, now_ms);
            acceptor.counters.hellos_refused > 0
        });
        assert!(acceptor.take_handed().is_empty());
    }
}
