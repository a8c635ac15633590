//! The part of the replicated state that is about the group itself: which lives of the members'
//! devices count, how often each member was admitted, and when it was last.

use crate::epochs::Admission;
use crate::ids::{Epoch, Millis, ReplicaId};
use crate::limits::{ADMISSION_DOUBLINGS_MAX, ADMISSION_INTERVAL_MILLIS, REPLICAS_MAX};
use crate::membership::{Life, Member, Membership};
use crate::mutant;
use crate::protocol::Authority;
use crate::service::Context;
use crate::wire::{Malformed, Reader, Wire, Writer};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use bytes::Bytes;

/// The longest wait between two admissions of one member, and the time after which one of them no
/// longer counts.
const FORGIVEN_MILLIS: u64 = ADMISSION_INTERVAL_MILLIS << ADMISSION_DOUBLINGS_MAX;

/// How often a member was admitted, as far as it still counts, and when it was last.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Admitted {
    /// Of the last admission, by agreed time.
    at: Millis,
    /// Admissions up to that one, without those that were forgiven by then; at most one more than
    /// the wait may be doubled.
    count: u8,
}

impl Admitted {
    /// Admissions that still count: one fewer for each time without another one that is as long as
    /// the longest wait.
    fn counting(&self, now: Millis) -> u8 {
        let forgiven = now.0.saturating_sub(self.at.0) / FORGIVEN_MILLIS;
        self.count.saturating_sub(u8::try_from(forgiven).unwrap_or(u8::MAX))
    }

    /// Whether the member has waited for long enough to be admitted once more: twice as long as
    /// before the last admission.
    fn has_waited(&self, now: Millis) -> bool {
        let Some(doublings) = self.counting(now).checked_sub(1) else { return true };
        let doublings = if mutant!("roster.wait-stays") { 0 } else { doublings };
        now.0.saturating_sub(self.at.0) >= ADMISSION_INTERVAL_MILLIS << doublings
    }

    /// After one more admission.
    fn next(&self, now: Millis) -> Self {
        let most = ADMISSION_DOUBLINGS_MAX + 1;
        Self { at: now, count: self.counting(now).saturating_add(1).min(most) }
    }
}

impl Wire for Admitted {
    fn encode(&self, to: &mut Writer) {
        self.at.encode(to);
        to.u8(self.count);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let admitted = Self { at: Millis::decode(from)?, count: from.u8()? };
        let possible = admitted.count <= ADMISSION_DOUBLINGS_MAX + 1;
        possible.then_some(admitted).ok_or(Malformed)
    }
}

/// See the module. Changes by ordered requests of members only.
#[derive(Clone, Debug)]
pub struct Roster {
    /// Of the epoch in which slots are executed.
    membership: Arc<Membership>,
    /// What counts from the next epoch on; the same as now unless this one is ending.
    lives: Vec<Life>,
    /// By member.
    admitted: Vec<Admitted>,
    /// Whether the members or a service decide which lives count. If a service does, the roster is
    /// no part of the state, so a state is the same in every epoch.
    authority: Authority,
}

impl Roster {
    pub fn new(membership: Arc<Membership>) -> Self {
        let lives = membership.members.iter().map(Member::life).collect();
        let admitted = vec![Admitted::default(); membership.n()];
        Self { membership, lives, admitted, authority: Authority::Members }
    }

    pub const fn set_authority(&mut self, authority: Authority) {
        self.authority = authority;
    }

    pub const fn membership(&self) -> &Arc<Membership> {
        &self.membership
    }

    /// Whether a member was let in since the epoch began.
    pub fn is_ending(&self) -> bool {
        !self.membership.members.iter().map(Member::life).eq(self.lives.iter().copied())
    }

    /// Whose lives the next epoch admits, if this one is ending.
    pub fn next_lives(&self) -> Option<Vec<Life>> {
        self.is_ending().then(|| self.lives.clone())
    }

    /// A member's request. The answer is for people: what counts is the epoch that follows.
    pub fn execute(&mut self, member: ReplicaId, context: &Context, operation: &Bytes) -> Vec<u8> {
        let answer = match Admission::from_bytes(operation) {
            Ok(admission) => self.admit(usize::from(member.0), context.time, admission),
            Err(Malformed) => "a member can only ask to be admitted",
        };
        answer.as_bytes().to_vec()
    }

    /// Whether executing a member's request could change anything. One that cannot need not be
    /// ordered: old ones can be sent again by anybody, at any time.
    pub fn is_open(&self, member: ReplicaId, operation: &Bytes) -> bool {
        let asked = Admission::from_bytes(operation);
        asked.is_ok_and(|asked| self.refusal(usize::from(member.0), &asked).is_none())
    }

    /// Why an admission is refused in this epoch, whenever it is asked for.
    fn refusal(&self, index: usize, asked: &Admission) -> Option<&'static str> {
        if self.authority == Authority::Service {
            Some("the members do not say who they are")
        } else if asked.epoch != self.membership.epoch {
            Some("asked of another epoch")
        } else if asked.configuration != self.membership.configuration {
            Some("asked under another configuration")
        } else if self.lives[index] == asked.life {
            Some("admitted already")
        } else if !(self.lives[index].is_mac() && asked.life.is_mac()) {
            // Nothing says yet that a key lies in a device and not in a liar's memory.
            Some("a device with a key of its own has to be attested")
        } else {
            None
        }
    }

    fn admit(&mut self, index: usize, now: Millis, asked: Admission) -> &'static str {
        let life = asked.life;
        if let Some(refusal) = self.refusal(index, &asked) {
            refusal
        } else if !self.admitted[index].has_waited(now) {
            "admitted too recently; ask again"
        } else {
            self.lives[index] = life;
            if mutant!("roster.admits-another") {
                let other = (index + 1) % self.lives.len();
                self.lives[other] = life;
            }
            self.admitted[index] = self.admitted[index].next(now);
            "admitted"
        }
    }

    /// The next epoch.
    pub fn begin(&mut self, membership: Arc<Membership>) {
        self.lives = membership.members.iter().map(Member::life).collect();
        self.membership = membership;
    }

    /// The roster of a snapshot, which must be of the epoch in which it is installed, or the one
    /// with which that epoch ends.
    pub fn restored(&self, from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let epoch = Epoch::decode(from)?;
        let entries: Vec<(Life, Admitted)> = from.sequence(REPLICAS_MAX)?;
        if self.authority == Authority::Service {
            return (entries.is_empty() && epoch == Epoch(0))
                .then(|| self.clone())
                .ok_or(Malformed);
        }
        let (lives, admitted): (Vec<_>, Vec<_>) = entries.into_iter().unzip();
        let same = self.membership.members.iter().map(Member::life).eq(lives.iter().copied());
        let now = self.membership.epoch;
        let fits = if same { epoch == now } else { epoch == now.next() };
        if !fits || lives.len() != self.membership.n() {
            return Err(Malformed);
        }
        Ok(Self { membership: self.membership.clone(), lives, admitted, ..*self })
    }

    /// As the next slot will find it: if the epoch is ending, as the next one begins.
    pub fn encode(&self, to: &mut Writer) {
        if self.authority == Authority::Service {
            Epoch(0).encode(to);
            to.sequence::<(Life, Admitted)>(&[]);
            return;
        }
        let epoch = self.membership.epoch;
        if self.is_ending() { epoch.next() } else { epoch }.encode(to);
        let entries = self.lives.iter().copied().zip(self.admitted.iter().copied());
        to.sequence(&entries.collect::<Vec<_>>());
    }
}
