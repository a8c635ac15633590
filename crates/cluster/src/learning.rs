//! How a machine that is to become a member gets the group's state before it is one.
//!
//! With the state it is of use at once when it is a member: what changed since is little. It needs
//! nobody's trust and has no vote, so nothing depends on how far it has come but when it says that
//! it is ready. A state that `f + 1` members keep for it is one that the group has had, so that no
//! liar has the machine fetch something else.

use pentarchy_client::{Client, Completions, RequestError};
use pentarchy_core::Bytes;
use pentarchy_core::blobs::TempBlobs;
use pentarchy_core::executor::Executor;
use pentarchy_core::ids::{MemberId, Millis};
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
    /// What was moved for it.
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
    /// Why the service cannot be brought to the group's state.
    failure: Option<String>,
    /// The states that each member keeps for this machine, as it said last.
    kept: BTreeMap<MemberId, Vec<Base>>,
    /// Whether `f + 1` members said that they have no state but the first one.
    is_needless: bool,
    came: Arc<Completions>,
    clock: Instant,
    /// When the state that is being fetched was begun.
    begun: Option<Instant>,
    /// When the next one may be.
    next: Instant,
    steps: Vec<Step>,
}

impl Learner {
    /// Of a machine whose service is in its initial state. What it fetches is put there, or kept in
    /// memory.
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
            kept: BTreeMap::new(),
            is_needless: false,
            came: Completions::new(),
            clock: now,
            begun: None,
            next: now,
            steps: Vec::new(),
        }
    }

    /// Members say which states they keep for this machine, since they know that it joins.
    pub fn hear(&mut self, said: impl Iterator<Item = (MemberId, Vec<Base>)>, quorum: usize) {
        self.kept.extend(said);
        let without = self.kept.values().filter(|kept| kept.is_empty()).count();
        self.is_needless = without >= quorum;
    }

    /// Whether the machine has a state of the group, or there is none to be had.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        self.held.is_some() || self.is_needless
    }

    /// How far it has come with the state that it fetches.
    #[must_use]
    pub fn progress(&self) -> Option<Progress> {
        let it = self.transfer.progress()?;
        let percent = (100 * it.chunks_have).checked_div(it.chunks_total).unwrap_or(0);
        Some(Progress { slot: it.slot.0, percent: percent as u8, mib: it.bytes >> 20 })
    }

    /// Why this machine cannot have the group's state.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// The newest state that is here.
    #[must_use]
    pub fn into_learned(self) -> Learned {
        Learned { service: self.service, state: self.held }
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
        if self.failure.is_some() {
            return;
        }
        let deadline = Instant::now() + limit;
        self.want(quorum);
        loop {
            let now = self.clock.elapsed().as_millis() as u64;
            self.transfer.on_round(Millis(now), &mut self.steps);
            self.carry_out(client, membership);
            let left = deadline.saturating_duration_since(Instant::now());
            let Some(wake_at) = self.transfer.wake_at().filter(|_| !left.is_zero()) else { return };
            std::thread::sleep(self.ahead().min(left));
            let pause = Duration::from_millis(wake_at.0.saturating_sub(now).max(1));
            let mut came = Vec::new();
            self.came.wait(pause.min(left), &mut came);
            for (replica, part) in came {
                self.on_part(membership, replica, part);
            }
        }
    }

    /// By how much it is faster than it may be.
    fn ahead(&self) -> Duration {
        let (Some(begun), Some(it)) = (self.begun, self.transfer.progress()) else {
            return Duration::ZERO;
        };
        Duration::from_secs_f64(it.bytes as f64 / RATE).saturating_sub(begun.elapsed())
    }

    fn want(&mut self, quorum: usize) {
        let held = self.held.as_ref().map(|held| held.slot);
        let is_new = |base: &Base| held.is_none_or(|slot| base.slot > slot);
        let Some((base, from)) = self.kept_by(quorum).filter(|(base, _)| is_new(base)) else {
            return;
        };
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
        let strange =
            || "the service that the group replicates: start it with the same --service".to_owned();
        let failed = taught.is_err().then(strange);
        self.failure = self.service.failure().or(failed);
        let took = self.begun.take().map_or(Duration::ZERO, |begun| begun.elapsed());
        self.next = Instant::now() + PAUSE.max(PAUSES * took);
        self.held = Some(state);
    }

    fn on_part(
        &mut self,
        membership: &Membership,
        replica: u64,
        part: Result<Bytes, RequestError>,
    ) {
        let member = membership.members.get(usize::try_from(replica).unwrap_or(usize::MAX));
        let (Some(member), Ok(part)) = (member, part) else { return };
        match Message::from_bytes(&part) {
            Ok(part) if !part.is_question() => {
                self.transfer.on_message(member.id, part, &self.held, &mut self.steps);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pentarchy_core::digest::Digest;
    use pentarchy_core::ids::Slot;
    use pentarchy_services::null::Null;

    fn state(slot: u64, digest: u8) -> Base {
        Base { slot: Slot(slot), state: Digest([digest; 32]) }
    }

    fn learner() -> Learner {
        Learner::new(Box::new(Null::new()), None)
    }

    fn hear(learner: &mut Learner, said: &[(u32, &[Base])]) {
        learner.hear(said.iter().map(|(member, kept)| (MemberId(*member), kept.to_vec())), 2);
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
        hear(&mut learner, &[(0, &[one])]);
        assert!(!learner.is_done());
    }
}
