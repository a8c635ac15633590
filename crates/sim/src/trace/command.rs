//! From a line of text to what happens in the scene.

use super::FindProtocol;
use super::scene::{Scene, Side};
use pentarchy_core::ids::ReplicaId;
use pentarchy_core::limits::WINDOW_SLOTS;
use pentarchy_core::protocol::Tuning;

/// Carries out one command and gives what it prints.
pub fn run(
    line: &str,
    scene: &mut Option<Scene>,
    find: &FindProtocol<'_>,
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
            scene.advance(millis.parse().map_err(|_| format!("{millis} is no time"))?);
        }
        ["crash", id] => scene.crash(replica(scene, id)?),
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

fn start(name: &str, options: &[&str], find: &FindProtocol<'_>) -> Result<Scene, String> {
    let protocol = find(name).ok_or_else(|| format!("no protocol is called {name}"))?;
    let mut n = protocol.rules.replicas(1) as u64;
    let mut tuning = Tuning { checkpoint_slots: 4, window_slots: 8, ..Tuning::default() };
    for option in options {
        let (key, value) =
            option.split_once('=').ok_or_else(|| format!("{option} has no value"))?;
        let value: u64 = value.parse().map_err(|_| format!("{value} is no number"))?;
        match key {
            "n" => n = value,
            "checkpoint" => tuning.checkpoint_slots = value,
            "window" => tuning.window_slots = value,
            "batch" => tuning.batch_requests = value as usize,
            "in_flight" => tuning.proposals_in_flight = value,
            _ => return Err(format!("no such option: {key}")),
        }
    }
    if !(1..=16).contains(&n) {
        return Err("a trace has 1 to 16 replicas".to_owned());
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
    Ok(Scene::new(&protocol, n as usize, tuning))
}

fn quoted(line: &str) -> Result<(&str, &str), String> {
    let missing = || "the operation stands between quotation marks".to_owned();
    let (_, after) = line.split_once('"').ok_or_else(missing)?;
    after.split_once('"').ok_or_else(missing)
}

fn targets(scene: &Scene, rest: &str) -> Result<Vec<ReplicaId>, String> {
    let words: Vec<&str> = rest.split_whitespace().collect();
    match words.as_slice() {
        [] => Ok(scene.ids()),
        ["to", ids @ ..] => ids.iter().map(|id| replica(scene, id)).collect(),
        _ => Err(format!("expected `to` and replicas, got {rest}")),
    }
}

fn replica(scene: &Scene, word: &str) -> Result<ReplicaId, String> {
    let id = word.strip_prefix('r').and_then(|number| number.parse().ok()).map(ReplicaId);
    id.filter(|id| scene.ids().contains(id)).ok_or_else(|| format!("{word} is no replica"))
}

fn client_index(word: &str) -> Result<u16, String> {
    let index = word.strip_prefix('c').and_then(|number| number.parse().ok());
    index
        .filter(|index| (1..=Scene::CLIENTS).contains(index))
        .ok_or_else(|| format!("{word} is no client; there are c1 to c{}", Scene::CLIENTS))
}

fn side(scene: &Scene, word: &str) -> Result<Side, String> {
    if word == "*" {
        return Ok(Side::Anyone);
    }
    match word.starts_with('c') {
        true => client_index(word).map(Side::Client),
        false => replica(scene, word).map(Side::Replica),
    }
}
