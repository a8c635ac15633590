//! `members`: what administrators do to a group that runs.

pub mod args;
mod machine;
pub mod prepare;
mod rescue;
pub mod showing;

use super::machines::read_card;
use args::{Altering, Asked, MembersArgs, MembersCommand, Proposing, ReconfigureArgs};
use pentarchy::KeyPair;
use pentarchy::administration::{
    AdministrationError, Administrator, Alteration, Appointment, Switch, Terms, alter, appoint,
    is_made_by, refresh, relocate,
};
use pentarchy::config::{ClusterConfig, check_address};
use pentarchy::generate::administrator_key_name;
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_console::progress::spinner;
use pentarchy_console::say;
use pentarchy_console::status::cluster;
use pentarchy_core::change::{Change, Proposed, Shown, is_pending};
use pentarchy_core::ids::MemberId;
use pentarchy_core::limits::ADMINISTRATORS_MAX;
use serde_json::json;
use showing::{json_of, list, waits_for};
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
            let shown = show(&administrators(asked)?)?;
            say(&if asked.json { json_of(&shown) } else { list(&shown) });
            Ok(())
        }
        MembersCommand::Prepare { address: Some(address), out, .. } => {
            prepare::machine(address, out)
        }
        MembersCommand::Prepare { address: None, out, .. } => prepare::key(out),
        MembersCommand::Add { cards, altering: Altering { f, proposing } } => {
            let mut joins =
                cards.iter().map(|path| read_card(path)).collect::<Outcome<Vec<_>>>()?;
            if joins.is_empty() {
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
            let card = match card {
                Some(path) => read_card(path)?,
                None => machine::new(&proposing.asked)?,
            };
            let (joins, leaves) = ([card], [MemberId(*member)]);
            alter_members(
                &Alteration { joins: &joins, leaves: &leaves, ..Alteration::default() },
                proposing,
            )
        }
        MembersCommand::Refresh(proposing) => {
            propose(proposing, |shown, terms| Ok(refresh(shown, terms)))
        }
        MembersCommand::Move { member, address, proposing } => {
            check_address(address).map_err(Failure::Usage)?;
            propose(proposing, |shown, terms| {
                relocate(shown, MemberId(*member), address, terms)
                    .ok_or_else(|| Failure::Usage(format!("the group has no member {member}")))
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
            change_group(&administrators, chosen(&shown, change)?, asked)
        }
        MembersCommand::Rescue(rescuing) => rescue::run(rescuing),
        MembersCommand::Withdraw(asked) => {
            let administrators = administrators(asked)?;
            let shown = show(&administrators)?;
            let answer = each(&administrators, |it| it.withdraw(&shown, LIMIT))?;
            say(&if asked.json { json!({ "answer": answer }).to_string() } else { answer });
            Ok(())
        }
    }
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
    change_group(&administrators, change(&shown, &terms)?, asked)
}

fn alter_members(wanted: &Alteration<'_>, proposing: &Proposing) -> Outcome {
    propose(proposing, |shown, terms| {
        alter(shown, wanted, terms).map_err(|error| Failure::Usage(error.to_string()))
    })
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
    paths.iter().map(|path| connect(&config, path)).collect()
}

fn connect(config: &ClusterConfig, path: &Path) -> Outcome<Administrator> {
    let keys = KeyPair::load(path).map_err(|error| Failure::Usage(error.to_string()))?;
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
        AdministrationError::NoAdministrator(_) => Failure::Usage(error.to_string()),
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
fn ended_for(error: &AdministrationError, number: u64) -> Outcome {
    if matches!(error, AdministrationError::NoAdministrator(_)) {
        say(&format!("configuration {number} has begun, without these administrators"));
        return Ok(());
    }
    Err(Failure::Unwell(format!(
        "the group does not answer these administrators any more, whom the change removes: ask as \
         another one whether configuration {number} has begun ({error})"
    )))
}

/// Has administrators propose a change, and waits until the group has begun with it.
fn change_group(administrators: &[Administrator], change: Change, asked: &Asked) -> Outcome {
    let number = change.next.number;
    let said = each(administrators, |administrator| administrator.propose(change.clone(), LIMIT))?;
    let (begun, spinner) = (Instant::now(), spinner());
    let mut was_pending = is_pending(said.as_bytes());
    loop {
        let shown = match show_to(administrators) {
            // The group refuses its former administrators.
            Err(error) if was_pending && !administrators.iter().any(|it| it.stays(&change)) => {
                return ended_for(&error, number);
            }
            shown => shown.map_err(unwell)?,
        };
        if shown.configuration.number >= number {
            spinner.finish_and_clear();
            if shown.configuration.number == number && !is_made_by(&shown.configuration, &change) {
                let what = "another change has taken effect: see pentarchy members list";
                return Err(Failure::Unwell(what.to_owned()));
            }
            let text = format!("configuration {number} has begun, in epoch {}", shown.epoch.0);
            say(&if asked.json { json_of(&shown) } else { text });
            return Ok(());
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
            return Err(Failure::Unwell(format!("{what}: {state}")));
        }
        spinner.set_message(state);
        std::thread::sleep(PERIOD);
    }
}
