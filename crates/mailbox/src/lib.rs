//! Questions and answers of bounded size between two processes, through memory that they share.
//!
//! One side asks and the other answers, one question at a time in each [`mailbox`]. Neither trusts
//! the other: every word of the shared memory is read as if a stranger had written it, at any time,
//! also while it is read. So nothing is read twice, lengths are checked, each side counts turns for
//! itself, and who waits for an answer waits for a bounded time.
//!
//! The only code of the project that the compiler does not check is the view of the mapped pages,
//! in [`memory`].

pub mod mailbox;
pub mod memory;

pub use mailbox::{Answerer, Asker, BYTES_MAX, Closed, MAILBOX_WORDS, Silent};
pub use memory::Memory;
