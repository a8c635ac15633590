//! The group goes on with other members, or with some of them elsewhere.

use super::Network;
use super::resolving::Resolving;
use crate::peers::PeerState;
use pentarchy_core::ids::MemberId;
use pentarchy_core::limits::LEAVING_MILLIS;
use pentarchy_core::membership::Membership;
use tracing::{info, warn};

impl Network {
    /// From now on there are links to these members, at the addresses that their configuration
    /// names, and to the clients that it admits; of the first configuration, each replica knows
    /// both from its own file. A link that is there stays, although its other end may have moved.
    /// Those to members that left stay for a while; those to former clients until they
    /// [have heard](Self::let_in) of the configuration.
    pub fn begin_configuration(&mut self, membership: &Membership, now_ms: u64) {
        for id in self.peers.leave(membership, now_ms + LEAVING_MILLIS) {
            info!(peer = id.0, "is a member of the group no more");
        }
        for member in membership.members.iter() {
            if self.peers.get(member.id).is_none() && !self.peers.add(member, now_ms) {
                warn!(peer = member.id.0, "the key of this member is not usable");
            }
        }
        let stated = membership.stated.as_deref().filter(|stated| stated.number > 0);
        if let Some(stated) = stated {
            self.access = stated.access.clone();
        }
        let entries = stated.into_iter().flat_map(|stated| &stated.members);
        let (me, mut names) = (self.peers.me, Vec::new());
        for entry in entries.filter(|entry| entry.id != me) {
            match entry.address.parse() {
                Ok(address) => self.peers.moved(entry.id, address, now_ms),
                Err(_) => names.push((entry.id, entry.address.clone())),
            }
        }
        self.change_credentials(membership, now_ms);
        self.hang_up_on_newer(now_ms);
        self.resolving = (!names.is_empty()).then(|| Resolving::start(names)).and_then(|started| {
            started.inspect_err(|error| warn!(%error, "cannot look up where members are")).ok()
        });
    }

    /// A member that left had the time to learn of it.
    pub(super) fn hang_up_on_leaver(&mut self, id: MemberId, now_ms: u64) {
        if let Some(token) = self.token_of_any(id) {
            self.close(token, now_ms, "no member any more");
        }
        self.peers.remove(id);
    }

    /// Takes the addresses that were looked up.
    pub(super) fn take_addresses(&mut self, now_ms: u64) {
        let Some(resolving) = &self.resolving else { return };
        for (id, address) in resolving.found() {
            info!(peer = id.0, %address, "found where this member is");
            self.peers.moved(id, address, now_ms);
        }
    }

    /// The token of a peer's connection, or of the attempt at one.
    fn token_of_any(&self, id: MemberId) -> Option<usize> {
        match self.peers.get(id)?.state {
            PeerState::Up { token } | PeerState::Dialled { token, .. } => Some(token),
            PeerState::Awaited | PeerState::Down { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::HostLimits;
    use crate::network::{Credentials, Group, Sender, round, until};
    use crate::peers::Peers;
    use bytes::Bytes;
    use pentarchy_core::configuration::{
        Access, Administrators, Configuration, Facts, MemberEntry, RequestMeans,
    };
    use pentarchy_core::digest::Digest;
    use pentarchy_core::ids::{GroupId, Incarnation, Node};
    use pentarchy_core::membership::{Life, PillarConfig};
    use pentarchy_core::protocol::{Authority, FaultModel, Tuning};
    use pentarchy_core::quorum::{Count, QuorumRule, ReadRule};
    use pentarchy_crypto::keys::KeyPair;
    use pentarchy_crypto::signing_keys::SigningKeys;
    use pentarchy_io::channel::Identity;

    /// A later configuration with these of the group's members, who are at this address.
    fn later(group: &Group, members: &[u32], address: &str) -> Membership {
        let entry = |id: &u32| MemberEntry {
            id: MemberId(*id),
            identity: group.keys[*id as usize].public(),
            signing: group.keys[*id as usize].public(),
            sealed: None,
            address: address.to_owned(),
        };
        let configuration = Configuration {
            group: GroupId([5; 16]),
            number: 1,
            protocol: "none".to_owned(),
            facts: Facts {
                fault_model: FaultModel::Hybrid,
                group_size: Count::per_fault_and_one(2),
                quorum: QuorumRule::Majority,
                replies: Count::per_fault_and_one(1),
                reads: ReadRule::All,
                pillars: false,
                speculative: false,
                replies_itself: false,
                authority: Authority::Members,
                counter: None,
            },
            f: 0,
            lane: PillarConfig::default(),
            tuning: Tuning::default(),
            requests: RequestMeans::Signature,
            secret: None,
            administrators: Administrators::default(),
            access: Access::Open,
            members: members.iter().map(entry).collect(),
            next_member: MemberId(2),
        };
        configuration.begin(&vec![Life::mac(Incarnation(1)); members.len()])
    }

    /// A replica that only dials.
    fn dialler(group: &Group, peers: Peers) -> Network {
        Network::closed(group.identity(1), group.credentials(1), HostLimits::default(), peers)
            .unwrap()
    }

    /// One that dials the first replica as this member, with a key of its own.
    fn newer_dialler(group: &Group, id: u32) -> Network {
        let (key, mut peers) = (KeyPair::from_seed([9; 32]), group.peers(1));
        peers.me = MemberId(id);
        let signing = SigningKeys::in_memory(key.clone(), key.clone(), None);
        let identity = Identity::new(*key.channel_secret(), &group.membership.group_domain());
        let credentials = Credentials::new(MemberId(id), signing, &group.membership);
        Network::closed(identity, credentials, HostLimits::default(), peers).unwrap()
    }

    fn is_connected(network: &Network) -> bool {
        network.peers.connected().count() == 1
    }

    #[test]
    fn who_leaves_is_hung_up_on_after_a_while_and_not_let_in_again() {
        let (group, listener) = Group::new();
        let mut mine = group.acceptor(listener, 0);
        let mut theirs = dialler(&group, group.peers(1));
        until(|now_ms| {
            round(&mut theirs, now_ms);
            round(&mut mine, now_ms);
            is_connected(&mine) && is_connected(&theirs)
        });
        let stays = later(&group, &[0, 1], "127.0.0.1:1");
        mine.begin_configuration(&stays, 0);
        assert!(is_connected(&mine), "a link to one that stays is left alone");
        mine.take_link_changes();

        mine.begin_configuration(&later(&group, &[0], "127.0.0.1:1"), 0);
        mine.open(LEAVING_MILLIS - 1);
        assert!(is_connected(&mine), "it has time to learn of it");
        assert_eq!(mine.next_ms(), Some(LEAVING_MILLIS));
        mine.open(LEAVING_MILLIS);
        assert!(!is_connected(&mine) && mine.peers.get(MemberId(1)).is_none());
        assert_eq!(mine.take_link_changes(), [(Node::Member(MemberId(1)), false)]);
        let refused = mine.counters.hellos_refused;
        until(|now_ms| {
            round(&mut theirs, now_ms);
            round(&mut mine, now_ms);
            mine.counters.hellos_refused > refused
        });
        assert!(!is_connected(&mine));
    }

    #[test]
    fn who_comes_is_dialled_where_its_configuration_says() {
        let (group, listener) = Group::new();
        let address = listener.local_addr().unwrap().to_string();
        let mut theirs = group.acceptor(listener, 0);
        let alone = later(&group, &[1], "127.0.0.1:1");
        let alone = Peers::new(MemberId(1), &alone, &["127.0.0.1:1".parse().unwrap()]).unwrap();
        let mut mine = dialler(&group, alone);
        assert_eq!(mine.peers.next_ms(), None, "there is nobody to dial");
        mine.begin_configuration(&later(&group, &[0, 1], &address), 5);
        assert_eq!(mine.peers.next_ms(), Some(5));
        let mut heard = Vec::new();
        until(|now_ms| {
            round(&mut mine, now_ms + 5);
            mine.send_peer(MemberId(0), "test", |to| to.u8(7));
            heard.extend(round(&mut theirs, now_ms));
            !heard.is_empty()
        });
        assert_eq!(heard[0], (Some(Sender::Peer(MemberId(1))), Bytes::from_static(&[7])));
    }

    #[test]
    fn who_moves_is_dialled_at_its_new_place_at_once() {
        let (group, listener) = Group::new();
        let address = listener.local_addr().unwrap().to_string();
        let mut theirs = group.acceptor(listener, 0);
        let mut mine = dialler(&group, group.peers(1));
        mine.begin_configuration(&later(&group, &[0, 1], "127.0.0.1:1"), 0);
        // It tries again and again, less and less often.
        (0..5).for_each(|_| mine.peers.down(MemberId(0), 1_000_000));
        assert!(mine.peers.next_ms() > Some(1_000_000));
        mine.begin_configuration(&later(&group, &[0, 1], &address), 0);
        assert_eq!(mine.peers.next_ms(), Some(0));
        until(|now_ms| {
            round(&mut mine, now_ms);
            round(&mut theirs, now_ms);
            is_connected(&mine) && is_connected(&theirs)
        });
    }

    /// A replica believes a peer over a channel once the peer has shown by what key it signs, and
    /// in the configuration of that key.
    #[test]
    fn a_member_convinces_in_the_configuration_for_which_it_has_a_key() {
        let (group, listener) = Group::new();
        let mut mine = group.acceptor(listener, 0);
        let mut theirs = dialler(&group, group.peers(1));
        let (zero, one) = (MemberId(0), MemberId(1));
        let convinced = |mine: &Network, theirs: &Network| {
            (mine.is_convinced_by(one), theirs.is_convinced_by(zero))
        };
        assert_eq!(convinced(&mine, &theirs), (false, false));
        let said = pass_until(&mut mine, &mut theirs, |mine, theirs| {
            convinced(mine, theirs) == (true, true)
        });
        assert!(said.is_empty(), "that is not for the machine");

        let next = later(&group, &[0, 1], "127.0.0.1:1");
        mine.begin_configuration(&next, 0);
        assert_eq!(convinced(&mine, &theirs), (false, true));
        pass_until(&mut mine, &mut theirs, |mine, theirs| {
            convinced(mine, theirs) == (false, false)
        });
        theirs.begin_configuration(&next, 0);
        assert_eq!(convinced(&mine, &theirs), (false, true), "it had said so before");
        // The channel goes on under other keys.
        theirs.send_peer(zero, "test", |to| to.u8(7));
        let said = pass_until(&mut mine, &mut theirs, |mine, theirs| {
            convinced(mine, theirs) == (true, true)
        });
        assert_eq!(said, [(Some(Sender::Peer(one)), Bytes::from_static(&[7]))]);

        // One that has its identity key alone.
        let mut next = Membership::clone(&later(&group, &[0, 1], "127.0.0.1:1"));
        let mut members = next.members.to_vec();
        members[1].signing = KeyPair::from_seed([9; 32]).public();
        (next.members, next.configuration) = (members.into(), Digest::of(b"the next"));
        mine.begin_configuration(&next, 0);
        theirs.begin_configuration(&next, 0);
        theirs.send_peer(zero, "test", |to| to.u8(8));
        let mut said = pass_until(&mut mine, &mut theirs, |_, theirs| theirs.is_convinced_by(zero));
        until(|now_ms| {
            round(&mut theirs, now_ms);
            said.extend(round(&mut mine, now_ms));
            !said.is_empty()
        });
        assert!(!mine.is_convinced_by(one));
    }

    /// A member that joined later than this replica knows may have to lead the replica on. The
    /// replica answers it, and closes the connection after a while as it does with any stranger's.
    #[test]
    fn who_may_have_joined_later_is_heard_as_a_stranger_and_answered() {
        let (group, listener) = Group::new();
        let mut mine = group.acceptor(listener, 0);
        // A group that does not change, or has had that member, does not listen to it.
        let mut theirs = newer_dialler(&group, 2);
        until(|now_ms| {
            round(&mut theirs, now_ms);
            round(&mut mine, now_ms);
            mine.counters.hellos_refused > 0
        });
        mine.begin_configuration(&later(&group, &[0, 1], "127.0.0.1:1"), 0);
        let refused = mine.counters.hellos_refused;
        let mut theirs = newer_dialler(&group, 2);
        let (mut said, mut answers) = (Vec::new(), Vec::new());
        until(|now_ms| {
            round(&mut theirs, now_ms);
            theirs.send_peer(MemberId(0), "test", |to| to.u8(7));
            for (sender, bytes) in round(&mut mine, 0) {
                let Some(Sender::Newer(token)) = sender else { panic!("{sender:?}") };
                assert!(mine.is_newer(token));
                mine.answer_newer(token, &Bytes::from_static(&[8]));
                said.push(bytes);
            }
            answers.extend(round(&mut theirs, now_ms));
            !answers.is_empty()
        });
        assert!(said.contains(&Bytes::from_static(&[7])), "{said:?}");
        assert_eq!(answers[0], (Some(Sender::Peer(MemberId(0))), Bytes::from_static(&[8])));
        assert_eq!(mine.counters.hellos_refused, refused);
        assert!(!is_connected(&mine), "it is no peer");
        assert_eq!(mine.report(0).strangers, 1);
        mine.open(HostLimits::default().hello_ms + 60_000);
        assert_eq!(mine.report(0).strangers, 0, "its time is over");
    }

    #[test]
    fn of_those_that_may_have_joined_later_few_have_a_place_and_little_waits_for_each() {
        let (group, listener) = Group::new();
        let mut mine = group.acceptor(listener, 0);
        mine.begin_configuration(&later(&group, &[0, 1], "127.0.0.1:1"), 0);
        let mut many: Vec<_> = (2..12).map(|id| newer_dialler(&group, id)).collect();
        let mut heard = 0;
        until(|now_ms| {
            for theirs in &mut many {
                round(theirs, now_ms);
                theirs.send_peer(MemberId(0), "test", |to| to.u8(7));
            }
            for (sender, _) in round(&mut mine, 0) {
                let Some(Sender::Newer(token)) = sender else { panic!("{sender:?}") };
                mine.answer_newer(token, &Bytes::from_static(&[8; 100]));
                mine.answer_newer(token, &Bytes::from_static(&[8; 100]));
                let waits = mine.links.get(token).map_or(0, |link| link.connection.queued_bytes());
                assert!(waits < 200, "{waits}");
                heard += 1;
            }
            mine.report(0).strangers == 8 && heard > 20
        });
        // They may be members now, and dial again.
        mine.begin_configuration(&later(&group, &[0, 1], "127.0.0.1:1"), 0);
        assert_eq!(mine.report(0).strangers, 0);
    }

    /// Has both work until it is so; gives what the first has heard for its machine.
    fn pass_until(
        mine: &mut Network,
        theirs: &mut Network,
        is_so: impl Fn(&Network, &Network) -> bool,
    ) -> Vec<(Option<Sender>, Bytes)> {
        let mut said = Vec::new();
        until(|now_ms| {
            round(theirs, now_ms);
            said.extend(round(mine, now_ms));
            is_so(mine, theirs)
        });
        said
    }

    #[test]
    fn a_name_is_looked_up_on_another_thread() {
        let (group, _listener) = Group::new();
        let mut mine = dialler(&group, group.peers(1));
        let known = mine.peers.get(MemberId(0)).unwrap().address;
        mine.begin_configuration(&later(&group, &[0, 1], "localhost:7"), 0);
        assert_eq!(mine.peers.get(MemberId(0)).unwrap().address, known, "until it is found");
        until(|now_ms| {
            mine.take_addresses(now_ms);
            mine.peers.get(MemberId(0)).unwrap().address.is_some_and(|it| it.port() == 7)
        });
        assert!(mine.peers.get(MemberId(0)).unwrap().address.unwrap().ip().is_loopback());
    }
}
