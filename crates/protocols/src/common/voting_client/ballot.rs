//! One vote per replica on what came of one number, without keeping results.

use super::{Bytes, Digest, Outcome, ReplicaId, Vec};

/// Results up to this many bytes are compared as they are; longer ones by their digest.
const INLINE_BYTES: usize = 31;

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
}

impl Fingerprint {
    /// What stands for an outcome.
    pub fn of(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Done(result) => Self::of_result(result),
            Outcome::Forgotten => Self::Forgotten,
            Outcome::Refused => Self::Refused,
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

/// The last vote of each replica. A correct replica may change its mind from a result to
/// [`Outcome::Forgotten`], and both are true; so the last one counts, once.
#[derive(Default)]
pub struct Ballot(Vec<(ReplicaId, Fingerprint)>);

impl Ballot {
    /// Counts a replica's vote in place of its earlier one, and says how many now agree with it.
    pub fn cast(&mut self, voter: ReplicaId, vote: Fingerprint) -> usize {
        match self.0.iter_mut().find(|(who, _)| *who == voter) {
            Some((_, earlier)) => *earlier = vote,
            None => self.0.push((voter, vote)),
        }
        self.0.iter().filter(|(_, what)| *what == vote).count()
    }

    /// How many replicas have voted.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}
