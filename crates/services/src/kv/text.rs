//! Bytes as they are kept.

use alloc::boxed::Box;

/// A byte string that does not grow.
pub type Text = Box<[u8]>;
