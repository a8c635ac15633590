//! Byzantine replicas: wrappers around honest ones at the same door. They hold no key and no
//! device, so they can do to messages only what a faulty host can: keep, delay, repeat, redirect
//! and spoil them. One file each.

use crate::node::{Address, Packet};
use crate::rng::Rng;
use crate::time::Micros;
use pentarchy_core::ids::ReplicaSet;

mod corrupt;
mod delay;
mod liar;
mod replay;
mod selective;
mod silent;

pub use corrupt::Corrupt;
pub use delay::Delayer;
pub use liar::Liar;
pub use replay::Replay;
pub use selective::Selective;
pub use silent::Silent;

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
    /// Its name, for summaries.
    fn name(&self) -> &'static str;

    /// The honest replica inside wants to send this; what leaves is appended to `out`.
    fn on_send(&mut self, to: Address, packet: Packet, rng: &mut Rng, out: &mut Vec<Departure>);

    /// Whether a packet reaches the honest replica inside.
    fn hears(&mut self, _from: Address, _packet: &Packet, _rng: &mut Rng) -> bool {
        true
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
    /// See [`Delayer`].
    Delay {
        /// By how much at most.
        up_to: Micros,
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
}

impl Behaviour {
    /// One of all of them, in a group of `n`.
    #[must_use]
    pub fn draw(rng: &mut Rng, n: usize) -> Self {
        match rng.below(6) {
            0 => Self::Silent { to_clients_too: rng.percent(50) },
            1 => Self::Selective {
                friends: ReplicaSet(rng.below(1 << n)),
                answers_clients: rng.percent(50),
            },
            2 => Self::Delay { up_to: rng.range(1_000, 2_000_000) },
            3 => Self::Replay { repeat_ppm: rng.range(10_000, 200_000) as u32 },
            4 => Self::Corrupt { rate_ppm: rng.range(10_000, 1_000_000) as u32 },
            _ => Self::Liar,
        }
    }

    /// The adversary that behaves so.
    #[must_use]
    pub fn build(self) -> Box<dyn Adversary> {
        match self {
            Self::Silent { to_clients_too } => Box::new(Silent::new(to_clients_too)),
            Self::Selective { friends, answers_clients } => {
                Box::new(Selective::new(friends, answers_clients))
            }
            Self::Delay { up_to } => Box::new(Delayer::new(up_to)),
            Self::Replay { repeat_ppm } => Box::new(Replay::new(repeat_ppm)),
            Self::Corrupt { rate_ppm } => Box::new(Corrupt::new(rate_ppm)),
            Self::Liar => Box::new(Liar),
        }
    }
}

#[cfg(test)]
mod tests;
