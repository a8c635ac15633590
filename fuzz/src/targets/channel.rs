//! The bytes of a connection: from a stranger before the keys, and from whoever holds the keys
//! after. Pieces make no difference, and nothing that was not encrypted becomes a message.

use crate::input::Input;
use crate::memory::bounded;
use pentarchy_core::Bytes;
use pentarchy_core::digest::Domain;
use pentarchy_core::ids::GroupId;
use pentarchy_crypto::keys::{KeyPair, channel_public};
use pentarchy_io::channel::{Channel, ChannelError, Identity};
use pentarchy_io::frame::{Deframer, split};

const MESSAGE_BYTES_MAX: usize = 1 << 20;
const FRAME_BYTES_MAX: usize = 4096;

type Read = (Result<(), ChannelError>, Vec<Bytes>);

pub fn run(input: &[u8]) {
    let mut input = Input::new(input);
    let (kind, step) = (input.u8(), usize::from(input.u8()) + 1);
    let bytes = input.rest();
    match kind % 5 {
        0 => stranger_dials(bytes, step),
        1 => stranger_answers(bytes),
        2 => messages_of_a_frame(bytes),
        3 => frames_of_a_stream(bytes, step),
        _ => forged_frames(bytes, step),
    }
}

fn identity(seed: u8) -> (Identity, [u8; 32]) {
    let keys = KeyPair::from_seed([seed; 32]);
    let public = channel_public(&keys.public()).expect("a good key");
    let domain = Domain::of_group(&GroupId([3; 16]));
    (Identity::new(*keys.channel_secret(), &domain), public)
}

fn pair() -> (Channel, Channel) {
    let ((alice, _), (bob, key)) = (identity(1), identity(2));
    let (mut there, mut back, mut none) = (Vec::new(), Vec::new(), Vec::new());
    let dialled = Channel::initiator(&alice, &key, MESSAGE_BYTES_MAX, &mut there);
    let mut a = dialled.expect("good keys");
    let mut b = Channel::responder(&bob, MESSAGE_BYTES_MAX).expect("a good key");
    b.read(&there, &mut none, &mut back).expect("an honest handshake");
    a.read(&back, &mut none, &mut Vec::new()).expect("an honest handshake");
    (a, b)
}

fn read(channel: &mut Channel, bytes: &[u8], step: usize) -> Read {
    let (mut messages, mut reply) = (Vec::new(), Vec::new());
    for part in bytes.chunks(step.max(1)) {
        if let Err(error) = channel.read(part, &mut messages, &mut reply) {
            return (Err(error), messages);
        }
    }
    (Ok(()), messages)
}

fn stranger_dials(bytes: &[u8], step: usize) {
    let responder = || Channel::responder(&identity(2).0, MESSAGE_BYTES_MAX).expect("a good key");
    let (mut one, mut other) = (responder(), responder());
    let outcome = read(&mut one, bytes, bytes.len());
    assert_eq!(outcome, read(&mut other, bytes, step), "pieces of {step}");
    assert!(outcome.1.is_empty(), "nobody without keys gets a message through");
    // Who repeats what a member once dialled with has a channel, in which it can say nothing.
    assert!(one.is_open() || one.pending_bytes() <= bytes.len().min(256));
}

fn stranger_answers(bytes: &[u8]) {
    let mut out = Vec::new();
    let dialled = Channel::initiator(&identity(1).0, &identity(2).1, MESSAGE_BYTES_MAX, &mut out);
    let mut channel = dialled.expect("good keys");
    let (_, messages) = read(&mut channel, bytes, bytes.len());
    assert!(messages.is_empty() && !channel.is_open(), "only the key's owner can answer");
}

/// Whoever holds the keys may encrypt anything.
fn messages_of_a_frame(bytes: &[u8]) {
    let plain = Bytes::copy_from_slice(bytes);
    let mut messages = Vec::new();
    let outcome = bounded(bytes.len(), || split(plain.clone(), &mut messages));
    let total: usize = messages.iter().map(|message| 4 + message.len()).sum();
    assert!(total <= bytes.len() && (outcome.is_err() || total == bytes.len()));
    let (mut a, mut b) = pair();
    let (mut wire, mut got) = (Vec::new(), Vec::new());
    a.write(bytes, &mut wire).expect("fresh keys");
    let allowed = bytes.len() <= pentarchy_io::channel::CHUNK_BYTES_MAX;
    let received = b.read(&wire, &mut got, &mut Vec::new());
    if allowed {
        assert_eq!((received, got), (outcome, messages));
    }
}

fn frames_of_a_stream(bytes: &[u8], step: usize) {
    let cut = |step: usize| {
        let (mut deframer, mut frames) = (Deframer::default(), Vec::new());
        let mut outcome = Ok(());
        for part in bytes.chunks(step.max(1)) {
            let take = |frames: &mut Vec<Vec<u8>>, frame: &[u8]| {
                frames.push(frame.to_vec());
                Ok(())
            };
            outcome =
                outcome.and_then(|()| deframer.feed(part, &mut frames, |_| FRAME_BYTES_MAX, take));
        }
        (outcome, frames, deframer.pending_bytes())
    };
    let (outcome, frames, pending) = cut(bytes.len());
    let (outcome_in_parts, frames_in_parts, pending_in_parts) = cut(step);
    assert_eq!((outcome, &frames), (outcome_in_parts, &frames_in_parts), "pieces of {step}");
    let total: usize = frames.iter().map(|frame| 4 + frame.len()).sum();
    if outcome.is_ok() {
        assert_eq!(pending, pending_in_parts);
        assert_eq!(total + pending, bytes.len());
    }
    assert!(pending <= 4 + FRAME_BYTES_MAX);
}

fn forged_frames(bytes: &[u8], step: usize) {
    let (_, mut b) = pair();
    let (outcome, messages) = read(&mut b, bytes, step);
    assert!(messages.is_empty(), "not encrypted, but delivered");
    assert!(outcome.is_err() || b.pending_bytes() == bytes.len());
}

pub fn seeds() -> Vec<Vec<u8>> {
    let mut dial = Vec::new();
    let (alice, (_, key)) = (identity(1).0, identity(2));
    let dialled = Channel::initiator(&alice, &key, MESSAGE_BYTES_MAX, &mut dial);
    dialled.expect("good keys");
    let plain = b"\x05\0\0\0hello\0\0\0\0\x02\0\0\0ab";
    let long = [&[0, 2, 0, 0][..], &[9; 512], plain].concat();
    let mut seeds = Vec::new();
    for kind in 0..5 {
        for bytes in [&dial[..], plain, &long, &[0; 24], &[16, 0, 0, 0]] {
            seeds.push([&[kind, 2][..], bytes].concat());
        }
    }
    seeds
}
