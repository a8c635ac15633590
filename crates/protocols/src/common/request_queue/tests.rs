use super::*;
use alloc::vec;
use pentarchy_core::Bytes;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::Millis;
use pentarchy_core::limits::BATCH_REQUESTS_MAX;
use pentarchy_core::request::{Draft, Request, RequestAuth};

fn envelope(client: u16, first: u64, requests: u64, bytes: usize) -> Arc<Envelope> {
    let mut id = [0; 32];
    id[..2].copy_from_slice(&client.to_be_bytes());
    let operation = Bytes::from(vec![0; bytes]);
    let request = |number| Request { number, operation: operation.clone() };
    let requests = (first..first + requests).map(request).collect();
    let draft = Draft { client: ClientId(id), floor: 0, events: None, requests };
    Arc::new(draft.seal(RequestAuth::Signature([0; 64])))
}

/// Has the next batch proposed and executed; gives the requests of each of `clients`.
fn serve(queue: &mut RequestQueue, clients: usize) -> Vec<usize> {
    let digest = |item: &Item| item.digest();
    let digests: Vec<Digest> = queue.propose(BATCH_REQUESTS_MAX).iter().map(digest).collect();
    let find = |digest: &Digest| queue.find(digest).expect("what is proposed waits");
    let envelopes: Vec<_> = digests.iter().map(find).collect();
    let mut served = vec![0; clients];
    for envelope in &envelopes {
        let client = u16::from_be_bytes([envelope.client.0[0], envelope.client.0[1]]);
        served[usize::from(client)] += envelope.requests.len();
    }
    let batch = Batch { time: Millis(0), envelopes, digest: Digest::default() };
    queue.executed(&batch, |_, _| ());
    queue.assert_invariants();
    served
}

/// A client that keeps its line full, and others that wait for each answer: none of these is left
/// out of more batches than its turn takes, and of the time a turn each.
#[test]
fn who_floods_waits_behind_itself_only() {
    const POLITE: usize = 40;
    let mut queue = RequestQueue::default();
    let mut next = 0;
    let (mut served, mut waits) = ([0; POLITE + 1], [0; POLITE + 1]);
    let mut longest_wait = 0;
    for _ in 0..200 {
        while queue.add(envelope(0, next, 400, 0), vec![]) == Added::New {
            next += 400;
        }
        for client in 1..=POLITE as u16 {
            let _ = queue.add(envelope(client, 1_000_000, 30, 300), vec![]);
        }
        for (client, count) in serve(&mut queue, POLITE + 1).into_iter().enumerate() {
            served[client] += count;
            waits[client] = if count > 0 { 0 } else { waits[client] + 1 };
        }
        longest_wait = waits[1..].iter().copied().max().unwrap().max(longest_wait);
    }
    let (least, most) = (served[1..].iter().min().unwrap(), served[1..].iter().max().unwrap());
    assert!(longest_wait <= 6, "some client waited for {longest_wait} batches");
    assert!(*least * 3 >= *most * 2, "{served:?}");
    let flooder = served[0] / 400 * cost(&envelope(0, 0, 400, 0));
    let polite = most / 30 * cost(&envelope(0, 0, 30, 300));
    assert!(flooder <= polite * 2, "{served:?}");
    assert!(flooder >= polite, "its own turns are not taken from it: {served:?}");
}

#[test]
fn an_envelope_that_costs_many_turns_has_them_saved_for_it() {
    let mut queue = RequestQueue::default();
    assert_eq!(queue.add(envelope(0, 0, 1, 1 << 20), vec![]), Added::New);
    let large = envelope(0, 0, 1, 0).client;
    let mut batches = 0;
    while queue.clients.contains_key(&large) {
        for client in 1..=8 {
            (0..20).for_each(|place| {
                queue.add(envelope(client, (batches * 20 + place) * 64, 64, 200), vec![]);
            });
        }
        serve(&mut queue, 9);
        batches += 1;
    }
    // 65 turns of 16 KiB, while each batch holds 128 KiB of the others.
    assert!((20..=80).contains(&batches), "{batches}");
}

#[test]
fn alone_a_client_fills_whole_batches() {
    let mut queue = RequestQueue::default();
    for first in 0..8 {
        assert_eq!(queue.add(envelope(0, first * 512, 512, 0), vec![]), Added::New);
    }
    assert_eq!(serve(&mut queue, 1), [2048]);
    assert_eq!(serve(&mut queue, 1), [2048]);
    assert_eq!(serve(&mut queue, 1), [0]);
}

#[test]
fn whoever_holds_nothing_finds_room_however_many_flood() {
    let mut queue = RequestQueue::default();
    let fill = |queue: &mut RequestQueue, client: u16| {
        let add = |first: &u64| {
            queue.add(envelope(client, first * 2, 1, 200 << 10), vec![]) == Added::New
        };
        (0..).take_while(add).count()
    };
    let held: Vec<usize> = (0..64).map(|client| fill(&mut queue, client)).collect();
    assert_eq!(held[0], PENDING_CLIENT_BYTES_MAX / (200 << 10));
    assert!(held.is_sorted_by(|earlier, later| earlier >= later), "{held:?}");
    assert_eq!(queue.add(envelope(999, 0, 1, 100), vec![]), Added::New);
    assert_eq!(queue.add(envelope(0, 1_000, 1, 200 << 10), vec![]), Added::Full);
    queue.assert_invariants();
}

#[test]
fn a_new_view_proposes_again_beginning_with_who_waits_for_longest() {
    let mut queue = RequestQueue::default();
    for (client, first) in [(2, 0), (1, 0), (2, 10), (3, 0)] {
        assert_eq!(queue.add(envelope(client, first, 1, 1), vec![]), Added::New);
    }
    let proposed = |queue: &mut RequestQueue| -> Vec<Digest> {
        queue.propose(BATCH_REQUESTS_MAX).iter().map(Item::digest).collect()
    };
    let first = proposed(&mut queue);
    assert_eq!(proposed(&mut queue), []);
    assert!(!queue.has_unproposed());
    queue.unpropose();
    queue.assert_invariants();
    assert!(queue.has_unproposed());
    assert_eq!(proposed(&mut queue), first);
    let expected = [(2, 0), (2, 10), (1, 0), (3, 0)].map(|(c, n)| envelope(c, n, 1, 1).digest);
    assert_eq!(first, expected);
}

/// What a backup passes on takes the place of what its client sent last, and is proposed first; of
/// what was proposed or passed on nothing gives way.
#[test]
fn what_is_passed_on_has_a_place_however_much_its_client_sends() {
    let mut queue = RequestQueue::default();
    let max = PENDING_CLIENT_ENVELOPES_MAX as u64;
    for number in 0..max {
        assert_eq!(queue.add(envelope(0, number, 1, 8), vec![]), Added::New);
    }
    let proposed = queue.propose(2).len() as u64;
    assert_eq!(proposed, 2);
    for number in 0..max {
        let passed_on = envelope(0, 100 + number, 1, 8);
        let (added, displaced) = queue.add_passed_on(passed_on, vec![]);
        queue.assert_invariants();
        let numbers: Vec<u64> = displaced.iter().map(|envelope| envelope.range().0).collect();
        let expected = (number < max - proposed).then(|| (Added::New, vec![max - 1 - number]));
        assert_eq!((added, numbers), expected.unwrap_or((Added::Full, vec![])));
    }
    let expected: Vec<Digest> = (100..103).map(|number| envelope(0, number, 1, 8).digest).collect();
    let next: Vec<Digest> = queue.propose(3).iter().map(Item::digest).collect();
    assert_eq!(next, expected);
}

/// The primary has it, behind what a backup does not wait for: it comes first now.
#[test]
fn what_is_passed_on_and_known_comes_first() {
    let mut queue = RequestQueue::default();
    for number in 0..9 {
        queue.add(envelope(0, number, 1, 8), vec![]);
    }
    let rival = envelope(0, 7, 1, 9);
    assert_eq!(queue.add_passed_on(rival, vec![]), (Added::Known, vec![]));
    queue.assert_invariants();
    let next = queue.propose(2);
    assert_eq!(next[0].digest(), envelope(0, 7, 1, 8).digest, "it settles the number");
    assert_eq!(next[1].digest(), envelope(0, 0, 1, 8).digest);
}

/// Of one client a backup passes on no more at a time than one turn pays for, and the rest when
/// that is done.
#[test]
fn of_one_client_no_more_is_demanded_than_a_turn_pays_for() {
    let mut queue = RequestQueue::default();
    for client in 0..3 {
        for number in 0..20 {
            queue.add(envelope(client, number, 1, 8 << 10), vec![]);
        }
    }
    let mut looks = || queue.demand(1_000, Millis(0), Work::default()).len();
    assert_eq!([looks(), looks(), looks()], [0, 3, 0]);
    let executed = (0..2).map(|client| envelope(client, 0, 1, 8 << 10)).collect();
    let batch = Batch { time: Millis(0), envelopes: executed, digest: Digest::default() };
    queue.executed(&batch, |_, _| ());
    let mut looks = || queue.demand(1_000, Millis(0), Work::default()).len();
    assert_eq!([looks(), looks()], [0, 2]);
}

#[test]
fn the_timer_runs_for_the_oldest_while_the_primary_is_judged() {
    let mut queue = RequestQueue::default();
    assert_eq!(queue.retime(true), None);
    for number in 1..=2 {
        queue.add(envelope(0, number, 1, 1), Vec::new());
    }
    assert_eq!(queue.retime(true), Some(Retime { disarm: None, arm: Some(0) }));
    assert_eq!((queue.retime(true), queue.is_timed()), (None, true));
    queue.executed_late(&envelope(0, 1, 1, 1));
    assert_eq!(queue.retime(true), Some(Retime { disarm: Some(0), arm: Some(1) }));
    queue.clear();
    assert_eq!(queue.retime(false), Some(Retime { disarm: Some(1), arm: None }));
    queue.add(envelope(0, 3, 1, 1), Vec::new());
    queue.retime(true);
    assert_eq!((queue.stop_timer(), queue.is_timed()), (Some(2), false));
}
