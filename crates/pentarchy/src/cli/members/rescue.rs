//! `members rescue`: administrators have a group that was lost go on, on other machines, from a
//! state that was saved.

use super::args::Rescuing;
use super::showing::table_of;
use crate::cli::backup::load;
use crate::cli::machines::read_card;
use pentarchy::KeyPair;
use pentarchy::chain_file;
use pentarchy::config::{ClusterConfig, Durability};
use pentarchy::following::Follower;
use pentarchy::rescue;
use pentarchy_console::complain;
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_console::progress::spinner;
use pentarchy_console::say;
use pentarchy_core::epochs::{Proof, Witnesses};
use pentarchy_core::snapshot::Snapshot;
use serde_json::json;
use std::net::ToSocketAddrs as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long the group's replicas have to show that they run.
const LISTEN: Duration = Duration::from_secs(3);

/// Where nobody answers: for a machine whose name is gone.
const NOBODY: &str = "127.0.0.1:9";

/// Runs the command.
pub fn run(args: &Rescuing) -> Outcome {
    let config = ClusterConfig::load_present(&args.config)?;
    let keys = args.admin_key.iter().map(|path| KeyPair::load(path));
    let keys = keys.collect::<Result<Vec<_>, _>>();
    let keys = keys.map_err(|error| Failure::Usage(error.to_string()))?;
    let usage = |error: rescue::CannotRescue| Failure::Usage(error.to_string());
    let saved = args.state.as_deref().map(load).transpose()?.map(|backup| backup.snapshot);
    let mut link = match &args.sign {
        Some(path) => unfinished(path)?,
        None => {
            let state = saved.as_ref().expect("there is one unless there is something to sign");
            begin(args, &config, state)?
        }
    };
    rescue::check(&config, &link).map_err(usage)?;
    if let (Some(state), true) = (&saved, args.sign.is_some()) {
        rescue::compare(&link, state).map_err(usage)?;
    }
    let Some(first) = keys.first() else {
        say(&format!(
            "{}\n\nNothing is signed: give --admin-key to sign this.",
            said(&link, saved.as_ref())
        ));
        return Ok(());
    };
    check_silence(&config, first)?;
    for key in &keys {
        rescue::sign(&config, &mut link, key).map_err(usage)?;
    }
    let lacks = rescue::lacks(&config, &link);
    let written = if lacks > 0 {
        let path = args.config.with_extension("rescue");
        chain_file::write(&path, std::slice::from_ref(&link))?;
        path
    } else {
        let led = config.follow(std::slice::from_ref(&link));
        let led = led.map_err(|error| Failure::Internal(error.to_string()))?;
        let path = chain_file::beside(&args.config);
        led.write_chain(&path)?;
        path
    };
    report(args, &config, (&link, saved.as_ref()), (lacks, &written));
    Ok(())
}

/// What the administrators are to sign.
fn begin(args: &Rescuing, config: &ClusterConfig, state: &Snapshot) -> Outcome<Proof> {
    let cards = args.card.iter().map(|path| read_card(path)).collect::<Outcome<Vec<_>>>()?;
    rescue::rescue(config, state, &cards, args.f).map_err(|error| Failure::Usage(error.to_string()))
}

/// What another administrator has signed.
fn unfinished(path: &Path) -> Outcome<Proof> {
    match &chain_file::read(path)?[..] {
        [link] if link.by == Witnesses::Administrators => Ok(link.clone()),
        _ => Err(Failure::Usage(format!(
            "{}: that is not what another administrator's `members rescue` has written",
            path.display()
        ))),
    }
}

/// No replica of the group may run: it may go on by itself, and others would go on without it.
fn check_silence(config: &ClusterConfig, key: &KeyPair) -> Outcome {
    let failed = |error: pentarchy::node::StartError| Failure::Usage(error.to_string());
    let mut reachable = config.clone();
    for replica in &mut reachable.replicas {
        if let Err(error) = replica.address.to_socket_addrs() {
            complain(&format!("{}: {error}; it is taken for gone", replica.address));
            NOBODY.clone_into(&mut replica.address);
        }
    }
    let mut follower = Follower::new(reachable, key.clone()).map_err(failed)?;
    let (begun, spinner) = (Instant::now(), spinner());
    spinner.set_message("listens whether a replica of the group still runs");
    while begun.elapsed() < LISTEN {
        let said = follower.ask(|_| true).map_err(failed)?;
        let number = follower.config().number();
        if number > config.number() {
            return Err(Failure::Unwell(format!(
                "the group still runs: it is in configuration {number}, of which cluster.chain \
                 does not tell yet. See `pentarchy status`"
            )));
        }
        if let Some(running) = said.keys().next() {
            let address = &config.replicas[usize::from(running.0)].address;
            return Err(Failure::Unwell(format!(
                "the group still runs: the replica at {address} answers. If the group is lost, \
                 save what that replica has, and stop it; then what others have, and come again. \
                 If it is not, it needs no rescue: see `pentarchy status`"
            )));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    spinner.finish_and_clear();
    Ok(())
}

/// How the group would go on, for who is to sign it.
fn said(link: &Proof, saved: Option<&Snapshot>) -> String {
    let next = link.next.as_ref().expect("administrators name one");
    let (slot, state) = (link.handover.base.slot.0, hex::encode(link.handover.base.state.0));
    // The group's own digest names the configuration, too; `snapshot verify` tells this one.
    let saved = saved.map_or_else(String::new, |saved| {
        format!("saved state {} of slot {}\n", hex::encode(saved.digest.0), saved.slot.0)
    });
    format!(
        "configuration {}, {} with f = {}, goes on from slot {slot}, with the state {state}\n\
         {saved}digest {}\n\n{}\n\
         The group loses what replicas acknowledged behind that slot.",
        next.number,
        next.protocol,
        next.f,
        hex::encode(next.digest().0),
        table_of(next)
    )
}

fn report(
    args: &Rescuing,
    old: &ClusterConfig,
    (link, saved): (&Proof, Option<&Snapshot>),
    (lacks, written): (usize, &PathBuf),
) {
    let next = link.next.as_ref().expect("administrators name one");
    if args.json {
        let (slot, state) = (link.handover.base.slot.0, hex::encode(link.handover.base.state.0));
        let digest = hex::encode(next.digest().0);
        let it = json!({
            "configuration": next.number, "digest": digest, "slot": slot, "state": state,
            "signatures": link.signatures.len(), "lacks": lacks, "wrote": written,
        });
        say(&it.to_string());
        return;
    }
    let (config, written) = (args.config.display(), written.display());
    let head = said(link, saved) + "\n";
    // Only so does a machine begin with what is in its folder.
    let durability = if old.durability == Durability::Sync { "" } else { " --durability sync" };
    say(&if lacks > 0 {
        format!(
            "{head}\nwrote {written}: signatures that it lacks: {lacks}. Bring it to other \
             administrators, with the saved state, {config} and cluster.chain if there is one. \
             They compare the state and the cards, and run\n  \
             pentarchy members rescue --sign {written} STATE --config {config} --admin-key KEY"
        )
    } else {
        format!(
            "{head}\nwrote {written}. Copy it with {config} and the saved state to each of these \
             machines, and run there, with the folder of the keys for which its card was made:\n  \
             pentarchy snapshot restore STATE --config {config} --keys KEYS\n  \
             pentarchy replica --join --config {config} --keys KEYS{durability}\n\
             Then copy {written} beside the {config} of each client and gateway, and start these \
             again."
        )
    });
}
