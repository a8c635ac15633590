//! From a line of text to what happens in the scene.

use super::FindProtocol;
use super::scene::{Scene, Side, Wanted};
use pentarchy_core::ids::ReplicaId;
use pentarchy_core::limits::WINDOW_SLOTS;
use pentarchy_core::protocol::Tuning;

/// Machines of a trace, at most.
const MACHINES_MAX: u64 = 16;

/// By how much clocks go on at once, at most: a century.
const ADVANCE_MS_MAX: u64 = 100 * 365 * 24 * 60 * 60 * 1_000;

/// Carries out one command and gives what it prints.
pub fn run<'a>(
    line: &str,
    scene: &mut Option<Scene<'a>>,
    find: &FindProtocol<'a>,
) -> Result<String, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    if let ["group", name, options @ ..] = words.as_slice() {
        let started = start(name, options, find)?;
        let opened = started.opening();
        *scene = Some(started);
        return Ok(opened);
    }
    let scene = scene.as_mut().ok_or("the first command must be `group`")?;
    match words.as_slice() {
        ["request", client, ..] => {
            let (operation, rest) = quoted(line)?;
            let to = targets(scene, rest)?;
            scene.request(client_index(client)?, operation, &to);
        }
        ["again", client, number, rest @ ..] => {
            let number = number.parse().map_err(|_| format!("{number} is no number"))?;
            let to = targets(scene, &rest.join(" "))?;
            scene.again(client_index(client)?, number, &to)?;
        }
        ["stabilize"] => scene.stabilize()?,
        ["deliver", from, to, text @ ..] => {
            scene.deliver(&side(scene, from)?, &side(scene, to)?, &text.join(" "))?;
        }
        ["drop", from, to, text @ ..] => {
            scene.lose(&side(scene, from)?, &side(scene, to)?, &text.join(" "))?;
        }
        ["pending"] => scene.print_pending(),
        ["round", id] => scene.round(replica(scene, id)?),
        ["fire", id] => scene.fire(replica(scene, id)?, None)?,
        ["fire", id, kind] => {
            let kind = kind.parse().map_err(|_| format!("{kind} is no kind of timer"))?;
            scene.fire(replica(scene, id)?, Some(kind))?;
        }
        ["timers"] => scene.print_timers(),
        ["advance", millis] => {
            let time: Option<u64> = millis.parse().ok();
            let time = time.filter(|time| *time <= ADVANCE_MS_MAX);
            scene.advance(time.ok_or_else(|| format!("{millis} is no time, or too long"))?);
        }
        ["crash", id] => scene.crash(replica(scene, id)?),
        ["propose", administrator, wanted @ ..] => {
            scene.propose(administrator, &change(wanted)?)?;
        }
        ["ready", id] => scene.ready(machine(id)?)?,
        ["join", id] => scene.join(machine(id)?)?,
        ["partition", sides @ ..] => {
            let (left, right) = sides.join(" ").split_once('|').map_or_else(
                || Err("a partition has two sides with | between them".to_owned()),
                |(left, right)| Ok((left.to_owned(), right.to_owned())),
            )?;
            let ids = |side: &str| -> Result<Vec<ReplicaId>, String> {
                side.split_whitespace().map(|id| replica(scene, id)).collect()
            };
            let (left, right) = (ids(&left)?, ids(&right)?);
            scene.partition(&left, &right);
        }
        ["heal"] => scene.heal(),
        ["status"] => scene.print_status(),
        _ => return Err(format!("no such command: {line}")),
    }
    Ok(scene.printed())
}

fn start<'a>(name: &str, options: &[&str], find: &FindProtocol<'a>) -> Result<Scene<'a>, String> {
    let protocol = find(name).ok_or_else(|| format!("no protocol is called {name}"))?;
    let (mut n, mut machines) = (protocol.rules.replicas(1) as u64, None);
    let mut tuning = Tuning { checkpoint_slots: 4, window_slots: 8, ..Tuning::default() };
    for option in options {
        let (key, value) =
            option.split_once('=').ok_or_else(|| format!("{option} has no value"))?;
        let value: u64 = value.parse().map_err(|_| format!("{value} is no number"))?;
        match key {
            "n" => n = value,
            "machines" => machines = Some(value),
            "checkpoint" => tuning.checkpoint_slots = value,
            "window" => tuning.window_slots = value,
            "batch" => tuning.batch_requests = value as usize,
            "in_flight" => tuning.proposals_in_flight = value,
            _ => return Err(format!("no such option: {key}")),
        }
    }
    if machines.is_some() && !protocol.rules.tolerates_faults() {
        return Err(format!("a group of {name} has no members to spare, so it cannot change"));
    }
    let has_places = (n..=MACHINES_MAX).contains(&machines.unwrap_or(n));
    if n == 0 || !has_places {
        return Err(format!("a trace has 1 to {MACHINES_MAX} replicas, and machines for all"));
    }
    let (checkpoint, window) = (tuning.checkpoint_slots, tuning.window_slots);
    let fits = checkpoint > 0 && window.is_multiple_of(checkpoint) && window / checkpoint > 1;
    if !fits || window > WINDOW_SLOTS {
        return Err(format!(
            "a window is two or more checkpoints long, up to {WINDOW_SLOTS} slots"
        ));
    }
    if tuning.batch_requests == 0 || tuning.proposals_in_flight == 0 {
        return Err("batch and in_flight are at least 1".to_owned());
    }
    Ok(Scene::new(&protocol, n as usize, machines.map(|count| count as usize), tuning))
}

/// What administrators propose.
fn change(words: &[&str]) -> Result<Wanted, String> {
    match words {
        ["renew"] => Ok(Wanted::Renew),
        ["add", id] => Ok(Wanted::Add(machine(id)?)),
        ["remove", id] => Ok(Wanted::Remove(machine(id)?)),
        ["replace", id, by] => Ok(Wanted::Replace(machine(id)?, machine(by)?)),
        ["switch", name] => Ok(Wanted::Switch((*name).to_owned())),
        _ => Err(format!("no such change: {}", words.join(" "))),
    }
}

fn quoted(line: &str) -> Result<(&str, &str), String> {
    let missing = || "the operation stands between quotation marks".to_owned();
    let (_, after) = line.split_once('"').ok_or_else(missing)?;
    after.split_once('"').ok_or_else(missing)
}

fn targets(scene: &Scene<'_>, rest: &str) -> Result<Vec<ReplicaId>, String> {
    let words: Vec<&str> = rest.split_whitespace().collect();
    match words.as_slice() {
        [] => Ok(scene.ids()),
        ["to", ids @ ..] => ids.iter().map(|id| replica(scene, id)).collect(),
        _ => Err(format!("expected `to` and replicas, got {rest}")),
    }
}

fn machine(word: &str) -> Result<ReplicaId, String> {
    let id = word.strip_prefix('r').and_then(|number| number.parse().ok()).map(ReplicaId);
    id.ok_or_else(|| format!("{word} is no machine"))
}

fn replica(scene: &Scene<'_>, word: &str) -> Result<ReplicaId, String> {
    let id = machine(word).ok().filter(|id| scene.ids().contains(id));
    id.ok_or_else(|| format!("{word} is no replica"))
}

/// The index of a client, of which the first one has number 1.
fn client_index(word: &str) -> Result<u16, String> {
    let number: Option<u16> = word.strip_prefix('c').and_then(|number| number.parse().ok());
    let number = number.filter(|number| (1..=Scene::CLIENTS).contains(number));
    let missing = || format!("{word} is no client; there are c1 to c{}", Scene::CLIENTS);
    number.map(|number| number - 1).ok_or_else(missing)
}

fn side(scene: &Scene<'_>, word: &str) -> Result<Side, String> {
    match word {
        "*" => Ok(Side::Anyone),
        name if scene.knows(name) => Ok(Side::Named(name.to_owned())),
        _ => Err(format!("{word} is nobody in this trace")),
    }
}
