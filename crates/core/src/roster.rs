//! The part of the replicated state that is about the group itself: which lives of the members'
//! devices count, and when they were admitted.

use crate::epochs::Admission;
use crate::ids::{Epoch, Millis, ReplicaId};
use crate::limits::{ADMISSION_INTERVAL_MILLIS, REPLICAS_MAX};
use crate::membership::{Life, Member, Membership};
use crate::mutant;
use crate::service::Context;
use crate::wire::{Malformed, Reader, Wire, Writer};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use bytes::Bytes;

/// See the module. Changes by ordered requests of members only.
#[derive(Clone, Debug)]
pub struct Roster {
    /// Of the epoch in which slots are executed.
    membership: Arc<Membership>,
    /// What counts from the next epoch on; the same as now unless this one is ending.
    lives: Vec<Life>,
    /// By member.
    admitted_at: Vec<Millis>,
}

impl Roster {
    pub fn new(membership: Arc<Membership>) -> Self {
        let lives = membership.members.iter().map(Member::life).collect();
        let admitted_at = vec![Millis(0); membership.n()];
        Self { membership, lives, admitted_at }
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
        if asked.epoch != self.membership.epoch {
            Some("asked of another epoch")
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
        let since = now.0.saturating_sub(self.admitted_at[index].0);
        let life = asked.life;
        if let Some(refusal) = self.refusal(index, &asked) {
            refusal
        } else if since < ADMISSION_INTERVAL_MILLIS && self.admitted_at[index] != Millis(0) {
            "admitted too recently; ask again"
        } else {
            self.lives[index] = life;
            if mutant!("roster.admits-another") {
                let other = (index + 1) % self.lives.len();
                self.lives[other] = life;
            }
            self.admitted_at[index] = now;
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
        let entries: Vec<(Life, Millis)> = from.sequence(REPLICAS_MAX)?;
        let (lives, admitted_at): (Vec<_>, Vec<_>) = entries.into_iter().unzip();
        let same = self.membership.members.iter().map(Member::life).eq(lives.iter().copied());
        let now = self.membership.epoch;
        let fits = if same { epoch == now } else { epoch == now.next() };
        if !fits || lives.len() != self.membership.n() {
            return Err(Malformed);
        }
        Ok(Self { membership: self.membership.clone(), lives, admitted_at })
    }

    /// As the next slot will find it: if the epoch is ending, as the next one begins.
    pub fn encode(&self, to: &mut Writer) {
        let epoch = self.membership.epoch;
        if self.is_ending() { epoch.next() } else { epoch }.encode(to);
        let entries = self.lives.iter().copied().zip(self.admitted_at.iter().copied());
        to.sequence(&entries.collect::<Vec<_>>());
    }
}
