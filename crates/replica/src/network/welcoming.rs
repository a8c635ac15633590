//! By what right this replica speaks as a member elsewhere, and others here ([`Welcome`]).

use super::Network;
use bytes::Bytes;
use pentarchy_core::auth::Signature;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::MemberId;
use pentarchy_core::membership::Membership;
use pentarchy_core::ports::client::ToClient;
use pentarchy_core::welcome::Welcome;
use pentarchy_core::wire::Wire as _;
use pentarchy_crypto::keys::is_signed_by;
use pentarchy_crypto::signing_keys::SharedSigningKeys;
use std::collections::BTreeMap;
use tracing::warn;

/// The first byte of a message between replicas that is a welcome. The others are the machine's.
const WELCOME: u8 = 4;

/// The configuration in which the replica is, and its keys.
#[derive(Clone)]
pub struct Credentials {
    me: MemberId,
    signing: SharedSigningKeys,
    number: u64,
    configuration: Digest,
    /// The number of the member that joins next; none in a group that does not change.
    next_member: Option<MemberId>,
    /// By which each member signs.
    keys: BTreeMap<MemberId, [u8; 32]>,
}

impl Credentials {
    /// Of this member in the group as it is.
    pub fn new(me: MemberId, signing: SharedSigningKeys, membership: &Membership) -> Self {
        let (number, configuration, next_member, keys) = Default::default();
        let mut credentials = Self { me, signing, number, configuration, next_member, keys };
        credentials.begin(membership);
        credentials
    }

    fn begin(&mut self, membership: &Membership) {
        (self.number, self.configuration) = (membership.number(), membership.configuration);
        self.next_member = membership.stated.as_ref().map(|stated| stated.next_member);
        self.keys = membership.members.iter().map(|member| (member.id, member.signing)).collect();
    }

    /// Whether a member of that number can have joined after this configuration.
    pub(super) fn may_be_newer(&self, member: MemberId) -> bool {
        self.next_member.is_some_and(|next| member >= next)
    }

    /// What to say over a channel. Without its key, or in a configuration in which it has no place,
    /// the replica convinces nobody.
    fn welcome(&self, number: u64, channel: &[u8; 32]) -> Welcome {
        let signing = self.signing.lock();
        let key = self.keys.get(&self.me).filter(|_| number == self.number);
        let key = key.and_then(|key| signing.get(key));
        let statement = Welcome::statement(&self.configuration, channel);
        let signature = Signature(key.map_or([0; 64], |key| key.sign(&statement)));
        Welcome { number, signature }
    }

    fn is_convinced(&self, peer: MemberId, welcome: &Welcome, channel: &[u8; 32]) -> bool {
        let present = (self.number, &self.configuration);
        let key = self.keys.get(&peer);
        key.is_some_and(|key| welcome.convinces(present, channel, key, is_signed_by))
    }
}

impl Network {
    /// The number of the last configuration that has begun.
    const fn number(&self) -> u64 {
        if self.begun > self.credentials.number { self.begun } else { self.credentials.number }
    }

    /// The replica is a member of another configuration from now on.
    pub(super) fn change_credentials(&mut self, membership: &Membership, now_ms: u64) {
        self.credentials.begin(membership);
        let connected: Vec<_> = self.peers.connected().collect();
        for (id, token) in connected {
            if !self.welcome_peer(token) {
                // It would believe nothing that is said over this connection any more.
                self.close(token, now_ms, "does not read");
                continue;
            }
            if let Some(link) = self.links.get_mut(token) {
                link.connection.rekey();
            }
            self.judge(id);
        }
    }

    /// Says by what right this replica speaks, before it says anything else. False if there is no
    /// room for that.
    pub(super) fn welcome_peer(&mut self, token: usize) -> bool {
        let number = self.number();
        let Some(link) = self.links.get_mut(token) else { return false };
        let Some(channel) = link.connection.binding() else { return false };
        let welcome = self.credentials.welcome(number, channel);
        let queued = link.connection.queue_with(|to| {
            to.u8(WELCOME);
            welcome.encode(to);
        });
        self.links.mark_dirty(token);
        queued.is_ok()
    }

    /// Says the same to a client, unless it was told. False if there is no room for that.
    pub(super) fn welcome_client(&mut self, token: usize) -> bool {
        let number = self.number();
        let Some(link) = self.links.get_mut(token) else { return false };
        if link.told == Some(number) {
            return true;
        }
        let Some(channel) = link.connection.binding() else { return false };
        let begun = ToClient::Begun(self.credentials.welcome(number, channel));
        if link.connection.queue_with(|to| begun.encode(to)).is_err() {
            return false;
        }
        if link.told.replace(number).is_some() {
            link.connection.rekey();
        }
        self.links.mark_dirty(token);
        true
    }

    /// Takes what a peer says of its right to speak out of its messages.
    pub(super) fn take_welcomes(&mut self, peer: MemberId, messages: &mut Vec<Bytes>) {
        let is_welcome = |message: &mut Bytes| message.first() == Some(&WELCOME);
        let Some(last) = messages.extract_if(.., is_welcome).last() else { return };
        if let Some(peer) = self.peers.get_mut(peer) {
            peer.welcome = Welcome::from_bytes(&last.slice(1..)).ok();
        }
        self.judge(peer);
        let said = self.peers.get(peer).filter(|peer| !peer.is_convincing);
        let number = said.and_then(|peer| peer.welcome.as_ref()).map(|welcome| welcome.number);
        if number == Some(self.credentials.number) {
            warn!(
                peer = peer.0,
                "this replica believes nothing that the peer says as a member: the peer lacks its \
                 signing key of this configuration, or has another cluster.toml"
            );
        }
    }

    /// Looks whether a peer speaks as a member in the present configuration.
    fn judge(&mut self, id: MemberId) {
        let token = self.peers.token(id);
        let channel = token.and_then(|token| self.links.get(token)?.connection.binding());
        let Some(peer) = self.peers.get_mut(id) else { return };
        peer.is_convincing = channel
            .zip(peer.welcome.as_ref())
            .is_some_and(|(channel, welcome)| self.credentials.is_convinced(id, welcome, channel));
    }

    /// Whether a peer speaks as a member in the present configuration.
    pub fn is_convinced_by(&self, id: MemberId) -> bool {
        self.peers.get(id).is_some_and(|peer| peer.is_convincing)
    }
}
