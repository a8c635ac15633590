//! A service that does nothing, to measure what ordering costs.
//!
//! An operation is the wanted length of the result (`u32`, little-endian) and any padding, so the
//! sizes of request and reply can be chosen one by one: the "0/0", "4/0" and "0/4" benchmarks of
//! the literature are operations of 4 or 4096 bytes that ask for 0 or 4096.

use alloc::vec;
use alloc::vec::Vec;
use pentarchy_core::limits::OPERATION_BYTES_MAX;
use pentarchy_core::service::{Context, Service};
use pentarchy_core::wire::Malformed;

/// The service. Its whole state is the number of executed operations, in one section.
#[derive(Default, Debug)]
pub struct Null {
    executed: u64,
    reported: Option<u64>,
}

impl Null {
    /// A fresh service.
    #[must_use]
    pub const fn new() -> Self {
        Self { executed: 0, reported: None }
    }

    /// How many operations were executed, including those that a snapshot brought.
    #[must_use]
    pub const fn executed(&self) -> u64 {
        self.executed
    }

    /// An operation of `length` bytes, at least 4, whose result has `reply` bytes.
    #[must_use]
    pub fn operation(length: usize, reply: u32) -> Vec<u8> {
        let mut operation = reply.to_le_bytes().to_vec();
        operation.resize(length.max(operation.len()), 0);
        operation
    }

    /// Zeros, as many as were asked for but at most [`OPERATION_BYTES_MAX`]; none if the operation
    /// is too short to say.
    fn answer(operation: &[u8]) -> Vec<u8> {
        let length = operation.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        vec![0; (length as usize).min(OPERATION_BYTES_MAX)]
    }
}

impl Service for Null {
    fn execute(&mut self, _context: &Context, operation: &[u8]) -> Vec<u8> {
        self.executed += 1;
        Self::answer(operation)
    }

    fn query(&self, operation: &[u8]) -> Vec<u8> {
        Self::answer(operation)
    }

    fn sections(&self) -> u32 {
        1
    }

    fn section(&self, _index: u32) -> Vec<u8> {
        self.executed.to_le_bytes().to_vec()
    }

    fn changed_sections(&mut self) -> Vec<u32> {
        let before = self.reported.replace(self.executed);
        if before == Some(self.executed) { Vec::new() } else { vec![0] }
    }

    fn restore_section(&mut self, _index: u32, bytes: &[u8]) -> Result<(), Malformed> {
        self.executed = u64::from_le_bytes(bytes.try_into().map_err(|_| Malformed)?);
        Ok(())
    }
}
