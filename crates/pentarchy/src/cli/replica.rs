//! `replica`: one replica in the foreground.

use super::args::ReplicaArgs;
use super::data_folder::{data_folder, durability, first_service, usage};
use super::faults::warn_of_door;
use super::joining::{self, Which};
use super::listening::{bind, bind_metrics, no_metrics};
use super::rescue::{Rescuer, Saving};
use pentarchy::config::{ClusterConfig, Durability};
use pentarchy::data::{DATA_FOLDER, identity_of};
use pentarchy::learning::Learned;
use pentarchy::node::{Taken, Trusted};
use pentarchy::{metrics, node};
use pentarchy_console::descriptors;
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_console::patient::read_fault;
use pentarchy_console::say;
use pentarchy_console::stop::stop_signal;
use pentarchy_replica::fault::FaultSwitch;
use pentarchy_replica::{Fatal, Listen};
use signal_hook::consts::SIGUSR1;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

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
    let metrics_listener = args.metrics.map(bind_metrics).transpose()?;
    if args.cold_state && durability(args, &config) == Durability::Memory {
        let what = "--cold-state needs files: start it with --durability sync or async";
        return Err(Failure::Usage(what.to_owned()));
    }
    let Some(which) = joining::as_which(args, config, &stop)? else { return Ok(()) };
    let Which { config, id, listener, data, learned } = which;
    let addresses = node::addresses(&config).map_err(usage)?;
    let own = addresses
        .get(usize::from(id))
        .copied()
        .ok_or_else(|| usage(node::StartError::NoSuchReplica { id, last: addresses.len() - 1 }))?;
    // Names and port before the secrets: what may go better next time must not use up the
    // device's only life.
    let listener = listener.map_or_else(|| bind(args.listen.unwrap_or(own)), Ok)?;
    let listen = Listen::Bound(listener);
    let data = || data.map_or_else(|| data_folder(args, &config), |data| Ok(Some(data)));
    let taken = node::take_secrets(&config, id, &args.keys, data).map_err(usage)?;
    let counter = match &taken.trusted {
        Trusted::Here(_) => None,
        Trusted::Apart(process) => Some(process.clone()),
    };
    let anew = || first_service(args).map(|service| Learned { service, state: None });
    let Learned { service, state: learned } = learned.map_or_else(anew, Ok)?;
    let taken = Taken { learned, ..taken };
    let replica = node::replica(&config, id, taken, addresses, listen, service);
    let mut replica = replica.map_err(usage)?;
    let switch = FaultSwitch::default();
    if let Some(path) = &args.faults {
        warn_of_door(path);
        replica = replica.with_faults(switch.clone());
    }
    if let Some(listener) = metrics_listener {
        metrics::server::serve(listener, replica.watch()).map_err(no_metrics)?;
    }
    let (rescue, rescuer) = (replica.rescue(), rescuer(&config, id, args));
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
fn rescuer(config: &ClusterConfig, id: u16, args: &ReplicaArgs) -> Rescuer {
    let membership = config.membership();
    let member = &membership.members[usize::from(id)];
    let identity = identity_of(membership.group, member);
    let data = args.data.clone().unwrap_or_else(|| args.keys.join(DATA_FOLDER));
    Rescuer { folders: vec![args.keys.clone(), data], identity }
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
