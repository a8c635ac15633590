//! The chain of configurations: who can prove how one ended, and to whom.

use crate::governed::{first, life};
use pentarchy_core::auth::{Signature, Verifier};
use pentarchy_core::configuration::{Administrators, Configuration, MemberEntry};
use pentarchy_core::counter::{Instance, TrustedMac, Ui};
use pentarchy_core::digest::Digest;
use pentarchy_core::epochs::{Epochs, Handover, Message, Proof, Step, Witnesses};
use pentarchy_core::ids::{Epoch, MemberId, Millis, ReplicaId, ReplicaSet, Slot};
use pentarchy_core::membership::{Base, Membership};
use pentarchy_core::request::Envelope;
use pentarchy_core::wire::Wire as _;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A signature says by which key it was made, and of what.
struct Keys<'a>(&'a Membership);

impl Verifier for Keys<'_> {
    fn signature(&self, replica: ReplicaId, digest: &Digest, signature: &[u8; 64]) -> bool {
        Signature(*signature) == sign(&self.0.members[usize::from(replica.0)].signing, digest)
    }
    fn usig(&self, _: ReplicaId, _: &Digest, _: &Ui) -> bool {
        false
    }
    fn mac(&self, _: (ReplicaId, Instance), _: &Digest, _: &TrustedMac) -> bool {
        false
    }
    fn key(&self, key: &[u8; 32], digest: &Digest, signature: &[u8; 64]) -> bool {
        Signature(*signature) == sign(key, digest)
    }
    fn envelope(&self, _: &Envelope) -> bool {
        false
    }
}

fn sign(key: &[u8; 32], digest: &Digest) -> Signature {
    let mut signature = [0; 64];
    signature[..32].copy_from_slice(&digest.0);
    signature[32..].copy_from_slice(key);
    Signature(signature)
}

fn group() -> Membership {
    first().begin(&[life(1); 3])
}

/// The configuration that comes next: all members have other keys, and perhaps others are in it.
fn next(before: &Configuration, members: &[u32]) -> Configuration {
    let number = before.number + 1;
    let key = |member: u32| Digest::of(&(1_000 * number + u64::from(member)).to_le_bytes()).0;
    let entry = |member: &u32| MemberEntry {
        id: MemberId(*member),
        identity: [200 + *member as u8; 32],
        signing: key(*member),
        sealed: None,
        address: format!("host-{member}:7000"),
    };
    let members = members.iter().map(entry).collect();
    let secret = Some(Digest::of(&number.to_le_bytes()));
    Configuration { number, members, secret, next_member: MemberId(9), ..before.clone() }
}

/// How this membership ends with that configuration, if these members sign.
fn link(of: &Membership, next: &Configuration, signers: &[u16]) -> Proof {
    let base = Base { slot: Slot(of.base.slot.0 + 5), state: Digest([9; 32]) };
    let lives = vec![life(of.epoch.0 + 2); next.members.len()];
    let handover = Handover { epoch: of.epoch, base, lives, next: Some(next.digest()) };
    proof(of, handover, Some(next), signers)
}

fn proof(
    of: &Membership,
    handover: Handover,
    next: Option<&Configuration>,
    signers: &[u16],
) -> Proof {
    let statement = handover.statement(of);
    let signature = |by: &u16| {
        let key = &of.members[usize::from(*by)].signing;
        (ReplicaId(*by), sign(key, &statement))
    };
    let signatures = signers.iter().map(signature).collect();
    Proof { handover, next: next.cloned().map(Arc::new), by: Witnesses::Members, signatures }
}

/// An end by which no configuration changes.
fn admission(of: &Membership) -> Proof {
    let base = Base { slot: Slot(of.base.slot.0 + 5), state: Digest([9; 32]) };
    let mut lives: Vec<_> = of.members.iter().map(|member| member.life()).collect();
    lives[2].incarnation.0 += 100;
    proof(of, Handover { epoch: of.epoch, base, lives, next: None }, None, &[0, 1])
}

fn replica(me: u16, group: &Membership) -> Epochs {
    Epochs::new(group.members[usize::from(me)].id, life(1), Arc::new(group.clone()))
}

/// The first replica of the epoch, as it goes on from its disk.
fn resumed(at: &Membership, proof: Option<Proof>, links: &[Proof]) -> Epochs {
    Epochs::resumed(at.members[0].id, life(1), Arc::new(at.clone()), proof, links.to_vec())
}

/// The replica that has this place in the epoch speaks.
fn hear(epochs: &mut Epochs, from: u16, message: Message) -> Vec<Step> {
    let mut out = Vec::new();
    let membership = epochs.membership().clone();
    let from = membership.members[usize::from(from)].id;
    epochs.on_message(from, message, &Keys(&membership), &mut out);
    out
}

fn begun(steps: &[Step]) -> Vec<(u64, usize, ReplicaSet)> {
    let begun = |step: &Step| match step {
        Step::Begin { membership, sources } => Some((membership.epoch.0, membership.n(), *sources)),
        _ => None,
    };
    steps.iter().filter_map(begun).collect()
}

fn shown(epochs: &mut Epochs, from: u16, epoch: u64) -> Vec<Proof> {
    let configuration = epochs.membership().configuration;
    let steps = hear(epochs, from, Message::At { epoch: Epoch(epoch), configuration });
    match steps.into_iter().next() {
        Some(Step::Send { message: Message::Proofs(proofs), .. }) => proofs,
        other => panic!("{other:?}"),
    }
}

/// A chain that goes through a removal: member 0 leaves and member 3 comes.
fn chain() -> (Vec<Proof>, Membership) {
    let mut at = group();
    let mut proofs = Vec::new();
    for members in [vec![0, 1, 2], vec![1, 2, 3], vec![1, 2, 3]] {
        let admits = admission(&at);
        at = at.after(&admits.handover);
        proofs.push(admits);
        let stated = next(at.stated.as_ref().expect("it is stated"), &members);
        let link = link(&at, &stated, &[1, 2]);
        at = stated.after(&link.handover);
        proofs.push(link);
    }
    (proofs, at)
}

#[test]
fn who_executed_the_end_of_a_configuration_proves_it_by_votes() {
    let group = group();
    let second = next(&first(), &[0, 1, 2]);
    let link = link(&group, &second, &[0, 1]);
    let [vote, other] =
        [0, 1].map(|at: usize| Message::Vote(link.handover.clone(), link.signatures[at].1));
    // Whoever does not know the next configuration cannot say what the votes prove.
    let mut behind = replica(2, &group);
    assert!(
        hear(&mut behind, 0, vote).is_empty() && hear(&mut behind, 1, other.clone()).is_empty()
    );
    // Whoever executed so far knows it, and shows it to the others.
    let mut ended = replica(0, &group);
    let mut out = Vec::new();
    let signature = |digest: &Digest| sign(&group.members[0].signing, digest);
    ended.on_ended(link.handover.clone(), Some(Arc::new(second.clone())), signature, &mut out);
    let steps = hear(&mut ended, 1, other);
    let all = ReplicaSet::from_iter([ReplicaId(0), ReplicaId(1)]);
    assert_eq!(begun(&steps), [(1, 3, all)]);
    let Some(Step::Send { message, .. }) = steps.first() else { panic!("{steps:?}") };
    assert_eq!(*message, Message::Proofs(vec![link]));
    hear(&mut behind, 0, message.clone());
    let mut out = Vec::new();
    behind.on_round(Millis(0), &mut out);
    behind.on_round(Millis(1_000), &mut out);
    assert_eq!(begun(&out), [(1, 3, all)]);
    assert_eq!(behind.membership().configuration, second.digest());
    assert_eq!(behind.links(), ended.links());
}

/// Member 0 leaves, member 3 comes, and all others have other places.
#[test]
fn members_that_leave_and_members_that_come_are_shown_the_proof() {
    let group = group();
    let second = next(&first(), &[1, 2, 3]);
    let link = link(&group, &second, &[1, 2]);
    let mut stays = replica(1, &group);
    let mut steps = hear(&mut stays, 2, Message::Proofs(vec![link.clone()]));
    stays.on_round(Millis(0), &mut steps);
    stays.on_round(Millis(100_000), &mut steps);
    let shown = Message::Proofs(vec![link]);
    let to = steps.iter().find_map(|step| match step {
        Step::Send { to, message } if *message == shown => Some(to.clone()),
        _ => None,
    });
    assert_eq!(to, Some(BTreeSet::from([0, 2, 3].map(MemberId))));
}

/// Whose place a vote is counted for, the epoch's own table says, and nothing else.
#[test]
fn a_vote_counts_for_the_place_that_its_member_has_in_that_epoch() {
    let stated = next(&first(), &[1, 2, 3]);
    let second = stated.begin(&[life(1); 3]);
    let ends = admission(&second);
    let statement = ends.handover.statement(&second);
    let vote = |place: usize| {
        Message::Vote(ends.handover.clone(), sign(&second.members[place].signing, &statement))
    };
    let mut waits = Epochs::new(MemberId(3), life(0), Arc::new(second.clone()));
    let mut from = |member: u32, message: Message| {
        let mut out = Vec::new();
        waits.on_message(MemberId(member), message, &Keys(&second), &mut out);
        begun(&out).len()
    };
    // One that has left has no vote, whatever it knows; nor is a place what a member is.
    assert_eq!((from(0, vote(0)), from(0, vote(1))), (0, 0));
    assert_eq!((from(1, vote(1)), from(2, vote(2))), (0, 0), "signed by others");
    assert_eq!((from(1, vote(0)), from(2, vote(1))), (0, 1));
}

#[test]
fn whoever_slept_is_led_from_configuration_to_configuration() {
    let (proofs, last) = chain();
    let mut guide = replica(1, &group());
    for proof in proofs.clone() {
        hear(&mut guide, 2, Message::Proofs(vec![proof]));
        let mut out = Vec::new();
        guide.on_round(Millis(0), &mut out);
        guide.on_round(Millis(100_000), &mut out);
    }
    assert_eq!(**guide.membership(), last);
    assert_eq!(guide.links().len(), 3);
    let mut sleeper = replica(2, &group());
    for _ in 0..3 {
        let at = sleeper.membership().epoch.0;
        let proofs = shown(&mut guide, 2, at);
        assert!(proofs.iter().all(|proof| proof.next.is_some()), "the ends of configurations do");
        hear(&mut sleeper, 1, Message::Proofs(proofs));
        let mut out = Vec::new();
        sleeper.on_round(Millis(0), &mut out);
        sleeper.on_round(Millis(100_000), &mut out);
        guide.on_round(Millis(1_000_000 * (1 + at)), &mut out);
    }
    assert_eq!(**sleeper.membership(), last);
    assert_eq!(sleeper.index(), Some(ReplicaId(1)), "it has another place");
    // A removed one is led up to the end of the last configuration that it was in.
    let mut removed = replica(0, &group());
    let mut left = Vec::new();
    for proof in &proofs {
        left = hear(&mut removed, 1, Message::Proofs(vec![proof.clone()]));
        removed.on_round(Millis(0), &mut left);
        removed.on_round(Millis(100_000), &mut left);
        if left.iter().any(|step| matches!(step, Step::Retire { .. })) {
            break;
        }
    }
    let Some(Step::Retire { membership }) =
        left.iter().find(|step| matches!(step, Step::Retire { .. }))
    else {
        panic!("{left:?}")
    };
    assert_eq!(membership.epoch, Epoch(4));
    assert_eq!((removed.index(), removed.is_admitted()), (None, false));
    let mut out = Vec::new();
    removed.on_round(Millis(200_000), &mut out);
    assert_eq!(out, [], "it asks for nothing");
    let at = shown(&mut removed, 1, 0);
    assert_eq!(at, [proofs[1].clone()], "and still shows the way");
}

/// Members 1 and 2 sleep in the first configuration; of all that went on, only member 3 is left,
/// which neither of them knows.
#[test]
fn a_member_that_joined_later_leads_on_who_does_not_know_it_yet_and_has_no_other_say() {
    let (proofs, last) = chain();
    let links: Vec<Proof> = proofs.iter().filter(|it| it.next.is_some()).cloned().collect();
    let mut newer = resumed(&last, None, &links);
    let mut sleeper = replica(2, &group());
    fn say(to: &mut Epochs, message: Message) -> (Option<Message>, Vec<Step>) {
        let (mut out, membership) = (Vec::new(), to.membership().clone());
        let answer = to.on_newer(message, &Keys(&membership), &mut out);
        (answer, out)
    }
    let at = |epoch: Epoch, of: &Membership| {
        let configuration = of.configuration;
        Message::At { epoch, configuration }
    };
    assert_eq!(say(&mut sleeper, at(Epoch(0), &last)), (None, vec![]), "that is no later epoch");
    let vote = Message::Vote(proofs[0].handover.clone(), proofs[0].signatures[0].1);
    assert_eq!(say(&mut sleeper, vote), (None, vec![]));
    // One that ends its epoch says nothing else.
    let here = at(Epoch(0), &group());
    let (later, ends) = (links[1].handover.clone(), links[1].signatures[0].1);
    assert_eq!(say(&mut sleeper, Message::Vote(later, ends)), (Some(here.clone()), vec![]));
    assert_eq!(say(&mut sleeper, Message::Leaves { epoch: last.epoch }), (Some(here), vec![]));
    assert_eq!(say(&mut sleeper, Message::Proofs(vec![proofs[0].clone()])), (None, vec![]));
    let few = link(&group(), links[0].next.as_deref().expect("a link"), &[1]);
    assert_eq!(say(&mut sleeper, Message::Proofs(vec![few])), (None, vec![]));
    #[cfg(feature = "mutants")]
    {
        let says = || say(&mut sleeper, at(last.epoch, &last));
        let bug = Some("epochs.newer-unheard");
        assert_eq!(pentarchy_core::mutant::with(bug, says), (None, vec![]));
    }
    let mut round = 1;
    while sleeper.membership().epoch < last.epoch {
        let before = sleeper.membership().clone();
        let (answer, steps) = say(&mut sleeper, at(last.epoch, &last));
        assert_eq!((answer, steps), (Some(at(before.epoch, &before)), vec![]));
        let proofs = shown(&mut newer, 1, before.epoch.0);
        assert_eq!(say(&mut sleeper, Message::Proofs(proofs)).0, None);
        let mut out = Vec::new();
        sleeper.on_round(Millis(0), &mut out);
        sleeper.on_round(Millis(100_000), &mut out);
        assert_ne!(**sleeper.membership(), *before, "it is led on");
        newer.on_round(Millis(1_000_000 * round), &mut Vec::new());
        round += 1;
    }
    assert_eq!(**sleeper.membership(), last);
    sleeper.set_authority(pentarchy_core::protocol::Authority::Service);
    let later = Epoch(last.epoch.0 + 1);
    assert_eq!(say(&mut sleeper, at(later, &last)), (None, vec![]), "a service has the say");
}

/// It has the whole chain from its disk, and knows who has the state with which its epoch began.
#[test]
fn a_guide_that_started_again_leads_others_on() {
    let (proofs, last) = chain();
    let links: Vec<Proof> = proofs.iter().filter(|it| it.next.is_some()).cloned().collect();
    let mut guide = resumed(&last, None, &links);
    let mut sleeper = replica(2, &group());
    for (round, link) in (1..).zip(&links) {
        let proofs = shown(&mut guide, 1, sleeper.membership().epoch.0);
        assert_eq!(proofs, std::slice::from_ref(link));
        hear(&mut sleeper, 1, Message::Proofs(proofs));
        let mut out = Vec::new();
        sleeper.on_round(Millis(0), &mut out);
        sleeper.on_round(Millis(100_000), &mut out);
        guide.on_round(Millis(1_000_000 * round), &mut out);
    }
    assert_eq!(**sleeper.membership(), last);
    // Members 2 and 3 of the configuration before signed the last link: 1 and 2 of this one.
    let both = ReplicaSet::from_iter([ReplicaId(1), ReplicaId(2)]);
    assert_eq!(guide.sources(&group()), Some(both));
    // Of the second configuration, they have other places in the third: members 1 and 2.
    let second = |upto: usize, at: Membership| resumed(&at, None, &links[..upto]);
    let third = links[1].next.as_ref().expect("it is a link").after(&links[1].handover);
    let places = ReplicaSet::from_iter([ReplicaId(0), ReplicaId(1)]);
    assert_eq!(second(2, third).sources(&group()), Some(places));
    // An epoch of the same configuration came behind.
    let admits = admission(&last);
    let resumed = resumed(&last.after(&admits.handover), Some(admits), &links);
    let signers = ReplicaSet::from_iter([ReplicaId(0), ReplicaId(1)]);
    assert_eq!(resumed.sources(&group()), Some(signers));
    assert_eq!(replica(0, &group()).sources(&group()), None, "the group's first state");
}

/// Whoever is behind is no stranger; whoever names what the group never had is.
#[test]
fn a_configuration_that_was_left_is_known_as_the_groups() {
    let (proofs, last) = chain();
    let links: Vec<Proof> = proofs.iter().filter(|it| it.next.is_some()).cloned().collect();
    let mut guide = resumed(&last, None, &links);
    let mut is_foreign = |epoch: Epoch, configuration: Digest| {
        let steps = hear(&mut guide, 1, Message::At { epoch, configuration });
        steps.contains(&Step::OtherConfiguration(MemberId(2)))
    };
    assert!(!is_foreign(Epoch(0), group().configuration));
    for pair in links.windows(2) {
        let [begun, ended] = pair else { panic!() };
        let configuration = begun.handover.next.expect("it is a link");
        let epochs = begun.handover.epoch.0 + 1..=ended.handover.epoch.0;
        for epoch in epochs.map(Epoch) {
            assert!(!is_foreign(epoch, configuration));
            assert!(is_foreign(epoch, Digest::of(b"other keys")));
        }
        assert!(is_foreign(ended.handover.epoch.next(), configuration), "it had ended");
    }
}

#[test]
fn a_link_convinces_only_as_what_its_signers_saw() {
    let group = group();
    let second = next(&first(), &[0, 1, 3]);
    let good = link(&group, &second, &[0, 1]);
    assert!(good.is_valid(&group, &Keys(&group)));
    let refused = |alter: &dyn Fn(&mut Proof)| {
        let mut altered = good.clone();
        alter(&mut altered);
        assert!(!altered.is_valid(&group, &Keys(&group)), "{altered:?}");
    };
    refused(&|it| it.next = None);
    refused(&|it| it.handover.next = None);
    refused(&|it| it.signatures.truncate(1));
    refused(&|it| it.signatures[1] = it.signatures[0]);
    refused(&|it| it.handover.lives.truncate(2));
    // Another configuration than they signed for, be it a key or an address of it.
    refused(&|it| it.next = Some(Arc::new(next(&first(), &[0, 1, 2]))));
    let moved = |it: &mut Proof| {
        let mut other = second.clone();
        other.members[0].address.push('1');
        it.next = Some(Arc::new(other));
    };
    refused(&moved);
    // Nobody skips a configuration, or takes one that no group can have, whoever signs it.
    let third = next(&second, &[0, 1, 3]);
    let too_few = Configuration { f: 2, ..second.clone() };
    let other_group = {
        let mut other = second.clone();
        other.group.0[0] ^= 1;
        other
    };
    for wrong in [third, too_few, other_group] {
        assert!(!link(&group, &wrong, &[0, 1, 2]).is_valid(&group, &Keys(&group)));
    }
    // A group that nobody stated has none that comes next.
    let unstated = Membership { stated: None, ..group.clone() };
    assert!(!good.is_valid(&unstated, &Keys(&unstated)));
}

/// Whoever passes a proof on could put a configuration of its own beside what others signed.
#[test]
fn a_replica_goes_on_in_the_configuration_that_was_signed_and_in_no_other() {
    let group = group();
    let signed = link(&group, &next(&first(), &[0, 1, 2]), &[1, 2]);
    let invented = next(&first(), &[0, 3, 4]);
    let ends_in = || {
        let mut epochs = replica(0, &group);
        let shown = Proof { next: Some(Arc::new(invented.clone())), ..signed.clone() };
        hear(&mut epochs, 1, Message::Proofs(vec![shown]));
        epochs.on_round(Millis(10_000), &mut Vec::new());
        epochs.on_round(Millis(20_000), &mut Vec::new());
        epochs.membership().configuration
    };
    assert_eq!(ends_in(), group.configuration);
    #[cfg(feature = "mutants")]
    {
        let bug = Some("epochs.next-not-compared");
        assert_eq!(pentarchy_core::mutant::with(bug, ends_in), invented.digest());
    }
}

/// Their old keys prove nothing about what came later, even together.
#[test]
fn former_members_prove_nothing() {
    let (proofs, last) = chain();
    let former = {
        let second = next(&first(), &[0, 1, 2]);
        Membership { epoch: last.epoch, ..second.after(&proofs[1].handover) }
    };
    let forged = next(last.stated.as_ref().expect("it is stated"), &[0]);
    let forged = Configuration { f: 0, ..forged };
    // With the keys of the second configuration, all of which the adversary has.
    for said_of in [&former, &last] {
        let mut proof = link(said_of, &forged, &[0, 1, 2]);
        let statement = proof.handover.statement(said_of);
        for (by, signature) in &mut proof.signatures {
            *signature = sign(&former.members[usize::from(by.0)].signing, &statement);
        }
        assert!(!proof.is_valid(&last, &Keys(&last)));
    }
    let honest = link(&last, &forged, &[0, 1, 2]);
    assert!(honest.is_valid(&last, &Keys(&last)), "it is the keys that are refused");
}

#[test]
fn one_message_shows_how_one_configuration_ended() {
    let mut guide = replica(1, &group());
    let mut at = group();
    for _ in 0..5 {
        let stated = next(at.stated.as_ref().expect("it is stated"), &[0, 1, 2]);
        let link = link(&at, &stated, &[0, 2]);
        at = stated.after(&link.handover);
        hear(&mut guide, 2, Message::Proofs(vec![link]));
        let mut out = Vec::new();
        guide.on_round(Millis(0), &mut out);
        guide.on_round(Millis(100_000), &mut out);
    }
    assert_eq!(guide.links().len(), 5);
    assert_eq!(shown(&mut guide, 0, 0), guide.links()[..1], "the rest is signed by others");
}

/// Three administrators govern this group, and two of them have to agree.
fn governed() -> Membership {
    let keys = (0..3).map(|id| [150 + id; 32]).collect();
    let administrators = Administrators::by_majority(keys);
    Configuration { administrators, ..first() }.begin(&[life(1); 3])
}

/// How administrators have a lost group go on, those that sign.
fn rescue(of: &Membership, signers: &[u16]) -> Proof {
    let Administrators { keys, .. } = &of.stated.as_ref().expect("it is stated").administrators;
    let mut proof = link(of, &next(of.stated.as_ref().expect("it is"), &[3, 4, 5]), &[]);
    let statement = proof.handover.rescue(of);
    let signature = |by: &u16| (ReplicaId(*by), sign(&keys[usize::from(*by)], &statement));
    proof.signatures = signers.iter().map(signature).collect();
    Proof { by: Witnesses::Administrators, ..proof }
}

#[test]
fn administrators_have_a_lost_group_go_on_as_many_as_change_it() {
    let group = governed();
    let is_valid = |proof: &Proof| proof.is_valid(&group, &Keys(&group));
    for enough in [&[0, 2][..], &[1, 2], &[0, 1, 2]] {
        let proof = rescue(&group, enough);
        assert!(is_valid(&proof) && proof.signers() == ReplicaSet::EMPTY);
        assert_eq!(Proof::from_bytes(&proof.to_bytes()), Ok(proof));
    }
    let alone = || is_valid(&rescue(&group, &[1]));
    assert!(!alone());
    #[cfg(feature = "mutants")]
    assert!(pentarchy_core::mutant::with(Some("epochs.rescued-by-one"), alone));
    assert!(!is_valid(&rescue(&group, &[])) && !is_valid(&rescue(&group, &[1, 1])));
    let refused = |alter: &dyn Fn(&mut Proof)| {
        let mut altered = rescue(&group, &[0, 1]);
        alter(&mut altered);
        assert!(!is_valid(&altered), "{altered:?}");
    };
    refused(&|it| it.handover.base.slot = Slot(99));
    refused(&|it| it.next = Some(Arc::new(next(&first(), &[3, 4, 5]))));
    refused(&|it| (it.next, it.handover.next) = (None, None));
    refused(&|it| it.signatures[1].0 = ReplicaId(2));
    refused(&|it| it.signatures[1].0 = ReplicaId(3));
    refused(&|it| it.signatures[1].0 = ReplicaId(700));
    refused(&|it| it.by = Witnesses::Members);
    // Nobody can have a group go on that has no administrators.
    let ungoverned = Configuration::clone(group.stated.as_ref().expect("it is stated"));
    let ungoverned = Configuration { administrators: Administrators::default(), ..ungoverned };
    let ungoverned = ungoverned.begin(&[life(1); 3]);
    let mut nobody = link(&ungoverned, &next(&first(), &[3, 4, 5]), &[]);
    nobody.by = Witnesses::Administrators;
    assert!(!nobody.is_valid(&ungoverned, &Keys(&ungoverned)));
}

/// It may be an old one of a group that was not lost after all, and goes on.
#[test]
fn a_replica_does_not_go_on_by_a_rescue_that_it_is_shown() {
    let group = governed();
    let shown = || {
        let mut epochs = replica(0, &group);
        let message = Message::Proofs(vec![rescue(&group, &[0, 1])]);
        hear(&mut epochs, 1, message);
        epochs.on_round(Millis(10_000), &mut Vec::new());
        epochs.on_round(Millis(20_000), &mut Vec::new());
        epochs.membership().epoch
    };
    assert_eq!(shown(), group.epoch);
    #[cfg(feature = "mutants")]
    {
        let bug = Some("epochs.rescued-by-message");
        assert!(pentarchy_core::mutant::with(bug, shown) > group.epoch);
    }
}
