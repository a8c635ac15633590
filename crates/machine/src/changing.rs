//! Getting ready for the next configuration: while a change is pending that has a place for this
//! replica, it makes what it needs and says so to the group, in an ordered request.

use crate::driver::Driver;
use crate::epochs::SaidReady;
use crate::factory::Prepared;
use crate::halt::Halt;
use crate::machine::Machine;
use crate::observed::Observed;
use crate::store::Disk;
use pentarchy_core::auth::Signature;
use pentarchy_core::change::{Change, Petition, Ready};
use pentarchy_core::configuration::{Configuration, MemberEntry, RequestMeans};
use pentarchy_core::digest::Digest;
use pentarchy_core::epochs::Message;
use pentarchy_core::erased::CoreEvent;
use pentarchy_core::ids::{ClientId, MemberId, Millis};
use pentarchy_core::membership::Membership;
use pentarchy_core::mutant;
use pentarchy_core::request::Envelope;
use std::sync::Arc;
use tracing::info;

/// Between two times that a replica says that it is ready.
const READY_AGAIN_MS: u64 = 2_000;

impl<D: Disk> Machine<'_, D> {
    /// Time has passed. Only what cannot be taken back any more counts as pending.
    pub(crate) fn get_ready(&mut self, now: Millis, driver: &mut impl Driver) -> Result<(), Halt> {
        self.erase_former_keys()?;
        self.tell_governing(driver);
        let is_admitted = self.epoch_manager.epochs.is_admitted();
        // Where the next epoch is proved and waits for the disk, its keys are still to be adopted.
        let is_between = self.epoch_manager.next.is_some();
        if self.is_resuming() || !is_admitted || is_between {
            return Ok(());
        }
        self.forget_void_changes();
        let Some((change, digest)) = self.executor.settled_change() else { return Ok(()) };
        let is_new = self.said_ready.change != digest;
        if !is_new && self.engine.now_ms < self.said_ready.again_ms {
            return Ok(());
        }
        if !can_follow(change, self.executor.membership(), self.engine.places.member) {
            return Ok(());
        }
        let change = change.clone();
        let is_other = is_ordered_otherwise(&change, self.executor.membership());
        if is_other && !self.epoch_manager.factory.can_switch_to(&change.next) {
            let again_ms = self.engine.now_ms + READY_AGAIN_MS;
            self.said_ready = SaidReady { change: digest, again_ms, ..SaidReady::default() };
            return Ok(());
        }
        let Some(prepared) = self.epoch_manager.factory.prepare(&change, &digest) else {
            return Ok(());
        };
        if is_new {
            let number = change.next.number;
            info!(change = %digest, number, "ready for the next configuration");
            self.said_ready = SaidReady { change: digest, ..SaidReady::default() };
        }
        self.said_ready.again_ms = self.engine.now_ms + READY_AGAIN_MS;
        let executed = std::mem::replace(&mut self.said_ready.executed, self.executor.executed());
        let is_idle = executed == self.executor.executed();
        let Some(envelope) = self.ready_request(digest, prepared, is_idle, now) else {
            return Ok(());
        };
        self.say_ready(envelope, driver)
    }

    /// Tells the driver who has a say in the group, when that has changed.
    fn tell_governing(&mut self, driver: &mut impl Driver) {
        let (now, pending) = (self.executor.membership(), self.executor.settled_change());
        let of = Some((now.configuration, pending.map(|(_, digest)| digest)));
        if of == self.governing {
            return;
        }
        let invited = pending.iter().flat_map(|(change, _)| &change.next.members);
        let members = now.members.iter().map(|member| member.identity);
        let members = members.chain(invited.map(|member| member.identity)).map(ClientId);
        driver.on_governing(members.chain(now.administrators()).collect());
        self.governing = of;
    }

    /// The request by which this replica says that it is ready; none if it need not. It asks the
    /// same until it is counted: where the network is slow, new requests would stand in the way of
    /// the old ones and of clients'. Then it only asks anew in a group that is idle: nothing else
    /// lets the agreed time pass there for which the epoch waits for others.
    fn ready_request(
        &mut self,
        change: Digest,
        Prepared { signing, life }: Prepared,
        is_idle: bool,
        now: Millis,
    ) -> Option<Arc<Envelope>> {
        let epoch = self.executor.membership().epoch;
        let counted = self.executor.ready_as(&self.epoch_manager.me);
        let is_counted = counted.is_some_and(|it| (it.signing, it.life) == (signing, life));
        let said = self.said_ready.request.clone().filter(|_| self.said_ready.epoch == epoch);
        if is_counted && (!is_idle || mutant!("changing.silent-when-counted")) {
            return None;
        }
        if let (false, Some(said)) = (is_counted, said) {
            return Some(said);
        }
        let mut ready = Ready { epoch, change, signing, life, possession: Signature([0; 64]) };
        let statement = ready.statement(&self.epoch_manager.me);
        ready.possession = self.epoch_manager.factory.sign_as(&signing, &statement)?;
        self.said_ready.epoch = epoch;
        let envelope = self.epoch_manager.seal(&Petition::Ready(ready), now);
        self.said_ready.request = Some(envelope.clone());
        Some(envelope)
    }

    /// Each replica has its core order that, this one included.
    fn say_ready(&mut self, envelope: Arc<Envelope>, driver: &mut impl Driver) -> Result<(), Halt> {
        driver.observe(Observed::Petitions(&envelope));
        self.tell(self.engine.places.peers(), &Message::Admit(envelope.clone()), driver);
        match self.answer_settled(envelope, driver) {
            Some(request) => self.step(CoreEvent::Input(request), driver),
            None => Ok(()),
        }
    }

    /// Former keys go once it is durable that the epoch has begun: if power failed before, this
    /// replica and others would have to show again how the last one ended.
    fn erase_former_keys(&mut self) -> Result<(), Halt> {
        let is_durable = match &self.store {
            Some(store) => store.is_epoch_durable()? || mutant!("epochs.erases-before-durable"),
            None => true,
        };
        if is_durable
            && std::mem::take(&mut self.epoch_manager.has_former_keys)
            && !mutant!("epochs.former-keys-kept")
        {
            self.epoch_manager.factory.erase_former_keys();
        }
        Ok(())
    }

    /// Whether it has yet to erase keys of earlier configurations.
    #[must_use]
    pub const fn is_to_erase_keys(&self) -> bool {
        self.epoch_manager.has_former_keys
    }

    /// Keys for changes that can never take effect any more go. That a change is not pending does
    /// not say so: after a crash, a replica executes again what was ordered before the change, and
    /// others may count it as ready.
    fn forget_void_changes(&mut self) {
        let Some(current) = &self.executor.membership().stated else { return };
        let (number, (withdrawn, time)) = (current.number, self.executor.settled_withdrawals());
        let pending = self.executor.settled_change().map(|(change, _)| change);
        let is_void = |change: &Change| match mutant!("changing.forgets-what-is-not-pending") {
            true => pending.is_none_or(|it| **it != *change),
            false => change.is_void(number, withdrawn, time),
        };
        self.epoch_manager.factory.forget_prepared(&is_void);
    }
}

/// Whether a change makes the group order by another protocol or under another secret, or check
/// requests in another way.
fn is_ordered_otherwise(change: &Change, membership: &Membership) -> bool {
    let how = |it: &Configuration| (it.protocol.clone(), it.facts, it.requests, it.secret);
    membership.stated.as_ref().is_none_or(|now| how(now) != how(&change.next))
}

/// Whether a machine can carry out a change: of keys, secret, administrators, clients, addresses,
/// members, how many of them may be faulty, and, where it [can be](Configuration::can_switch), the
/// protocol and how requests are checked. One that leaves is never ready.
fn can_follow(change: &Change, membership: &Membership, me: MemberId) -> bool {
    let Some(current) = &membership.stated else { return false };
    let Configuration { members, .. } = &change.next;
    let mut same = change.next.clone();
    same.number = current.number;
    same.secret = current.secret;
    same.next_member = current.next_member;
    same.f = current.f;
    same.administrators.clone_from(&current.administrators);
    same.access.clone_from(&current.access);
    if let (RequestMeans::Session(_), RequestMeans::Session(_)) = (current.requests, same.requests)
    {
        // Clients convince devices under the secret that those share.
        same.requests = current.requests;
    }
    if current.can_switch() {
        same.protocol.clone_from(&current.protocol);
        (same.facts, same.requests) = (current.facts, current.requests);
    }
    same.members.clone_from(&current.members);
    let is_me = |member: &&MemberEntry| member.id == me;
    let (now, then) = (current.members.iter().find(is_me), members.iter().find(is_me));
    let keeps_identity = now.zip(then).is_some_and(|(now, then)| now.identity == then.identity);
    same == **current && keeps_identity
}

#[cfg(test)]
mod tests {
    use super::*;
    use pentarchy_core::configuration::{Access, Administrators, Facts};
    use pentarchy_core::ids::{GroupId, Incarnation};
    use pentarchy_core::membership::{Life, PillarConfig};
    use pentarchy_core::protocol::{Authority, FaultModel, Tuning};
    use pentarchy_core::quorum::{Count, QuorumRule, ReadRule};

    fn entry(id: u32) -> MemberEntry {
        let (identity, signing) = ([100 + id as u8; 32], [200 + id as u8; 32]);
        let address = format!("host-{id}:7000");
        MemberEntry { id: MemberId(id), identity, signing, sealed: None, address }
    }

    fn current() -> Configuration {
        Configuration {
            group: GroupId([5; 16]),
            number: 3,
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
            f: 1,
            lane: PillarConfig::default(),
            tuning: Tuning::default(),
            requests: RequestMeans::Signature,
            secret: None,
            administrators: Administrators::default(),
            access: Access::Open,
            members: (0..4).map(entry).collect(),
            next_member: MemberId(4),
        }
    }

    /// Whether member 1 is ready for a change that alters this.
    fn follows(alter: impl FnOnce(&mut Configuration)) -> bool {
        follows_from(&current(), alter)
    }

    fn follows_from(current: &Configuration, alter: impl FnOnce(&mut Configuration)) -> bool {
        let lives = [Life::mac(Incarnation(1)); 4];
        let mut next = current.clone();
        next.number += 1;
        alter(&mut next);
        let (expects, expires) = (current.digest(), Millis(9));
        let change = Change { expects, attempt: 0, expires, next, needed: Vec::new() };
        can_follow(&change, &current.begin(&lives), MemberId(1))
    }

    #[test]
    fn a_replica_is_ready_only_for_what_machines_can_carry_out() {
        assert!(follows(|_| {}), "other keys are made anew with each change");
        assert!(follows(|next| next.secret = Some(Digest::of(b"another"))));
        assert!(follows(|next| next.administrators.threshold = 1));
        assert!(follows(|next| next.access = Access::only([])));
        assert!(follows(|next| next.members[2].address = "elsewhere:1".to_owned()));
        assert!(follows(|next| next.members.truncate(3)), "the last one leaves");
        assert!(follows(|next| _ = next.members.remove(0)), "others get other places");
        assert!(follows(|next| next.members.swap(2, 3)));
        assert!(!follows(|next| next.members.truncate(1)), "it leaves itself");
        assert!(follows(|next| next.members.push(entry(4))), "another one joins");
        assert!(follows(|next| next.members[3].identity = [9; 32]));
        assert!(!follows(|next| next.members[1].identity = [9; 32]), "it would be another one");
        assert!(follows(|next| next.f = 0));
        assert!(follows(|next| next.protocol = "other".to_owned()));
        assert!(follows(|next| next.facts.replies = Count::per_fault_and_one(0)));
        assert!(!follows(|next| next.tuning.batch_requests += 1));
        assert!(follows(|next| next.facts.speculative = true));
        let lane = PillarConfig { pillars: 2, ..PillarConfig::default() };
        let is_split = Configuration { lane, ..current() };
        let is_followed = |alter: fn(&mut Configuration)| follows_from(&is_split, alter);
        assert!(is_followed(|_| {}) && !is_followed(|next| next.facts.speculative = true));
        let session = |key| RequestMeans::Session([key; 32]);
        let has_sessions = Configuration { requests: session(1), ..is_split };
        let is_followed = |alter: fn(&mut Configuration)| follows_from(&has_sessions, alter);
        assert!(is_followed(|next| next.requests = RequestMeans::Session([2; 32])));
        assert!(!is_followed(|next| next.requests = RequestMeans::Signature));
    }
}
