use super::{Address, Adversary, Departure, Packet, ReplicaSet, Rng};

/// Speaks to some replicas only, so that some are left behind while others get on.
pub struct Selective {
    friends: ReplicaSet,
    answers_clients: bool,
}

impl Selective {
    /// Speaks to these, and perhaps to clients.
    #[must_use]
    pub const fn new(friends: ReplicaSet, answers_clients: bool) -> Self {
        Self { friends, answers_clients }
    }
}

impl Adversary for Selective {
    fn on_send(&mut self, to: Address, packet: Packet, _: &mut Rng, out: &mut Vec<Departure>) {
        let speaks = match to {
            Address::Replica(id) => self.friends.contains(id),
            Address::Client(_) => self.answers_clients,
        };
        if speaks {
            out.push(Departure { after: 0, to, packet });
        }
    }
}
