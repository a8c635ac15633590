//! Where a replica that is run in the foreground keeps what it says, and what it replicates.

use super::args::{DiskChoice, ReplicaArgs};
use super::service;
use pentarchy::Service;
use pentarchy::config::{ClusterConfig, Durability};
use pentarchy::data::{DATA_FOLDER, DataFolder};
use pentarchy::node;
use pentarchy_console::complain;
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_storage::forgetful::Forgetful;
use pentarchy_storage::quota::Quota;

/// Syncs of files that a disk does before it only says that it does them.
const HONEST_SYNCS: u64 = 40;

/// What a disk that fills up has room for: a segment of the log, and a few small states.
const ROOM: u64 = 34 << 20;

/// What outlives the process.
pub fn durability(args: &ReplicaArgs, config: &ClusterConfig) -> Durability {
    args.durability.map_or(config.durability, Into::into)
}

/// The folder in which this replica keeps what it says, if it does.
pub fn data_folder(
    args: &ReplicaArgs,
    config: &ClusterConfig,
) -> Result<Option<DataFolder>, node::StartError> {
    let durability = durability(args, config);
    if durability == Durability::Memory {
        return Ok(None);
    }
    let path = args.data.clone().unwrap_or_else(|| args.keys.join(DATA_FOLDER));
    let folder = DataFolder::open(&path)?.with_cold_state(args.cold_state);
    if durability == Durability::Async {
        return Ok(Some(folder.only_states()));
    }
    let Some(disk) = args.disk else { return Ok(Some(folder)) };
    complain("this replica uses a faulty disk for tests; without --disk its data is durable");
    let folder = folder.with_files(|files| {
        Ok(match disk {
            DiskChoice::Forgets => Box::new(Forgetful::new(files)?),
            DiskChoice::Lies => Box::new(Forgetful::lying_after(files, HONEST_SYNCS)?),
            DiskChoice::Fills => Box::new(Quota::new(files, ROOM)),
        })
    });
    Ok(Some(folder?))
}

/// The service of this replica, in its first state.
pub fn first_service(args: &ReplicaArgs) -> Outcome<Box<dyn Service>> {
    service::new(args.service, args.data.as_ref().unwrap_or(&args.keys))
}

/// What a replica cannot be started with is for whoever starts it to mend.
pub fn usage(error: node::StartError) -> Failure {
    Failure::Usage(error.to_string())
}
