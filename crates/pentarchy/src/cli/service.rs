//! What a replica replicates.

use clap::ValueEnum;
use pentarchy::Service;
use pentarchy::services::kv::{Kv, STATE_BYTES_DEFAULT};
use pentarchy::services::null::Null;
use pentarchy::store::{Limits, Store};
use pentarchy_console::failure::{Failure, Outcome};
use std::path::Path;

/// `--service` of a replica.
#[derive(Clone, Copy, ValueEnum)]
pub enum ReplicatedChoice {
    /// Strings, counters and lists, as the Redis gateway needs them
    Kv,
    /// Nothing, to measure what replication costs
    Null,
    /// Bytes under keys in order, on disk: the state may be larger than memory
    Store,
}

/// A service in its first state; what it needs on disk is in `folder`.
pub fn new(choice: ReplicatedChoice, folder: &Path) -> Outcome<Box<dyn Service>> {
    Ok(match choice {
        ReplicatedChoice::Kv => Box::new(Kv::new(STATE_BYTES_DEFAULT)),
        ReplicatedChoice::Null => Box::new(Null::new()),
        ReplicatedChoice::Store => {
            let store = Store::create(folder, Limits::default());
            Box::new(store.map_err(|error| {
                let folder = folder.display();
                Failure::Usage(format!("cannot make the store's file in {folder}: {error}"))
            })?)
        }
    })
}
