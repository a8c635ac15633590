use super::{Address, Adversary, Departure, Packet, Rng};
use pentarchy_core::Bytes;
use pentarchy_core::ids::View;
use pentarchy_core::ports::client::{Outcome, Reply, ToClient};
use pentarchy_core::wire::Wire;

/// Takes part in the protocol as it should, and lies to clients: about results, about the view,
/// about being busy, about events.
pub struct Liar;

impl Adversary for Liar {
    fn on_send(&mut self, to: Address, packet: Packet, rng: &mut Rng, out: &mut Vec<Departure>) {
        let packet = match ToClient::from_bytes(packet.bytes()) {
            Ok(truth) if matches!(to, Address::Client(_)) => {
                Packet::ToClient(0, lie(truth, rng).to_bytes())
            }
            _ => packet,
        };
        out.push(Departure { after: 0, to, packet });
    }
}

fn lie(truth: ToClient, rng: &mut Rng) -> ToClient {
    match truth {
        ToClient::Replies { replies, .. } if rng.percent(80) => {
            let view = View(rng.below(10));
            let replies = replies.into_iter().map(|reply| false_reply(reply, rng)).collect();
            ToClient::Replies { view, replies }
        }
        ToClient::Replies { replies, .. } => {
            ToClient::Busy { number: replies.first().map_or(0, |reply| reply.number) }
        }
        ToClient::Digests { view, mut digests } => {
            digests.iter_mut().for_each(|told| told.digest.0[0] ^= u8::from(rng.percent(50)));
            ToClient::Digests { view, digests }
        }
        ToClient::Speculative { primary, mut place, replies } => {
            let mut replies = replies;
            match rng.below(4) {
                0 => place.view = View(rng.below(10)),
                1 => place.slot = place.slot.next(),
                2 => place.history.0[0] ^= 1,
                _ => replies = replies.into_iter().map(|it| false_reply(it, rng)).collect(),
            }
            if rng.percent(20) {
                ToClient::Replies { view: place.view, replies }
            } else {
                ToClient::Speculative { primary, place, replies }
            }
        }
        ToClient::SpeculativeDigests { primary, mut place, mut digests } => {
            match rng.below(3) {
                0 => place.view = View(rng.below(10)),
                1 => place.history.0[0] ^= 1,
                _ => digests.iter_mut().for_each(|told| told.digest.0[0] ^= 1),
            }
            ToClient::SpeculativeDigests { primary, place, digests }
        }
        ToClient::Vouched { mut place, mut signature } => {
            match rng.below(3) {
                0 => place.slot = place.slot.next(),
                1 => signature.0[0] ^= 1,
                _ => return ToClient::Committed(place),
            }
            ToClient::Vouched { place, signature }
        }
        ToClient::Answer { number, .. } => {
            ToClient::Answer { number, result: Bytes::from_static(b"a lie") }
        }
        ToClient::Events { oldest, first, events } => lie_about_events(oldest, first, events, rng),
        other => other,
    }
}

fn lie_about_events(oldest: u64, first: u64, mut events: Vec<Bytes>, rng: &mut Rng) -> ToClient {
    match rng.below(4) {
        0 => ToClient::Events { oldest: oldest.saturating_add(1_000), first, events },
        1 => ToClient::Events { oldest, first: first.saturating_add(rng.range(1, 10_000)), events },
        2 => {
            let first = if rng.percent(20) { u64::MAX - rng.below(2) } else { first };
            let events = (0..3).map(|_| Bytes::from_static(b"a lie")).collect();
            ToClient::Events { oldest: u64::MAX, first, events }
        }
        _ => {
            events.iter_mut().for_each(|body| *body = Bytes::from_static(b"a lie"));
            ToClient::Events { oldest, first, events }
        }
    }
}

/// Another result, as long as the true one.
fn false_result(truth: Outcome) -> Bytes {
    match truth {
        Outcome::Done(result) if !result.is_empty() => {
            let mut other = result.to_vec();
            other[0] ^= 1;
            Bytes::from(other)
        }
        _ => Bytes::from_static(b"a lie"),
    }
}

fn false_reply(reply: Reply, rng: &mut Rng) -> Reply {
    let outcome = match rng.below(3) {
        0 => Outcome::Done(false_result(reply.outcome)),
        1 => Outcome::Forgotten,
        _ => Outcome::Refused,
    };
    Reply { number: reply.number.wrapping_add(rng.below(2)), outcome }
}
