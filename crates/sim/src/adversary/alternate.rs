use super::{Address, Adversary, Departure, Packet, Rng};

/// Shows every protocol message to every other receiver only: a primary that does so makes each
/// backup lack what the other has.
#[derive(Default)]
pub struct Alternate {
    turn: u64,
}

impl Adversary for Alternate {
    fn on_send(&mut self, to: Address, packet: Packet, _: &mut Rng, out: &mut Vec<Departure>) {
        if matches!(packet, Packet::Protocol(..)) {
            self.turn += 1;
            if self.turn.is_multiple_of(2) {
                return;
            }
        }
        out.push(Departure { after: 0, to, packet });
    }
}
