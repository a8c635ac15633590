//! A service of a few byte strings, and batches for it.

use pentarchy_core::Bytes;
use pentarchy_core::batch::Batch;
use pentarchy_core::digest::Digest;
use pentarchy_core::executor::{Executor, Notice};
use pentarchy_core::ids::{ClientId, GroupId, Incarnation, Millis, Slot};
use pentarchy_core::membership::{Life, Membership};
use pentarchy_core::ports::client::Outcome;
use pentarchy_core::request::{Draft, Request, RequestAuth};
use pentarchy_core::service::{Context, Service};
use pentarchy_core::wire::Malformed;
use std::collections::BTreeSet;
use std::sync::Arc;

pub const SECTIONS: u32 = 6;

/// Byte strings that are written whole. Answers with how many writes there have been.
#[derive(Default)]
pub struct Toy {
    pages: Vec<Vec<u8>>,
    writes: u64,
    changed: BTreeSet<u32>,
}

impl Toy {
    pub fn boxed() -> Box<dyn Service> {
        let pages = vec![Vec::new(); SECTIONS as usize - 1];
        Box::new(Self { pages, writes: 0, changed: (0..SECTIONS).collect() })
    }
}

/// The operation that fills a page with `length` bytes in which no two chunks are equal.
pub fn write(page: u8, length: u32, seed: u8) -> Vec<u8> {
    let mut operation = vec![page, seed];
    operation.extend_from_slice(&length.to_le_bytes());
    operation
}

impl Service for Toy {
    fn execute(&mut self, _context: &Context, operation: &[u8]) -> Vec<u8> {
        let [page, seed, length @ ..] = operation else { return b"bad".to_vec() };
        let length = u32::from_le_bytes(length.try_into().unwrap());
        let byte = |at: u32| match at % 1024 {
            0 => *seed,
            _ => (at >> 10) as u8 ^ (at >> 18) as u8,
        };
        self.pages[usize::from(*page)] = (0..length).map(byte).collect();
        self.writes += 1;
        self.changed.extend([0, u32::from(*page) + 1]);
        self.writes.to_le_bytes().to_vec()
    }
    fn query(&self, _operation: &[u8]) -> Vec<u8> {
        self.writes.to_le_bytes().to_vec()
    }
    fn sections(&self) -> u32 {
        SECTIONS
    }
    fn section(&self, index: u32) -> Vec<u8> {
        match index {
            0 => self.writes.to_le_bytes().to_vec(),
            page => self.pages[page as usize - 1].clone(),
        }
    }
    fn changed_sections(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.changed).into_iter().collect()
    }
    fn restore_section(&mut self, index: u32, bytes: &[u8]) -> Result<(), Malformed> {
        match index {
            0 => self.writes = u64::from_le_bytes(bytes.try_into().map_err(|_| Malformed)?),
            page => self.pages[page as usize - 1] = bytes.to_vec(),
        }
        self.changed.insert(index);
        Ok(())
    }
}

/// A batch of one client's requests.
pub fn batch(client: u8, requests: &[(u64, Vec<u8>)]) -> Batch {
    let request = |(number, operation): &(u64, Vec<u8>)| Request {
        number: *number,
        operation: Bytes::from(operation.clone()),
    };
    let requests = requests.iter().map(request).collect();
    let draft = Draft { client: ClientId([client; 32]), floor: 0, events: None, requests };
    let envelope = draft.seal(RequestAuth::Signature([0; 64]));
    let digest = envelope.digest;
    Batch { time: Millis(7), envelopes: vec![Arc::new(envelope)], digest }
}

/// Executes the next slot and gives the outcomes.
pub fn run(executor: &mut Executor, batch: &Batch) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    let slot = executor.executed().next();
    executor.execute(slot, batch, |_, notice| match notice {
        Notice::Reply(reply) => outcomes.push(reply.outcome),
        Notice::Event { .. } => panic!("this service tells nothing"),
    });
    outcomes
}

/// Lets agreed time pass.
pub fn pass(executor: &mut Executor, time: u64) {
    let batch = Batch { time: Millis(time), ..batch(1, &[]) };
    executor.execute(executor.executed().next(), &batch, |_, _| {});
}

/// What a client gets for the write that was the `count`th.
pub fn done(count: u64) -> Outcome {
    Outcome::Done(Bytes::copy_from_slice(&count.to_le_bytes()))
}

/// The members of a group of three.
pub fn membership() -> Arc<Membership> {
    let member = |id: u8| ([200 + id; 32], Life::mac(Incarnation(1)));
    Arc::new(Membership::of_keys(GroupId([5; 16]), 1, (0..3).map(member)))
}

/// An executor that has executed nothing.
pub fn fresh(service: Box<dyn Service>) -> Executor {
    Executor::new(membership(), service)
}

/// An executor after a list of writes, each in its own slot, with a checkpoint at the end.
pub fn executor(writes: &[(u8, u32, u8)]) -> (Executor, Slot, Digest) {
    let mut executor = fresh(Toy::boxed());
    for (number, (page, length, seed)) in (1..).zip(writes) {
        run(&mut executor, &batch(1, &[(number, write(*page, *length, *seed))]));
    }
    let digest = executor.checkpoint();
    let slot = executor.executed();
    (executor, slot, digest)
}
