//! What the stage makes of what it hears late.

use super::stage::Stage;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use pentarchy_core::batch::Batch;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Epoch, GroupId, Incarnation, Millis, ReplicaId, ReplicaSet, Slot};
use pentarchy_core::membership::{Base, Lane, Member, Membership};
use pentarchy_core::mutant;
use pentarchy_core::ports::replica::{Input, Output};
use pentarchy_core::protocol::{Effect, Effects, Event, Memory, Protocol as _, Setup, Tuning};

/// A stage of two pillars.
fn stage() -> Stage {
    let member = Member { key: [0; 32], incarnation: Incarnation(0), device_key: [0; 32] };
    let lane = Lane { pillars: 2, ..Lane::default() };
    let (group, epoch, base) = (GroupId([7; 16]), Epoch(0), Base::default());
    let members = vec![member; 4];
    let membership = Arc::new(Membership { group, epoch, f: 1, members, base, lane });
    let tuning = Tuning { checkpoint_slots: 2, window_slots: 8, ..Tuning::default() };
    let setup =
        Setup { me: ReplicaId(1), membership, fetch: None, memory: Memory::Volatile, tuning };
    Stage::start(setup, &mut core::iter::empty(), &mut Effects::default())
}

fn tell(stage: &mut Stage, input: Input) -> Vec<Output> {
    let mut out = Effects::default();
    stage.step(Event::Input(input), &mut out);
    stage.assert_invariants();
    let output = |effect| match effect {
        Effect::Output(output) => Some(output),
        _ => None,
    };
    out.drain().filter_map(output).collect()
}

fn says(stage: &mut Stage, pillar: u8, output: Output) -> Vec<Output> {
    tell(stage, Input::OfPillar { pillar, output: Box::new(output) })
}

/// A pillar decided a slot: which slots are executed because of it.
fn decides(stage: &mut Stage, pillar: u8, slot: u64) -> Vec<u64> {
    let batch = Batch { digest: Digest::default(), time: Millis(0), envelopes: Vec::new() };
    let said = says(stage, pillar, Output::Execute { slot: Slot(slot), batch: Arc::new(batch) });
    let executed = said.iter().filter_map(|output| match output {
        Output::Execute { slot, .. } => Some(slot.0),
        _ => None,
    });
    executed.collect()
}

fn fetch(row: u64) -> Output {
    let from: ReplicaSet = [ReplicaId(2)].into_iter().collect();
    Output::Fetch { slot: Slot(row), state: Digest([row as u8; 32]), from }
}

/// Execution goes back behind row 2 when both pillars have decided row 4, and row 5 of the first
/// one is on its way. Then they say again what they decided.
fn goes_back() -> Vec<u64> {
    let mut stage = stage();
    for row in 1..=4 {
        decides(&mut stage, 0, row);
        decides(&mut stage, 1, row);
    }
    tell(&mut stage, Input::Installed { slot: Slot(4) });
    let mut executed = decides(&mut stage, 0, 5);
    for row in 3..=5 {
        executed.extend(decides(&mut stage, 0, row));
        executed.extend(decides(&mut stage, 1, row));
    }
    executed
}

#[test]
fn what_is_said_again_is_executed_again_and_once() {
    assert_eq!(goes_back(), [5, 6, 7, 8, 9, 10]);
    assert_eq!(mutant::with(Some("pillars.said-twice-dropped"), goes_back), []);
}

/// What the host is asked for, if a pillar asks for two states of which the first one is here, and
/// then, having heard that, for the second one again.
fn asks() -> [usize; 2] {
    let mut stage = stage();
    for row in 1..=2 {
        decides(&mut stage, 0, row);
        decides(&mut stage, 1, row);
    }
    let fetches = |said: &[Output]| {
        said.iter().filter(|output| matches!(output, Output::Fetch { .. })).count()
    };
    let said = says(&mut stage, 0, fetch(2));
    assert!(said.iter().any(|output| matches!(
        output,
        Output::ToPillar { pillar: 0, input } if **input == Input::Installed { slot: Slot(2) }
    )));
    let early = says(&mut stage, 0, fetch(4));
    let mut glance = stage.pillars[0].glance.clone();
    glance.answers = 1;
    says(&mut stage, 0, Output::Glance(Box::new(glance)));
    let late = says(&mut stage, 0, fetch(4));
    [fetches(&early), fetches(&late)]
}

#[test]
fn what_was_asked_for_before_an_answer_is_not_fetched() {
    assert_eq!(asks(), [0, 1]);
    assert_eq!(mutant::with(Some("pillars.asks-twice"), asks), [1, 1]);
}

/// Whether the host is asked for a state when all that leads there is on its way: the first pillar
/// is heard with two windows, and then the second.
fn fetches_what_is_on_its_way(round_between: bool) -> bool {
    let mut stage = stage();
    let mut said = Vec::new();
    for row in 1..=16 {
        decides(&mut stage, 0, row);
        if row % 2 == 0 {
            let state = Digest([row as u8; 32]);
            said.extend(says(&mut stage, 0, Output::Stable { slot: Slot(row), state }));
        }
    }
    let round = || Input::Round { now: Millis(1) };
    if round_between {
        said.extend(tell(&mut stage, round()));
    }
    let executed: Vec<u64> = (1..=16).flat_map(|row| decides(&mut stage, 1, row)).collect();
    assert_eq!(executed.len(), if round_between { 1 } else { 31 });
    said.extend(tell(&mut stage, round()));
    said.iter().any(|output| matches!(output, Output::Fetch { .. }))
}

#[test]
fn what_is_only_heard_late_is_not_given_up() {
    assert!(!fetches_what_is_on_its_way(false));
    assert!(fetches_what_is_on_its_way(true), "a pillar that is behind when all is heard is");
}
