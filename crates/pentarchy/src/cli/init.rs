//! `init`: keys and configuration for a cluster over several hosts.

use super::args::InitArgs;
use super::counter::CounterChoice;
use pentarchy::config::check_address;
use pentarchy::files;
use pentarchy::generate::{GroupOptions, NewCluster, administrator_key_name, gateway_key_name};
use pentarchy::protocols;
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_console::options::GroupArgs;
use pentarchy_console::{complain, say};
use std::collections::BTreeSet;

/// Runs the command.
pub fn run(args: &InitArgs) -> Outcome {
    check_hosts(args)?;
    check_counter(args.counter, &args.group)?;
    warn_of_protocol(&args.group);
    let options = GroupOptions {
        closed: !args.open,
        gateways: usize::from(args.gateways),
        administrators: usize::from(args.administrators),
        durability: args.durability.into(),
        counter: args.counter.into(),
        ..args.group.options()
    };
    let cluster = NewCluster::generate(&args.hosts, &options);
    files::make_private_folder(&args.out)?;
    if let Err(error) = cluster.write(&args.out) {
        // What is there is not whole, and the name is wanted for the next attempt.
        let _ = std::fs::remove_dir_all(&args.out);
        return Err(error.into());
    }
    let out = args.out.display();
    say(&format!("Made a {} cluster of {} in {out}.", args.group.protocol, args.hosts.len()));
    say(match args.open {
        true => "It is open: every client that can reach a replica is served.",
        false => "It is closed: only the clients whose keys were made here are served.",
    });
    say("Copy cluster.toml and one folder to each host, then start there:");
    for (id, host) in args.hosts.iter().enumerate() {
        say(&format!(
            "  {host}: pentarchy replica --config cluster.toml --id {id} --keys replica-{id}"
        ));
    }
    for key in (1..=usize::from(args.gateways)).map(gateway_key_name) {
        say(&format!(
            "  a gateway: pentarchy gateway --config {out}/cluster.toml --key {out}/{key}"
        ));
    }
    say_administrators(args, cluster.config.administrators.threshold);
    say(&format!("  here: pentarchy status --config {out}/cluster.toml --key {out}/client.key"));
    Ok(())
}

/// Where the keys of administrators are to be.
fn say_administrators(args: &InitArgs, needed: u8) {
    let (many, out) = (args.administrators, args.out.display());
    if many == 0 {
        say("It has no administrators: nobody can change it while it runs.");
        return;
    }
    say(&format!(
        "Keep the keys of its administrators apart, and away from these hosts; {needed} of {many} \
         together can change the group:"
    ));
    for key in (1..=usize::from(many)).map(administrator_key_name) {
        say(&format!(
            "  pentarchy members list --config {out}/cluster.toml --admin-key {out}/{key}"
        ));
    }
}

/// Says so if a protocol is chosen that has not proved itself yet, or that does not tolerate liars.
pub fn warn_of_protocol(group: &GroupArgs) {
    let youth = protocols::warning(&group.protocol, group.lane());
    for warning in youth.into_iter().chain(protocols::assumption(&group.protocol)) {
        complain(&warning);
    }
}

/// Whether there are counters to be put there.
pub fn check_counter(place: CounterChoice, group: &GroupArgs) -> Outcome {
    if place == CounterChoice::Process && !protocols::takes_sessions(&group.protocol) {
        return Err(Failure::Usage(format!(
            "{} has no trusted counters: leave --counter out",
            group.protocol
        )));
    }
    Ok(())
}

fn check_hosts(args: &InitArgs) -> Outcome {
    let needed = args.group.replicas()?;
    if args.hosts.len() != needed {
        return Err(Failure::Usage(format!(
            "{} with f = {} needs {needed} replicas; --hosts names {}",
            args.group.protocol,
            args.group.f,
            args.hosts.len()
        )));
    }
    let mut seen = BTreeSet::new();
    for host in &args.hosts {
        check_address(host).map_err(|error| Failure::Usage(format!("--hosts: {error}")))?;
        if !seen.insert(host) {
            return Err(Failure::Usage(format!("--hosts names {host} twice")));
        }
    }
    Ok(())
}
