//! Which replicas speak as members of the configuration that a client knows ([`Welcome`]).

use pentarchy_core::ids::{ReplicaId, ReplicaSet};
use pentarchy_core::membership::Membership;
use pentarchy_core::welcome::Welcome;
use pentarchy_crypto::keys::is_signed_by;
use std::sync::Arc;
use tracing::warn;

/// What each replica said of its right to speak over its present channel, and who convinces.
pub struct Convincing {
    membership: Arc<Membership>,
    /// With what names the channel.
    said: Vec<Option<(Welcome, [u8; 32])>>,
    who: ReplicaSet,
}

impl Convincing {
    /// Nobody yet, of this configuration.
    pub fn new(membership: Arc<Membership>) -> Self {
        let said = vec![None; membership.n()];
        Self { membership, said, who: ReplicaSet::EMPTY }
    }

    /// The number of the configuration.
    pub fn number(&self) -> u64 {
        self.membership.number()
    }

    /// Whether this replica speaks as a member.
    pub const fn has(&self, replica: ReplicaId) -> bool {
        self.who.contains(replica)
    }

    /// A replica has begun a configuration, and says so over this channel: once for each, as it
    /// takes time to check.
    pub fn hear(&mut self, from: ReplicaId, welcome: Welcome, channel: &[u8; 32]) {
        let Some(said) = self.said.get_mut(usize::from(from.0)) else { return };
        let is_new = |(before, over): &(Welcome, [u8; 32])| {
            over != channel || before.number < welcome.number
        };
        if !said.as_ref().is_none_or(is_new) {
            return;
        }
        *said = Some((welcome, *channel));
        self.judge(from);
        if welcome.number == self.number() && !self.has(from) {
            let member = self.membership.members.get(usize::from(from.0));
            warn!(
                replica = member.map(|it| it.id.0),
                "this client believes nothing that the replica says: the replica lacks its signing \
                 key of this configuration, or has another cluster.toml than the client"
            );
        }
    }

    /// The channel is lost.
    pub fn lose(&mut self, replica: ReplicaId) {
        if let Some(said) = self.said.get_mut(usize::from(replica.0)) {
            *said = None;
            self.who.remove(replica);
        }
    }

    /// The client knows another configuration from now on, of the same replicas.
    pub fn begin(&mut self, membership: Arc<Membership>) {
        self.membership = membership;
        let all: Vec<_> = self.membership.ids().collect();
        all.into_iter().for_each(|replica| self.judge(replica));
    }

    fn judge(&mut self, replica: ReplicaId) {
        self.who.remove(replica);
        let at = usize::from(replica.0);
        let (said, member) = (self.said.get(at), self.membership.members.get(at));
        let Some((Some((welcome, channel)), member)) = said.zip(member) else { return };
        let present = (self.membership.number(), &self.membership.configuration);
        if welcome.convinces(present, channel, &member.signing, is_signed_by) {
            self.who.insert(replica);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pentarchy_core::auth::Signature;
    use pentarchy_core::digest::Digest;
    use pentarchy_core::ids::{GroupId, Incarnation};
    use pentarchy_core::membership::Life;
    use pentarchy_core::mutant;
    use pentarchy_crypto::keys::KeyPair;

    const CHANNEL: [u8; 32] = [7; 32];
    const ONE: ReplicaId = ReplicaId(1);

    fn key(seed: u8) -> KeyPair {
        KeyPair::from_seed([seed; 32])
    }

    /// Members who sign by keys that are not those by which they open channels.
    fn membership() -> Arc<Membership> {
        let members = [1, 2, 3].map(|seed| (key(seed).public(), Life::mac(Incarnation(1))));
        let mut membership = Membership::of_keys(GroupId([5; 16]), 1, members);
        let mut members = membership.members.to_vec();
        for (member, seed) in members.iter_mut().zip([11, 12, 13]) {
            member.signing = key(seed).public();
        }
        membership.members = members.into();
        Arc::new(membership)
    }

    fn welcome(number: u64, by: &KeyPair, channel: &[u8; 32]) -> Welcome {
        let statement = Welcome::statement(&membership().configuration, channel);
        Welcome { number, signature: Signature(by.sign(&statement)) }
    }

    fn convinces(welcome: Welcome) -> bool {
        let mut convincing = Convincing::new(membership());
        convincing.hear(ONE, welcome, &CHANNEL);
        convincing.has(ONE)
    }

    #[test]
    fn a_member_speaks_by_the_key_by_which_it_signs_and_over_one_channel() {
        assert!(convinces(welcome(0, &key(12), &CHANNEL)));
        assert!(!convinces(welcome(0, &key(12), &[8; 32])), "it signed another channel");
        assert!(!convinces(welcome(0, &key(13), &CHANNEL)), "that is another member's key");
        assert!(!convinces(welcome(1, &key(12), &CHANNEL)), "it is in a later configuration");
        let former = welcome(0, &key(2), &CHANNEL);
        assert!(!convinces(former), "it has its identity key and no other");
        assert!(mutant::with(Some("welcome.by-identity"), || convinces(former)));
    }

    #[test]
    fn it_speaks_for_as_long_as_the_channel_and_the_configuration_last() {
        let mut convincing = Convincing::new(membership());
        convincing.hear(ONE, welcome(0, &key(12), &CHANNEL), &CHANNEL);
        assert!(convincing.has(ONE) && !convincing.has(ReplicaId(0)));
        convincing.begin(membership());
        assert!(convincing.has(ONE));
        let mut other = Membership::clone(&membership());
        other.configuration = Digest::of(b"another one");
        convincing.begin(Arc::new(other));
        assert!(!convincing.has(ONE));
        convincing.begin(membership());
        assert!(convincing.has(ONE), "what it said was early");
        convincing.lose(ONE);
        convincing.begin(membership());
        assert!(!convincing.has(ONE));
        convincing.hear(ReplicaId(9), welcome(0, &key(12), &CHANNEL), &CHANNEL);
        assert!(!convincing.has(ReplicaId(9)), "there is no such replica");
    }
}
