//! How much one operation may make the replicas do.
//!
//! A short command can ask for very much: the union of one large set with itself a hundred thousand
//! times, a pattern against every key. All replicas execute it, one after the other with everything
//! else, so its work is bounded. What it would cost is counted, in units that do not depend on the
//! machine, before anything is changed.

use super::error::Error;
use core::cell::Cell;

/// Units of work in an operation, a pack or a transaction as a whole. A unit is what a byte of a
/// value costs: 64 of them are to look up or to add a member, see the costs of a set. Measured, a
/// unit is 1 to 10 ns.
pub const OPERATION_WORK_MAX: u64 = 32 << 20;

/// What each command costs, whatever it does.
const COMMAND_WORK: u64 = 64;

/// What it costs to draw one element.
pub const DRAW_WORK: u64 = 32;

/// What is left. Counts down while commands that only look at the state run, hence the cells.
#[derive(Debug)]
pub struct Work {
    left: Cell<u64>,
    refused: Cell<bool>,
    /// Commands that were begun.
    commands: Cell<u64>,
}

impl Default for Work {
    fn default() -> Self {
        Self {
            left: Cell::new(OPERATION_WORK_MAX),
            refused: Cell::new(false),
            commands: Cell::new(0),
        }
    }
}

impl Work {
    /// An operation begins.
    pub fn begin(&self) {
        self.left.set(OPERATION_WORK_MAX);
        self.refused.set(false);
        self.commands.set(0);
    }

    /// A command with words of so many bytes begins.
    pub fn begin_command(&self, bytes: usize) -> Result<(), Error> {
        self.commands.set(self.commands.get() + 1);
        self.spend((bytes as u64).saturating_add(COMMAND_WORK))
    }

    /// Takes so much of what is left, or fails.
    pub fn spend(&self, units: u64) -> Result<(), Error> {
        match self.left.get().checked_sub(units) {
            Some(left) => {
                self.left.set(left);
                Ok(())
            }
            None => {
                self.refused.set(true);
                Err(Error::TOO_MUCH_WORK)
            }
        }
    }

    /// Takes all that is left, as it was not enough.
    pub fn exhaust(&self) -> Error {
        self.left.set(0);
        self.refused.set(true);
        Error::TOO_MUCH_WORK
    }

    /// Takes what was done already, as far as there is something left.
    pub fn note(&self, units: u64) {
        self.left.set(self.left.get().saturating_sub(units));
    }

    /// What is left.
    pub const fn left(&self) -> u64 {
        self.left.get()
    }

    /// How many commands of this operation were begun before the one that runs.
    pub const fn commands_before(&self) -> u64 {
        self.commands.get().saturating_sub(1)
    }

    /// Whether a command of this operation failed for want of it.
    pub const fn has_refused(&self) -> bool {
        self.refused.get()
    }
}

const _: () = assert!(
    OPERATION_WORK_MAX > 8 * pentarchy_core::limits::OPERATION_BYTES_MAX as u64,
    "the words of an operation leave most of it"
);
