//! The trusted code of TrInX: counters that certify each value at most once, several of them in one
//! instance, and several instances in one replica.
//!
//! *Hybrids on Steroids: SGX-Based High Performance BFT* (Behl, Distler, Kapitza), section 5.1. It
//! depends on no state but its own, allocates nothing, and panics on no input. What an instance
//! promises, in one life (incarnation) and one epoch, under one key:
//!
//! 1. *Uniqueness.* No two certificates of different digests move a counter to the same value.
//! 2. *Order.* A counter's value never falls.
//! 3. *Continuity.* A continuing certificate names the value that each of its counters had before.
//!    So whoever shows it can have had nothing certified between the two.
//! 4. *Attribution.* A certificate of equal values moves nothing and so excludes nothing; it says
//!    only that this instance was given this digest (a trusted MAC).
//! 5. *Binding.* A certificate is for one group, configuration, epoch, instance and life, and for
//!    one kind.
//!
//! Repeating the last few requests gives the same certificates again, so that a host that crashed
//! before it had stored an answer can ask again. Nothing new is said by that.

use crate::usig::{GroupKey, REPEATABLE};
use pentarchy_core::counter::Refused;
use pentarchy_core::digest::{Digest, Domain, EpochId};
use pentarchy_core::ids::{Incarnation, MemberId};

/// Counters of one instance.
pub const COUNTERS: usize = 4;

/// Keeps certificates apart from all else that is sealed under the same key, of which nothing
/// begins with these bytes.
const TAG: &[u8; 16] = b"pentarchy trinx1";
const HEAD_BYTES: usize = 16 + 32 + 4 + 2 + 8 + 32 + 3;
const VALUE_BYTES: usize = 16;
const STATEMENT_BYTES_MAX: usize = HEAD_BYTES + COUNTERS * 2 * VALUE_BYTES;

/// A counter's value. Begins at 0. Wide enough for a view and an index, neither of which can spill
/// into the other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Value(pub u128);

/// An instance of the group: which one of which member.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct InstanceId {
    /// Whose.
    pub member: MemberId,
    /// Which of that member's, from 0.
    pub number: u16,
}

/// What a certificate says of the values before.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// Names them. New values may be equal to them.
    Continuing,
    /// Says nothing of them. New values are above them.
    Independent,
}

/// What an instance is asked for: to certify a digest while these counters, by their index, go to
/// these values.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ask {
    /// How.
    pub kind: Kind,
    /// At least one.
    pub values: [Option<Value>; COUNTERS],
}

/// One counter in a certificate.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Reading {
    /// Its value from then on.
    pub value: Value,
    /// Its value before, if the certificate is continuing.
    pub previous: Option<Value>,
}

/// What a certificate claims.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Claim {
    /// The life of the instance.
    pub incarnation: Incarnation,
    /// How it was asked for.
    pub kind: Kind,
    /// Counters by index.
    pub readings: [Option<Reading>; COUNTERS],
}

/// A claim with its seal, HMAC-SHA-256 under the group's key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Certificate {
    /// What it says.
    pub claim: Claim,
    /// The seal over the claim, the instance and the digest.
    pub seal: [u8; 32],
}

/// Something that an instance certified: what it was asked, the values before, and the digest.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Certified {
    /// The question.
    pub ask: Ask,
    /// Values of all counters before it.
    pub before: [Value; COUNTERS],
    /// What.
    pub digest: Digest,
}

/// All that an instance remembers of its epoch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Memory {
    /// Values of all counters.
    pub values: [Value; COUNTERS],
    /// What it would repeat, the newest first, without holes.
    pub recent: [Option<Certified>; REPEATABLE],
}

/// The group, its configuration and the epoch, to which certificates are bound.
#[must_use]
pub fn context(epoch: &EpochId) -> Digest {
    Domain::new(epoch).statement("trinx").finish()
}

/// The bytes that a certificate seals.
pub struct Statement {
    bytes: [u8; STATEMENT_BYTES_MAX],
    length: usize,
}

impl Statement {
    /// All of it.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    fn put(&mut self, value: Value) {
        let end = self.length + VALUE_BYTES;
        self.bytes[self.length..end].copy_from_slice(&value.0.to_le_bytes());
        self.length = end;
    }
}

/// What a certificate seals. Only counters that are named take room, as nearly all certificates
/// name one of them.
///
/// Equal bytes mean equal claims. All up to the values is of fixed width. The last two bytes of it
/// have a bit for each counter: whether it is named, and whether its value before is. So they say
/// how many values follow, each of fixed width, and whose each is. What is not said is another
/// thing than a zero.
#[must_use]
pub fn statement(context: &Digest, by: InstanceId, claim: &Claim, digest: &Digest) -> Statement {
    let mut bytes = [0; STATEMENT_BYTES_MAX];
    bytes[..16].copy_from_slice(TAG);
    bytes[16..48].copy_from_slice(&context.0);
    bytes[48..52].copy_from_slice(&by.member.0.to_le_bytes());
    bytes[52..54].copy_from_slice(&by.number.to_le_bytes());
    bytes[54..62].copy_from_slice(&claim.incarnation.0.to_le_bytes());
    bytes[62..94].copy_from_slice(&digest.0);
    bytes[94] = if claim.kind == Kind::Continuing { 1 } else { 2 };
    let mut statement = Statement { bytes, length: HEAD_BYTES };
    for (counter, reading) in claim.readings.iter().enumerate() {
        let Some(Reading { value, previous }) = reading else { continue };
        statement.bytes[95] |= 1 << counter;
        statement.put(*value);
        if let Some(previous) = previous {
            statement.bytes[96] |= 1 << counter;
            statement.put(*previous);
        }
    }
    statement
}

/// Whether the instance gave this certificate to the digest. Takes equally long for every guess at
/// the seal.
#[must_use]
pub fn is_certified(
    key: &GroupKey,
    context: &Digest,
    by: InstanceId,
    certificate: &Certificate,
    digest: &Digest,
) -> bool {
    let statement = statement(context, by, &certificate.claim, digest);
    key.is_sealed(statement.as_bytes(), &certificate.seal)
}

/// One instance in one life. Whoever makes it must see to it that no other was ever made with the
/// same key, id and incarnation.
pub struct Instance {
    epoch: EpochId,
    context: Digest,
    id: InstanceId,
    incarnation: Incarnation,
    key: GroupKey,
    values: [Value; COUNTERS],
    /// What it would repeat: a ring that begins at `newest`, goes from the newest to the oldest,
    /// and ends in holes.
    recent: [Option<Certified>; REPEATABLE],
    newest: usize,
}

impl Instance {
    /// An instance that has certified nothing, in an epoch of a group.
    #[must_use]
    pub fn new(epoch: EpochId, id: InstanceId, incarnation: Incarnation, key: GroupKey) -> Self {
        let context = context(&epoch);
        let Memory { values, recent } = Memory::default();
        Self { epoch, context, id, incarnation, key, values, recent, newest: 0 }
    }

    /// Goes over to a later epoch, where every value is free again. There is no way back.
    ///
    /// # Errors
    /// [`Refused::Spent`] if the instance was in a later one, or in this one under another
    /// configuration, or is of another group.
    pub fn begin_epoch(&mut self, epoch: &EpochId) -> Result<(), Refused> {
        if epoch.group == self.epoch.group && epoch.epoch > self.epoch.epoch {
            self.epoch = *epoch;
            self.context = context(epoch);
            self.remember(&Memory::default());
        }
        if *epoch == self.epoch { Ok(()) } else { Err(Refused::Spent) }
    }

    /// Certifies the digest with these values, or repeats that it did.
    ///
    /// # Errors
    /// [`Refused::Spent`] if a value is below what is allowed, and this is not a remembered
    /// repetition; or if no counter is named.
    pub fn certify(&mut self, ask: &Ask, digest: &Digest) -> Result<Certificate, Refused> {
        // The digest first: hardly ever two are the same, and it is shorter than the question.
        let same = |it: &&Certified| it.digest == *digest && it.ask == *ask;
        if let Some(again) = self.recent.iter().flatten().find(same) {
            return Ok(self.seal(again));
        }
        let before = self.values;
        if !is_allowed(ask, &before) {
            return Err(Refused::Spent);
        }
        let certified = Certified { ask: *ask, before, digest: *digest };
        let certificate = self.seal(&certified);
        // Only now, as there is something to show for the values, the counters move.
        let after = after(ask, before);
        if after != before {
            self.newest = (self.newest + REPEATABLE - 1) % REPEATABLE;
            self.recent[self.newest] = Some(certified);
            self.values = after;
        }
        Ok(certificate)
    }

    /// All that the instance remembers of its epoch.
    #[must_use]
    pub fn memory(&self) -> Memory {
        let mut recent = self.recent;
        recent.rotate_left(self.newest);
        Memory { values: self.values, recent }
    }

    fn remember(&mut self, memory: &Memory) {
        (self.values, self.recent, self.newest) = (memory.values, memory.recent, 0);
    }

    /// Takes over the memory of an instance of the same id and life, in the epoch in which both
    /// are. Only before this one has certified anything there. Whoever calls this answers for the
    /// memory being the newest: all promises rest on that.
    ///
    /// # Errors
    /// [`Refused::Spent`] if a counter has moved in this epoch, or if none could have this memory.
    pub fn restore(&mut self, memory: &Memory) -> Result<(), Refused> {
        if self.memory() != Memory::default() || !is_possible(memory) {
            return Err(Refused::Spent);
        }
        self.remember(memory);
        Ok(())
    }

    /// The primitive is deterministic: equal claims get equal seals.
    fn seal(&self, certified: &Certified) -> Certificate {
        let Certified { ask, before, digest } = certified;
        let mut claim =
            Claim { incarnation: self.incarnation, kind: ask.kind, readings: [None; COUNTERS] };
        let continuing = ask.kind == Kind::Continuing;
        for (reading, (asked, before)) in
            claim.readings.iter_mut().zip(ask.values.iter().zip(before))
        {
            *reading =
                asked.map(|value| Reading { value, previous: continuing.then_some(*before) });
        }
        let seal = self.key.seal(statement(&self.context, self.id, &claim, digest).as_bytes());
        Certificate { claim, seal }
    }
}

/// Whether counters that stand there may go where they are asked to.
fn is_allowed(ask: &Ask, before: &[Value; COUNTERS]) -> bool {
    let ascends = |(asked, before): (&Option<Value>, &Value)| match (asked, ask.kind) {
        (None, _) => true,
        (Some(value), Kind::Continuing) => value >= before,
        (Some(value), Kind::Independent) => value > before,
    };
    ask.values.iter().any(Option::is_some) && ask.values.iter().zip(before).all(ascends)
}

/// Where counters stand that were asked to go there.
fn after(ask: &Ask, mut values: [Value; COUNTERS]) -> [Value; COUNTERS] {
    for (value, asked) in values.iter_mut().zip(&ask.values) {
        *value = asked.unwrap_or(*value);
    }
    values
}

/// Whether an instance can have come to remember this: each thing that it certified leads to where
/// it stood before the next one, and what is not remembered begins at 0.
fn is_possible(memory: &Memory) -> bool {
    let mut stands = memory.values;
    let mut ended = false;
    let in_order = memory.recent.iter().all(|it| {
        let Some(Certified { ask, before, .. }) = it else {
            ended = true;
            return true;
        };
        let moved = is_allowed(ask, before) && before != &stands && after(ask, *before) == stands;
        stands = *before;
        !ended && moved
    });
    in_order && (!ended || stands == [Value::default(); COUNTERS])
}
