//! Execution that is taken back: nothing of it stays, and what stays is as if nothing else had
//! been.

use crate::toy::{self, batch, done, write};
use pentarchy_core::batch::Batch;
use pentarchy_core::digest::Digest;
use pentarchy_core::executor::{Executor, Notice};
use pentarchy_core::ids::{ClientId, Millis, Slot, View};
use pentarchy_core::limits::SPECULATIVE_UNTOLD_BYTES_MAX;
use pentarchy_core::ports::client::{Outcome, Place, Reply};
use pentarchy_core::request::{Draft, RequestAuth};
use pentarchy_core::service::{Context, Event, SmallService, Whole};
use pentarchy_core::sessions::Lookup;
use pentarchy_core::wire::Malformed;
use std::sync::Arc;

fn put(number: u64, seed: u8) -> Batch {
    batch(1, &[(number, write(0, 300_000, seed))])
}

/// Speculates in the next slot; what clients are told, and whether somebody waits.
fn speculate(executor: &mut Executor, batch: Batch) -> (Vec<Outcome>, bool) {
    let mut told = Vec::new();
    let slot = executor.executed().next();
    let place = Place { view: View(3), slot, history: Digest::of(&slot.0.to_le_bytes()) };
    let told_now = |_: &ClientId, reply: Reply| told.push(reply.outcome);
    let wanted = executor.speculate(place, &Arc::new(batch), true, told_now);
    (told, wanted)
}

fn commit(executor: &mut Executor, upto: u64) -> Vec<Notice> {
    let mut told = Vec::new();
    executor.commit(Slot(upto), |_, notice| told.push(notice));
    told
}

fn knows(executor: &Executor, number: u64) -> Lookup {
    let envelope = put(number, 0).envelopes[0].clone();
    executor.lookups(&envelope).next().expect("one request")
}

#[test]
fn what_is_taken_back_leaves_no_trace_in_service_client_table_and_state() {
    let mut executor = toy::fresh(toy::Toy::boxed());
    speculate(&mut executor, put(1, 1));
    commit(&mut executor, 1);
    executor.checkpoint();
    speculate(&mut executor, put(2, 2));
    assert_eq!(speculate(&mut executor, put(3, 3)), (vec![done(3)], false));
    speculate(&mut executor, Batch { time: Millis(900), ..put(4, 4) });
    commit(&mut executor, 2);
    executor.rollback(Slot(2));
    assert_eq!((executor.executed(), executor.committed()), (Slot(2), Slot(2)));
    assert_eq!(knows(&executor, 2), Lookup::Settled(done(2)));
    assert_eq!(knows(&executor, 3), Lookup::New, "it must be ordered again");
    assert_eq!(executor.query(b"")[..], 2u64.to_le_bytes());
    // Another history, without what was taken back: the same state as where only that was executed.
    assert_eq!(speculate(&mut executor, put(4, 4)).0, [done(3)]);
    commit(&mut executor, 3);
    let taken = executor.checkpoint();
    let mut straight = toy::fresh(toy::Toy::boxed());
    for (number, seed) in [(1, 1), (2, 2), (4, 4)] {
        toy::run(&mut straight, &put(number, seed));
    }
    assert_eq!(taken, straight.checkpoint());
}

#[test]
fn all_may_be_taken_back_and_again() {
    let mut executor = toy::fresh(toy::Toy::boxed());
    for seed in 1..=3 {
        speculate(&mut executor, put(1, seed));
        assert!(executor.is_speculative());
        executor.rollback(Slot(0));
        assert!(!executor.is_speculative() && knows(&executor, 1) == Lookup::New);
    }
    executor.rollback(Slot(0));
    assert_eq!(executor.checkpoint(), toy::fresh(toy::Toy::boxed()).checkpoint());
}

#[test]
#[should_panic(expected = "is to be taken back")]
fn what_is_final_is_not_taken_back() {
    let mut executor = toy::fresh(toy::Toy::boxed());
    speculate(&mut executor, put(1, 1));
    commit(&mut executor, 1);
    executor.rollback(Slot(0));
}

#[test]
#[should_panic(expected = "checkpoints are final")]
fn what_is_not_final_is_in_no_checkpoint() {
    let mut executor = toy::fresh(toy::Toy::boxed());
    speculate(&mut executor, put(1, 1));
    executor.checkpoint();
}

/// A state from others takes the place of everything, also of what could have been taken back.
#[test]
fn an_installed_state_is_final() {
    let (other, slot, _) = toy::executor(&[(0, 9, 1), (1, 9, 2)]);
    let mut executor = toy::fresh(toy::Toy::boxed());
    speculate(&mut executor, put(7, 7));
    executor.install(other.snapshot(slot).expect("it was taken").clone()).expect("it fits");
    assert_eq!((executor.executed(), executor.committed()), (slot, slot));
    speculate(&mut executor, put(8, 8));
    executor.rollback(slot);
    assert_eq!(knows(&executor, 8), Lookup::New);
    assert_eq!(knows(&executor, 2), Lookup::Settled(done(2)));
}

#[test]
fn who_asks_is_told_on_what_a_result_rests_and_when_it_is_final() {
    let mut executor = toy::fresh(toy::Toy::boxed());
    speculate(&mut executor, put(1, 1));
    speculate(&mut executor, put(2, 2));
    let place = |executor: &Executor, number| executor.places(&ClientId([1; 32]))(number);
    let rests = place(&executor, 2).expect("it is not final");
    assert_eq!((rests.view, rests.slot), (View(3), Slot(2)));
    executor.restate(View(5));
    assert_eq!(place(&executor, 2).map(|place| place.view), Some(View(5)));
    let envelope = put(2, 2).envelopes[0].clone();
    executor.ask(Slot(2), &envelope);
    executor.ask(Slot(2), &envelope);
    assert_eq!(commit(&mut executor, 1), []);
    assert_eq!(place(&executor, 1), None);
    let told = commit(&mut executor, 2);
    assert!(matches!(&told[..], [Notice::Reply(reply)] if reply.outcome == done(2)), "{told:?}");
}

/// Tells its client everything.
struct Echo(u8);

impl SmallService for Echo {
    fn execute(&mut self, _context: &Context, operation: &[u8]) -> Vec<u8> {
        self.0 = operation[0];
        Vec::new()
    }
    fn query(&self, _operation: &[u8]) -> Vec<u8> {
        vec![self.0]
    }
    fn take_events(&mut self) -> Vec<Event> {
        vec![Event { client: ClientId([1; 32]), body: vec![self.0].into() }]
    }
    fn save(&self) -> Vec<u8> {
        vec![self.0]
    }
    fn load(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        self.0 = *bytes.first().ok_or(Malformed)?;
        Ok(())
    }
}

/// Results of 1 MiB, more than the client table keeps of one client.
struct Long;

impl SmallService for Long {
    fn execute(&mut self, _context: &Context, operation: &[u8]) -> Vec<u8> {
        vec![operation[0]; 1 << 20]
    }
    fn query(&self, _operation: &[u8]) -> Vec<u8> {
        Vec::new()
    }
    fn save(&self) -> Vec<u8> {
        Vec::new()
    }
    fn load(&mut self, _bytes: &[u8]) -> Result<(), Malformed> {
        Ok(())
    }
}

/// So many requests in a slot, and so many in the next, of which clients are told later. How many
/// results they are told then of each, and how many when they are told again.
fn told_later(slots: [u64; 2]) -> [usize; 4] {
    let mut executor = toy::fresh(Box::new(Whole::new(Long)));
    for (slot, count) in (1..).zip(slots) {
        let numbers = (1..=count).map(|number| (100 * slot + number, vec![number as u8]));
        let place = Place { view: View(0), slot: Slot(slot), history: Digest::default() };
        let batch = Arc::new(batch(slot as u8, &numbers.collect::<Vec<_>>()));
        executor.speculate(place, &batch, false, |_, _| {});
    }
    let mut told = |slot| {
        let told = executor.answers(Slot(slot), View(0)).into_iter();
        told.flat_map(|(.., replies)| replies).filter(|it| it.outcome != Outcome::Forgotten).count()
    };
    [told(1), told(2), told(1), told(2)]
}

#[test]
fn what_clients_are_told_later_is_kept_for_that() {
    assert_eq!(told_later([6, 2]), [6, 2, 4, 2], "and not for longer");
    let limit = (SPECULATIVE_UNTOLD_BYTES_MAX >> 20) as u64;
    assert_eq!(told_later([limit - 5, 6]), [limit as usize - 5, 4, 4, 4]);
    assert_eq!(told_later([limit - 5, 5]), [limit as usize - 5, 5, 4, 4]);
}

/// A slot stands in another view when its clients are told so again, and no other one does.
#[test]
fn each_slot_stands_where_clients_were_told_that_it_does() {
    let mut executor = toy::fresh(toy::Toy::boxed());
    (1..=2).for_each(|number| drop(speculate(&mut executor, put(number, 1))));
    assert_eq!(executor.answers(Slot(1), View(7))[0].1.view, View(7));
    let view = |number| executor.places(&ClientId([1; 32]))(number).map(|place| place.view);
    assert_eq!([view(1), view(2)], [Some(View(7)), Some(View(3))]);
}

/// A view takes over what is not final. Its clients are told in which view it stands now, but for
/// numbers below the floor that they declared since.
#[test]
fn clients_are_told_where_stands_what_they_may_wait_for() {
    let mut executor = toy::fresh(toy::Toy::boxed());
    for number in 1..=3 {
        speculate(&mut executor, put(number, number as u8));
    }
    commit(&mut executor, 1);
    let told = |executor: &mut Executor| {
        let told = executor.restate(View(8)).into_iter();
        let numbers = |(_, place, replies): (ClientId, Place, Vec<Reply>)| {
            let numbers = replies.iter().map(|reply| reply.number).collect::<Vec<_>>();
            (place.view, place.slot, numbers)
        };
        told.map(numbers).collect::<Vec<_>>()
    };
    let both = [(View(8), Slot(2), vec![2]), (View(8), Slot(3), vec![3])];
    assert_eq!(told(&mut executor), both);
    let envelope = &put(4, 4).envelopes[0];
    let draft = Draft {
        client: envelope.client,
        floor: 3,
        events: None,
        requests: envelope.requests.clone(),
    };
    let envelope = draft.seal(RequestAuth::Signature([0; 64]));
    let (time, digest) = (Millis(7), envelope.digest);
    speculate(&mut executor, Batch { time, envelopes: vec![Arc::new(envelope)], digest });
    let later = [(View(8), Slot(3), vec![3]), (View(8), Slot(4), vec![4])];
    assert_eq!(told(&mut executor), later);
}

#[test]
fn what_clients_are_told_unasked_waits_until_it_is_final() {
    let mut executor = toy::fresh(Box::new(Whole::new(Echo(0))));
    let client = ClientId([1; 32]);
    let tell = |number, body| batch(1, &[(number, vec![body])]);
    let (_, wanted) = speculate(&mut executor, tell(1, 7));
    assert!(wanted && executor.withholds_events(&client));
    speculate(&mut executor, tell(2, 8));
    executor.rollback(Slot(1));
    speculate(&mut executor, tell(3, 9));
    let events = commit(&mut executor, 2);
    let body = |notice: &Notice| match notice {
        Notice::Event { number, body } => (*number, body[0]),
        Notice::Reply(_) => panic!("nobody asked"),
    };
    assert_eq!(events.iter().map(body).collect::<Vec<_>>(), [(1, 7), (2, 9)]);
    assert!(!executor.withholds_events(&client) && commit(&mut executor, 2).is_empty());
}
