//! Values that cross a channel: the first byte says of which type. Decoding never panics, costs no
//! more memory than the bytes justify, and accepts one encoding for each value only.

use super::group;
use crate::input::Input;
use crate::memory::bounded;
use pentarchy_core::Bytes;
use pentarchy_core::auth::{AuthTag, Signature};
use pentarchy_core::batch::Proposal;
use pentarchy_core::change::{Change, Petition, Ready, Withdrawal};
use pentarchy_core::configuration::{
    Access, Administrators, Configuration, MemberEntry, RequestMeans, SealedSecret,
};
use pentarchy_core::counter::Ui;
use pentarchy_core::digest::Digest;
use pentarchy_core::epochs::{Admission, Handover, Message, Proof, Witnesses};
use pentarchy_core::ids::{
    ClientId, Epoch, GroupId, Incarnation, MemberId, Millis, ReplicaId, Slot,
};
use pentarchy_core::membership::{Base, Life, PillarConfig};
use pentarchy_core::ports::client::{Outcome, Reply, ToClient, ToReplica};
use pentarchy_core::protocol::Tuning;
use pentarchy_core::request::{Draft, Envelope};
use pentarchy_core::standing::Standing;
use pentarchy_core::transfer;
use pentarchy_core::wire::Wire;
use pentarchy_io::hello::Hello;
use pentarchy_protocols::{DEFAULT, minbft};
use pentarchy_sim::packet::Packet;
use std::fmt::Debug;
use std::sync::Arc;

type Check = fn(&Bytes);

const TYPES: [Check; 14] = [
    round_trip::<minbft::Message>,
    round_trip::<ToReplica>,
    round_trip::<ToClient>,
    round_trip::<transfer::Message>,
    envelope,
    round_trip::<Proposal>,
    round_trip::<transfer::Part>,
    round_trip::<Ui>,
    round_trip::<AuthTag>,
    round_trip::<Hello>,
    round_trip::<Message>,
    round_trip::<Petition>,
    round_trip::<Configuration>,
    round_trip::<Standing>,
];

pub fn run(input: &[u8]) {
    let mut input = Input::new(input);
    let kind = usize::from(input.u8());
    TYPES[kind % TYPES.len()](&input.shared());
}

pub fn round_trip<T: Wire + PartialEq + Debug>(bytes: &Bytes) {
    let Ok(value) = bounded(bytes.len(), || T::from_bytes(bytes)) else { return };
    let again = value.to_bytes();
    assert_eq!(again, *bytes, "one encoding of {value:?}");
    assert_eq!(T::from_bytes(&again), Ok(value));
}

/// An envelope keeps the bytes it came in, so its parts are put together anew.
fn envelope(bytes: &Bytes) {
    round_trip::<Envelope>(bytes);
    let Ok(Envelope { client, floor, events, requests, auth, digest, .. }) =
        Envelope::from_bytes(bytes)
    else {
        return;
    };
    let again = Draft { client, floor, events, requests }.seal(auth);
    assert_eq!((again.digest, again.to_bytes()), (digest, bytes.clone()));
}

/// What is said in honest groups, and one of everything that is not.
pub fn seeds() -> Vec<Vec<u8>> {
    let of = |kind: u8, bytes: &[u8]| [&[kind][..], bytes].concat();
    let mut seeds = Vec::new();
    for packet in group::recorded_packets() {
        match packet {
            Packet::Protocol(_, wire) => {
                let (tag, body) = group::divide(&wire);
                seeds.push(of(0, &body));
                seeds.push(of(8, &tag.to_bytes()));
                if let AuthTag::Usig(ui) = tag {
                    seeds.push(of(7, &ui.to_bytes()));
                }
                if let Ok(minbft::Message::Order(minbft::Order::Prepare { proposal, .. })) =
                    minbft::Message::from_bytes(&body)
                {
                    seeds.push(of(5, &proposal.to_bytes()));
                }
            }
            Packet::Epochs(wire) => seeds.push(of(10, &wire)),
            Packet::ToReplica(wire) => {
                if let Ok(ToReplica::Request(envelope)) = ToReplica::from_bytes(&wire) {
                    seeds.push(of(4, &envelope.to_bytes()));
                }
                seeds.push(of(1, &wire));
            }
            Packet::ToClient(_, wire) => seeds.push(of(2, &wire)),
            // Only machines read it.
            Packet::Resuming(_) => {}
            Packet::Transfer(wire) => {
                if let Ok(transfer::Message::Nodes { nodes, .. }) =
                    transfer::Message::from_bytes(&wire)
                {
                    seeds.extend(nodes.first().map(|(_, part)| of(6, &part.to_bytes())));
                }
                seeds.push(of(3, &wire));
            }
        }
    }
    seeds.push(of(1, &ToReplica::Status.to_bytes()));
    let query = ToReplica::Query { number: 7, operation: Bytes::from_static(b"get a") };
    seeds.push(of(1, &query.to_bytes()));
    let gone = transfer::Message::Gone { slot: Slot(4) };
    seeds.push(of(1, &ToReplica::State(gone.clone()).to_bytes()));
    seeds.push(of(2, &ToClient::State(gone.to_bytes()).to_bytes()));
    let outcomes = [Outcome::Done(Bytes::from_static(b"x")), Outcome::Forgotten, Outcome::Refused];
    let replies = (1..).zip(outcomes).map(|(number, outcome)| Reply { number, outcome }).collect();
    let view = pentarchy_core::ids::View(1);
    let answer = ToClient::Answer { number: 7, result: Bytes::from_static(b"1") };
    let status = ToClient::Status(Bytes::from_static(b"{}"));
    seeds.push(of(13, &standing().to_bytes()));
    let standing = ToClient::Standing(standing().to_bytes());
    for message in [
        ToClient::Replies { view, replies },
        answer,
        ToClient::Busy { number: 3 },
        status,
        standing,
    ] {
        seeds.push(of(2, &message.to_bytes()));
    }
    seeds.push(of(3, &gone.to_bytes()));
    seeds.push(of(9, &[0, 1, 0]));
    seeds.push(of(9, &[1; 33]));
    seeds.extend(epochs_seeds().iter().map(|bytes| of(10, bytes)));
    seeds.push(of(12, &configuration().to_bytes()));
    seeds.extend(petitions().iter().map(|petition| of(11, &petition.to_bytes())));
    seeds.sort();
    seeds.dedup();
    seeds
}

fn configuration() -> Configuration {
    let member = |id: u8| MemberEntry {
        id: MemberId(id.into()),
        identity: [id; 32],
        signing: [id + 9; 32],
        sealed: (id != 2).then_some(SealedSecret([id; SealedSecret::BYTES])),
        address: format!("h:{id}"),
    };
    Configuration {
        group: GroupId([5; 16]),
        number: 1,
        protocol: DEFAULT.rules.name.to_owned(),
        facts: DEFAULT.rules.facts(),
        f: 1,
        lane: PillarConfig::default(),
        tuning: Tuning::default(),
        requests: RequestMeans::Session([8; 32]),
        secret: Some(Digest::of(b"secret")),
        administrators: Administrators { threshold: 1, keys: vec![[7; 32]] },
        access: Access::only([ClientId([1; 32]), ClientId([2; 32])]),
        members: [1, 2, 3].map(member).to_vec(),
        next_member: MemberId(4),
    }
}

fn life(incarnation: u64) -> Life {
    Life { incarnation: Incarnation(incarnation), device_key: [0; 32] }
}

/// What members and administrators ask of their group.
fn petitions() -> [Petition; 4] {
    let (expects, attempt, life) = (Digest([7; 32]), 1, life(4));
    let (expires, needed) = (Millis(9), vec![MemberId(3)]);
    let change = Change { expects, attempt, expires, next: configuration(), needed };
    let (signing, possession) = ([6; 32], Signature([7; 64]));
    let ready = Ready { epoch: Epoch(2), change: change.digest(), signing, life, possession };
    [
        Petition::Admit(Admission { epoch: Epoch(3), configuration: expects, life }),
        Petition::Propose(Arc::new(change)),
        Petition::Withdraw(Withdrawal { expects, attempt }),
        Petition::Ready(ready),
    ]
}

/// With a link, a change that is pending, and states for who joins with it.
fn standing() -> Standing {
    let Ok(Message::Proofs(links)) = Message::from_bytes(&epochs_seeds()[2]) else {
        unreachable!("the third seed has proofs")
    };
    let pending = petitions().into_iter().find_map(|petition| match petition {
        Petition::Propose(change) => Some(change),
        _ => None,
    });
    let states = vec![Base::default(), Base { slot: Slot(64), state: Digest([6; 32]) }];
    Standing { epoch: Epoch(1), links, pending, states }
}

/// What replicas say about the end of an epoch.
fn epochs_seeds() -> Vec<Bytes> {
    let base = Base { slot: Slot(8), state: Digest::of(b"state") };
    let handover =
        Handover { epoch: Epoch(0), base, lives: vec![life(1), life(2), life(3)], next: None };
    let signature = Signature([7; 64]);
    let signatures = vec![(ReplicaId(0), signature), (ReplicaId(2), signature)];
    let proof = Proof {
        handover: handover.clone(),
        next: None,
        by: Witnesses::Members,
        signatures: signatures.clone(),
    };
    let next = Arc::new(configuration());
    let changes = Handover { next: Some(next.digest()), ..handover.clone() };
    let link = Proof { handover: changes, next: Some(next), by: Witnesses::Members, signatures };
    let messages = [
        Message::At { epoch: Epoch(1), configuration: base.state },
        Message::Vote(handover, signature),
        Message::Proofs(vec![link, proof]),
    ];
    messages.map(|message| message.to_bytes()).to_vec()
}
