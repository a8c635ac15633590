//! The way down: the head orders, and each replica takes up what all before it have ordered.

use super::log::{HELD_MAX, UNDER_WAY_MAX};
use super::message::{Message, Order};
use super::mode::Mode;
use super::record::Record;
use super::replica::{Phase, Shuttle};
use super::statements::digest_of;
use super::told::{Came, Told};
use crate::common::clock::is_ahead;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;
use pentarchy_core::auth::AuthTag;
use pentarchy_core::batch::{Batch, Item, Proposal};
use pentarchy_core::ids::{ClientId, ReplicaId, Slot};
use pentarchy_core::limits::HISTORY_SLOTS_MAX;
use pentarchy_core::mutant;
use pentarchy_core::ports::client::{Outcome, Reply};
use pentarchy_core::ports::replica::slot_results::Results;
use pentarchy_core::ports::replica::{Output, replying};
use pentarchy_core::protocol::{Effects, To};
use pentarchy_core::succession::longer_history;
use pentarchy_core::wire::Wire as _;

/// A client's results in a slot that are longer than this are told by their digest alone. Its
/// client asks again, and is answered from the client table.
const WHOLE_BYTES_MAX: usize = 1 << 20;

impl<M: Mode> Shuttle<M> {
    /// The head orders what waits.
    pub(super) fn propose(&mut self, out: &mut Effects<Self>) {
        while self.is_head() && self.queue.has_unproposed() && self.may_propose() {
            let items = self.queue.propose(self.tuning.batch_requests);
            let whole = |item: Item| match item {
                Item::Named(digest) => self.queue.find(&digest).map(Item::Whole),
                whole @ Item::Whole(_) => Some(whole),
            };
            let items: Vec<Item> = items.into_iter().filter_map(whole).collect();
            let proposal = Arc::new(Proposal::new(self.now, items));
            let slot = self.log.ordered().next();
            let history = longer_history(&self.log.history(), &proposal.digest());
            let order = Order { slot, proposal, history, results: None, tags: Vec::new() };
            self.order(Arc::new(order), out);
        }
    }

    fn may_propose(&self) -> bool {
        let under_way = self.log.ordered().0 - self.done.0;
        self.phase == Phase::Ordering && under_way < UNDER_WAY_MAX && self.has_room()
    }

    /// Whether one more slot can be ordered above the stable checkpoint. Each replica sees to that
    /// and not the head alone: a report that the authority does not take is as good as none, and a
    /// lying head could make those of correct replicas so long.
    fn has_room(&self) -> bool {
        let slots = (self.tuning.window_slots as usize).min(HISTORY_SLOTS_MAX);
        let is_short = self.log.len() < slots;
        (is_short && self.extent.bytes() < 2 * self.tuning.checkpoint_bytes)
            || (!self.is_head() && mutant!("shuttle.head-alone-limits"))
    }

    pub(super) fn on_order(
        &mut self,
        author: ReplicaId,
        tag: &AuthTag,
        order: &Arc<Order<M>>,
        out: &mut Effects<Self>,
    ) {
        if self.predecessor() != Some(author) {
            return;
        }
        let (slot, ordered) = (order.slot, self.log.ordered());
        if slot <= ordered {
            let known = self.log.history_at(slot);
            if known.is_some_and(|known| known != order.history) {
                self.accuse(author, "it orders two histories", out);
            }
            return;
        }
        if slot.0 - ordered.0 > HELD_MAX as u64 {
            return;
        }
        let mut tags = order.tags.clone();
        tags.extend(M::tag(tag));
        let kept = Order { tags, proposal: order.proposal.clone(), ..**order };
        self.held.entry(slot).or_insert_with(|| Arc::new(kept));
        self.advance(out);
    }

    /// Orders what is held, slot by slot, as far as that goes.
    pub(super) fn advance(&mut self, out: &mut Effects<Self>) {
        while self.phase == Phase::Ordering && self.has_room() {
            let next = self.log.ordered().next();
            let is_next = |slot: &Slot| *slot == next || mutant!("shuttle.executes-on-arrival");
            let Some(first) = self.held.first_entry().filter(|it| is_next(it.key())) else { break };
            // Our clock comes there. Who waits for it is not at fault, and its neighbour says so.
            if is_ahead(first.get().proposal.time, self.now) {
                break;
            }
            let order = first.remove();
            if longer_history(&self.log.history(), &order.proposal.digest()) != order.history {
                self.accuse_predecessor("what it orders does not follow from what it ordered", out);
                break;
            }
            self.order(order, out);
        }
    }

    /// Orders the next slot. It is kept before anybody hears of it.
    fn order(&mut self, order: Arc<Order<M>>, out: &mut Effects<Self>) {
        if !mutant!("shuttle.order-not-in-log") {
            out.persist(Record::Ordered(order.clone()));
        }
        let slot = order.slot;
        let batch = self.append(order);
        if self.is_full(self.me) {
            // What it says to itself comes back once the order is kept. Whoever executed before
            // could lose the order and not what came of it.
            return self.say_level(self.me, out);
        }
        let clients: BTreeSet<ClientId> = batch.envelopes.iter().map(|it| it.client).collect();
        for client in clients {
            self.tell(client, slot, Came::Unknown, out);
        }
        self.pass_on(slot, out);
    }

    /// Notes what the next slot orders.
    pub(super) fn append(&mut self, order: Arc<Order<M>>) -> Arc<Batch> {
        let slot = order.slot;
        let batch = order.proposal.complete(|_| None).expect("every envelope travels whole");
        let batch = Arc::new(batch);
        self.log.push(order, batch.clone());
        let is_due = self.extent.executed(slot, batch.bytes(), &self.tuning);
        if is_due {
            self.marks.due.insert(slot);
        }
        batch
    }

    /// Has executed what is ordered up to here, and kept.
    pub(super) fn execute(&mut self, upto: Slot, out: &mut Effects<Self>) {
        for entry in self.log.behind(self.executing).take_while(|it| it.order.slot <= upto) {
            let (slot, batch) = (entry.order.slot, entry.batch.clone());
            // Not before: until then the host takes its requests for new ones.
            self.queue.executed(&batch, |_, _| {});
            out.output(Output::Execute { slot, batch });
            if self.marks.due.contains(&slot) {
                out.output(Output::Checkpoint { slot });
            }
        }
        self.executing = self.executing.max(upto.min(self.log.ordered()));
    }

    /// A slot was executed.
    pub(super) fn on_results(
        &mut self,
        slot: Slot,
        results: Vec<Results>,
        out: &mut Effects<Self>,
    ) {
        // What it executed behind a slot that it does not pass on.
        if self.phase == Phase::Refusing && !mutant!("shuttle.refuses-one-slot-alone") {
            return;
        }
        let Some(entry) = self.log.get_mut(slot) else { return };
        // After a restart: it was told before.
        if entry.results.is_some() {
            return;
        }
        let (mine, theirs) = (digest_of(&results), entry.order.results);
        let differs = theirs.is_some_and(|theirs| theirs != mine);
        if differs && !mutant!("shuttle.results-not-compared") {
            self.phase = Phase::Refusing;
            // Who is named first comes last in the next chain. The predecessor says what came of
            // the slot at itself, and nothing if that is not what those before it say.
            if mutant!("shuttle.blames-head-for-results") {
                self.accuse(ReplicaId(0), "results differ", out);
            }
            return self.accuse_predecessor("results differ", out);
        }
        entry.results = Some(mine);
        if !mutant!("shuttle.results-not-in-log") {
            out.persist(Record::Results { slot, results: mine });
        }
        self.tell_results(slot, results, out);
        self.pass_on(slot, out);
    }

    fn tell_results(&self, slot: Slot, results: Vec<Results>, out: &mut Effects<Self>) {
        for Results { client, digest, replies } in results {
            if M::TAIL_TELLS {
                if self.is_tail() {
                    out.output(replying::Output::Reply { client, replies });
                }
                continue;
            }
            let is_whole = self.is_last_full() && bytes(&replies) <= WHOLE_BYTES_MAX;
            let came = if is_whole { Came::Whole(replies) } else { Came::Digest(digest) };
            self.tell(client, slot, came, out);
        }
    }

    /// This replica's voucher.
    fn tell(&self, client: ClientId, slot: Slot, came: Came, out: &mut Effects<Self>) {
        if let Some(history) = self.log.history_at(slot) {
            let message = Told { slot, history, came }.to_bytes();
            out.output(replying::Output::Tell { client, message });
        }
    }

    /// What this replica has ordered goes on, or is done.
    fn pass_on(&mut self, slot: Slot, out: &mut Effects<Self>) {
        match self.passing(slot) {
            Some((successor, message)) => out.send(To::One(successor), message),
            None => self.note_done(slot, Vec::new(), out),
        }
    }

    /// A slot as its successor gets it; none if there is no successor.
    pub(super) fn passing(&self, slot: Slot) -> Option<(ReplicaId, Message<M>)> {
        let (successor, entry) = (self.successor()?, self.log.get(slot)?);
        let order = Order { results: entry.results, ..Order::clone(&entry.order) };
        Some((successor, Message::Order(Arc::new(order))))
    }
}

fn bytes(replies: &[Reply]) -> usize {
    let result = |reply: &Reply| match &reply.outcome {
        Outcome::Done(result) => result.len(),
        _ => 0,
    };
    replies.iter().map(result).sum()
}
