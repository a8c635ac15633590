//! One vote per replica on what came of one number, without keeping results.

use super::{Bytes, Digest, Outcome, ReplicaId, Vec, mutant};
use pentarchy_core::limits::REPLY_WHOLE_BYTES_MIN;

/// Results up to this many bytes are compared as they are; longer ones by their digest.
const INLINE_BYTES: usize = REPLY_WHOLE_BYTES_MIN;

/// Equal for equal outcomes and, up to collisions of the hash, for no others. Owns no buffer, so
/// that a vote does not keep the frame alive in which it came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fingerprint {
    /// A short result, padded with zeros.
    Short(u8, [u8; INLINE_BYTES]),
    /// The digest of a long one.
    Long(Digest),
    /// See [`Outcome::Forgotten`].
    Forgotten,
    /// See [`Outcome::Refused`].
    Refused,
    /// See [`Outcome::GivenUp`].
    GivenUp,
    /// See [`Outcome::Overtaken`].
    Overtaken,
}

impl Fingerprint {
    /// What stands for an outcome.
    pub fn of(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Done(result) => Self::of_result(result),
            Outcome::Forgotten => Self::Forgotten,
            Outcome::Refused => Self::Refused,
            Outcome::GivenUp => Self::GivenUp,
            Outcome::Overtaken => Self::Overtaken,
        }
    }

    /// The outcome, if that is all that it takes.
    pub fn outcome(&self) -> Option<Outcome> {
        match self {
            Self::Short(len, bytes) => {
                let result = bytes.get(..usize::from(*len))?;
                Some(Outcome::Done(Bytes::copy_from_slice(result)))
            }
            Self::Long(_) => None,
            Self::Forgotten => Some(Outcome::Forgotten),
            Self::Refused => Some(Outcome::Refused),
            Self::GivenUp => Some(Outcome::GivenUp),
            Self::Overtaken => Some(Outcome::Overtaken),
        }
    }

    fn of_result(result: &Bytes) -> Self {
        let mut short = [0; INLINE_BYTES];
        match short.get_mut(..result.len()) {
            Some(start) => {
                start.copy_from_slice(result);
                Self::Short(result.len() as u8, short)
            }
            None => Self::Long(Digest::of(result)),
        }
    }
}

/// What each replica said. A correct replica may say [`Outcome::Forgotten`] after it has given a
/// result, and both are true: it forgot what it had sent. So a result stays a vote for itself when
/// its replica forgets it, and of several results only a replica's last one counts.
#[derive(Default)]
pub struct Ballot(Vec<Voter>);

struct Voter {
    who: ReplicaId,
    result: Option<Fingerprint>,
    forgotten: bool,
}

impl Voter {
    fn says(&self, vote: Fingerprint) -> bool {
        if vote == Fingerprint::Forgotten { self.forgotten } else { self.result == Some(vote) }
    }
}

impl Ballot {
    /// Counts a replica's vote, and says how many now agree with it.
    pub fn cast(&mut self, who: ReplicaId, vote: Fingerprint) -> usize {
        if mutant!("client.forgets-votes") {
            self.0.clear();
        }
        let place = self.0.iter().position(|voter| voter.who == who).unwrap_or(self.0.len());
        if place == self.0.len() {
            self.0.push(Voter { who, result: None, forgotten: false });
        }
        let voter = &mut self.0[place];
        if vote == Fingerprint::Forgotten {
            voter.forgotten = true;
        } else {
            voter.result = Some(vote);
        }
        self.0.iter().filter(|voter| voter.says(vote)).count()
    }

    /// Whether a replica has voted.
    pub fn has(&self, who: ReplicaId) -> bool {
        self.0.iter().any(|voter| voter.who == who)
    }

    /// How many agree on what most agree on.
    pub fn largest(&self) -> usize {
        let agree = |vote: &Voter| self.0.iter().filter(|it| it.result == vote.result).count();
        self.0.iter().map(agree).max().unwrap_or(0)
    }

    /// How many replicas have voted.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}
