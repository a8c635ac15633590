//! Ports on this machine that no two processes of this project get at a time.
//!
//! A process that looks for a free port, gives it back and has another process listen there may
//! find that somebody else was faster. So a range of ports is cut into blocks. Whoever listens on
//! the first port of a block has the others of it, and goes on listening there until it ends. The
//! system sees to it that this is one process at a time; when a process ends, however it does, its
//! blocks are free again. Programs that know nothing of blocks are only looked for: a port on which
//! somebody listens is passed over.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// For groups that this program starts on this machine: below the range from which systems take
/// ports for outgoing connections, so that a replica's port is not taken while it is down.
pub static OF_GROUPS: Ports = Ports::of(17_000..32_000);

/// For what tests start.
pub static OF_TESTS: Ports = Ports::of(7_000..16_000);

/// Ports in a block, with the first one: enough for two for each of the replicas of a large group.
const BLOCK: u16 = 250;

/// What has a port until it is dropped.
type Listener = Box<dyn Send>;

/// A range of ports, and what this process has of it.
pub struct Ports {
    range: Range<u16>,
    blocks: Mutex<Vec<Block>>,
    /// Listens on a port, if nobody does.
    listen: fn(u16) -> Option<Listener>,
}

/// A block that this process has.
struct Block {
    /// Listens on the first port, and accepts nothing there.
    _held: Listener,
    first: u16,
    /// Of all others, which are taken.
    taken: Vec<bool>,
    /// Where to look first: behind what was taken last, so that nothing is used again at once.
    next: u16,
}

/// Consecutive ports that this process has until it drops this.
pub struct Taken {
    of: &'static Ports,
    numbers: Range<u16>,
}

impl Ports {
    /// Of this range nothing yet.
    #[must_use]
    pub const fn of(range: Range<u16>) -> Self {
        Self { range, blocks: Mutex::new(Vec::new()), listen }
    }

    /// Takes so many consecutive ports of 127.0.0.1.
    ///
    /// # Errors
    /// If others have all blocks, or no block holds so many.
    pub fn take(&'static self, count: u16) -> io::Result<Taken> {
        let mut blocks = self.blocks();
        let known = blocks.iter_mut().find_map(|block| block.take(count, self.listen));
        let numbers = match known {
            Some(numbers) => numbers,
            None => self.take_from_more(count, &mut blocks)?,
        };
        Ok(Taken { of: self, numbers })
    }

    fn take_from_more(&self, count: u16, blocks: &mut Vec<Block>) -> io::Result<Range<u16>> {
        let fits = count < BLOCK;
        let all = if fits { (self.range.end - self.range.start) / BLOCK } else { 0 };
        // As good as chance: what stopped, and is to have its ports again, seldom finds that
        // another process has taken them since.
        let chance = std::process::id().wrapping_mul(0x9e37_79b1);
        let start = (chance >> 16) as u16 % all.max(1);
        for step in 0..all {
            let number = (start + step) % all;
            let first = self.range.start + number * BLOCK;
            let Some(held) = (self.listen)(first) else { continue };
            let (taken, next) = (vec![false; BLOCK.into()], 1 + chance as u16 % (BLOCK - 1));
            let mut block = Block { _held: held, first, taken, next };
            let numbers = block.take(count, self.listen);
            blocks.push(block);
            if let Some(numbers) = numbers {
                return Ok(numbers);
            }
        }
        let Range { start, end } = self.range;
        let what = format!("others have all ports from {start} to {end}, or all but too few");
        Err(io::Error::new(io::ErrorKind::AddrInUse, what))
    }

    fn blocks(&self) -> MutexGuard<'_, Vec<Block>> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Block {
    const fn end(&self) -> u16 {
        self.first + BLOCK
    }

    /// So many that follow each other and on which nobody listens.
    fn take(&mut self, count: u16, listen: fn(u16) -> Option<Listener>) -> Option<Range<u16>> {
        let run = |offsets| self.run(offsets, count, listen);
        let found = run(self.next..BLOCK).or_else(|| run(1..BLOCK))?;
        self.taken[found.start.into()..found.end.into()].fill(true);
        self.next = found.end;
        Some(self.first + found.start..self.first + found.end)
    }

    fn run(
        &self,
        offsets: Range<u16>,
        count: u16,
        listen: fn(u16) -> Option<Listener>,
    ) -> Option<Range<u16>> {
        let mut run = 0;
        for offset in offsets {
            let is_free = !self.taken[usize::from(offset)] && listen(self.first + offset).is_some();
            run = if is_free { run + 1 } else { 0 };
            if run == count {
                return Some(offset + 1 - count..offset + 1);
            }
        }
        None
    }
}

impl Taken {
    /// Which they are.
    #[must_use]
    pub fn numbers(&self) -> Range<u16> {
        self.numbers.clone()
    }

    /// The first of them; all are this process's until it ends.
    #[must_use]
    pub fn for_good(self) -> u16 {
        let first = self.numbers.start;
        std::mem::forget(self);
        first
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let mut blocks = self.of.blocks();
        let Range { start, end } = self.numbers();
        let mut its = blocks.iter_mut().filter(|block| (block.first..block.end()).contains(&start));
        if let Some(block) = its.next() {
            let offsets = usize::from(start - block.first)..usize::from(end - block.first);
            block.taken[offsets].fill(false);
        }
    }
}

fn listen(port: u16) -> Option<Listener> {
    Some(Box::new(TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The ports of a machine on which nothing else runs.
    static TAKEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

    struct Pretended(u16);

    impl Drop for Pretended {
        fn drop(&mut self) {
            TAKEN.lock().unwrap().remove(&self.0);
        }
    }

    fn pretend(port: u16) -> Option<Listener> {
        TAKEN.lock().unwrap().insert(port).then(|| Box::new(Pretended(port)) as Listener)
    }

    const fn pretended(range: Range<u16>) -> Ports {
        Ports { range, blocks: Mutex::new(Vec::new()), listen: pretend }
    }

    /// Two processes: each knows what it has itself.
    static HERE: Ports = pretended(6_500..7_000);
    static THERE: Ports = pretended(6_500..7_000);

    #[test]
    fn no_two_processes_get_the_same_port_and_what_is_given_back_is_used_again() {
        let (here, there) = (HERE.take(100).unwrap(), THERE.take(100).unwrap());
        let here_too = HERE.take(40).unwrap().for_good();
        let mut all: Vec<u16> = here.numbers().chain(there.numbers()).collect();
        all.extend(here_too..here_too + 40);
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 240, "each is there once");
        assert!(HERE.take(200).is_err() && THERE.take(200).is_err(), "both blocks are taken");

        let taken = HERE.take(BLOCK - 1 - 140);
        let rest: Vec<Taken> = (0..BLOCK).map_while(|_| HERE.take(1).ok()).collect();
        assert!(HERE.take(1).is_err(), "all of the block are taken");
        drop((taken, rest));
        let somebody = pretend(here.numbers().start).unwrap();
        let numbers = here.numbers();
        drop(here);
        let rest: Vec<Taken> = (0..BLOCK).map_while(|_| HERE.take(1).ok()).collect();
        assert_eq!(rest.len(), usize::from(BLOCK - 1 - 40 - 1), "somebody else has one");
        assert!(rest.iter().all(|taken| taken.numbers().start != numbers.start));
        drop((rest, somebody));
        assert!(HERE.take(100).is_ok());
    }

    #[test]
    fn the_first_port_of_a_block_is_for_nobody() {
        static SMALL: Ports = pretended(16_000..16_250);
        assert!(SMALL.take(BLOCK).is_err());
        let most = SMALL.take(BLOCK - 1).unwrap();
        assert_eq!(most.numbers(), 16_001..16_250);
    }

    #[test]
    fn a_port_on_which_somebody_listens_is_passed_over() {
        let somebody = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        assert!(listen(somebody.local_addr().unwrap().port()).is_none());
    }
}
