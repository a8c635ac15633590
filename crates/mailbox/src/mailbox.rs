//! A place in shared memory where one side asks and the other answers.
//!
//! ```text
//! word 0       the turn: odd while a question waits, even when it is answered
//! word 1       not 0 while the asker sleeps        word 2   the same of the answerer
//! words 16..   the question: its length in bytes, and the bytes; the answer likewise
//! ```
//!
//! A side writes its text first and then the turn, with release, and the other one reads the turn
//! with acquire. Before it sleeps, a side says so and looks at the turn once more; the other one
//! changes the turn before it looks whether anybody sleeps. So of the two at least one notices. The
//! waking is a courtesy even then: who asks looks up every 20 ms by itself.

use crate::memory::Memory;
use rustix::io::Errno;
use rustix::thread::futex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Words of a mailbox: a page, on most machines.
pub const MAILBOX_WORDS: usize = 1024;

const HEAD_WORDS: usize = 16;
const TEXT_WORDS: usize = (MAILBOX_WORDS - HEAD_WORDS) / 2;

/// The longest question and the longest answer.
pub const BYTES_MAX: usize = 4 * (TEXT_WORDS - 1);

/// How often a side looks at the turn before it sleeps: an answer that takes microseconds comes
/// sooner than a sleeper can be woken. First without pause, then it lets others run in between, as
/// the other side may be waiting for this very processor.
const LOOKS: u32 = 200;
const LOOKS_BETWEEN_OTHERS: u32 = 30;

/// How often who asks looks whether the other side is still there.
const LOOK: Duration = Duration::from_millis(20);

/// There was no answer, or none that could be one. The mailbox must not be used any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Silent;

/// There will be no question, or there was none that could be one. The mailbox must not be used any
/// more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Closed;

/// One mailbox in the memory.
#[derive(Clone, Debug)]
struct Place {
    memory: Arc<Memory>,
    /// Its first word. All of its words are there.
    first: usize,
}

impl Place {
    fn new(memory: Arc<Memory>, number: usize) -> Option<Self> {
        let first = number.checked_mul(MAILBOX_WORDS)?;
        let end = first.checked_add(MAILBOX_WORDS)?;
        (end <= memory.words().len()).then_some(Self { memory, first })
    }

    fn words(&self) -> &[AtomicU32] {
        &self.memory.words()[self.first..self.first + MAILBOX_WORDS]
    }
    fn turn(&self) -> &AtomicU32 {
        &self.words()[0]
    }
    fn asker_sleeps(&self) -> &AtomicU32 {
        &self.words()[1]
    }
    fn answerer_sleeps(&self) -> &AtomicU32 {
        &self.words()[2]
    }
    fn question(&self) -> &[AtomicU32] {
        &self.words()[HEAD_WORDS..HEAD_WORDS + TEXT_WORDS]
    }
    fn answer(&self) -> &[AtomicU32] {
        &self.words()[HEAD_WORDS + TEXT_WORDS..]
    }

    /// Gives the turn to the other side.
    fn pass(&self, turn: u32, sleeps: &AtomicU32) {
        self.turn().store(turn, Ordering::SeqCst);
        if sleeps.load(Ordering::SeqCst) != 0 {
            // Fails only for memory that is not there.
            let _ = futex::wake(self.turn(), futex::Flags::empty(), 1);
        }
    }

    /// Looks at the turn for a while, and what it is at last.
    fn spin(&self, while_it_is: u32) -> u32 {
        for look in 0..LOOKS + LOOKS_BETWEEN_OTHERS {
            let turn = self.turn().load(Ordering::Acquire);
            if turn != while_it_is {
                return turn;
            }
            if look < LOOKS {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
        while_it_is
    }

    /// Sleeps until the turn may be another one, at most as long as that.
    fn sleep(&self, turn: u32, sleeps: &AtomicU32, limit: Option<Duration>) {
        sleeps.store(1, Ordering::SeqCst);
        if self.turn().load(Ordering::SeqCst) == turn {
            let limit = limit.and_then(|limit| limit.try_into().ok());
            let slept = futex::wait(self.turn(), futex::Flags::empty(), turn, limit.as_ref());
            if matches!(slept, Err(Errno::NOSYS | Errno::PERM)) {
                // A system that forbids to wait there.
                std::thread::sleep(Duration::from_micros(100));
            }
        }
        sleeps.store(0, Ordering::SeqCst);
    }
}

/// Writes a text of at most [`BYTES_MAX`] bytes.
fn write(to: &[AtomicU32], text: &[u8]) {
    to[0].store(text.len() as u32, Ordering::Relaxed);
    for (word, bytes) in to[1..].iter().zip(text.chunks(4)) {
        let mut four = [0; 4];
        four[..bytes.len()].copy_from_slice(bytes);
        word.store(u32::from_le_bytes(four), Ordering::Relaxed);
    }
}

/// Reads a text, each word once; none if it has a length that no text has.
fn read<'a>(from: &[AtomicU32], text: &'a mut [u8; BYTES_MAX]) -> Option<&'a [u8]> {
    let length = usize::try_from(from[0].load(Ordering::Relaxed)).ok()?;
    let text = text.get_mut(..length)?;
    for (word, bytes) in from[1..].iter().zip(text.chunks_mut(4)) {
        let four = word.load(Ordering::Relaxed).to_le_bytes();
        bytes.copy_from_slice(&four[..bytes.len()]);
    }
    Some(text)
}

/// The side that asks. Dropping it closes the mailbox.
#[derive(Debug)]
pub struct Asker {
    place: Place,
    /// The last turn, which is even. The memory is not asked for it.
    turn: u32,
}

impl Asker {
    /// Over a mailbox of fresh memory, by its number; none if it is not in there.
    #[must_use]
    pub fn new(memory: Arc<Memory>, number: usize) -> Option<Self> {
        Some(Self { place: Place::new(memory, number)?, turn: 0 })
    }

    /// Asks, and waits for the answer for at most `limit`, or until `is_there` says that nobody is
    /// there to give it.
    ///
    /// # Errors
    /// [`Silent`]; also for a question of more than [`BYTES_MAX`] bytes.
    pub fn ask<'a>(
        &mut self,
        question: &[u8],
        answer: &'a mut [u8; BYTES_MAX],
        limit: Duration,
        mut is_there: impl FnMut() -> bool,
    ) -> Result<&'a [u8], Silent> {
        if question.len() > BYTES_MAX {
            return Err(Silent);
        }
        let (asked, answered) = (self.turn.wrapping_add(1), self.turn.wrapping_add(2));
        write(self.place.question(), question);
        self.place.pass(asked, self.place.answerer_sleeps());
        let mut turn = self.place.spin(asked);
        let begun = Instant::now();
        while turn == asked {
            let waited = begun.elapsed();
            if waited >= limit || !is_there() {
                return Err(Silent);
            }
            let rest = LOOK.min(limit.saturating_sub(waited));
            self.place.sleep(asked, self.place.asker_sleeps(), Some(rest));
            turn = self.place.turn().load(Ordering::Acquire);
        }
        if turn != answered {
            return Err(Silent);
        }
        self.turn = answered;
        read(self.place.answer(), answer).ok_or(Silent)
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        // A turn that no question has.
        self.place.pass(self.turn.wrapping_add(3), self.place.answerer_sleeps());
    }
}

/// The side that answers.
#[derive(Debug)]
pub struct Answerer {
    place: Place,
    /// The last turn, which is even, or odd while there is a question to be answered.
    turn: u32,
}

impl Answerer {
    /// Over a mailbox of fresh memory, by its number; none if it is not in there.
    #[must_use]
    pub fn new(memory: Arc<Memory>, number: usize) -> Option<Self> {
        Some(Self { place: Place::new(memory, number)?, turn: 0 })
    }

    /// Waits for a question, for as long as it takes.
    ///
    /// # Errors
    /// [`Closed`] if the other side is gone, or does not keep to its turns or to the longest
    /// question.
    ///
    /// # Panics
    /// If the last question was not answered.
    pub fn next<'a>(&mut self, question: &'a mut [u8; BYTES_MAX]) -> Result<&'a [u8], Closed> {
        assert!(self.turn.is_multiple_of(2), "one question at a time");
        let mut turn = self.place.spin(self.turn);
        while turn == self.turn {
            self.place.sleep(self.turn, self.place.answerer_sleeps(), None);
            turn = self.place.turn().load(Ordering::Acquire);
        }
        self.turn = self.turn.wrapping_add(1);
        if turn != self.turn {
            return Err(Closed);
        }
        read(self.place.question(), question).ok_or(Closed)
    }

    /// Answers the question.
    ///
    /// # Panics
    /// If there was none, or the answer has more than [`BYTES_MAX`] bytes.
    pub fn answer(&mut self, answer: &[u8]) {
        assert!(!self.turn.is_multiple_of(2) && answer.len() <= BYTES_MAX, "one short answer");
        self.turn = self.turn.wrapping_add(1);
        write(self.place.answer(), answer);
        self.place.pass(self.turn, self.place.asker_sleeps());
    }
}
