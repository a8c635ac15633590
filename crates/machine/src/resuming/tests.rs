//! A replica that was put back learns of it, and one that was answered asks no more.

use super::*;
use bytes::Bytes;
use pentarchy_core::counter::{Certificate, Statement};
use pentarchy_core::ids::{Incarnation, View};

/// Two histories that parted and are as long as each other are told apart.
#[test]
fn a_later_statement_or_another_one_is_beyond_a_memory() {
    let at = |index| Position { view: View(1), index };
    let said = |index| Digest([index as u8; 32]);
    let statement =
        |index| Statement { position: at(index), committed: at(index), digest: said(index) };
    let recent = (4..=6).rev().map(statement).collect();
    let memory = Memory { last: at(6), committed: at(6), recent };
    for index in 1..=6 {
        assert!(!is_beyond(&memory, &said(index), at(index)), "{index} is its own");
    }
    assert!(is_beyond(&memory, &said(7), at(7)), "later");
    assert!(is_beyond(&memory, &said(9), at(6)), "something else");
    assert!(is_beyond(&memory, &said(9), at(4)), "something else, before that");
}

fn ui(instance: u8, index: u64) -> Ui {
    let position = Position { view: View(1), index };
    Ui {
        incarnation: Incarnation(7),
        instance: Instance(instance),
        position,
        committed: position,
        certificate: Certificate::Mac([5; 32]),
    }
}

/// A statement of this replica that is newer than what it remembers from before it spoke, as
/// any is that it makes from then on.
fn newer() -> (Digest, Ui) {
    (Digest([9; 32]), ui(1, 9))
}

fn resuming(asks: bool) -> Resuming {
    let memory = |index| Memory { last: ui(0, index).position, ..Memory::default() };
    let of_pillars = vec![(Instance(0), memory(5)), (Instance(1), memory(6))];
    let mut resuming = Resuming::new(asks, of_pillars);
    resuming.begin(true, 0);
    resuming
}

/// A peer answers; whatever it shows was certified by this replica's devices.
fn hear(resuming: &mut Resuming, lasts: &[(Digest, Ui)]) -> Result<Result<(), Reject>, Halt> {
    let memories = resuming.elsewhere.clone();
    resuming.on_seen(MemberId(2), lasts, &memories, |_, _| true, 1)
}

#[test]
fn who_was_put_back_learns_of_it_while_it_asks() {
    for lasts in [vec![newer()], vec![(Digest([1; 32]), ui(0, 5)), newer()]] {
        let mut asking = resuming(true);
        let found = hear(&mut asking, &lasts);
        assert!(matches!(found, Err(Halt::Rewound { .. })), "{found:?}");
        assert!(asking.answered.is_empty());
    }
    let mut asking = resuming(true);
    let unknown = hear(&mut asking, &[(Digest([1; 32]), ui(2, 1))]).unwrap();
    assert!(unknown == Err(Reject::BadAuth) && asking.answered.is_empty());
    assert_eq!(hear(&mut asking, &[(Digest([1; 32]), ui(0, 5))]).unwrap(), Ok(()));
    assert!(asking.answered.contains(&MemberId(2)) && asking.first_ms == Some(1));
}

/// An answer may come late, or from a liar that was asked nothing.
#[test]
fn what_is_said_since_it_speaks_is_no_reason_to_end() {
    let spoke = || {
        let mut resuming = resuming(true);
        resuming.since = None;
        resuming
    };
    let next_epoch = |mut resuming: Resuming, is_admitted| {
        resuming.begin_epoch();
        resuming.begin(is_admitted, 0);
        resuming
    };
    let since = [
        ("it went on from its log, and speaks", spoke()),
        ("it keeps nothing", resuming(false)),
        ("it keeps nothing, in another epoch", next_epoch(resuming(false), true)),
        ("it is not admitted to the next epoch", next_epoch(spoke(), false)),
        ("it speaks in another epoch", {
            let mut next = next_epoch(spoke(), true);
            next.since = None;
            next
        }),
    ];
    for (when, mut resuming) in since {
        let found = hear(&mut resuming, &[newer()]);
        assert!(matches!(found, Ok(Ok(()))), "{when}: {found:?}");
        assert!(resuming.answered.is_empty() && resuming.first_ms.is_none(), "{when}");
    }
}

#[test]
fn messages_are_read_as_they_were_written() {
    let ui = ui(0, 9);
    let epoch = Epoch(2);
    let messages = [
        Message::Ask { epoch },
        Message::Seen { epoch, lasts: Vec::new() },
        Message::Seen { epoch, lasts: vec![(Digest([1; 32]), ui)] },
    ];
    for message in messages {
        let bytes = message.to_bytes();
        assert_eq!(Message::from_bytes(&bytes), Ok(message));
        assert_eq!(Message::from_bytes(&bytes.slice(..bytes.len() - 1)), Err(Malformed));
    }
    assert_eq!(Message::from_bytes(&Bytes::from_static(&[2])), Err(Malformed));
}

const ME: ReplicaId = ReplicaId(1);

/// One of the others, which has seen this of replica 1 in that epoch.
fn peer(epoch: Epoch, lasts: &[(Digest, Ui)]) -> Resuming {
    let peer = Resuming::default();
    lasts.iter().for_each(|(digest, ui)| peer.seen.note_certified(epoch, ME, *digest, *ui));
    peer
}

fn others() -> impl Iterator<Item = MemberId> {
    [MemberId(0), MemberId(2)].into_iter()
}

/// Has a replica of three ask the peers that are there, with the epochs in which they are.
fn ask(
    resuming: &mut Resuming,
    epoch: Epoch,
    peers: &[(MemberId, Epoch, &Resuming)],
    now_ms: u64,
) -> Result<Option<Next>, Halt> {
    if let Some(Next::Ask(asked)) = resuming.next(others(), 2, now_ms) {
        for (id, at, peer) in peers.iter().filter(|(id, ..)| asked.contains(id)) {
            let Some(Message::Seen { epoch: of, lasts }) = peer.answer(*at, epoch, || Some(ME))
            else {
                continue;
            };
            assert_eq!(of, epoch, "who answers is in that epoch");
            let memories = resuming.elsewhere.clone();
            resuming.on_seen(*id, &lasts, &memories, |_, _| true, now_ms)?.unwrap();
        }
    }
    Ok(resuming.next(others(), 2, now_ms))
}

/// A folder is copied in epoch 0, in which nobody has seen more than is in it, and put back when
/// the group is in epoch 1, in which its owner has spoken.
fn puts_back_a_copy_of_the_epoch_before() -> Result<bool, Halt> {
    let (before, now) = (Epoch(0), Epoch(1));
    let (zero, two) = (peer(now, &[newer()]), peer(now, &[newer()]));
    let there = [(MemberId(0), now, &zero), (MemberId(2), now, &two)];
    let mut copy = resuming(true);
    let waits = matches!(ask(&mut copy, before, &there, 5)?, Some(Next::Ask(_)));
    copy.begin_epoch();
    copy.begin(true, 300);
    ask(&mut copy, now, &there, 305)?;
    Ok(waits)
}

#[test]
fn a_folder_of_an_epoch_before_is_found_in_the_one_in_which_the_others_are() {
    let found = puts_back_a_copy_of_the_epoch_before();
    assert!(matches!(found, Err(Halt::Rewound { peer: MemberId(0), .. })), "{found:?}");
    let mutant = "resuming.any-epoch-counts";
    let found = mutant::with(Some(mutant), puts_back_a_copy_of_the_epoch_before);
    assert!(matches!(found, Ok(false)), "it speaks in both epochs: {found:?}");
}

/// In how many epochs a replica of three is silent that others answered when it went on from its
/// folder; then a faulty member has itself admitted again and again, and never answers.
fn is_silent_in() -> usize {
    let zero = |epoch| peer(epoch, &[]);
    let two = zero(Epoch(0));
    let mut resumed = resuming(true);
    let there = [(MemberId(0), Epoch(0), &zero(Epoch(0))), (MemberId(2), Epoch(0), &two)];
    ask(&mut resumed, Epoch(0), &there, 5).unwrap();
    assert!(resumed.since.is_none(), "f + 1 others have answered");
    let begin = |epoch| {
        let at_ms = 5_000 * epoch;
        resumed.begin_epoch();
        resumed.begin(true, at_ms);
        let there = [(MemberId(0), Epoch(epoch), &zero(Epoch(epoch)))];
        ask(&mut resumed, Epoch(epoch), &there, at_ms + 5).unwrap();
        usize::from(resumed.since.is_some())
    };
    (1..=10).map(begin).sum()
}

#[test]
fn who_was_answered_is_silent_in_no_later_epoch() {
    assert_eq!(is_silent_in(), 0);
    let bug = Some("resuming.asks-for-ever");
    assert_eq!(mutant::with(bug, is_silent_in), 10, "it waits for who never answers");
}

#[test]
fn who_was_not_answered_by_enough_asks_in_the_next_epoch_too() {
    let mut resumed = resuming(true);
    let zero = peer(Epoch(0), &[]);
    let there = [(MemberId(0), Epoch(0), &zero)];
    assert!(matches!(ask(&mut resumed, Epoch(0), &there, 5), Ok(Some(Next::Ask(_)))));
    assert_eq!(resumed.next(others(), 2, 5 + ASK_FOR_MS), Some(Next::SpeakAnyway));
    assert!(resumed.since.is_none());
    resumed.begin_epoch();
    resumed.begin(true, 9_000);
    let (zero, two) = (peer(Epoch(1), &[]), peer(Epoch(1), &[]));
    let there = [(MemberId(0), Epoch(1), &zero), (MemberId(2), Epoch(1), &two)];
    assert!(matches!(ask(&mut resumed, Epoch(1), &there, 9_005), Ok(Some(Next::Speak))));
    resumed.begin(true, 14_000);
    assert!(resumed.since.is_none(), "the answers are enough for every later epoch");
}

#[test]
fn a_device_that_keeps_its_own_memory_needs_nobody() {
    let mut resumed = Resuming::new(true, Vec::new());
    resumed.begin(true, 0);
    assert_eq!(resumed.next(others(), 0, 0), Some(Next::Speak));
}
