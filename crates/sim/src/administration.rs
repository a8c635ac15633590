//! How a simulated group is changed: who its administrators are, what they propose, and what a
//! machine says that is to become a member. Worlds draw changes; traces spell them out.

use crate::crypto::{Crypto, INCARNATION, administrator_id, member_id};
use crate::key_ring::SharedKeyRing;
use crate::node::ReplicaNode;
use crate::packet::member_at;
use pentarchy_core::Bytes;
use pentarchy_core::auth::Signature;
use pentarchy_core::change::{Change, Petition, Ready};
use pentarchy_core::configuration::{
    Access, Administrators, Configuration, MemberEntry, RequestMeans, SealedSecret,
};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ClientId, Epoch, MemberId, ReplicaId};
use pentarchy_core::membership::{Life, Member, Membership};
use pentarchy_core::protocol::{Rules, Tuning};
use pentarchy_core::request::{Draft, Envelope, Request};
use std::sync::Arc;

/// Administrators of a group, and how many of them have to agree.
pub const ADMINISTRATORS: usize = 3;
const THRESHOLD: u8 = 2;

/// The keys of the administrators of a world.
pub fn administrators(seed: u64) -> Vec<ClientId> {
    (0..ADMINISTRATORS).map(|index| administrator_id(seed, index)).collect()
}

/// The group as it begins, if administrators may change it.
pub fn stated(first: &Membership, rules: &Rules, tuning: Tuning, seed: u64) -> Arc<Membership> {
    let entry = |member: &Member| MemberEntry {
        id: member.id,
        identity: member.identity,
        signing: member.signing,
        sealed: None,
        address: format!("{}:7000", member.id),
    };
    let keys = administrators(seed).iter().map(|it| it.0).collect();
    let configuration = Configuration {
        group: first.group,
        number: 0,
        protocol: rules.name.to_owned(),
        facts: rules.facts(),
        f: first.f as u16,
        lane: first.lane,
        // What is for the simulator alone is not agreed on.
        tuning: Tuning { interleaving: 0, ..tuning },
        requests: RequestMeans::Signature,
        secret: None,
        administrators: Administrators { threshold: THRESHOLD, keys },
        access: Access::Open,
        members: first.members.iter().map(entry).collect(),
        next_member: MemberId(first.n() as u32),
    };
    let lives: Vec<_> = first.members.iter().map(|member| member.life()).collect();
    Arc::new(configuration.begin(&lives))
}

/// The next machine becomes a member, at this index. Gives its place among all machines, which is
/// its number.
pub fn add(next: &mut Configuration, at: usize) -> usize {
    let id = next.next_member;
    let identity = member_id(ReplicaId(id.0 as u16)).0;
    let address = format!("{id}:7000");
    next.members.insert(at, MemberEntry { id, identity, signing: identity, sealed: None, address });
    next.next_member.0 += 1;
    id.0 as usize
}

/// The same configuration with another protocol.
pub fn ordered_by(configuration: &Configuration, rules: &Rules) -> Configuration {
    let (protocol, facts) = (rules.name.to_owned(), rules.facts());
    Configuration { protocol, facts, ..configuration.clone() }
}

/// The members' devices get another secret.
pub fn renew_secret(next: &mut Configuration, secret: Digest) {
    next.secret = Some(secret);
    // Simulated devices have keys of their own, so nobody reads it.
    let sealed = Some(SealedSecret([0; SealedSecret::BYTES]));
    next.members.iter_mut().for_each(|member| member.sealed = sealed);
}

/// Somebody asks this of the group itself.
pub fn ask(crypto: &Crypto, client: ClientId, number: u64, operation: Bytes) -> Arc<Envelope> {
    let requests = vec![Request { number, operation }];
    Arc::new(crypto.seal(Draft { client, floor: number, events: None, requests }))
}

/// What a machine learns of the pending change that makes it a member.
pub struct Invitation {
    epoch: Epoch,
    change: Arc<Change>,
    digest: Digest,
}

impl Invitation {
    /// As a replica tells the machine at this place. None if that is no member of what is pending
    /// there.
    pub fn of(node: &ReplicaNode<'_>, machine: ReplicaId) -> Option<Self> {
        let (change, digest) = node.executor().settled_change()?;
        let mut members = change.next.members.iter();
        let is_invited = members.any(|member| member.id == member_at(machine));
        is_invited.then(|| Self { epoch: node.epoch(), change: change.clone(), digest })
    }

    /// The machine makes its key for that configuration, and says that it is ready.
    pub fn accept(&self, machine: ReplicaId, crypto: &Crypto, ring: &SharedKeyRing) -> Petition {
        let Self { epoch, ref change, digest } = *self;
        let (life, possession) = (Life::mac(INCARNATION), Signature([0; 64]));
        let signing = ring.lock().prepare(change);
        let mut ready = Ready { epoch, change: digest, signing, life, possession };
        let statement = ready.statement(&member_id(machine));
        ready.possession = Signature(crypto.sign(machine, &signing, &statement));
        Petition::Ready(ready)
    }
}
