//! `members`: what administrators do to a group that runs.

pub mod args;
mod erasing;
mod machine;
pub mod prepare;
mod rescue;
pub mod showing;

use super::machines::read_card;
use args::{Altering, Asked, MembersArgs, MembersCommand, Proposing, ReconfigureArgs};
use erasing::Erasing;
use indicatif::ProgressBar;
use pentarchy::KeyPair;
use pentarchy::administration::{
    AdministrationError, Administrator, Alteration, Appointment, Switch, Terms, alter, appoint,
    is_made_by, refresh, relocate,
};
use pentarchy::config::{ClusterConfig, check_address};
use pentarchy::generate::{NewMember, administrator_key_name};
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_console::progress::spinner;
use pentarchy_console::say;
use pentarchy_console::status::cluster;
use pentarchy_core::change::{ANOTHER_PENDING, Change, Proposed, Shown, is_pending};
use pentarchy_core::configuration::{Access, Configuration};
use pentarchy_core::ids::MemberId;
use pentarchy_core::limits::ADMINISTRATORS_MAX;
use serde_json::json;
use showing::{json_of, list, waits_for};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

/// Between two questions how far a change is. Each is an ordered request, which in an idle group
/// lets the agreed time pass.
const PERIOD: Duration = Duration::from_millis(500);

/// Digits of a change's digest that are shown to people.
pub const DIGITS: usize = 32;

/// How long the group may take to answer one of them.
const LIMIT: Duration = Duration::from_secs(10);

/// Runs the command.
pub fn run(args: &MembersArgs) -> Outcome {
    match &args.command {
        MembersCommand::List(asked) => {
            let administrators = administrators(asked)?;
            let shown = show(&administrators)?;
            let erasing = Erasing::look(&administrators, &shown);
            let is_json = asked.json;
            say(&if is_json { json_of(&shown, &erasing) } else { list(&shown, &erasing) });
            Ok(())
        }
        MembersCommand::Prepare { address: Some(address), config: Some(config), out, .. } => {
            prepare::machine(config, address, out)
        }
        MembersCommand::Prepare { out, .. } => prepare::key(out),
        MembersCommand::Add { cards, altering: Altering { f, proposing } } => {
            let mut joins =
                cards.iter().map(|path| read_card(path)).collect::<Outcome<Vec<_>>>()?;
            if joins.is_empty() {
                foresee(proposing, &Alteration { f: *f, ..Alteration::default() })?;
                joins.push(machine::new(&proposing.asked)?);
            }
            alter_members(&Alteration { joins: &joins, f: *f, ..Alteration::default() }, proposing)
        }
        MembersCommand::Remove { members, altering: Altering { f, proposing } } => {
            let leaves: Vec<_> = members.iter().copied().map(MemberId).collect();
            alter_members(
                &Alteration { leaves: &leaves, f: *f, ..Alteration::default() },
                proposing,
            )
        }
        MembersCommand::Replace { member, card, proposing } => {
            replace(MemberId(*member), card.as_deref(), proposing)
        }
        MembersCommand::Refresh(proposing) => {
            propose(proposing, |shown, terms| Ok(refresh(shown, terms)))
        }
        MembersCommand::Move { member, address, proposing } => {
            check_address(address).map_err(Failure::Usage)?;
            propose(proposing, |shown, terms| {
                relocate(shown, MemberId(*member), address, terms)
                    .map_err(|error| Failure::Usage(error.to_string()))
            })
        }
        MembersCommand::Appoint { add, remove, agree, proposing } => {
            let wanted = Appointment { joins: add, leaves: remove, threshold: *agree };
            propose(proposing, |shown, terms| {
                appoint(shown, &wanted, terms).map_err(|error| Failure::Usage(error.to_string()))
            })
        }
        MembersCommand::Approve { change, asked } => {
            let administrators = administrators(asked)?;
            let shown = show(&administrators)?;
            change_group(administrators, &shown, chosen(&shown, change)?, asked)
        }
        MembersCommand::Rescue(rescuing) => rescue::run(rescuing),
        MembersCommand::Withdraw(asked) => withdraw(asked),
    }
}

fn withdraw(asked: &Asked) -> Outcome {
    let administrators = administrators(asked)?;
    let shown = show(&administrators)?;
    let administrators = present(administrators, &shown, asked)?;
    let answer = each(&administrators, |it| it.withdraw(&shown, LIMIT))?;
    say(&if asked.json { json!({ "answer": answer }).to_string() } else { answer });
    Ok(())
}

/// A machine takes a member's place; with `up`, a new one if none is named.
fn replace(member: MemberId, card: Option<&Path>, proposing: &Proposing) -> Outcome {
    let leaves = [member];
    let card = match card {
        Some(path) => read_card(path)?,
        None => {
            foresee(proposing, &Alteration { leaves: &leaves, ..Alteration::default() })?;
            machine::new(&proposing.asked)?
        }
    };
    let wanted = Alteration { joins: &[card], leaves: &leaves, ..Alteration::default() };
    alter_members(&wanted, proposing)
}

/// Runs `reconfigure`.
pub fn reconfigure(args: &ReconfigureArgs) -> Outcome {
    let Altering { f, proposing } = &args.altering;
    let asked = &proposing.asked;
    let (config, _) = cluster(asked.config.as_deref(), &asked.data)?;
    let joins = args.add.iter().map(|path| read_card(path)).collect::<Outcome<Vec<_>>>()?;
    let leaves: Vec<_> = args.remove.iter().copied().map(MemberId).collect();
    let session_key = config.session_key.filter(|_| !args.without_sessions);
    let switch = args.protocol.as_deref().map(|protocol| Switch { protocol, session_key });
    alter_members(&Alteration { joins: &joins, leaves: &leaves, f: *f, switch }, proposing)
}

/// Proposes a change of the group as it is, and waits until it has begun.
pub(super) fn propose(
    Proposing { asked, expires }: &Proposing,
    change: impl FnOnce(&Shown, &Terms) -> Outcome<Change>,
) -> Outcome {
    let (config, _) = cluster(asked.config.as_deref(), &asked.data)?;
    let administrators = administrators(asked)?;
    let shown = show(&administrators)?;
    let terms = Terms { expires: Duration::from_secs(60 * expires), counter: config.counter };
    let change = change(&shown, &terms)?;
    change_group(administrators, &shown, change, asked)
}

fn alter_members(wanted: &Alteration<'_>, proposing: &Proposing) -> Outcome {
    propose(proposing, |shown, terms| {
        alter(shown, wanted, terms).map_err(|error| Failure::Usage(error.to_string()))
    })
}

/// Looks whether that can be altered and one more machine join, before one is started.
fn foresee(proposing: &Proposing, wanted: &Alteration<'_>) -> Outcome {
    let asked = &proposing.asked;
    if asked.config.is_some() {
        // Nobody starts one there.
        return Ok(());
    }
    let (config, _) = cluster(None, &asked.data)?;
    let unused = NewMember::generate(config.group, "unused:1").expect("an address");
    let administrators = administrators(asked)?;
    let shown = show(&administrators)?;
    present(administrators, &shown, asked)?;
    if shown.pending.is_some() {
        return Err(Failure::Unwell(ANOTHER_PENDING.to_owned()));
    }
    let terms = Terms { counter: config.counter, ..Terms::new(Duration::from_secs(60)) };
    let joins = [unused.card().clone()];
    match alter(&shown, &Alteration { joins: &joins, ..*wanted }, &terms) {
        Ok(_) => Ok(()),
        Err(error) => Err(Failure::Usage(error.to_string())),
    }
}

/// Those that the group has. All that were named have to be: otherwise some would propose what
/// others cannot. The group may have replaced some of those whose keys are beside the
/// configuration.
fn present(
    mut administrators: Vec<Administrator>,
    shown: &Shown,
    asked: &Asked,
) -> Outcome<Vec<Administrator>> {
    let known = &shown.configuration.administrators.keys;
    if asked.admin_key.is_empty() {
        administrators.retain(|it| known.contains(&it.key()));
    }
    match administrators.iter().find(|it| !known.contains(&it.key())) {
        Some(unknown) => Err(Failure::Usage(format!(
            "the key {} is no administrator's of the group",
            hex::encode(unknown.key())
        ))),
        None => Ok(administrators),
    }
}

/// The proposal whose digest begins like that. Whoever approves one says which: another
/// administrator may have replaced it meanwhile.
fn chosen(shown: &Shown, digest: &str) -> Outcome<Change> {
    let named = |it: &&Proposed| hex::encode(it.change.digest().0).starts_with(digest);
    let found: Vec<_> = shown.proposed.iter().filter(named).collect();
    match found[..] {
        [proposed] => Ok(proposed.change.clone()),
        [] => Err(Failure::Unwell(format!(
            "no proposal that waits for other administrators has a digest that begins with {digest}"
        ))),
        _ => Err(Failure::Usage(format!("several digests begin with {digest}: give more of it"))),
    }
}

/// The administrators whose keys were given, or are beside the configuration of `up`.
pub(super) fn administrators(asked: &Asked) -> Outcome<Vec<Administrator>> {
    let (config, _) = cluster(asked.config.as_deref(), &asked.data)?;
    let mut paths = asked.admin_key.clone();
    if paths.is_empty() && asked.config.is_none() {
        let beside = (1..=ADMINISTRATORS_MAX).map(administrator_key_name);
        paths = beside.map(|name| asked.data.join(name)).filter(|path| path.exists()).collect();
    }
    if paths.is_empty() {
        let why = match config.administrators.keys.is_empty() {
            true => "this group has no administrators: its cluster.toml names none",
            false => "give an administrator's key: --admin-key admin-1.key",
        };
        return Err(Failure::Usage(why.to_owned()));
    }
    let administrators = paths.iter().map(|path| connect(&config, path));
    let administrators = administrators.collect::<Outcome<Vec<_>>>()?;
    let keys: BTreeSet<_> = administrators.iter().map(Administrator::key).collect();
    if keys.len() < administrators.len() {
        return Err(Failure::Usage("the same administrator's key was given twice".to_owned()));
    }
    Ok(administrators)
}

fn connect(config: &ClusterConfig, path: &Path) -> Outcome<Administrator> {
    let keys = KeyPair::load(path).map_err(|error| Failure::Usage(error.to_string()))?;
    let is_client = matches!(&config.access, Access::Only(ids) if ids.contains(&keys.client_id()));
    if is_client && !config.administrators.keys.contains(&keys.public()) {
        // The replicas would serve this command from now on, and nobody else with the key.
        let what = "is the key of a client or a gateway, not of an administrator";
        return Err(Failure::Usage(format!("{} {what}", path.display())));
    }
    Administrator::connect(config, keys).map_err(|error| Failure::Usage(error.to_string()))
}

/// What the group says to the first of them that it knows.
pub(super) fn show(administrators: &[Administrator]) -> Outcome<Shown> {
    show_to(administrators).map_err(unwell)
}

fn show_to(administrators: &[Administrator]) -> Result<Shown, AdministrationError> {
    let (first, others) = administrators.split_first().expect("there is one at least");
    first
        .show(LIMIT)
        .or_else(|error| others.iter().find_map(|other| other.show(LIMIT).ok()).ok_or(error))
}

fn unwell(error: AdministrationError) -> Failure {
    match error {
        AdministrationError::NoAdministrator(_) | AdministrationError::Unknown => {
            Failure::Usage(error.to_string())
        }
        _ => Failure::Unwell(error.to_string()),
    }
}

/// Each administrator says it, in turn. One that comes too late for that has no part in it. Gives
/// what the group said last.
fn each(
    administrators: &[Administrator],
    mut says: impl FnMut(&Administrator) -> Result<String, AdministrationError>,
) -> Outcome<String> {
    let (mut said, mut refused) = (None, None);
    for administrator in administrators {
        match says(administrator) {
            Ok(answer) => said = Some(answer),
            Err(AdministrationError::Refused(why)) => refused = Some(why),
            Err(error) => return Err(unwell(error)),
        }
    }
    match (said, refused) {
        (Some(answer), _) => Ok(answer),
        (None, why) => {
            let why = AdministrationError::Refused(why.unwrap_or_default());
            Err(Failure::Unwell(why.to_string()))
        }
    }
}

/// What a change comes to that removes all who asked for it.
fn ended_for(error: &AdministrationError, was_pending: bool, number: u64, json: bool) -> Outcome {
    let is_refused = |it: &AdministrationError| {
        matches!(it, AdministrationError::NoAdministrator(_) | AdministrationError::Unknown)
    };
    if was_pending && is_refused(error) {
        let text = format!(
            "configuration {number} has begun, without these administrators; `pentarchy status` \
             shows which\nmembers still have former keys"
        );
        say(&if json { json!({ "configuration": number }).to_string() } else { text });
        return Ok(());
    }
    Err(Failure::Unwell(format!(
        "the group does not answer these administrators any more, whom the change removes: ask as \
         another one whether configuration {number} has begun ({error})"
    )))
}

/// Waits until the members of a group that has begun with a change have erased their former keys,
/// or do not for too long, and says which have.
fn say_begun(
    administrators: &[Administrator],
    (before, shown, change): (&Configuration, &Shown, &Change),
    asked: &Asked,
    spinner: &ProgressBar,
) -> Outcome {
    let (number, present) = (change.next.number, &shown.configuration);
    if present.number == number && !is_made_by(present, change) {
        spinner.finish_and_clear();
        let what = "another change has taken effect: see pentarchy members list";
        return Err(Failure::Unwell(what.to_owned()));
    }
    let erasing = Erasing::wait(administrators, before, shown, spinner);
    spinner.finish_and_clear();
    say(&if asked.json {
        json_of(shown, &erasing)
    } else {
        let epoch = shown.epoch.0;
        format!("configuration {number} has begun, in epoch {epoch}\n{}", erasing.text())
    });
    Ok(())
}

/// Has administrators propose a change, and waits until the group has begun with it.
fn change_group(
    administrators: Vec<Administrator>,
    shown: &Shown,
    change: Change,
    asked: &Asked,
) -> Outcome {
    let (number, before) = (change.next.number, &shown.configuration);
    let mut administrators = present(administrators, shown, asked)?;
    let said = each(&administrators, |administrator| administrator.propose(change.clone(), LIMIT))?;
    let (begun, spinner) = (Instant::now(), spinner());
    let mut was_pending = is_pending(said.as_bytes());
    let stays = administrators.iter().any(|it| it.stays(&change));
    let mut is_fresh = false;
    loop {
        let shown = match show_to(&administrators) {
            // Another command may have used the key meanwhile.
            Err(AdministrationError::Unknown) if !std::mem::replace(&mut is_fresh, true) => {
                administrators.clear();
                administrators = self::administrators(asked)?;
                continue;
            }
            // The group refuses its former administrators.
            Err(error) if !stays => return ended_for(&error, was_pending, number, asked.json),
            shown => shown.map_err(unwell)?,
        };
        is_fresh = false;
        if shown.configuration.number >= number {
            return say_begun(&administrators, (before, &shown, &change), asked, &spinner);
        }
        let state = match &shown.pending {
            Some(pending) if pending.change == change => waits_for(pending),
            None if shown.proposed.iter().any(|proposed| proposed.change == change) => {
                let digest = hex::encode(change.digest().0);
                format!(
                    "others have to approve it: pentarchy members approve {}",
                    &digest[..DIGITS]
                )
            }
            Some(_) => return Err(Failure::Unwell("another change is pending now".to_owned())),
            None => {
                let what = "the change expired, was withdrawn, or made way for another one";
                return Err(Failure::Unwell(what.to_owned()));
            }
        };
        was_pending |= shown.pending.is_some();
        if begun.elapsed() > Duration::from_secs(asked.wait) {
            // The group goes on with it all the same.
            let what = if was_pending { "it is pending still" } else { "it is not pending yet" };
            if asked.json {
                let state = if was_pending { "pending" } else { "proposed" };
                let change = hex::encode(change.digest().0);
                say(&json!({ "state": state, "change": change, "number": number }).to_string());
            }
            return Err(Failure::Unwell(format!("{what}: {state}")));
        }
        spinner.set_message(state);
        std::thread::sleep(PERIOD);
    }
}
