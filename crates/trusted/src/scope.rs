//! Where certificates count: in one epoch of a group, under one configuration. A device certifies
//! as a member, whose number never changes; which replica that is, each configuration says.

use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{MemberId, ReplicaId};
use pentarchy_core::membership::{Member, Membership};
use std::sync::Arc;

/// To what certificates are bound, and who the replicas are.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    /// The context of devices of one kind.
    pub context: Digest,
    members: Arc<[Member]>,
}

impl Scope {
    pub fn new(context: Digest, membership: &Membership) -> Self {
        Self { context, members: membership.members.clone() }
    }

    /// Which member a replica is; none if there is no such replica.
    pub fn member(&self, replica: ReplicaId) -> Option<MemberId> {
        self.members.get(usize::from(replica.0)).map(|member| member.id)
    }
}
