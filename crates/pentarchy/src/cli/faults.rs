//! `break` and `heal`: what can go wrong with a replica of a local cluster, on command.

use super::args::{BreakArgs, HealArgs};
use pentarchy_cluster::config::{ClusterConfig, Durability};
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_console::patient::{Harm, Patient};
use pentarchy_console::{complain, folder, say};
use std::path::Path;
use std::time::Instant;

/// `break`.
pub fn break_replica(args: &BreakArgs) -> Outcome {
    let patient = Patient::of(&args.data)?;
    let broken = patient.broken();
    let others = broken.iter().filter(|id| **id != args.replica).count();
    if others >= patient.config().f && !args.anyway {
        let names: Vec<String> = broken.iter().map(u32::to_string).collect();
        let (are, them) = match &names[..] {
            [name] => (format!("replica {name} is"), "it"),
            names => (format!("replicas {} are", names.join(" and ")), "them"),
        };
        return Err(Failure::Usage(format!(
            "{are} broken already, and the group tolerates {}; heal {them} first: pentarchy heal \
             {}{}, or see what happens with --anyway",
            patient.config().f,
            names.join(" "),
            folder::option(&args.data)
        )));
    }
    warn_before(patient.config(), args.replica, args.what.harm(), others + 1);
    patient.harm(args.replica, args.what.harm())?;
    let (id, done) = (args.replica, args.what.done(patient.config().durability));
    let data = folder::option(&args.data);
    say(&format!(
        "Replica {id} {done}. Watch: pentarchy status{data}. Undo: pentarchy heal {id}{data}"
    ));
    Ok(())
}

/// `heal`.
pub fn heal_replicas(args: &HealArgs) -> Outcome {
    let patient = Patient::of(&args.data)?;
    let replicas = if args.replicas.is_empty() { patient.broken() } else { args.replicas.clone() };
    if replicas.is_empty() {
        say("No replica is broken.");
    }
    for id in replicas {
        let begun = Instant::now();
        let replica = patient.heal(id)?;
        let took = begun.elapsed().as_secs_f32();
        let epoch = replica.known.epoch;
        say(&format!("Replica {id} caught up in {took:.1} s, in epoch {epoch}."));
    }
    Ok(())
}

/// Says what more faults than the group tolerates do to it.
fn warn_before(config: &ClusterConfig, id: u32, harm: Harm, broken: usize) {
    if broken <= config.f {
        return;
    }
    let (f, n) = (config.f, config.replicas.len());
    let forgets = config.durability != Durability::Sync;
    complain(&if harm == Harm::Kill && forgets {
        format!(
            "warning: with replica {id}, {broken} of {n} replicas are broken, and the group \
             tolerates {f}. A killed replica has forgotten the votes that it sent: if more than \
             {f} of them have, this group can never go on, and `heal` does not help"
        )
    } else {
        format!(
            "warning: with replica {id}, {broken} of {n} replicas are broken, and the group \
             tolerates {f}: it stands still until enough of them are healed"
        )
    });
}

/// Warns on stderr that anyone who can write the file controls this replica's faults.
pub fn warn_of_door(path: &Path) {
    complain(&format!(
        "anyone who can write {} controls this replica's faults; start it without --faults",
        path.display()
    ));
}
