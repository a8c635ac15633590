//! Judging what replicas reply by rules of the application's own, as BFT-SMaRt lets its clients do
//! (Bessani et al., *State Machine Replication for the Masses with BFT-SMART*, DSN 2014, section
//! V.B). The protocol's client compares replies byte for byte; where each replica adds something of
//! its own, a share or a signature, the application has to say which replies are as good as equal,
//! and what follows from them.

use crate::error::RequestError;
use bytes::Bytes;
use pentarchy_core::ids::{ReplicaId, ReplicaSet};
use pentarchy_core::ports::client::Outcome;
use std::fmt;
use std::sync::Arc;

/// Says which replies count for each other.
pub trait Comparator: Send + Sync {
    /// Whether two replies vouch for the same result. It has to be an equivalence: with one that is
    /// not transitive, a false reply could gather correct ones around itself that do not vouch for
    /// each other. Gets whatever faulty replicas send; must not panic.
    fn same(&self, one: &[u8], other: &[u8]) -> bool;
}

/// Makes one result of replies that are the [same](Comparator::same).
pub trait Extractor: Send + Sync {
    /// The result that these replies give together: of as many replicas as have to agree, in the
    /// order in which they came. At least one of the replicas is correct, and as many as `f` may
    /// not be, so what a replica adds has to be checked here.
    fn extract(&self, same: &[(ReplicaId, Bytes)]) -> Bytes;
}

/// Is told each reply, on the client's thread.
pub(crate) type OnReply = Box<dyn FnMut(ReplicaId, &Bytes) + Send>;

/// The rules by which replies are judged. By default, as the protocol's client does: byte for byte.
#[derive(Clone, Default)]
pub(crate) struct Judgement {
    pub(crate) comparator: Option<Arc<dyn Comparator>>,
    pub(crate) extractor: Option<Arc<dyn Extractor>>,
}

impl Judgement {
    /// Whether they are those of the protocol's client.
    pub(crate) fn is_plain(&self) -> bool {
        self.comparator.is_none() && self.extractor.is_none()
    }

    fn same(&self, one: &Outcome, other: &Outcome) -> bool {
        match (one, other, &self.comparator) {
            (Outcome::Done(one), Outcome::Done(other), Some(comparator)) => {
                comparator.same(one, other)
            }
            (one, other, _) => one == other,
        }
    }
}

impl fmt::Debug for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Judgement").field("is_plain", &self.is_plain()).finish()
    }
}

/// What replicas have told of one operation so far: one reply of each.
pub(crate) struct Tally {
    judgement: Judgement,
    on_reply: Option<OnReply>,
    told: Vec<(ReplicaId, Outcome)>,
    /// Whose reply the application was told.
    heard: ReplicaSet,
    /// Whether they are of the ordered operation, and not of a fast read.
    is_ordered: bool,
}

impl Tally {
    pub(crate) const fn new(judgement: Judgement, on_reply: Option<OnReply>) -> Self {
        Self { judgement, on_reply, told: Vec::new(), heard: ReplicaSet::EMPTY, is_ordered: false }
    }

    /// Whether the protocol's client can judge these replies.
    pub(crate) fn is_plain(&self) -> bool {
        self.judgement.is_plain()
    }

    /// How many bytes the client holds of what each replica said.
    pub(crate) fn held(&self) -> impl Iterator<Item = (ReplicaId, usize)> {
        self.told.iter().map(|(from, outcome)| (*from, bytes_of(outcome)))
    }

    /// Drops a replica's reply, of which so many bytes were held.
    pub(crate) fn forget(&mut self, from: ReplicaId) -> Option<usize> {
        let at = self.told.iter().position(|(other, _)| *other == from)?;
        Some(bytes_of(&self.told.remove(at).1))
    }

    /// Nothing that was told counts any more. The application was told it all the same.
    pub(crate) fn begin_again(&mut self) {
        self.told.clear();
        self.heard = ReplicaSet::EMPTY;
    }

    /// A replica replied. Gives the outcome once `needed` replicas have told the same.
    pub(crate) fn told(
        &mut self,
        from: ReplicaId,
        outcome: Outcome,
        is_ordered: bool,
        needed: usize,
    ) -> Option<Outcome> {
        if is_ordered != self.is_ordered {
            // A fast read came to nothing. What replicas answered then is of several moments.
            (self.is_ordered, self.told) = (is_ordered, Vec::new());
            self.heard = ReplicaSet::EMPTY;
        }
        let outcome = match outcome {
            // A copy, because the result is part of a frame.
            Outcome::Done(result) => Outcome::Done(Bytes::copy_from_slice(&result)),
            other => other,
        };
        if let (Some(on_reply), Outcome::Done(result)) = (&mut self.on_reply, &outcome)
            && self.heard.insert(from)
        {
            on_reply(from, result);
        }
        self.told.push((from, outcome.clone()));
        let same = |(_, other): &&(ReplicaId, Outcome)| self.judgement.same(&outcome, other);
        let same: Vec<&(ReplicaId, Outcome)> = self.told.iter().filter(same).collect();
        if same.len() < needed {
            return None;
        }
        let result = |(from, outcome): &&(ReplicaId, Outcome)| match outcome {
            Outcome::Done(result) => Some((*from, result.clone())),
            _ => None,
        };
        let results: Vec<(ReplicaId, Bytes)> = same.iter().filter_map(result).collect();
        match &self.judgement.extractor {
            Some(extractor) if !results.is_empty() => {
                Some(Outcome::Done(extractor.extract(&results)))
            }
            _ => Some(outcome),
        }
    }
}

fn bytes_of(outcome: &Outcome) -> usize {
    match outcome {
        Outcome::Done(result) => result.len(),
        _ => 0,
    }
}

/// What an application is told of an outcome.
pub(crate) fn result(outcome: Outcome) -> Result<Bytes, RequestError> {
    match outcome {
        Outcome::Done(result) => Ok(result),
        Outcome::Forgotten => Err(RequestError::Forgotten),
        Outcome::Refused => Err(RequestError::Refused),
        Outcome::GivenUp => Err(RequestError::GivenUp),
        Outcome::Overtaken => Err(RequestError::Overtaken),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two replies are the same if all but their last byte is.
    struct ButForLast;
    impl Comparator for ButForLast {
        fn same(&self, one: &[u8], other: &[u8]) -> bool {
            let but_for_last = |bytes: &[u8]| bytes.split_last().map(|(_, rest)| rest.to_vec());
            but_for_last(one) == but_for_last(other)
        }
    }

    /// The last bytes of all.
    struct Last;
    impl Extractor for Last {
        fn extract(&self, same: &[(ReplicaId, Bytes)]) -> Bytes {
            same.iter().filter_map(|(_, bytes)| bytes.last().copied()).collect::<Vec<u8>>().into()
        }
    }

    fn done(bytes: &'static str) -> Outcome {
        Outcome::Done(Bytes::from_static(bytes.as_bytes()))
    }

    #[test]
    fn as_many_replies_as_needed_make_a_result_if_they_are_the_same() {
        let judgement =
            Judgement { comparator: Some(Arc::new(ButForLast)), extractor: Some(Arc::new(Last)) };
        let heard = Arc::new(std::sync::Mutex::new(Vec::new()));
        let hears = heard.clone();
        let on_reply = move |from: ReplicaId, _: &Bytes| hears.lock().expect("whole").push(from.0);
        let mut tally = Tally::new(judgement, Some(Box::new(on_reply)));
        assert_eq!(tally.told(ReplicaId(2), done("ya"), true, 2), None);
        assert_eq!(tally.told(ReplicaId(0), done("xb"), true, 2), None);
        assert_eq!(tally.told(ReplicaId(3), Outcome::Forgotten, true, 2), None);
        assert_eq!(
            (tally.told(ReplicaId(1), done("xc"), true, 2), tally.held().map(|it| it.1).sum()),
            (Some(done("bc")), 6)
        );
        assert_eq!(*heard.lock().expect("whole"), [2, 0, 1]);
    }

    #[test]
    fn answers_to_a_fast_read_do_not_count_once_it_is_ordered() {
        let mut tally = Tally::new(Judgement::default(), None);
        assert!(tally.is_plain());
        assert_eq!(tally.told(ReplicaId(0), done("x"), false, 3), None);
        assert_eq!(tally.told(ReplicaId(1), done("x"), false, 3), None);
        assert_eq!(tally.told(ReplicaId(2), done("x"), true, 2), None);
        assert_eq!(tally.told(ReplicaId(0), Outcome::Refused, true, 2), None);
        let refused = tally.told(ReplicaId(1), Outcome::Refused, true, 2);
        assert_eq!(refused.map(result), Some(Err(RequestError::Refused)));
    }
}
