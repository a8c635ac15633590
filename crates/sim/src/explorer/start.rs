//! Where an exploration begins: a few steps in the words of golden traces ([`crate::trace`]), one a
//! line. They draw on no budget.
//!
//! | line | what it does |
//! | --- | --- |
//! | `request K rI` | the request of client `K` (from 1) reaches replica `I` |
//! | `fire rI` | the timer by which replica `I` judges runs out |
//! | `deliver FROM TO TEXT` | messages of one author to one replica that hold the text arrive |
//! | `drop FROM TO TEXT` | they are lost; `*` stands for any author or replica |
//! | `# ...` | a remark |

use super::replica::Kind;
use super::search::{Action, Flight, Search, State};

/// Carries out a script.
pub fn begin(search: &mut Search<'_>, script: &str) -> Result<(), String> {
    let mut state = search.first.clone();
    for (number, line) in (1..).zip(script.lines()) {
        let line = line.split('#').next().unwrap_or_default().trim();
        if !line.is_empty() {
            run(search, &mut state, line)
                .map_err(|mistake| format!("start, line {number} ({line}): {mistake}"))?;
        }
    }
    if !script.trim().is_empty() {
        search.space.refill(&mut state.locals);
    }
    search.first = state;
    Ok(())
}

fn run(search: &mut Search<'_>, state: &mut State, line: &str) -> Result<(), String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words.as_slice() {
        ["request", client, id] => {
            let client: u8 = client.parse().map_err(|_| format!("{client} is no client"))?;
            let request = client.checked_sub(1).filter(|index| *index < search.space.plan.requests);
            let request = request.ok_or_else(|| format!("there is no client {client}"))?;
            take(search, state, Action::Request(request, replica(state, id)?))
        }
        ["fire", id] => {
            let id = replica(state, id)?;
            let timers = &search.space.locals[state.locals[usize::from(id)] as usize].timers;
            let timer = timers.iter().find(|(_, kind)| matches!(kind, Kind::Judge | Kind::View));
            let (timer, _) = timer.ok_or("it waits for no timer")?;
            take(search, state, Action::Timeout(*timer, id))
        }
        ["deliver", from, to, text @ ..] => {
            let due = flights(search, state, from, to, &text.join(" "))?;
            due.into_iter().try_for_each(|flight| take(search, state, Action::Deliver(flight)))
        }
        ["drop", from, to, text @ ..] => {
            let lost = flights(search, state, from, to, &text.join(" "))?;
            state.flights.retain(|flight| !lost.contains(flight));
            Ok(())
        }
        _ => Err("no such step".to_owned()),
    }
}

fn take(search: &mut Search<'_>, state: &mut State, action: Action) -> Result<(), String> {
    if let Some(next) = search.apply(state, action).map_err(|broken| broken.to_string())? {
        *state = next;
    }
    Ok(())
}

fn replica(state: &State, word: &str) -> Result<u16, String> {
    let id = word.strip_prefix('r').and_then(|number| number.parse::<u16>().ok());
    let correct = |id: &u16| state.locals.get(usize::from(*id)).is_some_and(|l| *l != u32::MAX);
    id.filter(correct).ok_or_else(|| format!("{word} is no correct replica"))
}

fn flights(
    search: &Search<'_>,
    state: &State,
    from: &str,
    to: &str,
    text: &str,
) -> Result<Vec<Flight>, String> {
    let to = if to == "*" { None } else { Some(replica(state, to)?) };
    let meant = |flight: &&Flight| {
        let said = search.space.describe(flight.message());
        let author = said.split_whitespace().next().unwrap_or_default();
        (from == "*" || from == author)
            && to.is_none_or(|to| to == flight.to())
            && said.contains(text)
    };
    let found: Vec<_> = state.flights.iter().filter(meant).copied().collect();
    if found.is_empty() { Err("nothing like that is under way".to_owned()) } else { Ok(found) }
}
