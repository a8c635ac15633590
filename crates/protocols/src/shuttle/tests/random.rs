//! Random worlds: messages overtake each other and are lost, replicas restart, and up to `f` of
//! them lie. Whatever a client believes, each correct replica has ordered by then, with the result
//! that a correct one has; and no two correct replicas order two histories.

use super::super::statements::order_statement;
use super::super::told::Came;
use super::super::{Checksums, Told, Trusting};
use super::order::batch;
use super::{CLIENT, Group, Macs, Message, Mode, Order, Record, Timer, Verified, macs};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ReplicaId, Slot, View};
use pentarchy_core::mac_vector::MacVector;
use pentarchy_core::mutant;
use pentarchy_core::ports::client::{self as client_port, Outcome, Reply, ToClient};
use pentarchy_core::ports::replica::slot_results::Results;
use pentarchy_core::succession::longer_history;
use pentarchy_core::wire::Wire as _;

struct Rng(u64);

impl Rng {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = u64::from_le_bytes(Digest::of(&self.0.to_le_bytes()).0[..8].try_into().unwrap());
        self.0 % bound
    }

    fn percent(&mut self, of: u64) -> bool {
        self.below(100) < of
    }
}

struct World<M: Mode> {
    group: Group<M>,
    liars: BTreeSet<ReplicaId>,
    rng: Rng,
    next: u64,
    /// What a replica puts in the place of another one's tag.
    forge: Forge<M>,
}

type Forge<M> = fn(ReplicaId, usize, &Digest) -> Option<<M as Mode>::Tag>;

/// Under its own keys, as it has no others.
fn forge(by: ReplicaId, n: usize, digest: &Digest) -> Option<MacVector> {
    Some(macs(by, n, digest))
}

/// What a client believed and a correct replica had not ordered, or of which one has another
/// result; or a slot of which two have another history.
#[derive(PartialEq, Eq, Debug)]
enum Broken {
    Acceptance(u64),
    Agreement(Slot),
}

impl<M: Mode> World<M> {
    fn new(seed: u64, n: usize, f: usize, forge: Option<Forge<M>>) -> Self {
        let mut rng = Rng(seed);
        let mut liars = BTreeSet::new();
        while forge.is_some() && liars.len() < f {
            liars.insert(ReplicaId(rng.below(n as u64) as u16));
        }
        let forge = forge.unwrap_or(|_, _, _| None);
        Self { group: Group::new(n, f, &[]), liars, rng, next: 1, forge }
    }

    fn run(&mut self, steps: u64) -> Result<usize, Broken> {
        for _ in 0..steps {
            self.act();
            self.check()?;
        }
        Ok(self.group.results.len())
    }

    fn act(&mut self) {
        let n = self.group.membership.n() as u64;
        let id = ReplicaId(self.rng.below(n) as u16);
        match self.rng.below(100) {
            0..8 => {
                self.group.submit(self.next);
                self.next += 1;
            }
            8..20 => self.group.round(),
            20..70 => self.deliver(),
            70..80 => self.hear(),
            80..90 => self.group.expire(id, Timer::Tick),
            90..92 => self.group.ask_again(),
            92..93 if !self.liars.contains(&id) => self.group.restart(id.0),
            _ => self.lie(),
        }
    }

    /// Something arrives that is under way, in whatever order, or is lost.
    fn deliver(&mut self) {
        let under_way = self.group.under_way.len() as u64;
        if under_way == 0 {
            return;
        }
        let at = self.rng.below(under_way.min(8)) as usize;
        let (to, verified) = self.group.under_way.remove(at).expect("it is there");
        let is_own = verified.author == to;
        if !is_own && self.rng.percent(5) {
            return;
        }
        if self.liars.contains(&verified.author) && !is_own {
            self.pass_changed(to, verified);
        } else {
            self.group.deliver_or_refuse(to, verified);
        }
    }

    /// A liar leaves something out, or says something else.
    fn pass_changed(&mut self, to: ReplicaId, verified: Verified<Message<M>>) {
        if self.rng.percent(20) {
            return;
        }
        let core = &self.group.cores[&verified.author];
        if let Message::Order(order) = &*verified.message
            && let Some(before) = core.log.history_at(Slot(order.slot.0 - 1))
            && self.rng.percent(20)
        {
            let proposal = batch(self.rng.below(3));
            let history = longer_history(&before, &proposal.digest());
            let order = Order { history, proposal, ..Order::clone(order) };
            let changed = self.group.authentic(verified.author, Message::Order(Arc::new(order)));
            return self.group.deliver_or_refuse(to, changed);
        }
        self.group.deliver_or_refuse(to, verified);
    }

    /// The client hears something, or it is lost.
    fn hear(&mut self) {
        if let Some((from, message)) = self.group.told.pop_front()
            && !self.rng.percent(10)
        {
            self.group.client_step(client_port::Event::Message { from, message });
        }
    }

    /// A liar says what it made up: that its slots are done, and what clients want to hear.
    fn lie(&mut self) {
        let Some(liar) = self.liars.first().copied() else { return };
        let (core, n) = (&self.group.cores[&liar], self.group.membership.n());
        let (upto, history) = (core.log.ordered(), core.log.history());
        let digest = order_statement(&self.group.membership.domain(), upto, &history);
        let missing = self.rng.percent(50);
        let count = if missing { 0 } else { n - 1 - usize::from(liar.0) };
        let tags = (0..count).filter_map(|_| (self.forge)(liar, n, &digest)).collect();
        let told = self.vouchers(liar);
        if let Some(before) = liar.0.checked_sub(1).filter(|_| upto > Slot(0)) {
            let forged = self.group.authentic(liar, Message::Done { upto, history, tags });
            self.group.deliver_or_refuse(ReplicaId(before), forged);
        }
        self.group.told.extend(told);
    }

    /// What a liar tells the client of all that it has ordered, whoever else has it.
    fn vouchers(&mut self, liar: ReplicaId) -> Vec<(ReplicaId, ToClient)> {
        let is_wrong = self.rng.percent(30);
        let (core, host) = (&self.group.cores[&liar], &self.group.hosts[&liar]);
        let is_full = usize::from(liar.0) <= self.group.membership.f;
        let mut told = Vec::new();
        for entry in core.log.iter() {
            let mut replies = Vec::new();
            for envelope in &entry.batch.envelopes {
                replies.extend(host.settled(envelope).1);
            }
            if is_wrong {
                let wrong = |number| Reply { number, outcome: Outcome::GivenUp };
                replies = replies.iter().map(|it| wrong(it.number)).collect();
            }
            let results = Results::new(CLIENT, replies.clone());
            let came = if is_full { Came::Whole(results.replies) } else { Came::Unknown };
            let (slot, history) = (entry.order.slot, entry.order.history);
            let message = Told { slot, history, came }.to_bytes();
            told.push((liar, ToClient::Protocol(message)));
            told.push((liar, ToClient::Replies { view: View(0), replies }));
        }
        told
    }

    fn check(&self) -> Result<(), Broken> {
        let correct = self.group.hosts.iter().filter(|(id, _)| !self.liars.contains(id));
        let mut histories: BTreeMap<Slot, Digest> = BTreeMap::new();
        for (id, host) in correct {
            let mut numbers = BTreeSet::new();
            for record in &host.records {
                let Record::Ordered(order) = record else { continue };
                let known = histories.entry(order.slot).or_insert(order.history);
                if *known != order.history {
                    return Err(Broken::Agreement(order.slot));
                }
                let requests = order.proposal.whole().flat_map(|envelope| &envelope.requests);
                numbers.extend(requests.map(|request| request.number));
            }
            for (number, outcome) in &self.group.results {
                let is_full = usize::from(id.0) <= self.group.membership.f;
                let mine = host.result(*number);
                let is_right = !is_full || mine.is_none_or(|mine| mine == outcome);
                if !numbers.contains(number) || !is_right {
                    return Err(Broken::Acceptance(*number));
                }
            }
        }
        Ok(())
    }
}

/// Runs so many worlds; gives how many requests completed, or the first that is broken.
fn worlds<M: Mode>(
    n: usize,
    f: usize,
    forge: Option<Forge<M>>,
    seeds: u64,
) -> Result<usize, Broken> {
    (0..seeds).map(|seed| World::<M>::new(seed, n, f, forge).run(1_500)).sum()
}

#[test]
fn nothing_believed_is_missing_anywhere() {
    for (n, f) in [(3, 1), (5, 2)] {
        let completed = worlds::<Macs>(n, f, Some(forge), 60).unwrap();
        assert!(completed > 100, "{completed}");
    }
    assert!(worlds::<Macs>(3, 1, None, 30).unwrap() > 100);
    assert!(worlds::<Checksums>(3, 2, None, 30).unwrap() > 100);
    assert!(worlds::<Trusting>(2, 1, None, 30).unwrap() > 100);
}

#[test]
fn random_worlds_find_wrong_rules() {
    for name in [
        "shuttle.client-believes-results",
        "shuttle.final-at-order-time",
        "shuttle.tags-of-one",
        "shuttle.done-not-checked",
        "shuttle.done-of-one",
    ] {
        let broken = mutant::with(Some(name), || worlds::<Macs>(3, 1, Some(forge), 400));
        assert!(broken.is_err(), "{name}: {broken:?}");
    }
}
