use super::*;
use alloc::vec;
use pentarchy_core::batch::Item;
use pentarchy_core::ids::{ClientId, Millis};
use pentarchy_core::request::{Draft, Request, RequestAuth};

fn envelope(number: u64, bytes: usize) -> Arc<Envelope> {
    let requests = vec![Request { number, operation: vec![1; bytes].into() }];
    let draft = Draft { client: ClientId([1; 32]), floor: 0, events: None, requests };
    Arc::new(draft.seal(RequestAuth::Signature([0; 64])))
}

fn proposal(items: Vec<Item>) -> Arc<Proposal> {
    Arc::new(Proposal::new(Millis(1), items))
}

fn named(envelope: &Arc<Envelope>) -> Item {
    Item::Named(envelope.digest)
}

fn nothing(_: &Digest) -> Option<Arc<Envelope>> {
    None
}

#[test]
fn what_a_complete_batch_names_is_passed_on_and_completes_others() {
    let (shared, other, whole) = (envelope(1, 1), envelope(2, 1), envelope(3, 1));
    let first = proposal(vec![Item::Whole(whole.clone()), named(&shared)]);
    let second = proposal(vec![named(&shared), named(&other)]);
    let mut bodies = BatchStore::default();
    let find = |digest: &Digest| (shared.digest == *digest).then(|| shared.clone());
    bodies.want(Slot(1), first.digest());
    assert!(!bodies.offer(&first, find) && bodies.is_complete());
    bodies.want(Slot(2), second.digest());
    assert!(!bodies.offer(&second, nothing), "nobody else has it");
    assert_eq!(bodies.missing(9, 0), [Missing::Envelopes(vec![other.digest])]);
    assert!(bodies.envelope(&whole.digest).is_none(), "it goes with its proposal");
    assert!(bodies.offer_envelope(&other, nothing) && bodies.is_complete());
    bodies.retain(Slot(1), |_| true);
    assert_eq!(bodies.envelope(&shared.digest), Some(shared.clone()), "slot 2 names it too");
    bodies.retain(Slot(2), |_| true);
    assert!(bodies.is_empty() && bodies.envelope(&shared.digest).is_none());
}

#[test]
fn what_is_named_is_kept_once_until_the_log_is_cut() {
    let (small, large) = (envelope(1, 1), envelope(2, 20_000));
    let find =
        |digest: &Digest| [&small, &large].into_iter().find(|it| it.digest == *digest).cloned();
    let first = proposal(vec![named(&small)]);
    let second = proposal(vec![named(&large), named(&small)]);
    let mut bodies = BatchStore::default();
    for (slot, proposal) in [(1, &first), (2, &second)] {
        bodies.want(Slot(slot), proposal.digest());
        assert!(bodies.keep_named(&proposal.digest()).is_empty(), "it is not complete");
        bodies.offer(proposal, find);
    }
    let keep = |bodies: &mut BatchStore| {
        let kept = [&first, &second].map(|proposal| bodies.keep_named(&proposal.digest()));
        let again = bodies.keep_named(&second.digest());
        assert!(again.is_empty(), "once");
        kept
    };
    let expected = [vec![small.clone()], vec![large.clone()]];
    assert_eq!(keep(&mut bodies), expected);
    bodies.log_again();
    assert_eq!(keep(&mut bodies), expected);
    let digest = first.digest();
    assert_eq!(bodies.keep(Slot(1), &digest), Some(first.clone()));
    assert_eq!(bodies.keep(Slot(1), &digest), None);
    assert_eq!(bodies.keep(Slot(3), &digest), Some(first.clone()), "a later slot needs it too");
    bodies.log_again();
    assert_eq!(bodies.keep(Slot(1), &digest), Some(first));
}

/// A liar may name more than a batch may hold. Nobody gathers all of it.
#[test]
fn what_is_too_much_for_a_batch_is_never_complete() {
    let large: Vec<_> = (1..=3).map(|number| envelope(number, 1 << 20)).collect();
    let names = proposal(large.iter().map(named).collect());
    let mut bodies = BatchStore::default();
    bodies.want(Slot(1), names.digest());
    let find = |digest: &Digest| large.iter().find(|it| it.digest == *digest).cloned();
    assert!(bodies.offer(&names, find), "all of it is here");
    assert!(bodies.get(&names.digest()).is_none() && bodies.missing(9, 0).is_empty());
    let mut bodies = BatchStore::default();
    bodies.want(Slot(1), names.digest());
    assert!(!bodies.offer(&names, nothing));
    for envelope in &large {
        bodies.offer_envelope(envelope, nothing);
    }
    assert!(bodies.get(&names.digest()).is_none() && bodies.missing(9, 0).is_empty());
}
