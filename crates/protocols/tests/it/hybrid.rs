//! What a trusted MAC proves and what it does not, by hand.

use crate::net::{Net, Trusting};
use pentarchy_core::auth::{AuthTag, Signature, Verified};
use pentarchy_core::batch::Proposal;
use pentarchy_core::counter::TrustedMac;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Millis, ReplicaId, Slot, View};
use pentarchy_core::membership::Base;
use pentarchy_core::mutant;
use pentarchy_core::protocol::{Protocol as _, Reject, Tuning};
use pentarchy_protocols::common::certificate::CheckpointProof;
use pentarchy_protocols::pbft::{Claim, Claims, HybridPbft, Message, ViewChange};
use std::sync::Arc;

const LIAR: u16 = 1;

fn mac(id: u16) -> TrustedMac {
    TrustedMac([id as u8; 32])
}

/// A replica that leaves view 0 and shows a certificate of these votes.
fn leaves_with(votes: Vec<(ReplicaId, TrustedMac)>) -> Message<TrustedMac> {
    let signed = |id: u16| (ReplicaId(id), (View(1), Signature([id as u8; 64])));
    let claim = Claim { slot: Slot(1), view: View(0), batch: Digest::of(b"a batch") };
    Message::ViewChange(Arc::new(ViewChange {
        claims: Claims { view: View(1), stable: Slot(0), prepared: vec![claim] },
        requests: vec![signed(1), signed(2)],
        checkpoint: CheckpointProof::initial(Base::default()),
        proofs: vec![votes],
    }))
}

/// All devices check with one key, so the name beside a MAC must be the name inside: a liar's own
/// vote does not count for others.
#[test]
fn a_vote_counts_for_who_made_it_alone() {
    let mut net = Net::<HybridPbft>::new(4, &[LIAR], Tuning::default());
    let said_by =
        |made: fn(u16) -> u16| (0..3).map(|id| (ReplicaId(id), mac(made(id)))).collect::<Vec<_>>();
    let honest = net.authentic(LIAR, leaves_with(said_by(|id| id)));
    let alone = net.authentic(LIAR, leaves_with(said_by(|_| LIAR)));
    assert!(matches!(honest.tag, AuthTag::Mac(_)));
    let judged = |said: &Verified<Message<TrustedMac>>| {
        HybridPbft::validate(&net.membership, &Trusting, said.author, &said.tag, &said.message)
    };
    assert_eq!(judged(&honest), Ok(()));
    assert_eq!(judged(&alone), Err(Reject::BadCertificate));
    let believed = mutant::with(Some("hybrid-pbft.mac-of-anyone"), || judged(&alone));
    assert_eq!(believed, Ok(()), "this is what the check is for");
}

/// A primary's device gives a MAC to whatever it proposes: here another batch to each backup, and a
/// COMMIT to that. Gives the times of the batches that each of them executes.
fn one_for_each() -> [Vec<u64>; 3] {
    let mut net = Net::<HybridPbft>::new(4, &[0], Tuning::default());
    for id in 1..=3 {
        let proposal = Arc::new(Proposal::new(Millis(id), Vec::new()));
        let (view, slot, batch) = (View(0), Slot(1), proposal.digest());
        net.say(0, &[id as u16], Message::PrePrepare { view, slot, proposal });
        net.say(0, &[id as u16], Message::Commit { view, slot, batch });
    }
    net.run(100);
    let found = &net.nodes[1].findings;
    assert!(found.iter().all(|it| it.author == ReplicaId(0)), "{found:?}");
    let executed = |id: usize| net.nodes[id].executed.iter().map(|(_, it)| it.time.0).collect();
    [1, 2, 3].map(executed)
}

/// So a MAC does not say that nothing else was said, and `3f + 1` it has to be.
#[test]
fn what_devices_attribute_they_do_not_make_unique() {
    assert_eq!(one_for_each(), [(); 3].map(|()| Vec::new()), "nobody finds two who agree with it");
    let taken = mutant::with(Some("hybrid-pbft.mac-taken-for-unique"), one_for_each);
    assert_eq!(taken, [vec![1], vec![2], vec![3]]);
}
