//! What the merger makes of what it hears late.

use super::merger::Merger;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use pentarchy_core::batch::Batch;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{GroupId, Incarnation, Millis, ReplicaId, ReplicaSet, Slot};
use pentarchy_core::membership::{Life, Membership, PillarConfig};
use pentarchy_core::mutant;
use pentarchy_core::ports::replica::pillar::{self, PillarStatus};
use pentarchy_core::ports::replica::{Input, Output};
use pentarchy_core::protocol::{Effect, Effects, Event, Memory, Protocol as _, Setup, Tuning};

/// A merger of two pillars.
fn merger() -> Merger {
    let members = [([0; 32], Life::mac(Incarnation(0))); 4];
    let lane = PillarConfig { pillars: 2, ..PillarConfig::default() };
    let group = Membership::of_keys(GroupId([7; 16]), 1, members);
    let membership = Arc::new(Membership { lane, ..group });
    let tuning = Tuning { checkpoint_slots: 2, window_slots: 8, ..Tuning::default() };
    let setup =
        Setup { me: ReplicaId(1), membership, fetch: None, memory: Memory::Volatile, tuning };
    Merger::start(setup, &mut core::iter::empty(), &mut Effects::default())
}

fn tell(merger: &mut Merger, input: Input) -> Vec<Output> {
    let mut out = Effects::default();
    merger.step(Event::Input(input), &mut out);
    merger.assert_invariants();
    let output = |effect| match effect {
        Effect::Output(output) => Some(output),
        _ => None,
    };
    out.drain().filter_map(output).collect()
}

fn says(merger: &mut Merger, pillar: u8, output: Output) -> Vec<Output> {
    tell(merger, pillar::Input::Said { pillar, output: Box::new(output) }.into())
}

/// A pillar decided a slot: which slots are executed because of it.
fn decides(merger: &mut Merger, pillar: u8, slot: u64) -> Vec<u64> {
    let batch = Batch { digest: Digest::default(), time: Millis(0), envelopes: Vec::new() };
    let said = says(merger, pillar, Output::Execute { slot: Slot(slot), batch: Arc::new(batch) });
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
    let mut merger = merger();
    for row in 1..=4 {
        decides(&mut merger, 0, row);
        decides(&mut merger, 1, row);
    }
    tell(&mut merger, Input::Installed { slot: Slot(4) });
    let mut executed = decides(&mut merger, 0, 5);
    for row in 3..=5 {
        executed.extend(decides(&mut merger, 0, row));
        executed.extend(decides(&mut merger, 1, row));
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
    let mut merger = merger();
    for row in 1..=2 {
        decides(&mut merger, 0, row);
        decides(&mut merger, 1, row);
    }
    let fetches = |said: &[Output]| {
        said.iter().filter(|output| matches!(output, Output::Fetch { .. })).count()
    };
    let said = says(&mut merger, 0, fetch(2));
    assert!(said.iter().any(|output| matches!(
        output,
        Output::Pillar(pillar::Output::Tell { pillar: 0, input })
            if **input == Input::Installed { slot: Slot(2) }
    )));
    let early = says(&mut merger, 0, fetch(4));
    let mut pillar_status = merger.pillars[0].pillar_status.clone();
    pillar_status.answers = 1;
    says(&mut merger, 0, pillar::Output::Status(Box::new(pillar_status)).into());
    let late = says(&mut merger, 0, fetch(4));
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
    let mut merger = merger();
    let mut said = Vec::new();
    for row in 1..=16 {
        decides(&mut merger, 0, row);
        if row % 2 == 0 {
            let state = Digest([row as u8; 32]);
            said.extend(says(&mut merger, 0, Output::Stable { slot: Slot(row), state }));
        }
    }
    let round = || Input::Round { now: Millis(1) };
    if round_between {
        said.extend(tell(&mut merger, round()));
    }
    let executed: Vec<u64> = (1..=16).flat_map(|row| decides(&mut merger, 1, row)).collect();
    assert_eq!(executed.len(), if round_between { 1 } else { 31 });
    said.extend(tell(&mut merger, round()));
    said.iter().any(|output| matches!(output, Output::Fetch { .. }))
}

#[test]
fn what_is_only_heard_late_is_not_given_up() {
    assert!(!fetches_what_is_on_its_way(false));
    assert!(fetches_what_is_on_its_way(true), "a pillar that is behind when all is heard is");
}

fn pillar_status(
    merger: &mut Merger,
    pillar: u8,
    change: impl FnOnce(&mut PillarStatus),
) -> Vec<Output> {
    let mut pillar_status = merger.pillars[usize::from(pillar)].pillar_status.clone();
    change(&mut pillar_status);
    says(merger, pillar, pillar::Output::Status(Box::new(pillar_status)).into())
}

/// Of whom which pillars are to be timed.
fn timed(said: &[Output]) -> Vec<(u8, ReplicaId)> {
    let timed = said.iter().filter_map(|output| match output {
        Output::Pillar(pillar::Output::Tell { pillar, input }) => match **input {
            Input::Pillar(pillar::Input::Fill { waits_for: Some(primary), .. }) => {
                Some((*pillar, primary))
            }
            _ => None,
        },
        _ => None,
    });
    timed.collect()
}

/// What the first pillar knows of its sibling may be old, so that one does not time another primary
/// for it. If both have changed, it is told anew.
#[test]
fn a_sibling_is_timed_for_the_primary_that_a_request_waits_for() {
    let (first, second) = (ReplicaId(0), ReplicaId(1));
    let mut merger = merger();
    let said = pillar_status(&mut merger, 0, |it| it.wants = Some(Slot(1)));
    assert_eq!(timed(&said), [(1, first)]);
    let said = pillar_status(&mut merger, 1, |it| it.status.primary = second);
    assert_eq!(timed(&said), []);
    let said = pillar_status(&mut merger, 0, |it| it.status.primary = second);
    assert_eq!(timed(&said), [(1, second)], "the same row");
    assert_eq!(timed(&pillar_status(&mut merger, 0, |_| {})), [], "it was told");
}

fn stable(row: u64, state: u8) -> Output {
    Output::Stable { slot: Slot(row), state: Digest([state; 32]) }
}

/// Execution comes to row 2 with this state.
fn comes_to_row_2(merger: &mut Merger, state: u8) -> Vec<Output> {
    for row in 1..=2 {
        decides(merger, 0, row);
        decides(merger, 1, row);
    }
    tell(merger, Input::Checkpointed { slot: Slot(4), state: Digest([state; 32]) })
}

/// What is said of a state that is not the group's: of which slot, and which are fetched.
fn found(said: &[Output]) -> (Vec<Slot>, Vec<(Slot, Digest)>) {
    let diverged = said.iter().filter_map(|output| match output {
        Output::Diverged { slot, .. } => Some(*slot),
        _ => None,
    });
    let fetched = said.iter().filter_map(|output| match output {
        Output::Fetch { slot, state, .. } => Some((*slot, *state)),
        _ => None,
    });
    (diverged.collect(), fetched.collect())
}

/// Pillars are past a row when execution comes to it, so they do not look at that state any more.
#[test]
fn who_is_behind_compares_its_states_with_what_was_vouched_for_before() {
    let compared = |mine| {
        let mut merger = merger();
        let mut said = says(&mut merger, 0, stable(2, 7));
        said.extend(says(&mut merger, 0, stable(4, 8)));
        said.extend(comes_to_row_2(&mut merger, mine));
        said.extend(says(&mut merger, 1, stable(2, 7)));
        found(&said)
    };
    assert_eq!(compared(7), (vec![], vec![]));
    let theirs = (Slot(4), Digest([7; 32]));
    assert_eq!(compared(9), (vec![Slot(4)], vec![theirs]), "it says so once");
    let late = mutant::with(Some("pillars.late-states-not-compared"), || {
        let mut merger = merger();
        says(&mut merger, 0, stable(2, 7));
        found(&comes_to_row_2(&mut merger, 9))
    });
    assert_eq!(late, (vec![], vec![]));
}

#[test]
fn a_state_that_is_here_is_compared_with_what_is_vouched_for_later() {
    let mut merger = merger();
    assert_eq!(found(&comes_to_row_2(&mut merger, 9)), (vec![], vec![]));
    let mut said = says(&mut merger, 0, stable(2, 7));
    // The pillar finds it too, and asks for the state.
    let (mine, theirs) = (Digest([9; 32]), Digest([7; 32]));
    said.extend(says(&mut merger, 0, Output::Diverged { slot: Slot(2), mine, theirs }));
    assert_eq!(found(&said), (vec![Slot(4)], vec![(Slot(4), theirs)]));
    // Behind the group's state all is well, and what goes wrong then is said again.
    tell(&mut merger, Input::Installed { slot: Slot(4) });
    assert_eq!(found(&says(&mut merger, 1, stable(2, 7))), (vec![], vec![]));
    for row in 3..=4 {
        decides(&mut merger, 0, row);
        decides(&mut merger, 1, row);
    }
    says(&mut merger, 1, stable(4, 8));
    let said = tell(&mut merger, Input::Checkpointed { slot: Slot(8), state: mine });
    assert_eq!(found(&said).0, [Slot(8)]);
}

#[test]
fn of_states_to_which_execution_has_not_come_a_bounded_number_is_kept() {
    let mut merger = merger();
    (1..=100).rev().for_each(|row| drop(says(&mut merger, 0, stable(2 * row, 7))));
    assert_eq!(merger.vouched.keys().next(), Some(&Slot(2)));
    assert_eq!(found(&comes_to_row_2(&mut merger, 9)).0, [Slot(4)]);
}

/// Execution went back behind row 2. The first pillar, further on, asks for the state of row 4,
/// behind which it has what it decided. But what it had said before is still under way, and with
/// the other one's slots execution comes to row 4.
#[test]
fn a_pillar_goes_on_when_execution_has_come_to_what_it_lacks() {
    let mut merger = merger();
    for row in 1..=2 {
        decides(&mut merger, 0, row);
        decides(&mut merger, 1, row);
    }
    tell(&mut merger, Input::Installed { slot: Slot(4) });
    (3..=5).for_each(|row| drop(decides(&mut merger, 0, row)));
    pillar_status(&mut merger, 0, |it| it.answers = 1);
    assert_eq!(found(&says(&mut merger, 0, fetch(4))).1.len(), 1);
    decides(&mut merger, 1, 3);
    let batch = Batch { digest: Digest::default(), time: Millis(0), envelopes: Vec::new() };
    let said = says(&mut merger, 1, Output::Execute { slot: Slot(4), batch: Arc::new(batch) });
    let told = |said: &[Output]| {
        said.iter().any(|output| {
            matches!(output, Output::Pillar(pillar::Output::Tell { pillar: 0, input })
                if **input == Input::Installed { slot: Slot(4) })
        })
    };
    assert!(told(&said), "the state is here: {said:?}");
    // It is told once, and what it asked for before it heard of that is not fetched.
    assert!(!told(&tell(&mut merger, Input::Round { now: Millis(1) })));
    assert_eq!(found(&says(&mut merger, 0, fetch(6))).1, []);
    pillar_status(&mut merger, 0, |it| it.answers = 2);
    assert_eq!(found(&says(&mut merger, 0, fetch(6))).1.len(), 1);
}

/// Having a state of that row is not enough then.
#[test]
fn a_pillar_whose_state_is_wrong_waits_for_the_right_one() {
    let mut merger = merger();
    comes_to_row_2(&mut merger, 9);
    let said = says(&mut merger, 0, fetch(2));
    assert_eq!(found(&said).1, [(Slot(4), Digest([2; 32]))], "another one than is here");
    let more = tell(&mut merger, Input::Round { now: Millis(1) });
    let answered = |output: &Output| {
        matches!(output, Output::Pillar(pillar::Output::Tell { input, .. })
            if matches!(**input, Input::Installed { .. }))
    };
    assert!(!said.iter().chain(&more).any(answered));
}
