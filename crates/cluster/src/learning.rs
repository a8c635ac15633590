//! How a machine that is to become a member gets the group's state before it is one.
//!
//! When it becomes a member, only what has changed since is missing, so it soon counts. It needs
//! nobody's trust and has no vote. Nothing waits for it but the change with which it joins, which
//! waits until it says that it is ready. A state that `f + 1` members of one configuration keep for
//! it is one that the group has had: `f` liars cannot have it fetch something else.

use crate::data::{DataError, DataFolder};
use pentarchy_client::{Client, Completions, RequestError};
use pentarchy_core::Bytes;
use pentarchy_core::blobs::TempBlobs;
use pentarchy_core::digest::Digest;
use pentarchy_core::executor::{Executor, Untaught};
use pentarchy_core::ids::{MemberId, Millis, Slot};
use pentarchy_core::membership::{Base, Membership};
use pentarchy_core::service::Service;
use pentarchy_core::snapshot::Snapshot;
use pentarchy_core::transfer::{Message, Step, Transfer};
use pentarchy_core::wire::Wire as _;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The shortest time between two states, so that a machine that waits for long costs the group
/// little.
const PAUSE: Duration = Duration::from_secs(1);

/// Bytes that it fetches in a second at most: the members have others to serve.
const RATE: f64 = (40 << 20) as f64;

/// How many times as long as the last state took it waits until it fetches the next one.
const PAUSES: u32 = 4;

/// How far it has come with a state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// After this slot.
    pub slot: u64,
    /// In percent of its sections.
    pub percent: u8,
    /// MiB that members sent for it.
    pub mib: u64,
}

/// What a machine has learned.
pub struct Learned {
    /// A service in that state, or in its initial one.
    pub service: Box<dyn Service>,
    /// None if there was none.
    pub state: Option<Snapshot>,
}

/// What fetches states, one after the other, and brings a service to them.
pub struct Learner {
    transfer: Transfer,
    service: Box<dyn Service>,
    held: Option<Snapshot>,
    /// What this machine lacks, so that it cannot have the group's state.
    failure: Option<&'static str>,
    /// The change with which this machine is to join.
    change: Option<Digest>,
    /// The states that each member keeps for it as long as that is pending, as it said last.
    kept: BTreeMap<MemberId, Vec<Base>>,
    /// Whether it has had one of them, or `f + 1` members said that they have but the first one.
    is_done: bool,
    came: Arc<Completions>,
    clock: Instant,
    /// When it began with what it fetches now.
    begun: Option<Instant>,
    /// Of which slot the state is for which members last sent something, and when they began to.
    sent: Option<(Slot, Instant)>,
    /// When it may begin with the next state.
    next: Instant,
    steps: Vec<Step>,
}

impl Learner {
    /// The learner of a machine whose service is in its initial state. It puts what it fetches into
    /// `spool`, or keeps it in memory.
    #[must_use]
    pub fn new(service: Box<dyn Service>, spool: Option<Arc<dyn TempBlobs>>) -> Self {
        // It answers no questions, so it has no use for its number.
        let mut transfer = Transfer::new(MemberId(u32::MAX));
        spool.into_iter().for_each(|spool| transfer.set_spool(spool));
        let now = Instant::now();
        Self {
            transfer,
            service,
            held: None,
            failure: None,
            change: None,
            kept: BTreeMap::new(),
            is_done: false,
            came: Completions::new(),
            clock: now,
            begun: None,
            sent: None,
            next: now,
            steps: Vec::new(),
        }
    }

    /// The same, of a machine that keeps things in this folder, if it does. With states that are to
    /// be in files only, it puts what it fetches there.
    ///
    /// # Errors
    /// [`DataError`] if the folder cannot be written.
    pub fn in_folder(
        service: Box<dyn Service>,
        data: Option<&mut DataFolder>,
    ) -> Result<Self, DataError> {
        let spool = data.map(DataFolder::spool).transpose()?.flatten();
        Ok(Self::new(service, spool.map(|spool| -> Arc<dyn TempBlobs> { spool })))
    }

    /// Members say which states they keep for this machine, which is to join with this change.
    pub fn hear(
        &mut self,
        change: Digest,
        said: impl Iterator<Item = (MemberId, Vec<Base>)>,
        quorum: usize,
    ) {
        if self.change != Some(change) {
            // Liars of two configurations must not count together.
            self.kept.clear();
            (self.change, self.is_done) = (Some(change), false);
            self.transfer.give_up();
            (self.begun, self.came) = (None, Completions::new());
        }
        self.kept.extend(said);
        let without = self.kept.values().filter(|kept| kept.is_empty()).count();
        self.is_done |= without >= quorum;
    }

    /// Whether the machine has a state of the group, or there is none to be had.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        self.is_done && self.failure.is_none()
    }

    /// How far it has come with the state that it fetches.
    #[must_use]
    pub fn progress(&self) -> Option<Progress> {
        let it = self.transfer.progress()?;
        let percent = (100 * it.chunks_have).checked_div(it.chunks_total).unwrap_or(0);
        Some(Progress { slot: it.slot.0, percent: percent as u8, mib: it.bytes >> 20 })
    }

    /// What this machine lacks, so that it cannot have the group's state.
    #[must_use]
    pub const fn failure(&self) -> Option<&'static str> {
        self.failure
    }

    /// The newest state that is here, if its service is in that.
    #[must_use]
    pub fn into_learned(self) -> Option<Learned> {
        let learned = Learned { service: self.service, state: self.held };
        self.failure.is_none().then_some(learned)
    }

    /// Fetches what `quorum` members keep, if it is newer than what is here, for so long at
    /// most. To be called again.
    pub fn go_on(
        &mut self,
        client: &Client,
        membership: &Membership,
        quorum: usize,
        limit: Duration,
    ) {
        let deadline = Instant::now() + limit;
        // Members sent these in time, although this machine looks at them only now.
        self.take_parts(membership, Duration::ZERO);
        if self.failure.is_none() {
            self.want(quorum);
        }
        loop {
            let now = self.clock.elapsed().as_millis() as u64;
            self.transfer.on_round(Millis(now), &mut self.steps);
            self.carry_out(client, membership);
            let left = deadline.saturating_duration_since(Instant::now());
            let Some(wake_at) = self.transfer.wake_at().filter(|_| !left.is_zero()) else { return };
            std::thread::sleep(self.ahead().min(left));
            let pause = Duration::from_millis(wake_at.0.saturating_sub(now).max(1));
            self.take_parts(membership, pause.min(left));
        }
    }

    /// By how much it is faster than it may be.
    fn ahead(&mut self) -> Duration {
        let Some(it) = self.transfer.progress() else { return Duration::ZERO };
        let sent = self.sent.filter(|(slot, _)| *slot == it.slot);
        let (_, since) = *self.sent.insert(sent.unwrap_or_else(|| (it.slot, Instant::now())));
        Duration::from_secs_f64(it.bytes as f64 / RATE).saturating_sub(since.elapsed())
    }

    fn want(&mut self, quorum: usize) {
        let Some((base, from)) = self.kept_by(quorum) else { return };
        if let Some(held) = &self.held
            && held.slot >= base.slot
        {
            self.is_done |= (held.slot, held.digest) == (base.slot, base.state);
            return;
        }
        if self.begun.is_none() && Instant::now() < self.next {
            return;
        }
        self.begun.get_or_insert_with(Instant::now);
        self.transfer.want(base.slot, base.state, from, &self.held, &mut self.steps);
    }

    /// The newest state that so many members keep, and who they are.
    fn kept_by(&self, quorum: usize) -> Option<(Base, BTreeSet<MemberId>)> {
        let keep = |base: &Base| -> BTreeSet<MemberId> {
            let by = self.kept.iter().filter(|(_, kept)| kept.contains(base));
            by.map(|(member, _)| *member).collect()
        };
        let bases = self.kept.values().flatten();
        let proven = bases.map(|base| (*base, keep(base))).filter(|(_, by)| by.len() >= quorum);
        proven.max_by_key(|(base, _)| base.slot)
    }

    fn carry_out(&mut self, client: &Client, membership: &Membership) {
        for step in std::mem::take(&mut self.steps) {
            match step {
                Step::Send { to, message } => {
                    if let Some(replica) = membership.index_of(to) {
                        client.fetch(replica, message, &self.came);
                    }
                }
                Step::Install(state) => self.take(state),
            }
        }
    }

    fn take(&mut self, state: Snapshot) {
        let taught = Executor::teach(&mut *self.service, self.held.as_ref(), &state);
        self.failure = match taught {
            _ if self.service.failure().is_some() => Some("a service that works"),
            Ok(()) => None,
            Err(Untaught::Strange) => {
                Some("the service that the group replicates: start it with the same --service")
            }
            Err(Untaught::Unreadable) => Some("a disk from which it can read what it wrote"),
        };
        let took = self.begun.take().map_or(Duration::ZERO, |begun| begun.elapsed());
        self.next = Instant::now() + PAUSE.max(PAUSES * took);
        (self.held, self.is_done) = (Some(state), true);
    }

    /// Takes what members sent, and waits for it for so long at most.
    fn take_parts(&mut self, membership: &Membership, limit: Duration) {
        let mut came: Vec<(u64, Result<Bytes, RequestError>)> = Vec::new();
        self.came.wait(limit, &mut came);
        for (replica, part) in came {
            let member = membership.members.get(usize::try_from(replica).unwrap_or(usize::MAX));
            let part = part.ok().and_then(|part| Message::from_bytes(&part).ok());
            let part = part.filter(|part| !part.is_question());
            if let (Some(member), Some(part)) = (member, part) {
                self.transfer.on_message(member.id, part, &self.held, &mut self.steps);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pentarchy_core::tree::Tree;
    use pentarchy_services::null::Null;

    fn state(slot: u64, digest: u8) -> Base {
        Base { slot: Slot(slot), state: Digest([digest; 32]) }
    }

    fn learner() -> Learner {
        Learner::new(Box::new(Null::new()), None)
    }

    fn hear(learner: &mut Learner, said: &[(u32, &[Base])]) {
        hear_of(learner, 1, said);
    }

    fn hear_of(learner: &mut Learner, change: u8, said: &[(u32, &[Base])]) {
        let said = said.iter().map(|(member, kept)| (MemberId(*member), kept.to_vec()));
        learner.hear(Digest([change; 32]), said, 2);
    }

    #[test]
    fn a_state_counts_that_enough_members_keep() {
        let (mut learner, [one, two, three]) = (learner(), [1, 2, 3].map(|it| state(64 * it, 1)));
        hear(&mut learner, &[(0, &[one]), (1, &[two])]);
        assert_eq!(learner.kept_by(2), None);
        let lie = state(three.slot.0, 9);
        hear(&mut learner, &[(0, &[one, three]), (1, &[lie])]);
        assert_eq!(learner.kept_by(2), None, "it has another digest");
        hear(&mut learner, &[(2, &[one, two])]);
        let by = BTreeSet::from([MemberId(0), MemberId(2)]);
        assert_eq!(learner.kept_by(2), Some((one, by)));
        hear(&mut learner, &[(2, &[two, three])]);
        assert_eq!(learner.kept_by(2).map(|(base, _)| base), Some(three));
        hear(&mut learner, &[(0, &[lie])]);
        assert_eq!(learner.kept_by(2).map(|(base, _)| base), Some(lie), "two liars are too many");
    }

    #[test]
    fn there_is_nothing_to_learn_if_enough_members_say_so() {
        let (mut learner, one) = (learner(), state(64, 1));
        hear(&mut learner, &[(0, &[]), (1, &[one])]);
        assert!(!learner.is_done());
        hear(&mut learner, &[(2, &[])]);
        assert!(learner.is_done());
        hear_of(&mut learner, 2, &[(2, &[]), (0, &[one])]);
        assert!(!learner.is_done(), "with another change");
        hear_of(&mut learner, 2, &[(1, &[one])]);
        learner.held = Some(Snapshot { slot: one.slot, digest: one.state, tree: Tree::new(1) });
        learner.want(2);
        assert!(learner.is_done(), "it has that state");
    }

    #[test]
    fn what_members_of_two_configurations_say_does_not_count_together() {
        let (mut learner, lie) = (learner(), state(u64::MAX, 9));
        hear(&mut learner, &[(0, &[lie])]);
        hear_of(&mut learner, 2, &[(1, &[lie])]);
        assert_eq!(learner.kept_by(2), None);
    }

    #[test]
    fn a_machine_whose_service_cannot_have_the_state_has_learned_nothing() {
        let mut learner = learner();
        let tree = Tree::new(3);
        learner.take(Snapshot { slot: Slot(64), digest: tree.digest(), tree });
        assert!(learner.failure().is_some() && !learner.is_done());
        assert!(learner.into_learned().is_none());
    }
}
