//! Who can be a member, and who is taken first.

use super::answer::Standing;
use super::operation::text;
use super::terms::POOL_MAX;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use pentarchy_core::configuration::{Configuration, MemberEntry};
use pentarchy_core::ids::{ClientId, MemberId};
use pentarchy_core::limits::ADDRESS_BYTES_MAX;
use pentarchy_core::membership::{Life, Membership};
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

/// As whom a candidate can be a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Registered {
    pub signing: [u8; 32],
    pub life: Life,
}

/// One that can be, or is, a member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Candidate {
    pub identity: [u8; 32],
    pub address: String,
    /// None until it says so, and again when a configuration leaves it out: it erases its key then.
    pub registered: Option<Registered>,
    pub score: u32,
}

/// All candidates, members included. No machine enters by itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pool {
    candidates: BTreeMap<MemberId, Candidate>,
    /// The number of the next one.
    next: MemberId,
}

impl Pool {
    /// The members with which the group began.
    pub fn of(membership: &Membership, configuration: &Configuration) -> Self {
        let candidate = |(entry, life): (&MemberEntry, Life)| {
            let registered = Some(Registered { signing: entry.signing, life });
            let (identity, address) = (entry.identity, entry.address.clone());
            (entry.id, Candidate { identity, address, registered, score: 0 })
        };
        let lives = membership.members.iter().map(|member| member.life());
        let candidates = configuration.members.iter().zip(lives).map(candidate).collect();
        Self { candidates, next: configuration.next_member }
    }

    pub fn len(&self) -> usize {
        self.candidates.len()
    }

    pub const fn next_member(&self) -> MemberId {
        self.next
    }

    /// Who asks as this client.
    pub fn of_client(&self, client: &ClientId) -> Option<MemberId> {
        let mut all = self.candidates.iter();
        all.find(|(_, it)| it.identity == client.0).map(|(member, _)| *member)
    }

    pub fn get(&self, member: MemberId) -> Option<&Candidate> {
        self.candidates.get(&member)
    }

    /// Whether another one uses this key for anything. Two members of a configuration share none.
    pub fn has_key(&self, key: &[u8; 32], other_than: Option<MemberId>) -> bool {
        let uses = |it: &Candidate| {
            it.identity == *key || it.registered.is_some_and(|it| it.signing == *key)
        };
        self.candidates.iter().any(|(member, it)| Some(*member) != other_than && uses(it))
    }

    /// Adds one that is not registered yet.
    pub fn add(&mut self, identity: [u8; 32], address: String) {
        let candidate = Candidate { identity, address, registered: None, score: 0 };
        self.candidates.insert(self.next, candidate);
        self.next = MemberId(self.next.0.saturating_add(1));
    }

    pub fn remove(&mut self, member: MemberId) -> Option<Candidate> {
        self.candidates.remove(&member)
    }

    pub fn register(&mut self, member: MemberId, registered: Option<Registered>) {
        if let Some(candidate) = self.candidates.get_mut(&member) {
            candidate.registered = registered;
        }
    }

    /// Somebody was in the way. One that was dismissed has no score.
    pub fn blame(&mut self, member: MemberId, by: u32) {
        if let Some(candidate) = self.candidates.get_mut(&member) {
            candidate.score = candidate.score.saturating_add(by);
        }
    }

    /// Scores count half, so often.
    pub fn halve(&mut self, times: u32) {
        for candidate in self.candidates.values_mut() {
            candidate.score = candidate.score.checked_shr(times).unwrap_or(0);
        }
    }

    /// So many members, those that were least in the way first; none if too few are registered.
    /// Among equals another one is first in each configuration.
    pub fn pick(&self, count: usize, number: u64) -> Option<Vec<(MemberEntry, Life)>> {
        let modulus = u64::from(self.next.0).max(1);
        let turn = |member: MemberId| (u64::from(member.0) + modulus - number % modulus) % modulus;
        let entry = |(id, it): (&MemberId, &Candidate)| {
            let Registered { signing, life } = it.registered?;
            let (identity, address) = (it.identity, it.address.clone());
            let entry = MemberEntry { id: *id, identity, signing, sealed: None, address };
            Some(((it.score, turn(*id)), entry, life))
        };
        let mut all: Vec<_> = self.candidates.iter().filter_map(entry).collect();
        all.sort_by_key(|(rank, ..)| *rank);
        let picked = all.into_iter().take(count).map(|(_, entry, life)| (entry, life));
        let picked: Vec<_> = picked.collect();
        (picked.len() == count).then_some(picked)
    }

    pub fn standings(&self) -> Vec<Standing> {
        let standing = |(member, it): (&MemberId, &Candidate)| Standing {
            member: *member,
            is_registered: it.registered.is_some(),
            score: it.score,
        };
        self.candidates.iter().map(standing).collect()
    }
}

impl Wire for Registered {
    fn encode(&self, to: &mut Writer) {
        to.array(&self.signing);
        self.life.encode(to);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { signing: from.array()?, life: Life::decode(from)? })
    }
}

impl Wire for Candidate {
    fn encode(&self, to: &mut Writer) {
        to.array(&self.identity);
        to.bytes(self.address.as_bytes());
        to.option(self.registered.as_ref());
        to.u32(self.score);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            identity: from.array()?,
            address: text(from, ADDRESS_BYTES_MAX)?,
            registered: from.option()?,
            score: from.u32()?,
        })
    }
}

impl Wire for Pool {
    fn encode(&self, to: &mut Writer) {
        self.next.encode(to);
        to.u32(self.candidates.len() as u32);
        for (member, candidate) in &self.candidates {
            member.encode(to);
            candidate.encode(to);
        }
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let next = MemberId::decode(from)?;
        let all: Vec<(MemberId, Candidate)> = from.sequence(POOL_MAX)?;
        let in_order = all.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let given = all.last().is_none_or(|(member, _)| *member < next);
        let candidates = all.into_iter().collect();
        if in_order && given { Ok(Self { candidates, next }) } else { Err(Malformed) }
    }
}
