use super::*;
use pentarchy_core::Bytes;
use pentarchy_core::ids::{Epoch, ReplicaId, View};
use pentarchy_core::ports::client::{Outcome, Reply, ToClient};
use pentarchy_core::wire::Wire;

const R1: Address = Address::Replica(ReplicaId(1));
const R2: Address = Address::Replica(ReplicaId(2));
const CLIENT: Address = Address::Client(0);

fn protocol(byte: u8) -> Packet {
    Packet::Protocol(Epoch(0), Bytes::from(vec![byte; 40]))
}

fn sends(adversary: &mut dyn Adversary, to: Address, packet: &Packet) -> Vec<Departure> {
    let mut out = Vec::new();
    adversary.on_send(to, packet.clone(), &mut Rng::new(5), &mut out);
    out
}

#[test]
fn the_silent_one_is_silent() {
    assert!(sends(&mut Silent::new(true), R1, &protocol(1)).is_empty());
    assert!(sends(&mut Silent::new(true), CLIENT, &protocol(1)).is_empty());
    assert_eq!(sends(&mut Silent::new(false), CLIENT, &protocol(1)).len(), 1);
}

#[test]
fn the_deserter_is_silent_to_replicas_while_it_leads() {
    let mut adversary = Chain(vec![Box::new(Desert::default())]);
    assert_eq!(sends(&mut adversary, R1, &protocol(1)).len(), 1);
    adversary.leads(true);
    assert!(sends(&mut adversary, R1, &protocol(1)).is_empty());
    assert_eq!(sends(&mut adversary, CLIENT, &protocol(1)).len(), 1);
    adversary.leads(false);
    assert_eq!(sends(&mut adversary, R1, &protocol(1)).len(), 1);
}

#[test]
fn the_selective_one_has_friends() {
    let mut adversary = Selective::new(ReplicaSet::from_iter([ReplicaId(2)]), false);
    assert!(sends(&mut adversary, R1, &protocol(1)).is_empty());
    assert_eq!(sends(&mut adversary, R2, &protocol(1)).len(), 1);
    assert!(sends(&mut adversary, CLIENT, &protocol(1)).is_empty());
}

#[test]
fn the_corrupt_one_changes_bytes_for_replicas_only() {
    let mut adversary = Corrupt::new(1_000_000);
    let mut rng = Rng::new(1);
    let mut spoiled = 0;
    for _ in 0..100 {
        let mut out = Vec::new();
        adversary.on_send(R1, protocol(7), &mut rng, &mut out);
        spoiled += usize::from(out[0].packet != protocol(7));
        adversary.on_send(CLIENT, protocol(7), &mut rng, &mut out);
        assert_eq!(out[1].packet, protocol(7));
    }
    assert!(spoiled > 90, "{spoiled}");
}

#[test]
fn the_replaying_one_repeats_what_it_sent_and_heard() {
    let mut adversary = Replay::new(1_000_000);
    let mut rng = Rng::new(1);
    assert!(adversary.hears(R2, &protocol(9), &mut rng));
    let mut out = Vec::new();
    for _ in 0..50 {
        adversary.on_send(R1, protocol(7), &mut rng, &mut out);
    }
    assert_eq!(out.len(), 100);
    assert!(out.iter().any(|departure| departure.packet == protocol(9)));
}

#[test]
fn the_echo_sends_back_to_each_what_it_said_itself() {
    let mut adversary = Echo::new(1_000_000);
    let mut rng = Rng::new(1);
    for (from, byte) in [(R1, 1), (R2, 2), (CLIENT, 3)] {
        assert!(adversary.hears(from, &protocol(byte), &mut rng));
    }
    for (to, byte) in [(R1, 1), (R2, 2)] {
        let sent = sends(&mut adversary, to, &protocol(7));
        assert_eq!(sent.len(), 2);
        assert_eq!((sent[0].packet.clone(), sent[0].after), (protocol(7), 0));
        assert_eq!(sent[1].packet, protocol(byte));
    }
    assert_eq!(sends(&mut adversary, CLIENT, &protocol(7)).len(), 1);
}

#[test]
fn the_liar_never_tells_a_client_the_truth() {
    let replies = vec![Reply { number: 4, outcome: Outcome::Done(Bytes::from_static(b"true")) }];
    let truth = ToClient::Replies { view: View(0), replies: replies.clone() };
    for _ in 0..20 {
        let out = sends(&mut Liar, CLIENT, &Packet::ToClient(0, truth.to_bytes()));
        if let Ok(ToClient::Replies { replies: told, .. }) =
            ToClient::from_bytes(out[0].packet.bytes())
        {
            assert_ne!(told, replies);
        }
    }
    assert_eq!(sends(&mut Liar, R1, &protocol(1))[0].packet, protocol(1));
}

#[test]
fn the_slow_one_holds_everything_back_for_as_long_as_it_was_told() {
    let mut adversary = Delayer::new(500, 900);
    for _ in 0..50 {
        let after = sends(&mut adversary, R1, &protocol(1))[0].after;
        assert!((500..=900).contains(&after));
    }
}

#[test]
fn the_starved_client_is_not_heard_and_not_answered_and_nobody_else_is() {
    let client = ClientId([42; 32]);
    let mut adversary = Starve::new(0, client);
    let mut rng = Rng::new(1);
    let mut hears = |from, packet: &Packet| adversary.hears(from, packet, &mut rng);
    let asks = Packet::ToReplica(Bytes::from_static(b"x"));
    assert!(!hears(CLIENT, &asks) && hears(Address::Client(1), &asks));
    let forward = Packet::Protocol(Epoch(0), Bytes::from([&[9][..], &client.0, &[9]].concat()));
    assert!(!hears(R1, &forward) && hears(R1, &protocol(42 ^ 1)));
    let mut adversary = Starve::new(0, client);
    assert!(sends(&mut adversary, CLIENT, &asks).is_empty());
    assert_eq!(sends(&mut adversary, Address::Client(1), &asks).len(), 1);
}

#[test]
fn the_poisoner_changes_each_answer_of_state_transfer_and_nothing_else() {
    use pentarchy_core::digest::Digest;
    use pentarchy_core::ids::Slot;
    use pentarchy_core::transfer::{Message, Part};
    use pentarchy_core::tree::Place;
    let mut adversary = Poison::new(1_000_000);
    let mut rng = Rng::new(3);
    let chunk = |byte| {
        let (slot, section, chunk) = (Slot(4), 2, 7);
        Message::Chunk { slot, section, chunk, bytes: Bytes::from(vec![byte; 9]) }
    };
    let nodes = |part| {
        let nodes = vec![(Place { height: 1, prefix: 3 }, part)];
        Message::Nodes { slot: Slot(4), sections: 70, leaves: 9, nodes }
    };
    let section = |byte| nodes(Part::Section { section: 2, bytes: Bytes::from(vec![byte; 9]) });
    let digests = |byte| vec![Digest([byte; 32]); 3];
    let large = |byte| nodes(Part::Chunks { section: 2, digests: digests(byte) });
    let inner = |byte| nodes(Part::Children { present: 15, listed: 14, digests: digests(byte) });
    let truths: [&dyn Fn(u8) -> Message; 4] = [&chunk, &section, &large, &inner];
    for truth in truths {
        let mut changed = 0;
        for byte in 0..100 {
            let (mut out, truth) = (Vec::new(), Packet::Transfer(truth(byte).to_bytes()));
            adversary.on_send(R1, truth.clone(), &mut rng, &mut out);
            changed += usize::from(out[0].packet != truth);
        }
        assert!(changed >= 99, "only the first can be its own stale one: {changed}");
    }
    assert_eq!(sends(&mut adversary, R1, &protocol(1))[0].packet, protocol(1));
}

#[test]
fn several_at_once_do_what_each_does() {
    let mut both = Chain(vec![Box::new(Delayer::new(5, 5)), Box::new(Delayer::new(7, 7))]);
    assert_eq!(sends(&mut both, R1, &protocol(1))[0].after, 12);
    let mut silent = Chain(vec![Box::new(Replay::new(1_000_000)), Box::new(Silent::new(true))]);
    assert!(sends(&mut silent, R1, &protocol(1)).is_empty());
    assert_eq!(sends(&mut Chain::default(), R1, &protocol(1)).len(), 1);
}

#[test]
fn every_behaviour_is_drawn() {
    let mut rng = Rng::new(1);
    let draw = |_| Behaviour::draw(&mut rng, 3, 4, &Timeouts::default()).name();
    let names: std::collections::BTreeSet<_> = (0..1_000).map(draw).collect();
    let more = "two ways to forge, and to repeat";
    assert_eq!(names.len() as u64, BEHAVIOURS + 2, "{more}: {names:?}");
}
