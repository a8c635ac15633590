//! The calls of BFT-SMaRt, with rules of one's own for replies: each replica adds its seal to the
//! number that it tells, and the client collects the seals of as many replicas as have to agree.
//!
//! `cargo run --example proxy`

use pentarchy::{
    Bytes, ClientId, Comparator, Context, Extractor, LocalCluster, Malformed, ReplicaId, Replier,
    Service, ServiceProxy, SmallService, Whole,
};
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// Bytes of a seal, at the end of each reply.
const SEAL: usize = 1;

/// The state is a number, to which `increment` adds one.
#[derive(Default)]
struct Counter(u64);

impl SmallService for Counter {
    fn execute(&mut self, _: &Context, operation: &[u8]) -> Vec<u8> {
        if operation == b"increment" {
            self.0 += 1;
        }
        self.query(operation)
    }
    fn query(&self, _: &[u8]) -> Vec<u8> {
        self.0.to_string().into_bytes()
    }
    fn replier(&self) -> Option<Box<dyn Replier>> {
        // Each replica of this process gets another one. On a host of its own it would be a key.
        static NEXT: AtomicU8 = AtomicU8::new(b'a');
        Some(Box::new(Seal(NEXT.fetch_add(1, Ordering::Relaxed))))
    }
    fn save(&self) -> Vec<u8> {
        self.0.to_le_bytes().to_vec()
    }
    fn load(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        self.0 = u64::from_le_bytes(bytes.try_into().map_err(|_| Malformed)?);
        Ok(())
    }
}

/// What only one replica can add to a result.
struct Seal(u8);

impl Replier for Seal {
    fn reply(&mut self, _: &ClientId, _: u64, result: &Bytes) -> Bytes {
        [&result[..], &[self.0]].concat().into()
    }
}

/// Two replies are the same if they are but for their seals.
struct ButForSeals;

impl Comparator for ButForSeals {
    fn same(&self, one: &[u8], other: &[u8]) -> bool {
        let number = |reply: &[u8]| reply.len().checked_sub(SEAL).map(|end| reply[..end].to_vec());
        number(one).is_some_and(|number_of_one| Some(number_of_one) == number(other))
    }
}

/// The number, and all seals.
struct AllSeals;

impl Extractor for AllSeals {
    fn extract(&self, same: &[(ReplicaId, Bytes)]) -> Bytes {
        let mut result = same[0].1[..same[0].1.len() - SEAL].to_vec();
        result.extend(b" sealed by ");
        result.extend(same.iter().flat_map(|(_, reply)| &reply[reply.len() - SEAL..]));
        result.into()
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let counter = || Box::new(Whole::new(Counter::default())) as Box<dyn Service>;
    let cluster = LocalCluster::builder().start(counter)?;
    let proxy = ServiceProxy::new(cluster.client()?)
        .comparing(Arc::new(ButForSeals))
        .extracting(Arc::new(AllSeals));
    for _ in 0..9 {
        proxy.ordered("increment")?;
    }
    println!("{}", String::from_utf8_lossy(&proxy.ordered("increment")?));
    println!("{}", String::from_utf8_lossy(&proxy.unordered("read")?));
    Ok(())
}
