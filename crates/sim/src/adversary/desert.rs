use super::{Address, Adversary, Departure, Packet, Rng};

/// Does as it should until its turn comes, and says nothing to replicas while it leads: whoever
/// waits for a primary must have a reason to stop waiting.
#[derive(Default)]
pub struct Desert {
    leads: bool,
}

impl Adversary for Desert {
    fn on_send(&mut self, to: Address, packet: Packet, _: &mut Rng, out: &mut Vec<Departure>) {
        if !self.leads || matches!(to, Address::Client(_)) {
            out.push(Departure { after: 0, to, packet });
        }
    }

    fn leads(&mut self, leads: bool) {
        self.leads = leads;
    }
}
