//! A replicated counter in one process: three replicas, one of which is killed on the way.
//!
//! `cargo run --example counter`

use pentarchy::{Context, LocalCluster, Malformed, Service, SmallService, Whole};
use std::error::Error;

/// The state is a number. `increment` adds one; any operation answers with the number.
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

    fn save(&self) -> Vec<u8> {
        self.0.to_le_bytes().to_vec()
    }

    fn load(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        self.0 = u64::from_le_bytes(bytes.try_into().map_err(|_| Malformed)?);
        Ok(())
    }
}

fn counter() -> Box<dyn Service> {
    Box::new(Whole::new(Counter::default()))
}

fn main() -> Result<(), Box<dyn Error>> {
    // MinBFT with f = 1: three replicas over TCP on this machine, with fresh keys.
    let mut cluster = LocalCluster::builder().start(counter)?;
    let client = cluster.client()?;
    for _ in 0..10 {
        client.call("increment")?;
    }

    cluster.kill(0)?;

    // Many at once: they travel together and cost one signature.
    let outstanding: Vec<_> = (0..90).map(|_| client.submit("increment")).collect();
    for pending in outstanding {
        pending.wait()?;
    }
    let value = client.query("read").wait()?;
    println!("the counter stands at {}", String::from_utf8_lossy(&value));
    Ok(())
}
