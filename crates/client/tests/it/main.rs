//! The client's host around a core that the test controls: requests that it gives
//! up, and what becomes of a client that is overtaken.

use pentarchy_client::{
    Client, ClientConfig, GIVE_UP_TIME, Kind, ReplyListener, RequestError, ServiceProxy,
};
use pentarchy_core::Bytes;
use pentarchy_core::ids::{GroupId, Incarnation, ReplicaId};
use pentarchy_core::membership::{Life, Membership};
use pentarchy_core::ports::client::{ClientCore, Effect, Event, Outcome};
use pentarchy_crypto::keys::KeyPair;
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// What the host told the core, and what the core is to answer in its next round.
#[derive(Default)]
struct Script {
    submitted: Vec<(u64, Bytes)>,
    given_up: Vec<u64>,
    outcomes: VecDeque<(u64, Outcome)>,
}

#[derive(Clone, Default)]
struct Led(Arc<Mutex<Script>>);

impl ClientCore for Led {
    fn step(&mut self, event: Event, out: &mut Vec<Effect>) {
        let mut script = self.0.lock().expect("no test panics in here");
        match event {
            Event::Submit { number, operation } => script.submitted.push((number, operation)),
            Event::GiveUp { number } => script.given_up.push(number),
            Event::Round { now } => {
                for (number, outcome) in script.outcomes.drain(..) {
                    out.push(Effect::Completed { number, outcome });
                }
                out.push(Effect::WakeAt(pentarchy_core::ids::Millis(now.0 + 10)));
            }
            _ => {}
        }
    }
    fn outstanding(&self) -> usize {
        0
    }
}

impl Led {
    fn client(&self) -> Client {
        let key = KeyPair::generate().public();
        let members = [(key, Life::mac(Incarnation(1)))];
        let membership = Arc::new(Membership::of_keys(GroupId([7; 16]), 0, members));
        // Nobody listens there.
        let addresses = vec!["127.0.0.1:1".parse().expect("an address")];
        let keys = KeyPair::generate();
        let config = ClientConfig::new(membership, addresses, keys, Box::new(self.clone()));
        Client::connect(config).expect("a thread")
    }

    fn look<T>(&self, look: impl Fn(&Script) -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(seen) = look(&self.0.lock().expect("whole")) {
                return seen;
            }
            assert!(Instant::now() < deadline, "it does not come");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The number under which an operation was submitted to the core.
    fn number(&self, operation: &'static str) -> u64 {
        let is = |(number, bytes): &(u64, Bytes)| (bytes == operation).then_some(*number);
        self.look(|script| script.submitted.iter().find_map(is))
    }

    fn is_submitted(&self, operation: &'static str) -> bool {
        let script = self.0.lock().expect("whole");
        script.submitted.iter().any(|(_, bytes)| bytes == operation)
    }

    fn settle(&self, number: u64, outcome: Outcome) {
        self.0.lock().expect("whole").outcomes.push_back((number, outcome));
    }
}

type Answer = Receiver<Result<Bytes, RequestError>>;

fn submit(client: &Client, operation: &'static str, limit: Duration) -> Answer {
    let (told, answer) = channel();
    client.submit_within(operation, limit, move |result| told.send(result).expect("it waits"));
    answer
}

const SHORT: Duration = Duration::from_millis(200);

#[test]
fn what_takes_too_long_is_given_up_and_has_whatever_came_of_it() {
    let core = Led::default();
    let client = core.client();
    for (operation, outcome, told) in [
        ("never", Outcome::GivenUp, Err(RequestError::GivenUp)),
        ("late", Outcome::Done(Bytes::from_static(b"7")), Ok(Bytes::from_static(b"7"))),
        ("old", Outcome::Forgotten, Err(RequestError::Forgotten)),
    ] {
        let answer = submit(&client, operation, SHORT);
        let number = core.number(operation);
        core.look(|script| script.given_up.contains(&number).then_some(()));
        assert!(answer.try_recv().is_err(), "it is open what comes of it");
        core.settle(number, outcome);
        assert_eq!(answer.recv_timeout(PATIENCE).expect("told"), told, "{operation}");
    }
}

/// Or a look at what has become of it could come too early.
#[test]
fn nothing_is_sent_while_it_is_open_what_comes_of_what_was_given_up() {
    let core = Led::default();
    let client = core.client();
    let started = Instant::now();
    let lost = submit(&client, "lost", SHORT);
    let number = core.number("lost");
    assert_eq!(lost.recv_timeout(PATIENCE).expect("told"), Err(RequestError::TimedOut));
    assert!(started.elapsed() >= SHORT + GIVE_UP_TIME);
    let short = submit(&client, "short", SHORT);
    let look = submit(&client, "look", PATIENCE);
    assert_eq!(short.recv_timeout(PATIENCE).expect("told"), Err(RequestError::GivenUp));
    assert!(!core.is_submitted("look") && !core.is_submitted("short"));
    core.settle(number, Outcome::Done(Bytes::new()));
    let number = core.number("look");
    core.settle(number, Outcome::Done(Bytes::from_static(b"seen")));
    let seen = look.recv_timeout(PATIENCE).expect("told");
    assert_eq!(seen, Ok(Bytes::from_static(b"seen")));
    assert!(!core.is_submitted("short"), "it said that it never would be");
}

#[test]
fn one_that_is_overtaken_asks_for_nothing_more() {
    let core = Led::default();
    let client = core.client();
    let (first, second) = (client.submit("first"), submit(&client, "second", PATIENCE));
    core.number("second");
    assert!(!client.is_overtaken());
    core.settle(core.number("first"), Outcome::Overtaken);
    assert_eq!(first.wait_timeout(PATIENCE), Err(RequestError::Overtaken));
    assert_eq!(second.recv_timeout(PATIENCE).expect("told"), Err(RequestError::Overtaken));
    assert!(client.is_overtaken());
    let started = Instant::now();
    assert_eq!(client.call("third"), Err(RequestError::Overtaken));
    let status = client.status(pentarchy_core::ids::ReplicaId(0));
    assert_eq!(status.wait_timeout(PATIENCE), Err(RequestError::Overtaken));
    assert!(started.elapsed() < PATIENCE && !core.is_submitted("third"));
}

struct Listener(Sender<Result<Bytes, RequestError>>);

impl ReplyListener for Listener {
    fn reply(&mut self, _: ReplicaId, _: &Bytes) {
        panic!("this core hands nothing on");
    }
    fn done(&mut self, result: Result<Bytes, RequestError>) {
        self.0.send(result).expect("it waits");
    }
}

#[test]
fn what_only_the_protocols_client_judges_is_cancelled_too() {
    let core = Led::default();
    let proxy = ServiceProxy::new(core.client());
    let (told, answer) = channel();
    let id = proxy.asynchronous("never", Kind::Ordered, Listener(told.clone()));
    let number = core.number("never");
    proxy.cancel(id);
    let end = answer.recv_timeout(PATIENCE).expect("told");
    assert_eq!(end, Err(RequestError::Cancelled));
    core.look(|script| script.given_up.contains(&number).then_some(()));
    // The group executes it all the same; the client tells nobody.
    core.settle(number, Outcome::Done(Bytes::from_static(b"late")));
    let id = proxy.asynchronous("next", Kind::Ordered, Listener(told));
    core.settle(core.number("next"), Outcome::Done(Bytes::from_static(b"7")));
    assert_eq!(answer.recv_timeout(PATIENCE).expect("told"), Ok(Bytes::from_static(b"7")));
    proxy.cancel(id);
    assert!(answer.recv_timeout(SHORT).is_err(), "it was told");
}
