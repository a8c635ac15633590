use super::*;
use crate::rng::Rng;
use pentarchy_core::Bytes;

fn seen(action: Action, times: (u64, Option<u64>), result: Option<&[u8]>) -> Seen {
    let (invoked, returned) = times;
    let result = result.map(<[u8]>::to_vec);
    Seen { client: ClientId([0; 32]), number: 0, key: 0, action, invoked, returned, result }
}

fn put(value: &'static [u8]) -> Action {
    Action::Put(Bytes::from_static(value))
}

#[test]
fn a_stale_read_is_found() {
    let history = [
        seen(put(b"a"), (0, Some(1)), Some(b"")),
        seen(put(b"b"), (2, Some(3)), Some(b"a")),
        seen(Action::Get, (4, Some(5)), Some(b"a")),
    ];
    let broken = check(&history).unwrap_err();
    assert_eq!(broken.property, PROPERTY);
    assert!(broken.detail.contains("Get"), "{broken}");
}

#[test]
fn a_read_during_a_write_may_see_either_but_not_go_back() {
    let read = |times, value: &'static [u8]| seen(Action::Get, times, Some(value));
    let write = || seen(put(b"a"), (0, Some(9)), Some(b""));
    check(&[write(), read((1, Some(2)), b""), read((3, Some(4)), b"a")]).unwrap();
    assert!(check(&[write(), read((1, Some(2)), b"a"), read((3, Some(4)), b"")]).is_err());
}

#[test]
fn an_operation_without_a_response_may_have_run_or_not() {
    let lost = || seen(put(b"a"), (0, None), None);
    for value in [&b""[..], b"a"] {
        check(&[lost(), seen(Action::Get, (1, Some(2)), Some(value))]).unwrap();
    }
    let back = [
        lost(),
        seen(Action::Get, (1, Some(2)), Some(b"a")),
        seen(Action::Get, (3, Some(4)), Some(b"")),
    ];
    assert!(check(&back).is_err());
}

#[test]
fn a_forgotten_result_must_have_run() {
    let forgotten = seen(put(b"a"), (0, Some(1)), None);
    let read = |value| seen(Action::Get, (2, Some(3)), Some(value));
    check(&[forgotten.clone(), read(b"a")]).unwrap();
    assert!(check(&[forgotten, read(b"")]).is_err());
}

#[test]
fn keys_do_not_disturb_each_other() {
    let mut other = seen(Action::Get, (2, Some(3)), Some(b""));
    other.key = 1;
    check(&[seen(put(b"a"), (0, Some(1)), Some(b"")), other]).unwrap();
}

/// Tries every order.
fn naive(history: &[Seen]) -> bool {
    fn go(left: &[Seen], state: &[u8]) -> bool {
        if left.iter().all(|seen| seen.returned.is_none()) {
            return true;
        }
        let first_return = left.iter().filter_map(|seen| seen.returned).min();
        (0..left.len()).any(|index| {
            let candidate = &left[index];
            if first_return.is_some_and(|first| candidate.invoked > first) {
                return false;
            }
            let mut after = state.to_vec();
            let result = apply(&mut after, &candidate.action);
            let fits = candidate.result.as_ref().is_none_or(|seen| *seen == result);
            let mut rest = left.to_vec();
            rest.remove(index);
            fits && go(&rest, &after)
        })
    }
    go(history, &[])
}

fn random_action(rng: &mut Rng) -> Action {
    let value = |rng: &mut Rng| Bytes::from(vec![rng.below(2) as u8]);
    match rng.below(5) {
        0 | 1 => Action::Get,
        2 => Action::Put(value(rng)),
        3 => Action::Append(value(rng)),
        _ => Action::Cas { expected: value(rng), new: value(rng) },
    }
}

/// A history that a register could have shown, with one result changed in half of the cases.
fn random_history(rng: &mut Rng) -> Vec<Seen> {
    let count = rng.range(1, 6);
    let mut state = Vec::new();
    let mut history = Vec::new();
    let mut now = 0;
    for _ in 0..count {
        now += 10;
        let action = random_action(rng);
        let result = apply(&mut state, &action);
        let (before, after) = (rng.below(25), rng.below(25));
        let invoked = now - before.min(now) + 1_000;
        let mut operation = seen(action, (invoked * 2, Some((now + 1_000 + after) * 2 + 1)), None);
        if rng.percent(30) {
            operation.returned = None;
        } else {
            operation.result = Some(result);
        }
        history.push(operation);
    }
    if rng.percent(50) {
        let index = rng.below(count) as usize;
        if let Some(result) = &mut history[index].result {
            match result.first_mut() {
                Some(byte) => *byte ^= 1,
                None => result.push(1),
            }
        }
    }
    history
}

#[test]
fn it_agrees_with_trying_every_order() {
    let mut rng = Rng::new(2026);
    let (mut accepted, mut rejected) = (0, 0);
    for round in 0..20_000 {
        let history = random_history(&mut rng);
        let expected = naive(&history);
        assert_eq!(check(&history).is_ok(), expected, "history {round}: {history:#?}");
        if expected {
            accepted += 1;
        } else {
            rejected += 1;
        }
    }
    assert!(accepted > 5_000 && rejected > 5_000, "{accepted} accepted, {rejected} rejected");
}

/// As many operations without a response as a group leaves that stops in the middle: every third,
/// half of which ran.
#[test]
fn most_histories_with_many_operations_without_a_response_are_decided() {
    let mut rng = Rng::new(7);
    let mut undecided = 0;
    for round in 0..20 {
        let (mut state, mut history) = (Vec::new(), Vec::new());
        for now in 0..300u64 {
            let value = Bytes::from(now.to_le_bytes().to_vec());
            let action = match rng.below(4) {
                0 => Action::Get,
                1 => Action::Put(value),
                2 => Action::Append(value),
                _ => Action::Cas { expected: Bytes::new(), new: value },
            };
            let invoked = (now + 100).saturating_sub(rng.below(20)) * 2;
            let returned = (now + 100 + rng.below(20)) * 2 + 1;
            if rng.percent(30) {
                if rng.percent(50) {
                    apply(&mut state, &action);
                }
                history.push(seen(action, (invoked, None), None));
            } else {
                let result = apply(&mut state, &action);
                history.push(seen(action, (invoked, Some(returned)), Some(&result)));
            }
        }
        undecided += check(&history).unwrap_or_else(|broken| panic!("history {round}: {broken}"));
    }
    assert!(undecided <= 4, "{undecided} of 20");
}

/// Clients that wait long for each other, on one key, with values so long that appending takes
/// their place: each result names the value before it, so there is one order to find.
#[test]
fn long_values_leave_no_doubt() {
    let (mut rng, mut state, mut history) = (Rng::new(11), Vec::new(), Vec::new());
    for now in 0..300u64 {
        let value = now.to_le_bytes();
        let action = match rng.below(3) {
            0 => Action::Put(Bytes::from(value.repeat(3_000))),
            1 => Action::Put(Bytes::from(value.to_vec())),
            _ => Action::Append(Bytes::from(value.to_vec())),
        };
        let invoked = (now + 100).saturating_sub(rng.below(30)) * 2;
        let returned = (now + 100 + rng.below(30)) * 2 + 1;
        let result = apply(&mut state, &action);
        history.push(seen(action, (invoked, Some(returned)), Some(&result)));
    }
    assert_eq!(check(&history).unwrap_or_else(|broken| panic!("{broken}")), 0);
}
