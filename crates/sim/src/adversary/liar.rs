use super::{Address, Adversary, Departure, Packet, Rng};
use pentarchy_core::Bytes;
use pentarchy_core::ids::View;
use pentarchy_core::ports::client::{Outcome, Reply, ToClient};
use pentarchy_core::wire::Wire;

/// Takes part in the protocol as it should, and lies to clients: about results, about the view,
/// about being busy.
pub struct Liar;

impl Adversary for Liar {
    fn on_send(&mut self, to: Address, packet: Packet, rng: &mut Rng, out: &mut Vec<Departure>) {
        let packet = match ToClient::from_bytes(packet.bytes()) {
            Ok(truth) if matches!(to, Address::Client(_)) => {
                Packet::ToClient(lie(truth, rng).to_bytes())
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
        ToClient::Answer { number, .. } => {
            ToClient::Answer { number, result: Bytes::from_static(b"a lie") }
        }
        other => other,
    }
}

fn false_reply(reply: Reply, rng: &mut Rng) -> Reply {
    let outcome = match rng.below(3) {
        0 => Outcome::Done(Bytes::from_static(b"a lie")),
        1 => Outcome::Forgotten,
        _ => Outcome::Refused,
    };
    Reply { number: reply.number + rng.below(2), outcome }
}
