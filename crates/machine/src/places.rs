//! Who is which replica in an epoch. Links know members, and cores know replicas, which are places
//! in one configuration: the same number may be another member in the next one. So only what names
//! an epoch is looked up here, and only after that was compared.

use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{MemberId, ReplicaId, ReplicaSet};
use pentarchy_core::membership::Membership;

/// Of one epoch.
pub struct Places {
    /// Who this replica is, in all epochs.
    pub member: MemberId,
    /// Which replica that is in this one.
    pub me: ReplicaId,
    /// The other replicas of the epoch.
    pub others: ReplicaSet,
    /// The digest of the configuration, in which alone these places mean anything.
    pub configuration: Digest,
    /// The members, by replica.
    members: Vec<MemberId>,
}

impl Places {
    /// # Panics
    /// If there is none for this member: a replica without a place ends.
    pub fn new(member: MemberId, membership: &Membership) -> Self {
        let me = membership.index_of(member).expect("a replica without a place ends");
        let mut others: ReplicaSet = membership.ids().collect();
        others.remove(me);
        let members = membership.members.iter().map(|it| it.id).collect();
        Self { member, me, others, configuration: membership.configuration, members }
    }

    /// Which replica a member is; none if it is not in the epoch.
    pub fn replica(&self, member: MemberId) -> Option<ReplicaId> {
        let index = self.members.iter().position(|it| *it == member)?;
        Some(ReplicaId(index as u16))
    }

    /// Who a replica is; none if there is none of that number.
    pub fn member_of(&self, replica: ReplicaId) -> Option<MemberId> {
        self.members.get(usize::from(replica.0)).copied()
    }

    /// Who these replicas are.
    pub fn members_of(&self, replicas: ReplicaSet) -> impl Iterator<Item = MemberId> {
        replicas.iter().filter_map(|replica| self.member_of(replica))
    }

    /// The other members of the epoch.
    pub fn peers(&self) -> impl Iterator<Item = MemberId> {
        self.members_of(self.others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pentarchy_core::ids::{GroupId, Incarnation};
    use pentarchy_core::membership::Life;

    #[test]
    fn a_member_keeps_its_number_and_not_its_place() {
        let members = (0..4).map(|key| ([key; 32], Life::mac(Incarnation(1))));
        let mut membership = Membership::of_keys(GroupId([1; 16]), 1, members);
        let before = Places::new(MemberId(2), &membership);
        membership.members = membership.members[1..].into();
        let after = Places::new(MemberId(2), &membership);
        assert_eq!((before.me, after.me), (ReplicaId(2), ReplicaId(1)));
        assert_eq!(after.peers().collect::<Vec<_>>(), [MemberId(1), MemberId(3)]);
        assert_eq!(after.replica(MemberId(0)), None);
        for member in after.peers() {
            assert_eq!(after.member_of(after.replica(member).unwrap()), Some(member));
        }
        assert_eq!(after.member_of(ReplicaId(3)), None);
    }
}
