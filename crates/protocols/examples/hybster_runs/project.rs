//! One slot of a recorded run, as steps of `docs/spec/Hybster.tla`.
//!
//! The specification has one slot, so a run is looked at once for each. Positions of the counter
//! become its three indexes; what concerns other slots falls away. A run is followed until
//! anybody speaks of a checkpoint at the slot or above, which the specification does not know.
//!
//! What a faulty replica certified is known once a correct one takes it for genuine, by itself or
//! within what others show. It has then been certified, and so has all that its counter certified
//! before: that is put there, in the counter's order.

use crate::record::{Event, Heard, What};
use pentarchy_core::auth::AuthTag;
use pentarchy_core::counter::{Position, Ui};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Epoch, ReplicaId, Slot, View};
use pentarchy_protocols::common::counters::certificate::{Opened as _, Start};
use pentarchy_protocols::common::message::Shared;
use pentarchy_protocols::hybster::{Message, Order, ViewChange};
use std::collections::{BTreeMap, BTreeSet};

/// What a counter certified.
#[derive(Clone, Debug)]
enum Word {
    Prepare(View, Slot, Digest),
    Commit(View, Slot),
    Leave { view: View, from: View, previous: Position, low: Slot, shown: Shown },
    Open(View, Start),
    Enter(View),
}

/// What a VIEW-CHANGE shows of any slot.
type Shown = std::sync::Arc<ViewChange>;

/// A certified word: whose, and where.
type Certified = (ReplicaId, Position, Word);

/// A run as it is looked at for each slot.
pub struct Run<'a> {
    events: &'a [Event],
    n: usize,
    faulty: &'a BTreeSet<ReplicaId>,
    /// Words of faulty replicas, by the event before which each was certified at the latest.
    certified: BTreeMap<usize, Vec<Certified>>,
    /// How views began.
    starts: BTreeMap<View, Start>,
}

/// The steps of one slot, and what they need.
pub struct Steps {
    /// Each as a record of TLA+.
    pub steps: Vec<String>,
    /// The highest view in them.
    pub view: u64,
    /// How many batches they name: `b0` and so on.
    pub batches: usize,
    /// Of those, how many were of a counter that moved without a word that anybody knows.
    pub silent: usize,
}

impl<'a> Run<'a> {
    /// Of the first epoch.
    pub fn new(events: &'a [Event], n: usize, faulty: &'a BTreeSet<ReplicaId>) -> Self {
        let ended = events.iter().position(|event| event.epoch != Epoch(0));
        let events = &events[..ended.unwrap_or(events.len())];
        let starts = BTreeMap::new();
        let mut run = Self { events, n, faulty, certified: BTreeMap::new(), starts };
        let mut words: BTreeMap<ReplicaId, BTreeMap<Position, (usize, Word)>> = BTreeMap::new();
        for (index, event) in events.iter().enumerate() {
            let (What::Said(heard) | What::Took(heard)) = &event.what else { continue };
            if faulty.contains(&event.at) {
                continue;
            }
            for (author, position, word) in run.words(heard) {
                if let Word::Open(view, start) = &word {
                    run.starts.entry(*view).or_insert_with(|| start.clone());
                }
                if faulty.contains(&author) {
                    words.entry(author).or_default().entry(position).or_insert((index, word));
                }
            }
        }
        for (author, words) in words {
            let mut latest = usize::MAX;
            for (position, (index, word)) in words.into_iter().rev() {
                latest = latest.min(index);
                run.certified.entry(latest).or_default().push((author, position, word));
            }
        }
        run.certified.values_mut().for_each(|words| words.sort_by_key(|(id, at, _)| (*id, *at)));
        run
    }

    fn primary(&self, view: View) -> ReplicaId {
        ReplicaId((view.0 % self.n as u64) as u16)
    }

    /// All that a message shows to be certified, itself the last.
    fn words(&self, heard: &Heard) -> Vec<Certified> {
        let mut all = Vec::new();
        let ui = if let AuthTag::Usig(ui) = &heard.tag { Some(*ui) } else { None };
        match (&heard.message, ui) {
            (Message::Order(Order::Prepare { view, slot, proposal }), Some(ui)) => {
                let word = Word::Prepare(*view, *slot, proposal.digest());
                all.push((heard.author, ui.position, word));
            }
            (Message::Order(Order::Commit { view, slot, .. }), Some(ui)) => {
                all.push((heard.author, ui.position, Word::Commit(*view, *slot)));
            }
            (Message::ViewChange(change), Some(ui)) => {
                self.change(heard.author, ui, change, &mut all);
            }
            (Message::NewView(opening), Some(ui)) => {
                for member in &opening.changes.members {
                    self.change(member.author, member.ui, &member.change, &mut all);
                }
                let word = Word::Open(opening.view(), opening.start());
                all.push((heard.author, ui.position, word));
            }
            (Message::Enter { view, .. }, Some(ui)) => {
                all.push((heard.author, ui.position, Word::Enter(*view)));
            }
            (Message::ViewChanges(changes), _) => {
                for member in &changes.members {
                    self.change(member.author, member.ui, &member.change, &mut all);
                }
            }
            _ => {}
        }
        all
    }

    fn change(&self, author: ReplicaId, ui: Ui, change: &Shown, all: &mut Vec<Certified>) {
        if let Some(entry) = &change.entry {
            let (view, header) = (entry.view(), &entry.header);
            let word = Word::Open(view, header.start.clone());
            all.push((self.primary(view), header.opening.position, word));
        }
        for it in &change.prepares {
            let word = Word::Prepare(it.ui.position.view, it.slot, it.batch);
            all.push((self.primary(it.ui.position.view), it.ui.position, word));
        }
        let (view, from, previous) = (change.view, change.from(), ui.committed);
        let (low, shown) = (change.checkpoint.slot, change.clone());
        all.push((author, ui.position, Word::Leave { view, from, previous, low, shown }));
    }

    /// Slots that were ordered, those first of which most was said in different views.
    pub fn slots(&self) -> Vec<Slot> {
        let mut views: BTreeMap<Slot, BTreeSet<View>> = BTreeMap::new();
        for event in self.events.iter().filter(|event| !self.faulty.contains(&event.at)) {
            if let What::Said(Heard { message: Message::Order(order), .. }) = &event.what {
                let (view, slot) = order.place();
                views.entry(slot).or_default().insert(view);
            }
        }
        let mut slots: Vec<Slot> = views.keys().copied().collect();
        slots.sort_by_key(|slot| (std::cmp::Reverse(views[slot].len()), *slot));
        slots
    }

    /// What happened in a slot.
    pub fn project(&self, slot: Slot) -> Steps {
        let steps = Steps { steps: Vec::new(), view: 0, batches: 0, silent: 0 };
        let mut slot = OneSlot {
            run: self,
            slot,
            names: BTreeMap::new(),
            spoke: BTreeSet::new(),
            counters: BTreeMap::new(),
            started: BTreeSet::new(),
            said: BTreeSet::new(),
            steps,
        };
        for index in 0..self.events.len() {
            if !slot.follow(index) {
                break;
            }
        }
        Steps { batches: slot.names.len(), ..slot.steps }
    }
}

/// One slot, as far as it was followed.
struct OneSlot<'a> {
    run: &'a Run<'a>,
    slot: Slot,
    names: BTreeMap<Digest, String>,
    /// Who has proposed it or committed to it in which view.
    spoke: BTreeSet<(ReplicaId, View)>,
    /// Of faulty replicas, as the specification counts.
    counters: BTreeMap<ReplicaId, u64>,
    started: BTreeSet<ReplicaId>,
    /// Positions that correct replicas have used: what is sent again is no step.
    said: BTreeSet<(ReplicaId, Position)>,
    steps: Steps,
}

impl OneSlot<'_> {
    /// False where the specification has no more to say.
    fn follow(&mut self, index: usize) -> bool {
        for (by, _, word) in self.run.certified.get(&index).into_iter().flatten() {
            if !self.word(*by, word, true) {
                return false;
            }
        }
        let event = &self.run.events[index];
        if self.run.faulty.contains(&event.at) {
            return true;
        }
        match &event.what {
            // Without its memory it is another replica, and the group has to admit it first.
            What::Started => self.started.insert(event.at),
            What::Took(_) => true,
            What::Executed(slot, batch) => {
                if *slot == self.slot {
                    let batch = self.name(*batch);
                    self.step("execute", event.at, View(0), &format!(", batch |-> \"{batch}\""));
                }
                true
            }
            What::Said(heard) => self.said(heard),
        }
    }

    fn said(&mut self, heard: &Heard) -> bool {
        match &heard.message {
            Message::Shared(Shared::Checkpoint { slot, .. }) => *slot < self.slot,
            Message::Acknowledge { view } => {
                self.step("ack", heard.author, *view, "");
                true
            }
            _ => match self.run.words(heard).pop() {
                Some((by, at, word)) if by == heard.author => {
                    !self.said.insert((by, at)) || self.word(by, &word, false)
                }
                _ => true,
            },
        }
    }

    fn word(&mut self, by: ReplicaId, word: &Word, faulty: bool) -> bool {
        let kind = |name: &str| if faulty { format!("f{name}") } else { name.to_owned() };
        match word {
            Word::Prepare(view, slot, batch) if *slot == self.slot => {
                self.spoke.insert((by, *view));
                let batch = self.name(*batch);
                self.step(&kind("propose"), by, *view, &format!(", batch |-> \"{batch}\""));
                self.counts(by, 3 * view.0 + 2);
            }
            Word::Commit(view, slot) if *slot == self.slot => {
                self.spoke.insert((by, *view));
                self.step(&kind("commit"), by, *view, "");
                self.counts(by, 3 * view.0 + 2);
            }
            Word::Prepare(..) | Word::Commit(..) => {}
            Word::Leave { low, .. } if *low >= self.slot => return false,
            Word::Leave { view, from, previous, shown, .. } => {
                let previous = self.abstracted(by, *previous);
                if faulty && self.counters.get(&by).is_none_or(|counter| *counter < previous) {
                    self.silent(by, previous);
                }
                let shows = shown.batch(self.slot).map(|batch| self.name(batch));
                let shows = shows.unwrap_or_else(|| "none".to_owned());
                let more = format!(
                    ", from |-> {}, previous |-> {previous}, shows |-> \"{shows}\"",
                    from.0
                );
                self.step(&kind("leave"), by, *view, &more);
                self.counts(by, 3 * view.0);
            }
            Word::Open(_, start) if start.base >= self.slot => return false,
            Word::Open(view, start) => {
                let takes = start.batch(self.slot).map(|batch| self.name(batch));
                let takes = takes.unwrap_or_else(|| "none".to_owned());
                self.step(&kind("open"), by, *view, &format!(", takes |-> \"{takes}\""));
                self.counts(by, 3 * view.0 + 1);
            }
            Word::Enter(view) => {
                self.step(&kind("enter"), by, *view, "");
                self.counts(by, 3 * view.0 + 1);
            }
        }
        true
    }

    /// A faulty replica's counter moved, and nobody knows by which word.
    fn silent(&mut self, by: ReplicaId, to: u64) {
        if to > 0 {
            self.step("fmove", by, View(to / 3), &format!(", to |-> {to}"));
            self.steps.silent += 1;
        }
    }

    fn counts(&mut self, by: ReplicaId, value: u64) {
        self.counters.insert(by, value);
    }

    /// A position, as the specification counts: leaving what was before, opening, the slot.
    fn abstracted(&self, by: ReplicaId, at: Position) -> u64 {
        let Position { view, index } = at;
        let opened = if view == View(0) { 0 } else { 1 };
        let taken_over =
            self.run.starts.get(&view).is_some_and(|start| start.batch(self.slot).is_some());
        let is_behind = index > self.slot.0;
        let third = match index {
            Position::LEAVE => 0,
            Position::OPEN => 1,
            _ if !is_behind => opened,
            _ if taken_over && !self.spoke.contains(&(by, view)) => opened,
            _ => 2,
        };
        3 * view.0 + third
    }

    fn name(&mut self, batch: Digest) -> String {
        let next = format!("b{}", self.names.len());
        self.names.entry(batch).or_insert(next).clone()
    }

    fn step(&mut self, act: &str, by: ReplicaId, view: View, more: &str) {
        self.steps.view = self.steps.view.max(view.0);
        let step = format!("[act |-> \"{act}\", by |-> {}, view |-> {}{more}]", by.0, view.0);
        self.steps.steps.push(step);
    }
}
