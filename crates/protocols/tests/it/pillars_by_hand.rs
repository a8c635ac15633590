//! Pillars in schedules by hand: what is decided in one waits for another.

use crate::net::{Net, SLOW, envelope};
use pentarchy_core::auth::Signature;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ReplicaId, Slot};
use pentarchy_core::membership::Base;
use pentarchy_core::ports::replica::Output;
use pentarchy_core::protocol::{Effect, Effects, Memory, Protocol as _, Setup, Tuning};
use pentarchy_protocols::common::certificate::CheckpointProof;
use pentarchy_protocols::common::frame::hooks::Framed as _;
use pentarchy_protocols::common::message::Shared;
use pentarchy_protocols::common::record::Kept;
use pentarchy_protocols::pbft::{Message, Pbft};
use pentarchy_protocols::pillars::{self, Pillars, Record};

type Core = Pillars<Pbft<false>>;
type Said = pillars::Message<Message>;

/// Replica 1 lacks a slot of the first pillar, so what the second one has ordered is not executed
/// there, and its client sends it there again. To the primary it is settled.
#[test]
fn what_is_executed_waits_no_more_however_late_that_is() {
    let mut net = Net::<Core>::of_pillars(2, 4, &[], SLOW);
    let request = envelope(1, 1, 8);
    net.loses = |to, said| to == 1 && said.pillar == 0;
    net.order(0, &request);
    assert_eq!((net.status(0).committed, net.status(1).committed), (Slot(2), Slot(0)));
    net.request(1, &request);
    assert_eq!(net.status(1).waiting, 1);
    net.loses = |_, _| false;
    net.run(300);
    assert_eq!((net.status(1).committed, net.status(1).waiting), (Slot(2), 0));
    net.run(3_000);
    assert_eq!(net.core(1).statuses()[1].reason, "", "its own pillar lacked nothing");
}

/// What a replica fetches that was restarted with this state after row 64, if a quorum vouches for
/// that one in its first pillar.
fn fetched(mine: Digest, vouched: Digest) -> Vec<(Slot, Digest)> {
    let net = Net::<Core>::of_pillars(2, 4, &[], Tuning::default());
    let signature = |id: u16| (ReplicaId(id), Signature([id as u8; 64]));
    let signatures = (0..3).map(signature).collect();
    let proof = CheckpointProof { slot: Slot(64), state: vouched, signatures };
    let record = Record { pillar: 0, inner: Pbft::<false>::kept(Kept::Stable(proof)) };
    let executed = Base { slot: Slot(128), state: mine };
    let setup = Setup {
        me: ReplicaId(1),
        membership: net.membership.clone(),
        fetch: None,
        memory: Memory::Durable { executed, records: Vec::new() },
        tuning: Tuning::default(),
    };
    let mut out = Effects::default();
    let core = Core::start(setup, &mut [record].into_iter(), &mut out);
    core.assert_invariants();
    let fetched = out.drain().filter_map(|effect| match effect {
        Effect::Output(Output::Fetch { slot, state, .. }) => Some((slot, state)),
        _ => None,
    });
    fetched.collect()
}

#[test]
fn a_state_that_is_not_the_vouched_one_is_fetched_also_after_a_restart() {
    let (mine, vouched) = (Digest([1; 32]), Digest([2; 32]));
    assert_eq!(fetched(vouched, vouched), []);
    assert_eq!(fetched(mine, vouched).first(), Some(&(Slot(128), vouched)));
}

fn is_checkpoint(said: &Said) -> bool {
    matches!(&*said.inner, Message::Shared(Shared::Checkpoint { .. }))
}

/// Replica 1 lacks the third pillar's slots, and of the first pillar's checkpoints nobody hears.
/// What the second pillar is told to be stable is fetched: then the first one can sign it.
#[test]
fn who_asked_for_a_state_that_was_promised_is_told_when_it_is_here() {
    let tuning = Tuning { checkpoint_slots: 2, window_slots: 8, ..Tuning::default() };
    let mut net = Net::<Core>::of_pillars(3, 4, &[], tuning);
    net.loses = |to, said| match said.pillar {
        0 => is_checkpoint(said),
        2 => to == 1 && !is_checkpoint(said),
        _ => false,
    };
    for number in 1..=8 {
        net.order(0, &envelope(2, number, 8));
    }
    net.run(500);
    assert_eq!((net.status(0).committed, net.status(1).committed), (Slot(24), Slot(2)));
    net.queue.clear();
    net.installed(1, Slot(24));
    assert_eq!(net.status(1).committed, Slot(24));
    let signed = net.queue.iter().any(|(from, _, said)| {
        let said = &said.message;
        let inner = &*said.inner;
        let is = matches!(inner, Message::Shared(Shared::Checkpoint { slot: Slot(8), .. }));
        *from == ReplicaId(1) && said.pillar == 0 && is
    });
    assert!(signed, "the first pillar signs the state after its slot 8");
}
