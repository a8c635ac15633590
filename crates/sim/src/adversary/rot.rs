use pentarchy_core::service::{Context, Event, Service};
use pentarchy_core::wire::Malformed;

/// A service whose host loses a write now and then, as a broken disk or memory does: the replica
/// keeps to the protocol, but its state is wrong, and so are its answers and its checkpoints.
pub struct Rot {
    inner: Box<dyn Service>,
    every: u64,
    executed: u64,
}

impl Rot {
    /// Loses one of this many operations, which is not 0.
    #[must_use]
    pub const fn new(inner: Box<dyn Service>, every: u64) -> Self {
        Self { inner, every, executed: 0 }
    }
}

impl Service for Rot {
    fn execute(&mut self, context: &Context, operation: &[u8]) -> Vec<u8> {
        self.executed += 1;
        if self.executed.is_multiple_of(self.every) {
            return b"rotten".to_vec();
        }
        self.inner.execute(context, operation)
    }
    fn query(&self, operation: &[u8]) -> Vec<u8> {
        self.inner.query(operation)
    }
    fn take_events(&mut self) -> Vec<Event> {
        self.inner.take_events()
    }
    fn sections(&self) -> u32 {
        self.inner.sections()
    }
    fn section(&self, index: u32) -> Vec<u8> {
        self.inner.section(index)
    }
    fn changed_sections(&mut self) -> Vec<u32> {
        self.inner.changed_sections()
    }
    fn restore_section(&mut self, index: u32, bytes: &[u8]) -> Result<(), Malformed> {
        self.inner.restore_section(index, bytes)
    }
}
