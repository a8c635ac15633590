//! No client acts on a result that the final history contradicts. What replicas execute before it
//! is final may be anything; it is held back here from all other checkers until it counts.

use super::{Broken, Verdict};
use crate::audit::{Audit, Fingerprint};
use pentarchy_core::batch::Batch;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ClientId, ReplicaId, Slot};
use pentarchy_core::ports::client::{Outcome, Reply};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The name of the property.
pub const PROPERTY: &str = "speculation";

/// What a replica executed in one slot.
#[derive(Clone)]
pub struct Done {
    /// What the slot orders.
    pub batch: Arc<Batch>,
    /// Names all that was executed up to there.
    pub history: Digest,
    /// What its service ran.
    pub ran: Vec<(ClientId, u64)>,
    /// What it told clients.
    pub told: Vec<(ClientId, Vec<Reply>)>,
}

/// A read with which a client began again. A request for it that the client made before may still
/// be ordered, at any time: what that gives is not what replicas answer now. Whether the answer
/// fits, the checker of the history judges.
struct Again {
    /// The slot behind which the configuration began.
    base: Slot,
    /// The client had it ordered there too, so that this is what it acts on.
    is_ordered: bool,
}

/// See the [module](self).
#[derive(Default)]
pub struct Speculation {
    /// What each correct replica executed that is not final, by slot.
    open: BTreeMap<ReplicaId, BTreeMap<Slot, Done>>,
    /// Results in the final history.
    sure: BTreeMap<(ClientId, u64), Fingerprint>,
    /// What clients acted on; true if it has to be in the final history.
    accepted: BTreeMap<(ClientId, u64), (Fingerprint, bool)>,
    /// Reads with which clients began again in another configuration.
    again: BTreeMap<(ClientId, u64), Again>,
    /// What replicas executed that had agreed before, in epochs of other protocols.
    agreed: BTreeSet<(ClientId, u64)>,
    is_used: bool,
}

impl Speculation {
    /// A correct replica executed a slot, which may be taken back.
    pub fn speculated(&mut self, replica: ReplicaId, slot: Slot, done: Done) {
        self.is_used = true;
        self.open.entry(replica).or_default().insert(slot, done);
    }

    /// A batch was executed that replicas had agreed on before.
    pub fn executed(&mut self, batch: &Batch) {
        for envelope in &batch.envelopes {
            let numbers = envelope.requests.iter().map(|request| request.number);
            self.agreed.extend(numbers.map(|number| (envelope.client, number)));
        }
    }

    /// It took back what came behind a slot.
    pub fn rolled_back(&mut self, replica: ReplicaId, after: Slot) {
        self.open.entry(replica).or_default().retain(|slot, _| *slot <= after);
    }

    /// It installed a state, or lost its own: nothing is open there.
    pub fn reset(&mut self, replica: ReplicaId) {
        self.open.remove(&replica);
    }

    /// What it executed up to a slot is final: gives it, in order.
    ///
    /// # Errors
    /// If a client acted on another result.
    pub fn committed(
        &mut self,
        replica: ReplicaId,
        upto: Slot,
    ) -> Result<BTreeMap<Slot, Done>, Broken> {
        let open = self.open.entry(replica).or_default();
        let behind = open.split_off(&upto.next());
        let done = core::mem::replace(open, behind);
        for (slot, done) in &done {
            for (client, reply) in done.told.iter().flat_map(each) {
                self.is_sure(client, reply, *slot)?;
            }
        }
        Ok(done)
    }

    /// A client begins again with a read, which may have been ordered before, in the configuration
    /// that began behind this slot.
    pub fn reads_again(&mut self, client: ClientId, number: u64, base: Slot) {
        self.sure.remove(&(client, number));
        self.again.insert((client, number), Again { base, is_ordered: false });
    }

    /// It has the read ordered there.
    pub fn orders_again(&mut self, client: ClientId, number: u64) {
        if let Some(again) = self.again.get_mut(&(client, number)) {
            again.is_ordered = true;
        }
    }

    fn is_sure(&mut self, client: ClientId, reply: &Reply, slot: Slot) -> Verdict {
        let Outcome::Done(result) = &reply.outcome else { return Ok(()) };
        let result = Audit::of(result);
        let place = (client, reply.number);
        let again = self.again.get(&place);
        if again.is_some_and(|again| slot <= again.base || !again.is_ordered) {
            return Ok(());
        }
        self.sure.entry(place).or_insert(result);
        match self.accepted.get(&place) {
            Some((accepted, _)) if *accepted != result => {
                let detail = format!("{client} acted on another result of {}", reply.number);
                Err(Broken::new(PROPERTY, detail))
            }
            _ => Ok(()),
        }
    }

    /// A client acts on a result. `orders`: it can only come from an order.
    ///
    /// # Errors
    /// If another one is final.
    pub fn accepted(
        &mut self,
        client: ClientId,
        number: u64,
        outcome: &Outcome,
        orders: bool,
    ) -> Verdict {
        let Outcome::Done(result) = outcome else { return Ok(()) };
        let result = Audit::of(result);
        self.accepted.insert((client, number), (result, orders));
        match self.sure.get(&(client, number)) {
            Some(known) if *known != result => {
                let detail = format!("{client} acts on another result of {number} than is final");
                Err(Broken::new(PROPERTY, detail))
            }
            _ => Ok(()),
        }
    }

    /// All is over, and everything is final.
    ///
    /// # Errors
    /// If a client acted on what is not in the final history.
    pub fn ended(&self) -> Verdict {
        let mut lost = self
            .accepted
            .iter()
            .filter(|(place, (_, orders))| *orders && !self.sure.contains_key(place))
            .filter(|(place, _)| !self.agreed.contains(place));
        match lost.next().filter(|_| self.is_used) {
            None => Ok(()),
            Some(((client, number), _)) => {
                let detail = format!("{client} acted on a result of {number}, which never ran");
                Err(Broken::new(PROPERTY, detail))
            }
        }
    }
}

fn each((client, replies): &(ClientId, Vec<Reply>)) -> impl Iterator<Item = (ClientId, &Reply)> {
    replies.iter().map(|reply| (*client, reply))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pentarchy_core::Bytes;
    use pentarchy_core::batch::Proposal;
    use pentarchy_core::ids::Millis;

    const CLIENT: ClientId = ClientId([3; 32]);

    fn outcome(result: &'static [u8]) -> Outcome {
        Outcome::Done(Bytes::from_static(result))
    }

    fn done(result: &'static [u8]) -> Done {
        let batch = Proposal::new(Millis(1), Vec::new()).complete(|_| None).unwrap();
        let told = vec![(CLIENT, vec![Reply { number: 7, outcome: outcome(result) }])];
        Done { batch: Arc::new(batch), history: Digest::default(), ran: vec![(CLIENT, 7)], told }
    }

    #[test]
    fn results_that_become_others_are_found_whichever_comes_first() {
        let mut checker = Speculation::default();
        checker.speculated(ReplicaId(0), Slot(1), done(b"a"));
        checker.accepted(CLIENT, 7, &outcome(b"a"), true).unwrap();
        checker.rolled_back(ReplicaId(0), Slot(0));
        checker.speculated(ReplicaId(0), Slot(1), done(b"b"));
        let found = checker.committed(ReplicaId(0), Slot(1)).err().unwrap();
        assert_eq!(found.property, PROPERTY);
        let mut checker = Speculation::default();
        checker.speculated(ReplicaId(0), Slot(1), done(b"b"));
        assert_eq!(checker.committed(ReplicaId(0), Slot(1)).unwrap().len(), 1);
        assert!(checker.accepted(CLIENT, 7, &outcome(b"a"), true).is_err());
    }

    #[test]
    fn a_read_that_begins_again_is_not_what_was_ordered_before() {
        let read = |begins_again: bool| {
            let mut checker = Speculation::default();
            checker.speculated(ReplicaId(0), Slot(1), done(b"a"));
            checker.committed(ReplicaId(0), Slot(1)).unwrap();
            if begins_again {
                checker.reads_again(CLIENT, 7, Slot(1));
            }
            checker.speculated(ReplicaId(1), Slot(1), done(b"a"));
            checker.accepted(CLIENT, 7, &outcome(b"b"), false)?;
            checker.committed(ReplicaId(1), Slot(1)).map(drop)
        };
        assert!(read(true).is_ok() && read(false).is_err());
        let ordered_later = |by_who_began_again: bool| {
            let mut checker = Speculation::default();
            checker.reads_again(CLIENT, 7, Slot(1));
            if by_who_began_again {
                checker.orders_again(CLIENT, 7);
            }
            checker.accepted(CLIENT, 7, &outcome(b"b"), false).unwrap();
            checker.speculated(ReplicaId(0), Slot(2), done(b"a"));
            checker.committed(ReplicaId(0), Slot(2)).map(drop)
        };
        assert!(ordered_later(true).is_err(), "the next configuration ordered it");
        assert!(ordered_later(false).is_ok(), "what it sent before was under way for long");
    }

    #[test]
    fn results_that_vanish_are_found() {
        let mut checker = Speculation::default();
        checker.speculated(ReplicaId(0), Slot(1), done(b"a"));
        checker.accepted(CLIENT, 7, &outcome(b"a"), true).unwrap();
        assert!(checker.ended().is_err());
        checker.committed(ReplicaId(0), Slot(1)).unwrap();
        checker.ended().unwrap();
        checker.accepted(CLIENT, 8, &outcome(b"read"), false).unwrap();
        checker.ended().unwrap();
    }
}
