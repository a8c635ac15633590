//! `replica`: one replica in the foreground.

use super::args::{DiskChoice, ReplicaArgs};
use super::faults::warn_of_door;
use super::rescue::{Rescuer, Saving};
use super::service;
use pentarchy::config::{ClusterConfig, Durability};
use pentarchy::data::{DATA_FOLDER, DataFolder};
use pentarchy::node::Trusted;
use pentarchy::{metrics, node};
use pentarchy_console::descriptors;
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_console::patient::read_fault;
use pentarchy_console::stop::stop_signal;
use pentarchy_console::{complain, say};
use pentarchy_core::ids::ReplicaId;
use pentarchy_replica::fault::FaultSwitch;
use pentarchy_replica::{Fatal, Listen};
use pentarchy_storage::forgetful::Forgetful;
use pentarchy_storage::identity::Identity;
use pentarchy_storage::quota::Quota;
use signal_hook::consts::SIGUSR1;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

/// Syncs of files that a disk does before it only says that it does them.
const HONEST_SYNCS: u64 = 40;

/// What a disk that fills up has room for: a segment of the log, and a few small states.
const ROOM: u64 = 34 << 20;

/// What a replica says that ends because its counter did.
const COUNTER_LOST: &str = "the process of the trusted counter has ended or does not answer; \
    restart the replica, and its counter begins a new incarnation";

/// How often a replica that ended by itself is noticed, and its fault file is read.
const LOOK: Duration = Duration::from_millis(100);

/// Runs the command.
pub fn run(args: &ReplicaArgs) -> Outcome {
    let mut config = ClusterConfig::load(&args.config)?;
    config.log_mib = args.log_mib.unwrap_or(config.log_mib);
    config.counter = args.counter.map_or(config.counter, Into::into);
    let batch_requests = &mut config.tuning.batch_requests;
    *batch_requests = args.batch_requests.unwrap_or(*batch_requests);
    descriptors::raise();
    let stop = stop_signal(args.leash)?;
    // Early, because this signal ends a process that does not expect it.
    let rescue_asked = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGUSR1, rescue_asked.clone())
        .map_err(|error| Failure::Internal(format!("cannot watch for signals: {error}")))?;
    let addresses = node::addresses(&config).map_err(usage)?;
    let own = addresses.get(usize::from(args.id)).copied().ok_or_else(|| {
        usage(node::StartError::NoSuchReplica { id: args.id, last: addresses.len() - 1 })
    })?;
    // Names and port before the secrets: what may go better next time must not use up the
    // device's only life.
    let listen = Listen::Bound(bind(args.listen.unwrap_or(own))?);
    let metrics_listener = args.metrics.map(bind_metrics).transpose()?;
    if args.cold_state && durability(args, &config) == Durability::Memory {
        let what = "--cold-state needs files: start it with --durability sync or async";
        return Err(Failure::Usage(what.to_owned()));
    }
    let data = || data_folder(args, &config);
    let taken = node::take_secrets(&config, args.id, &args.keys, data).map_err(usage)?;
    let counter = match &taken.trusted {
        Trusted::Here(_) => None,
        Trusted::Apart(process) => Some(process.clone()),
    };
    let service = service::new(args.service, args.data.as_ref().unwrap_or(&args.keys))?;
    let replica = node::replica(&config, args.id, taken, addresses, listen, service);
    let mut replica = replica.map_err(usage)?;
    let switch = FaultSwitch::default();
    if let Some(path) = &args.faults {
        warn_of_door(path);
        replica = replica.with_faults(switch.clone());
    }
    if let Some(listener) = metrics_listener {
        metrics::server::serve(listener, replica.watch()).map_err(no_metrics)?;
    }
    let (rescue, rescuer) = (replica.rescue(), rescuer(&config, args));
    let running = replica.spawn().map_err(|error| {
        Failure::Internal(format!("cannot start the replica's thread: {error}"))
    })?;
    let counter_is_well = || counter.as_ref().is_none_or(|process| process.is_well());
    while !running.is_finished() && counter_is_well() {
        match stop.recv_timeout(LOOK) {
            Err(RecvTimeoutError::Timeout) => {
                if let Some(path) = &args.faults {
                    switch.set(read_fault(path));
                }
                if rescue_asked.swap(false, Ordering::Relaxed)
                    && rescuer.save(&rescue, &rescue_asked, &stop) != Saving::Refused
                {
                    break;
                }
            }
            Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let lost = !counter_is_well();
    outcome(running.stop(), lost)
}

/// How the command ends. That the group goes on without this replica is no failure.
fn outcome(ended: Result<(), Fatal>, counter_lost: bool) -> Outcome {
    match ended {
        Err(removed) if removed.is_removal() => {
            say(&format!("{removed}. This process has nothing more to do, and ends"));
            Ok(())
        }
        Err(fatal) => Err(Failure::Internal(fatal.to_string())),
        Ok(()) if counter_lost => Err(Failure::Internal(COUNTER_LOST.to_owned())),
        Ok(()) => Ok(()),
    }
}

/// What writes down what a survivor of a lost group has: beside its keys, or else in its data
/// folder.
fn rescuer(config: &ClusterConfig, args: &ReplicaArgs) -> Rescuer {
    let membership = config.membership();
    let incarnation = membership.members[usize::from(args.id)].incarnation;
    let identity = Identity { group: membership.group, replica: ReplicaId(args.id), incarnation };
    let data = args.data.clone().unwrap_or_else(|| args.keys.join(DATA_FOLDER));
    Rescuer { folders: vec![args.keys.clone(), data], identity }
}

fn durability(args: &ReplicaArgs, config: &ClusterConfig) -> Durability {
    args.durability.map_or(config.durability, Into::into)
}

/// The folder in which this replica keeps what it says, if it does.
fn data_folder(
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

fn bind(address: SocketAddr) -> Outcome<TcpListener> {
    TcpListener::bind(address).map_err(|error| {
        Failure::Usage(format!("cannot listen on {address}: {error}; name another with --listen"))
    })
}

/// Takes the port for metrics, before anything that cannot be taken back.
pub fn bind_metrics(address: SocketAddr) -> Outcome<TcpListener> {
    TcpListener::bind(address).map_err(|error| {
        Failure::Usage(format!("cannot serve metrics on {address}: {error}; name another port"))
    })
}

/// Metrics cannot be served although the port was there.
pub fn no_metrics(error: std::io::Error) -> Failure {
    Failure::Internal(format!("cannot serve metrics: {error}"))
}

fn usage(error: node::StartError) -> Failure {
    Failure::Usage(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pentarchy_core::ids::{Epoch, Slot};
    use pentarchy_replica::Halt;

    #[test]
    fn a_replica_that_was_removed_ends_well() {
        let code = |ended: Result<(), Fatal>, lost| {
            outcome(ended, lost).err().map_or(0, |failure| failure.code())
        };
        let removed = || Err(Halt::Removed(Epoch(3)).into());
        assert_eq!((code(removed(), false), code(removed(), true)), (0, 0));
        assert_eq!((code(Ok(()), false), code(Ok(()), true)), (0, 3));
        assert_eq!(code(Err(Halt::Install(Slot(3)).into()), false), 3);
    }
}
