//! Byzantine replicas: wrappers around honest ones at the same door. They hold no key and no device,
//! so they can do to messages only what a faulty host can: keep, delay, repeat, redirect and spoil
//! them. One file each.

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

/// One of all behaviours.
#[must_use]
pub fn random(rng: &mut Rng, n: usize) -> Box<dyn Adversary> {
    match rng.below(6) {
        0 => Box::new(Silent::new(rng.percent(50))),
        1 => Box::new(Selective::new(ReplicaSet(rng.below(1 << n)), rng.percent(50))),
        2 => Box::new(Delayer::new(rng.range(1_000, 2_000_000))),
        3 => Box::new(Replay::new(rng.range(10_000, 200_000) as u32)),
        4 => Box::new(Corrupt::new(rng.range(10_000, 1_000_000) as u32)),
        _ => Box::new(Liar),
    }
}

#[cfg(test)]
mod tests;
