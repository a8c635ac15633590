//! Execution: at most once, and checkpoints that depend on the history alone.

use crate::toy::{self, batch, done, run, write};
use pentarchy_core::Bytes;
use pentarchy_core::digest::Digest;
use pentarchy_core::epochs::Admission;
use pentarchy_core::executor::{Executor, Notice};
use pentarchy_core::ids::{ClientId, Epoch, Incarnation, Slot};
use pentarchy_core::limits::{
    ADMISSION_INTERVAL_MILLIS, CHECKPOINT_SLOTS, SECTIONS_MAX, SNAPSHOTS_KEPT, WINDOW_SLOTS,
};
use pentarchy_core::membership::{Life, Membership};
use pentarchy_core::ports::client::{Outcome, Reply, ToClient};
use pentarchy_core::protocol::Tuning;
use pentarchy_core::request::FENCE;
use pentarchy_core::service::{Context, Event, Service, SmallService, Whole};
use pentarchy_core::sessions::Lookup;
use pentarchy_core::snapshot::Snapshot;
use pentarchy_core::tree::Tree;
use pentarchy_core::wire::Malformed;
use std::sync::Arc;

#[test]
fn a_request_runs_once_within_a_batch_and_across_batches() {
    let mut executor = toy::fresh(toy::Toy::boxed());
    let twice = batch(1, &[(4, write(0, 9, 1)), (4, write(0, 9, 2)), (5, write(1, 9, 3))]);
    assert_eq!(run(&mut executor, &twice), [done(1), done(1), done(2)]);
    let again = batch(1, &[(5, write(1, 9, 4)), (3, write(2, 9, 5))]);
    assert_eq!(run(&mut executor, &again), [done(2), done(3)]);
    let other = batch(2, &[(5, write(1, 9, 6))]);
    assert_eq!(run(&mut executor, &other), [done(4)], "numbers are a client's own");
    assert_eq!(executor.requests(), 4);
    assert_eq!(known(&executor, 1, 3, &Bytes::new()), Lookup::Settled(done(3)));
}

#[test]
fn a_fence_settles_its_number_and_the_service_never_sees_it() {
    let mut executor = toy::fresh(toy::Toy::boxed());
    let fenced = batch(1, &[(4, FENCE.to_vec())]);
    assert_eq!(run(&mut executor, &fenced), [Outcome::GivenUp]);
    assert_eq!(run(&mut executor, &batch(1, &[(4, write(0, 9, 1))])), [Outcome::GivenUp]);
    assert_eq!(run(&mut executor, &batch(1, &[(5, write(0, 9, 1))])), [done(1)]);
    assert_eq!(run(&mut executor, &batch(1, &[(5, FENCE.to_vec())])), [done(1)], "it had run");
    assert_eq!(executor.requests(), 1);
    assert_eq!(known(&executor, 1, 4, &Bytes::new()), Lookup::Settled(Outcome::GivenUp));
}

#[test]
#[should_panic(expected = "in order")]
fn a_slot_is_not_skipped() {
    let mut executor = toy::fresh(toy::Toy::boxed());
    executor.execute(Slot(2), &batch(1, &[(1, write(0, 1, 1))]), |_, _| {});
}

#[test]
fn when_checkpoints_were_taken_does_not_show_in_their_digest() {
    let writes = [(0, 300_000, 1), (1, 5, 2), (0, 7, 3), (4, 600_000, 4)];
    let (_, _, at_the_end) = toy::executor(&writes);
    let mut often = toy::fresh(toy::Toy::boxed());
    for (number, (page, length, seed)) in (1..).zip(writes) {
        run(&mut often, &batch(1, &[(number, write(page, length, seed))]));
        often.checkpoint();
    }
    assert_eq!(often.latest().unwrap().digest, at_the_end);
}

#[test]
fn a_checkpoint_shares_what_did_not_change_with_the_one_before() {
    let (mut executor, first, _) = toy::executor(&[(0, 300_000, 1), (1, 300_000, 2)]);
    run(&mut executor, &batch(1, &[(9, write(1, 300_000, 3))]));
    executor.checkpoint();
    let [old, new] = [first, first.next()].map(|slot| executor.snapshot(slot).unwrap());
    let changes = new.tree.changes_since(&old.tree);
    let differing: Vec<u32> = changes.iter().map(|(section, _)| *section).collect();
    let own = old.tree.sections() - toy::SECTIONS;
    let client = 1 + u32::from(1u8 >> 2);
    assert_eq!(differing, [0, client, own, own + 2]);
    let leaf = |snapshot: &Snapshot| {
        std::ptr::from_ref(snapshot.tree.section(own + 1).expect("it is not empty"))
    };
    assert_eq!(leaf(old), leaf(new), "not even encoded again");
}

#[test]
fn an_installed_state_goes_on_like_the_original() {
    let (mut ahead, slot, digest) = toy::executor(&[(0, 600_000, 1), (3, 10, 2)]);
    let (mut behind, ..) = toy::executor(&[(1, 50, 9)]);
    // Changed since its last checkpoint: must be restored although the digests do not show it.
    run(&mut behind, &batch(2, &[(1, write(4, 77, 7))]));
    behind.install(ahead.snapshot(slot).unwrap().clone()).unwrap();
    assert_eq!(behind.executed(), slot);
    assert_eq!(behind.latest().unwrap().digest, digest);
    for section in 0..toy::SECTIONS {
        assert_eq!(behind.service().section(section), ahead.service().section(section));
    }
    let next = batch(1, &[(2, write(0, 1, 1)), (3, write(0, 2, 2))]);
    assert_eq!(run(&mut behind, &next), run(&mut ahead, &next));
    assert_eq!(behind.checkpoint(), ahead.checkpoint());
}

#[test]
fn a_snapshot_that_does_not_fit_is_refused() {
    let (mut executor, slot, _) = toy::executor(&[(0, 10, 1)]);
    let good = executor.latest().unwrap().clone();
    let mut other_slot = good.clone();
    other_slot.slot = slot.next();
    let short = Tree::with_top(good.tree.sections() - 1, good.tree.top().cloned());
    let no_header = good.tree.changed(&[(0, None)], slot);
    for bad in [other_slot, Snapshot::new(slot, short), Snapshot::new(slot, no_header)] {
        assert_eq!(executor.install(bad), Err(Malformed));
    }
}

/// Else nobody could bring a member level that lacks the stable state, and without its vote no
/// later one becomes stable.
#[test]
fn the_stable_snapshot_stays_whatever_is_taken_in_a_window() {
    let tuning = Tuning { window_slots: 48, checkpoint_slots: 4, ..Tuning::default() };
    let mut executor = toy::fresh(toy::Toy::boxed());
    executor.set_tuning(tuning);
    executor.checkpoint();
    let stable = executor.executed();
    for number in 0..tuning.window_slots {
        run(&mut executor, &batch(1, &[(number, write(0, 1, 1))]));
        if (number + 1).is_multiple_of(tuning.checkpoint_slots) {
            executor.checkpoint();
        }
    }
    assert!(executor.snapshots() > SNAPSHOTS_KEPT && executor.snapshot(stable).is_some());
    assert_eq!(Tuning::default().snapshots_kept(1), SNAPSHOTS_KEPT);
}

#[test]
fn old_snapshots_go() {
    let mut executor = toy::fresh(toy::Toy::boxed());
    for number in 0..2 * SNAPSHOTS_KEPT as u64 {
        run(&mut executor, &batch(1, &[(number, write(0, 1, 1))]));
        executor.checkpoint();
    }
    let last = executor.executed();
    let oldest = Slot(last.0 + 1 - SNAPSHOTS_KEPT as u64);
    assert!(executor.snapshot(oldest).is_some());
    assert!(executor.snapshot(Slot(oldest.0 - 1)).is_none());
    executor.stable(last);
    assert!(executor.snapshot(Slot(last.0 - 1)).is_none());
    assert!(executor.snapshot(last).is_some());
}

/// A service that claims more than it may.
struct Sprawling;

impl Service for Sprawling {
    fn execute(&mut self, _context: &Context, _operation: &[u8]) -> Vec<u8> {
        Vec::new()
    }
    fn query(&self, _operation: &[u8]) -> Vec<u8> {
        Vec::new()
    }
    fn sections(&self) -> u32 {
        SECTIONS_MAX as u32 + 1
    }
    fn section(&self, _index: u32) -> Vec<u8> {
        Vec::new()
    }
    fn changed_sections(&mut self) -> Vec<u32> {
        Vec::new()
    }
    fn restore_section(&mut self, _index: u32, _bytes: &[u8]) -> Result<(), Malformed> {
        Ok(())
    }
}

#[test]
#[should_panic(expected = "limits")]
fn a_service_with_too_many_sections_is_not_started() {
    let _ = toy::fresh(Box::new(Sprawling));
}

/// Tells every client whose first byte stands in the operation.
#[derive(Default)]
struct Herald(Vec<Event>);

impl SmallService for Herald {
    fn execute(&mut self, context: &Context, operation: &[u8]) -> Vec<u8> {
        let body = Bytes::from(vec![context.client.0[0], context.index as u8]);
        let event = |id: &u8| Event { client: ClientId([*id; 32]), body: body.clone() };
        self.0.extend(operation.iter().map(event));
        Vec::new()
    }
    fn query(&self, _operation: &[u8]) -> Vec<u8> {
        Vec::new()
    }
    fn take_events(&mut self) -> Vec<Event> {
        core::mem::take(&mut self.0)
    }
    fn save(&self) -> Vec<u8> {
        Vec::new()
    }
    fn load(&mut self, _bytes: &[u8]) -> Result<(), Malformed> {
        Ok(())
    }
}

fn notices(executor: &mut Executor, client: u8, requests: &[(u64, Vec<u8>)]) -> Vec<(u8, Notice)> {
    let mut notices = Vec::new();
    let slot = executor.executed().next();
    executor.execute(slot, &batch(client, requests), |id, notice| notices.push((id.0[0], notice)));
    notices
}

#[test]
fn what_a_service_tells_clients_is_numbered_kept_and_told_once() {
    let mut executor = toy::fresh(Box::new(Whole::new(Herald::default())));
    let reply = |number| {
        let outcome = Outcome::Done(Bytes::new());
        Notice::Reply(Reply { number, outcome })
    };
    let event = |number, body: [u8; 2]| Notice::Event { number, body: body.to_vec().into() };
    assert_eq!(notices(&mut executor, 1, &[(1, vec![])]), [(1, reply(1))]);
    let requests = [(1, vec![1, 2, 1, 3]), (2, vec![1])];
    let expected = [
        (2, reply(1)),
        (1, event(1, [2, 0])),
        (2, event(1, [2, 0])),
        (1, event(2, [2, 0])),
        (2, reply(2)),
        (1, event(3, [2, 1])),
    ];
    assert_eq!(notices(&mut executor, 2, &requests), expected, "nobody knows client 3");
    let again = notices(&mut executor, 2, &requests);
    assert_eq!(again, [(2, reply(1)), (2, reply(2))], "no event comes again");
    let kept = |executor: &Executor| executor.events(&ClientId([1; 32]), 2);
    let events = vec![Bytes::from_static(&[2, 0]), Bytes::from_static(&[2, 1])];
    assert_eq!(kept(&executor), ToClient::Events { oldest: 1, first: 2, events });
    let digest = executor.checkpoint();
    let snapshot = executor.latest().unwrap().clone();
    let mut other = toy::fresh(Box::new(Whole::new(Herald::default())));
    other.install(snapshot).unwrap();
    assert_eq!((kept(&other), other.checkpoint()), (kept(&executor), digest));
    let next = |executor: &mut Executor| notices(executor, 1, &[(2, vec![1])]);
    assert_eq!(next(&mut other), next(&mut executor));
}

/// What is known of a request of the client with this name.
fn known(executor: &Executor, client: u8, number: u64, operation: &Bytes) -> Lookup {
    let batch = batch(client, &[(number, operation.to_vec())]);
    let known: Vec<Lookup> = executor.lookups(&batch.envelopes[0]).collect();
    assert_eq!(known.len(), 1);
    known[0].clone()
}

/// Has a member ask for a life of its device, and goes over to the next epoch if that ends this
/// one.
fn admit(executor: &mut Executor, membership: &mut Arc<Membership>, operation: &Bytes) -> bool {
    run(executor, &batch(201, &[(1, operation.to_vec())]));
    let Some(handover) = executor.handover() else { return false };
    *membership = Arc::new(membership.after(&handover));
    executor.begin_epoch(membership.clone());
    true
}

#[test]
fn a_former_life_is_never_admitted_again_however_long_ago_it_was() {
    let (mut executor, mut membership) = (toy::fresh(toy::Toy::boxed()), toy::membership());
    let ask = |epoch, life| {
        let life = Life { incarnation: Incarnation(life), device_key: [0; 32] };
        Admission { epoch: Epoch(epoch), configuration: Digest::default(), life }.to_operation()
    };
    let (first, second) = (ask(0, 11), ask(1, 12));
    assert_eq!(known(&executor, 201, 1, &first), Lookup::New);
    assert!(admit(&mut executor, &mut membership, &first));
    assert!(!admit(&mut executor, &mut membership, &second), "too soon after the first");
    toy::pass(&mut executor, 2 * ADMISSION_INTERVAL_MILLIS);
    assert!(admit(&mut executor, &mut membership, &second));
    toy::pass(&mut executor, 4 * ADMISSION_INTERVAL_MILLIS);
    // There is no trace of a member in the client table that idle clients could be dropped from.
    assert_eq!(executor.clients(), 1);
    for old in [first, second] {
        assert_eq!(
            known(&executor, 201, 1, &old),
            Lookup::Settled(Outcome::Forgotten),
            "it need not be ordered"
        );
        assert!(!admit(&mut executor, &mut membership, &old), "and changes nothing if it is");
    }
    assert_eq!(membership.members[1].incarnation, Incarnation(12));
    assert_eq!(membership.epoch, Epoch(2));
}

#[test]
fn a_key_that_nobody_attests_is_not_admitted() {
    let (mut executor, mut membership) = (toy::fresh(toy::Toy::boxed()), toy::membership());
    let life = Life { incarnation: Incarnation(9), device_key: [7; 32] };
    let ask = Admission { epoch: Epoch(0), configuration: Digest::default(), life }.to_operation();
    assert!(!admit(&mut executor, &mut membership, &ask));
    let known = known(&executor, 201, 1, &ask);
    assert_eq!(known, Lookup::Settled(Outcome::Forgotten), "nor ordered again and again");
}

#[test]
fn the_state_with_which_an_epoch_began_is_kept_until_it_ends() {
    let (mut executor, mut membership) = (toy::fresh(toy::Toy::boxed()), toy::membership());
    let life = |number| Life { incarnation: Incarnation(number), device_key: [0; 32] };
    let configuration = Digest::default();
    let ask = |epoch, number| {
        Admission { epoch: Epoch(epoch), configuration, life: life(number) }.to_operation()
    };
    assert!(admit(&mut executor, &mut membership, &ask(0, 11)));
    let base = executor.executed();
    for slot in base.0 + 1..=base.0 + WINDOW_SLOTS {
        toy::pass(&mut executor, ADMISSION_INTERVAL_MILLIS + slot);
        if slot.is_multiple_of(CHECKPOINT_SLOTS) {
            executor.checkpoint();
        }
    }
    run(&mut executor, &batch(202, &[(1, ask(1, 12).to_vec())]));
    assert!(executor.handover().is_some() && executor.snapshot(base).is_some());
}
