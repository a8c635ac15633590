//! Services with bugs.

use crate::service::Registers;
use pentarchy_core::Bytes;
use pentarchy_core::service::{Context, Event, Service};
use pentarchy_core::wire::Malformed;

/// Runs everything twice.
pub struct Twice(pub Registers);

/// Answers correctly, but writes other bytes into its checkpoints if it is the odd one.
pub struct Odd(pub Registers, pub bool);

/// Tells every event twice.
pub struct TellsTwice(pub Registers);

/// Tells something else if it is the odd one.
pub struct TellsOtherwise(pub Registers, pub bool);

macro_rules! forward {
    () => {
        fn query(&self, operation: &[u8]) -> Vec<u8> {
            self.0.query(operation)
        }
        fn sections(&self) -> u32 {
            self.0.sections()
        }
        fn changed_sections(&mut self) -> Vec<u32> {
            self.0.changed_sections()
        }
        fn restore_section(&mut self, index: u32, bytes: &[u8]) -> Result<(), Malformed> {
            self.0.restore_section(index, bytes)
        }
    };
}

impl Service for Twice {
    fn execute(&mut self, context: &Context, operation: &[u8]) -> Vec<u8> {
        self.0.execute(context, operation);
        self.0.execute(context, operation)
    }
    fn section(&self, index: u32) -> Vec<u8> {
        self.0.section(index)
    }
    fn take_events(&mut self) -> Vec<Event> {
        self.0.take_events()
    }
    forward!();
}

impl Service for TellsTwice {
    fn execute(&mut self, context: &Context, operation: &[u8]) -> Vec<u8> {
        self.0.execute(context, operation)
    }
    fn section(&self, index: u32) -> Vec<u8> {
        self.0.section(index)
    }
    fn take_events(&mut self) -> Vec<Event> {
        self.0.take_events().into_iter().flat_map(|event| [event.clone(), event]).collect()
    }
    forward!();
}

impl Service for TellsOtherwise {
    fn execute(&mut self, context: &Context, operation: &[u8]) -> Vec<u8> {
        self.0.execute(context, operation)
    }
    fn section(&self, index: u32) -> Vec<u8> {
        self.0.section(index)
    }
    fn take_events(&mut self) -> Vec<Event> {
        let mut events = self.0.take_events();
        if let (true, Some(event)) = (self.1, events.first_mut()) {
            event.body = Bytes::from_static(b"odd");
        }
        events
    }
    forward!();
}

impl Service for Odd {
    fn execute(&mut self, context: &Context, operation: &[u8]) -> Vec<u8> {
        self.0.execute(context, operation)
    }
    fn section(&self, index: u32) -> Vec<u8> {
        let mut bytes = self.0.section(index);
        if self.1 {
            bytes.extend_from_slice(b"odd");
        }
        bytes
    }
    fn take_events(&mut self) -> Vec<Event> {
        self.0.take_events()
    }
    forward!();
}
