//! What a merger and its pillars say to each other, on its way in one replica.
//!
//! This is for where one thread runs them all, as in the simulator; in a replica each has its own.
//! It arrives at once, in the order in which it was said. Or it is late: in each step a
//! pseudo-random number of messages arrive, of queues that are chosen so too; each pillar has one
//! to the merger and one from it, whose order stays. That is how it is between threads.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use pentarchy_core::limits::LATE_MAX;
use pentarchy_core::ports::replica::{Input, Output};

/// Rounds in a row that end while messages are late: in the next all arrive.
const LATE_ROUNDS: u8 = 6;

/// Something that arrives.
pub(super) enum Arrival {
    /// At a pillar.
    AtPillar(u8, Input),
    /// At the merger.
    AtStage(u8, Output),
}

/// See the [module](self).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Transit {
    /// To pillars, in the order in which it was said. The merger hears at once.
    AtOnce(VecDeque<(u8, Input)>),
    /// Late.
    Late(Late),
}

/// What is late.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Late {
    /// State of the generator.
    dice: u64,
    /// By pillar.
    inward: Vec<VecDeque<Input>>,
    /// By pillar.
    outward: Vec<VecDeque<Output>>,
    /// How many may still arrive in this step.
    budget: usize,
    /// Rounds since the last at whose end nothing was late.
    rounds: u8,
}

impl Transit {
    /// Nothing is on its way. Late, if this is not 0.
    pub(super) fn new(pillars: u8, seed: u64) -> Self {
        if seed == 0 {
            return Self::AtOnce(VecDeque::new());
        }
        let queues = usize::from(pillars);
        Self::Late(Late {
            dice: seed,
            inward: (0..queues).map(|_| VecDeque::new()).collect(),
            outward: (0..queues).map(|_| VecDeque::new()).collect(),
            budget: 0,
            rounds: 0,
        })
    }

    /// How many messages are on their way.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::AtOnce(inward) => inward.len(),
            Self::Late(late) => late.len(),
        }
    }

    /// The merger says something to a pillar.
    pub(super) fn inward(&mut self, pillar: u8, input: Input) {
        match self {
            Self::AtOnce(inward) => inward.push_back((pillar, input)),
            Self::Late(late) => late.inward[usize::from(pillar)].push_back(input),
        }
    }

    /// A pillar says something to the merger: comes back if it arrives at once.
    pub(super) fn outward(&mut self, pillar: u8, output: Output) -> Option<Output> {
        match self {
            Self::AtOnce(_) => Some(output),
            Self::Late(late) => {
                late.outward[usize::from(pillar)].push_back(output);
                None
            }
        }
    }

    /// A step, or the end of a round: so much of what is late may arrive.
    pub(super) fn begin(&mut self, is_round: bool) {
        if let Self::Late(late) = self {
            late.begin(is_round);
        }
    }

    /// What arrives next.
    pub(super) fn next(&mut self) -> Option<Arrival> {
        match self {
            Self::AtOnce(inward) => {
                inward.pop_front().map(|(pillar, input)| Arrival::AtPillar(pillar, input))
            }
            Self::Late(late) => late.next(),
        }
    }
}

impl Late {
    fn len(&self) -> usize {
        let inward: usize = self.inward.iter().map(VecDeque::len).sum();
        inward + self.outward.iter().map(VecDeque::len).sum::<usize>()
    }

    /// SplitMix64.
    fn roll(&mut self, sides: usize) -> usize {
        self.dice = self.dice.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.dice;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % sides as u64) as usize
    }

    fn begin(&mut self, is_round: bool) {
        self.rounds = match self.len() {
            0 => 0,
            _ => self.rounds.saturating_add(u8::from(is_round)),
        };
        self.budget = match self.roll(4) {
            _ if self.rounds > LATE_ROUNDS => usize::MAX,
            0 => 0,
            1 => usize::MAX,
            _ => 1 + self.roll(8),
        };
        // A round is progress.
        self.budget = self.budget.max(usize::from(is_round));
    }

    fn next(&mut self) -> Option<Arrival> {
        let all = self.len();
        if all > LATE_MAX {
            self.budget = usize::MAX;
        }
        self.budget = self.budget.checked_sub(usize::from(all > 0))?;
        let waiting = |(_, queue): &(u8, usize)| *queue > 0;
        let lengths = self.inward.iter().map(VecDeque::len);
        let lengths = lengths.chain(self.outward.iter().map(VecDeque::len));
        let queues: Vec<(u8, usize)> = (0..).zip(lengths).filter(waiting).collect();
        if queues.is_empty() {
            return None;
        }
        let (queue, _) = queues[self.roll(queues.len())];
        let pillars = self.inward.len() as u8;
        match queue.checked_sub(pillars) {
            None => {
                let input = self.inward[usize::from(queue)].pop_front()?;
                Some(Arrival::AtPillar(queue, input))
            }
            Some(pillar) => {
                let output = self.outward[usize::from(pillar)].pop_front()?;
                Some(Arrival::AtStage(pillar, output))
            }
        }
    }
}
