//! The network between the nodes: late, lossy, repeating, reordering and sometimes split, until it
//! heals. Replicas stand at places ([`crate::swarm::Options::places`]), and addresses of replicas
//! mean places here: two copies of one replica can be in different parts.

use crate::packet::Address;
use crate::rng::Rng;
use crate::time::Micros;
use pentarchy_core::ids::{ReplicaId, ReplicaSet};

/// How the network behaves before it heals.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NetworkOptions {
    /// The least time that a message takes.
    pub latency_us: u64,
    /// What is added, around this mean; messages overtake each other by it.
    pub jitter_us: u64,
    /// How far the time of a message is off besides, in both directions: the standard deviation.
    pub deviation_us: u64,
    /// Messages in a million that get lost.
    pub loss_ppm: u32,
    /// Messages in a million that come twice.
    pub duplicate_ppm: u32,
    /// Messages in a million that take [`Self::straggle_us`] longer.
    pub straggle_ppm: u32,
    /// How much longer.
    pub straggle_us: u64,
    /// Which replicas hear others late, as a number that this is drawn from; none if it is 0.
    pub slow_links: u64,
    /// How much longer messages take to these, at most. Some hear others two or three times as late
    /// as others do, so that they lag behind each other.
    pub slow_link_us: u64,
}

impl NetworkOptions {
    /// How much later than others a replica hears what replicas say.
    #[must_use]
    pub fn hears_late_us(&self, who: ReplicaId) -> u64 {
        if self.slow_links == 0 {
            return 0;
        }
        let mut rng = Rng::new(self.slow_links.rotate_left(32) ^ u64::from(who.0));
        let most = self.slow_link_us;
        match rng.below(4) {
            0 => rng.range(most * 5 / 6, most),
            1 => rng.range(most / 3, most / 2),
            _ => 0,
        }
    }

    fn link_us(&self, from: Address, to: Address) -> u64 {
        match (from, to) {
            (Address::Replica(_), Address::Replica(to)) => self.hears_late_us(to),
            _ => 0,
        }
    }
}

/// Who cannot speak to whom.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cut {
    /// Messages from these replicas...
    pub from: ReplicaSet,
    /// ...to these are lost.
    pub to: ReplicaSet,
    /// And the other way round.
    pub both_ways: bool,
    /// Whether clients cannot speak to [`Self::from`] either, nor hear it.
    pub clients: bool,
}

/// Places in parts that cannot speak to each other; clients reach all of them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Parts(pub u64);

impl Parts {
    /// Places that can be told apart.
    pub const PLACES_MAX: usize = 16;

    /// The part of a place.
    #[must_use]
    pub const fn of(self, place: u16) -> u64 {
        (self.0 >> (4 * (place as u64 % Self::PLACES_MAX as u64))) & 15
    }

    /// The same, with a place in this part, which is below 16.
    #[must_use]
    pub const fn with(self, place: u16, part: u64) -> Self {
        let shift = 4 * (place as u64 % Self::PLACES_MAX as u64);
        Self((self.0 & !(15 << shift)) | (part << shift))
    }

    /// Any of them, with at most this many parts.
    pub fn draw(rng: &mut Rng, places: usize, parts: u64) -> Self {
        let place = |all: Self, place| all.with(place, rng.below(parts));
        (0..places as u16).fold(Self(0), place)
    }

    const fn blocks(self, from: Address, to: Address) -> bool {
        match (from, to) {
            (Address::Replica(a), Address::Replica(b)) => self.of(a.0) != self.of(b.0),
            _ => false,
        }
    }
}

impl Cut {
    fn blocks(&self, from: Address, to: Address) -> bool {
        match (from, to) {
            (Address::Replica(a), Address::Replica(b)) => {
                let forward = self.from.contains(a) && self.to.contains(b);
                forward || (self.both_ways && self.from.contains(b) && self.to.contains(a))
            }
            (Address::Replica(replica), _) | (_, Address::Replica(replica)) => {
                self.clients && self.from.contains(replica)
            }
            (Address::Client(_), Address::Client(_)) => true,
        }
    }
}

/// The network.
pub struct Network {
    options: NetworkOptions,
    cuts: Vec<(u64, Cut)>,
    partitions: Vec<(u64, Parts)>,
    rng: Rng,
}

impl Network {
    /// A whole network.
    #[must_use]
    pub const fn new(options: NetworkOptions, rng: Rng) -> Self {
        Self { options, cuts: Vec::new(), partitions: Vec::new(), rng }
    }

    /// Splits the network until [`Self::mend`] is called with the same name.
    pub fn cut(&mut self, name: u64, cut: Cut) {
        self.cuts.push((name, cut));
    }

    /// Partitions the network until [`Self::mend`] is called with the same name.
    pub fn partition(&mut self, name: u64, parts: Parts) {
        self.partitions.push((name, parts));
    }

    /// Ends a cut or a partition.
    pub fn mend(&mut self, name: u64) {
        self.cuts.retain(|(known, _)| *known != name);
        self.partitions.retain(|(known, _)| *known != name);
    }

    /// From now on nothing is lost and nobody is cut off; messages still take their time.
    pub fn heal(&mut self) {
        self.cuts.clear();
        self.partitions.clear();
        (self.options.loss_ppm, self.options.duplicate_ppm, self.options.straggle_ppm) = (0, 0, 0);
        self.options.slow_links = 0;
    }

    fn blocks(&self, from: Address, to: Address) -> bool {
        let cut = self.cuts.iter().any(|(_, cut)| cut.blocks(from, to));
        cut || self.partitions.iter().any(|(_, parts)| parts.blocks(from, to))
    }

    /// Whether these two cannot make a connection: not all that one says would reach the other.
    #[must_use]
    pub fn parts(&self, one: Address, other: Address) -> bool {
        self.blocks(one, other) || self.blocks(other, one)
    }

    /// When a message that leaves now arrives: never, once or twice.
    pub fn arrivals(&mut self, now: Micros, from: Address, to: Address) -> [Option<Micros>; 2] {
        if self.blocks(from, to) {
            return [None, None];
        }
        let lost = self.rng.chance(self.options.loss_ppm);
        let twice = self.rng.chance(self.options.duplicate_ppm);
        let link_us = self.options.link_us(from, to);
        let mut arrival = || {
            let late = if self.rng.chance(self.options.straggle_ppm) {
                self.options.straggle_us
            } else {
                0
            };
            let NetworkOptions { latency_us, jitter_us, deviation_us, .. } = self.options;
            let takes = latency_us + self.rng.around(jitter_us) + late + link_us;
            now + off_by(&mut self.rng, takes, deviation_us)
        };
        let first = (!lost).then(&mut arrival);
        [first, twice.then(arrival)]
    }
}

/// Of twelve evenly spread numbers the sum has the standard deviation of their range, nearly as a
/// normal distribution has it.
const DRAWS: u64 = 12;

/// A time that is off by a deviation of this much, and never below 0. Draws nothing if there is
/// none.
fn off_by(rng: &mut Rng, time: Micros, deviation: Micros) -> Micros {
    if deviation == 0 {
        return time;
    }
    let sum: u64 = (0..DRAWS).map(|_| rng.below(deviation + 1)).sum();
    (time + sum).saturating_sub(DRAWS / 2 * deviation)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Address = Address::Replica(ReplicaId(0));
    const B: Address = Address::Replica(ReplicaId(1));
    const CLIENT: Address = Address::Client(0);

    fn cut(both_ways: bool, clients: bool) -> Cut {
        let set = |id| ReplicaSet::from_iter([ReplicaId(id)]);
        Cut { from: set(0), to: set(1), both_ways, clients }
    }

    fn passes(network: &mut Network, from: Address, to: Address) -> bool {
        network.arrivals(0, from, to)[0].is_some()
    }

    #[test]
    fn cuts_block_one_way_or_both_until_mended() {
        let mut network = Network::new(NetworkOptions::default(), Rng::new(1));
        network.cut(1, cut(false, false));
        assert!(!passes(&mut network, A, B) && passes(&mut network, B, A));
        assert!(passes(&mut network, CLIENT, A));
        network.cut(2, cut(true, true));
        network.mend(1);
        assert!(!passes(&mut network, A, B) && !passes(&mut network, B, A));
        assert!(!passes(&mut network, CLIENT, A) && passes(&mut network, CLIENT, B));
        network.mend(2);
        assert!(passes(&mut network, A, B) && passes(&mut network, A, CLIENT));
    }

    #[test]
    fn who_hears_only_one_way_has_no_connection() {
        let mut network = Network::new(NetworkOptions::default(), Rng::new(1));
        network.cut(1, cut(false, true));
        assert!(network.parts(A, B) && network.parts(B, A) && network.parts(CLIENT, A));
        assert!(!network.parts(B, CLIENT));
        network.mend(1);
        assert!(!network.parts(A, B) && !network.parts(A, CLIENT));
    }

    #[test]
    fn parts_cannot_speak_to_each_other() {
        let mut network = Network::new(NetworkOptions::default(), Rng::new(1));
        let third = Address::Replica(ReplicaId(2));
        network.partition(7, Parts(0).with(0, 1).with(2, 1));
        assert!(!passes(&mut network, A, B) && !passes(&mut network, B, A));
        assert!(passes(&mut network, A, third) && passes(&mut network, CLIENT, B));
        network.mend(7);
        assert!(passes(&mut network, A, B));
    }

    #[test]
    fn it_loses_and_repeats_at_about_the_given_rates_until_it_heals() {
        let options = NetworkOptions {
            latency_us: 5,
            loss_ppm: 300_000,
            duplicate_ppm: 100_000,
            ..NetworkOptions::default()
        };
        let mut network = Network::new(options, Rng::new(1));
        let count = |network: &mut Network| -> (usize, usize) {
            let arrivals: Vec<_> = (0..10_000).map(|_| network.arrivals(0, A, B)).collect();
            let of = |index: usize| arrivals.iter().filter(|both| both[index].is_some()).count();
            (of(0), of(1))
        };
        let (first, second) = count(&mut network);
        assert!((6_700..7_300).contains(&first) && (800..1_200).contains(&second));
        network.heal();
        assert_eq!(count(&mut network), (10_000, 0));
    }

    #[test]
    fn times_vary_around_the_latency_by_the_deviation() {
        let latency_us = 20_000;
        let options =
            NetworkOptions { latency_us, deviation_us: 2_000, ..NetworkOptions::default() };
        let mut network = Network::new(options, Rng::new(1));
        let times: Vec<f64> = (0..10_000)
            .filter_map(|_| network.arrivals(7, A, B)[0])
            .map(|at| (at - 7) as f64)
            .collect();
        let count = times.len() as f64;
        let mean = times.iter().sum::<f64>() / count;
        let squares = times.iter().map(|time| (time - mean).powi(2)).sum::<f64>();
        let deviation = (squares / count).sqrt();
        assert!((mean - 20_000.0).abs() < 100.0 && (deviation - 2_000.0).abs() < 100.0);
        let within = times.iter().filter(|time| (*time - mean).abs() < 2_000.0).count();
        assert!((6_500..7_200).contains(&within), "as a normal distribution: {within}");
    }
}
