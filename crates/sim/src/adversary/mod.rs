//! Byzantine replicas: wrappers between honest replicas and the network. They hold no key and no
//! device, so they can do to messages only what a faulty host can: keep, delay, repeat, redirect
//! and spoil them. One file each. What takes a protocol's own messages is made up by its forger,
//! and authenticated by the replica's own host ([`pentarchy_core::forge`]).

use crate::packet::{Address, Packet};
use crate::rng::Rng;
use crate::time::Micros;
use pentarchy_core::ids::{ClientId, ReplicaSet};
use pentarchy_core::protocol::Timeouts;

mod alternate;
mod busy;
mod corrupt;
mod delay;
mod desert;
mod echo;
mod liar;
mod mislead;
mod poison;
mod replay;
mod rot;
mod selective;
mod silent;
mod starve;

pub use alternate::Alternate;
pub use busy::Busy;
pub use corrupt::Corrupt;
pub use delay::Delayer;
pub use desert::Desert;
pub use echo::Echo;
pub use liar::Liar;
pub use mislead::Mislead;
pub use poison::Poison;
pub use replay::Replay;
pub use rot::Rot;
pub use selective::Selective;
pub use silent::Silent;
pub use starve::Starve;

/// A packet that leaves a faulty replica.
pub struct Departure {
    /// How long it is held back.
    pub after: Micros,
    /// To whom.
    pub to: Address,
    /// What.
    pub packet: Packet,
}

/// What a faulty replica's host does between its core and the network.
pub trait Adversary: Send {
    /// The honest replica inside wants to send this; what leaves is appended to `out`.
    fn on_send(&mut self, to: Address, packet: Packet, rng: &mut Rng, out: &mut Vec<Departure>);

    /// Whether a packet reaches the honest replica inside.
    fn hears(&mut self, _from: Address, _packet: &Packet, _rng: &mut Rng) -> bool {
        true
    }

    /// The answer that the sender of a packet gets instead of the honest replica's; none if the
    /// honest replica is to have the packet.
    fn turns_down(&mut self, _packet: &Packet) -> Option<Packet> {
        None
    }

    /// Whether the honest replica inside leads the view that it is in, or wants to enter.
    fn leads(&mut self, _leads: bool) {}
}

/// Several at once: what one lets pass goes through the next.
#[derive(Default)]
pub struct Chain(pub Vec<Box<dyn Adversary>>);

impl Adversary for Chain {
    fn on_send(&mut self, to: Address, packet: Packet, rng: &mut Rng, out: &mut Vec<Departure>) {
        let mut departures = vec![Departure { after: 0, to, packet }];
        for adversary in &mut self.0 {
            for Departure { after, to, packet } in core::mem::take(&mut departures) {
                let from = departures.len();
                adversary.on_send(to, packet, rng, &mut departures);
                departures[from..].iter_mut().for_each(|departure| departure.after += after);
            }
        }
        out.append(&mut departures);
    }

    fn hears(&mut self, from: Address, packet: &Packet, rng: &mut Rng) -> bool {
        self.0.iter_mut().all(|adversary| adversary.hears(from, packet, rng))
    }

    fn turns_down(&mut self, packet: &Packet) -> Option<Packet> {
        self.0.iter_mut().find_map(|adversary| adversary.turns_down(packet))
    }

    fn leads(&mut self, leads: bool) {
        self.0.iter_mut().for_each(|adversary| adversary.leads(leads));
    }
}

/// A behaviour by name, as plain data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Behaviour {
    /// See [`Silent`].
    Silent {
        /// Clients get no answers either.
        to_clients_too: bool,
    },
    /// See [`Selective`].
    Selective {
        /// To whom it speaks.
        friends: ReplicaSet,
        /// Whether clients get answers.
        answers_clients: bool,
    },
    /// See [`Desert`].
    Desert,
    /// See [`Delayer`].
    Delay {
        /// By how much at least.
        least: Micros,
        /// By how much at most.
        up_to: Micros,
    },
    /// See [`Echo`].
    Echo {
        /// How often.
        rate_ppm: u32,
    },
    /// See [`Replay`].
    Replay {
        /// How often.
        repeat_ppm: u32,
    },
    /// See [`Corrupt`].
    Corrupt {
        /// How often.
        rate_ppm: u32,
    },
    /// See [`Liar`].
    Liar,
    /// See [`Mislead`].
    Mislead,
    /// See [`Starve`].
    Starve {
        /// The client's index.
        client: u16,
    },
    /// See [`Alternate`].
    Alternate,
    /// See [`Poison`].
    Poison {
        /// How often.
        rate_ppm: u32,
    },
    /// See [`Rot`].
    Rot {
        /// How often.
        every: u64,
    },
    /// Two copies of it with one identity and the one device between them (Bano et al., "Twins:
    /// BFT systems made robust", 2021). Neither lies, and together they equivocate.
    Twin,
    /// Abuses what replicas say to each other about epochs: asks for admission again and again,
    /// votes for false handovers, says old things ([`crate::node::Usurping`]).
    Usurp {
        /// In how many of a million rounds.
        rate_ppm: u32,
    },
    /// Speaks in clients' names, with what it heard them say and what its device gives away
    /// ([`crate::node::Impostor`]).
    Impostor {
        /// In how many of a million rounds.
        rate_ppm: u32,
    },
    /// See [`Busy`].
    Busy,
    /// Repeats what others say as if it said so itself, and changes bytes of it
    /// ([`crate::node::Parrot`]).
    Parrot {
        /// Says nothing else.
        alone: bool,
        /// In how many of a million rounds.
        rate_ppm: u32,
    },
    /// Takes part as it should for a while, and keeps what it hears. Then its protocol's forger
    /// says beside it what can be made of that.
    Lurk {
        /// For how many milliseconds.
        quiet_ms: u64,
        /// In how many of a million rounds after that.
        rate_ppm: u32,
    },
    /// Says what its protocol's forger makes up ([`pentarchy_core::forge`]).
    Forge {
        /// Nothing else.
        alone: bool,
        /// In how many of a million rounds.
        rate_ppm: u32,
    },
}

/// How many kinds of behaviour there are that take part in every drawing. An impostor comes on top
/// of the others, where clients use sessions, those that mislead are in worlds of readers, and the
/// full ones and parrots in worlds of their own.
pub const BEHAVIOURS: u64 = 13;

impl Behaviour {
    /// One of all of them, in a group of `n` with this many clients.
    #[must_use]
    pub fn draw(rng: &mut Rng, n: usize, clients: usize, timeouts: &Timeouts) -> Self {
        match rng.below(BEHAVIOURS + 2) {
            0 => Self::Silent { to_clients_too: rng.percent(50) },
            1 => {
                // Now and then it leaves out nobody but clients.
                let (all, some) = ((1 << n) - 1, rng.below(1 << n));
                let friends = ReplicaSet(if rng.percent(20) { all } else { some });
                Self::Selective { friends, answers_clients: friends.0 != all && rng.percent(50) }
            }
            2 if rng.percent(50) => {
                // Just fast enough not to be suspected by those who wait for it alone.
                let request = timeouts.request_ms * 1_000;
                Self::Delay { least: request / 2, up_to: request * 95 / 100 }
            }
            2 => Self::Delay { least: 0, up_to: rng.range(1_000, 2_000_000) },
            3 if rng.percent(30) => Self::Echo { rate_ppm: rng.range(10_000, 500_000) as u32 },
            3 => Self::Replay { repeat_ppm: rng.range(10_000, 200_000) as u32 },
            4 => Self::Corrupt { rate_ppm: rng.range(10_000, 1_000_000) as u32 },
            5 => Self::Liar,
            6 => Self::Starve { client: rng.below(clients as u64) as u16 },
            7 => Self::Poison { rate_ppm: rng.range(100_000, 1_000_000) as u32 },
            8 => Self::Rot { every: *rng.pick(&[20, 100, 400]) },
            9 => Self::Twin,
            10 => Self::Usurp { rate_ppm: *rng.pick(&[1_000, 20_000, 300_000]) },
            11 => Self::Desert,
            // What only this protocol's messages can do is the most of what can be done.
            _ => Self::Forge {
                alone: rng.percent(50),
                rate_ppm: *rng.pick(&[1_000, 20_000, 300_000]),
            },
        }
    }

    /// Its name, for summaries.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Silent { .. } => "silent",
            Self::Desert => "desert",
            Self::Selective { .. } => "selective",
            Self::Delay { .. } => "delay",
            Self::Echo { .. } => "echo",
            Self::Replay { .. } => "replay",
            Self::Corrupt { .. } => "corrupt",
            Self::Liar => "liar",
            Self::Mislead => "mislead",
            Self::Starve { .. } => "starve",
            Self::Alternate => "alternate",
            Self::Poison { .. } => "poison",
            Self::Rot { .. } => "rot",
            Self::Twin => "twin",
            Self::Usurp { .. } => "usurp",
            Self::Impostor { .. } => "impostor",
            Self::Busy => "busy",
            Self::Parrot { .. } => "parrot",
            Self::Lurk { .. } => "lurk",
            Self::Forge { alone: true, .. } => "forge_alone",
            Self::Forge { .. } => "forge",
        }
    }

    /// What it does between core and network, if it does anything there.
    #[must_use]
    pub fn build(self, clients: &[ClientId]) -> Option<Box<dyn Adversary>> {
        Some(match self {
            Self::Silent { to_clients_too } => Box::new(Silent::new(to_clients_too)),
            Self::Desert => Box::new(Desert::default()),
            Self::Selective { friends, answers_clients } => {
                Box::new(Selective::new(friends, answers_clients))
            }
            Self::Delay { least, up_to } => Box::new(Delayer::new(least, up_to)),
            Self::Echo { rate_ppm } => Box::new(Echo::new(rate_ppm)),
            Self::Replay { repeat_ppm } => Box::new(Replay::new(repeat_ppm)),
            Self::Corrupt { rate_ppm } => Box::new(Corrupt::new(rate_ppm)),
            Self::Liar => Box::new(Liar),
            Self::Mislead => Box::new(Mislead::default()),
            Self::Starve { client } => {
                Box::new(Starve::new(client, *clients.get(usize::from(client))?))
            }
            Self::Alternate => Box::new(Alternate::default()),
            Self::Poison { rate_ppm } => Box::new(Poison::new(rate_ppm)),
            Self::Busy => Box::new(Busy),
            Self::Rot { .. }
            | Self::Twin
            | Self::Usurp { .. }
            | Self::Impostor { .. }
            | Self::Parrot { .. }
            | Self::Lurk { .. }
            | Self::Forge { .. } => return None,
        })
    }
}

#[cfg(test)]
mod tests;
