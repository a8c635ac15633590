//! What a service tells clients unasked, over real sockets.

use pentarchy::administration::{Terms, relocate};
use pentarchy::node::client_config;
use pentarchy::{
    Client, ClientEvent, ClientId, Context, Event, KeyPair, LocalCluster, Malformed, SmallService,
    Whole,
};
use pentarchy_core::ids::MemberId;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// How long a test waits for what must happen.
const PATIENCE: Duration = Duration::from_secs(30);

/// Passes on to a client what another one says. An operation is the client's id and the text; one
/// without a text does nothing.
#[derive(Default)]
struct Post(Vec<Event>);

impl SmallService for Post {
    fn execute(&mut self, _: &Context, operation: &[u8]) -> Vec<u8> {
        if let Some((client, text)) = operation.split_first_chunk::<32>()
            && !text.is_empty()
        {
            self.0.push(Event { client: ClientId(*client), body: text.to_vec().into() });
        }
        Vec::new()
    }
    fn query(&self, _: &[u8]) -> Vec<u8> {
        Vec::new()
    }
    fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.0)
    }
    fn save(&self) -> Vec<u8> {
        Vec::new()
    }
    fn load(&mut self, _: &[u8]) -> Result<(), Malformed> {
        Ok(())
    }
}

fn listen(cluster: &LocalCluster, keys: &KeyPair) -> (Client, Receiver<ClientEvent>) {
    let (sender, receiver) = channel();
    let mut config = client_config(cluster.config(), keys.clone()).expect("addresses are numbers");
    config.on_event = Some(Box::new(move |event| drop(sender.send(event))));
    (Client::connect(config).expect("a client starts"), receiver)
}

fn post(from: &Client, to: &Client, texts: std::ops::Range<u32>) {
    let sent: Vec<_> = texts
        .map(|text| from.submit([&to.id().0[..], text.to_string().as_bytes()].concat()))
        .collect();
    sent.into_iter().for_each(|sent| assert!(sent.wait().is_ok()));
}

#[test]
fn a_client_is_told_everything_in_order_and_after_it_was_away_what_it_did_not_acknowledge() {
    let service = || Box::new(Whole::new(Post::default())) as Box<dyn pentarchy::Service>;
    let mut cluster = LocalCluster::builder().start(service).expect("a cluster starts");
    let keys = KeyPair::generate();
    let (reader, told) = listen(&cluster, &keys);
    let writer = cluster.client().expect("a client starts");
    reader.call("the replicas know me now").expect("an answer");
    let hears = |told: &Receiver<ClientEvent>, text: u32| {
        let event = told.recv_timeout(PATIENCE).expect("an event");
        assert_eq!(event, ClientEvent::Event(text.to_string().into()));
    };

    post(&writer, &reader, 0..300);
    (0..300).for_each(|text| hears(&told, text));
    cluster.kill(2).expect("it runs");
    post(&writer, &reader, 300..310);
    (300..310).for_each(|text| hears(&told, text));

    reader.call("this acknowledges them").expect("an answer");
    post(&writer, &reader, 310..320);
    (310..320).for_each(|text| hears(&told, text));
    drop(reader);
    assert!(told.recv().is_err(), "nothing was told twice");

    let (again, told) = listen(&cluster, &keys);
    post(&writer, &again, 320..330);
    let first = told.recv_timeout(PATIENCE).expect("an event");
    assert_eq!(first, ClientEvent::Lost, "a new listener cannot know what the old one was told");
    (310..330).for_each(|text| hears(&told, text));
}

/// A client goes on with other replicas, or with those that it has at other addresses, when the
/// group has changed.
#[test]
fn a_client_is_told_nothing_twice_when_its_group_changes() {
    let service = || Box::new(Whole::new(Post::default())) as Box<dyn pentarchy::Service>;
    let cluster = LocalCluster::builder().start(service).expect("a cluster starts");
    let (reader, told) = listen(&cluster, &KeyPair::generate());
    let writer = cluster.client().expect("a client starts");
    reader.call("the replicas know me now").expect("an answer");
    post(&writer, &reader, 0..100);

    let administrators = cluster.administrators().expect("administrators");
    let shown = administrators[0].show(PATIENCE).expect("how the group is");
    let (_, port) = cluster.config().replicas[2].address.rsplit_once(':').expect("a port");
    let change = relocate(&shown, MemberId(2), &format!("localhost:{port}"), &Terms::new(PATIENCE));
    let change = change.expect("there is such a member");
    let last = std::thread::scope(|scope| {
        let changes = scope.spawn(|| {
            administrators[0].propose(change, PATIENCE).expect("it is accepted");
            let begins = || administrators[0].show(PATIENCE).expect("how the group is");
            while begins().configuration.number == 0 {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let mut next = 100;
        while !changes.is_finished() && next < 2_000 {
            post(&writer, &reader, next..next + 10);
            next += 10;
        }
        changes.join().expect("the group changes");
        post(&writer, &reader, next..next + 100);
        next + 100
    });
    for text in 0..last {
        let event = told.recv_timeout(PATIENCE).expect("an event");
        assert_eq!(event, ClientEvent::Event(text.to_string().into()));
    }
    drop(reader);
    assert!(told.recv().is_err(), "nothing was told twice");
}
