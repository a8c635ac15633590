//! Connections whose other side has not said yet who it is, or says to be a member of which this
//! replica has not heard.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

/// Where a connection comes from, as far as one sender is hard to tell from its neighbours: an IPv4
/// address, or the half of an IPv6 address that names a network.
type Place = u64;

struct Stranger {
    token: usize,
    settle_by_ms: u64,
    from: Place,
}

/// The strangers, oldest first. There are few, so they are searched one by one.
#[derive(Default)]
pub struct Strangers(VecDeque<Stranger>);

impl Strangers {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Takes one in. Deadlines must not go back.
    pub fn add(&mut self, token: usize, from: IpAddr, settle_by_ms: u64) {
        self.0.push_back(Stranger { token, settle_by_ms, from: place(from) });
    }

    /// It is no stranger any more, or gone.
    pub fn remove(&mut self, token: usize) {
        self.0.retain(|stranger| stranger.token != token);
    }

    /// One whose time to say who it is is over.
    pub fn overdue(&self, now_ms: u64) -> Option<usize> {
        let oldest = self.0.front().filter(|stranger| stranger.settle_by_ms <= now_ms)?;
        Some(oldest.token)
    }

    /// When [`Self::overdue`] has someone.
    pub fn next_ms(&self) -> Option<u64> {
        self.0.front().map(|stranger| stranger.settle_by_ms)
    }

    /// Who has to make room: the oldest from the place that most come from. So whoever floods the
    /// port from one place takes room from itself, and not from those who come from elsewhere.
    pub fn least_welcome(&self) -> Option<usize> {
        self.least_welcome_of(|_| true)
    }

    /// The same among some of them.
    pub fn least_welcome_of(&self, is_one: impl Fn(usize) -> bool) -> Option<usize> {
        let mut counts = BTreeMap::new();
        let some = || self.0.iter().filter(|stranger| is_one(stranger.token));
        for stranger in some() {
            *counts.entry(stranger.from).or_insert(0) += 1;
        }
        let most = counts.values().copied().max()?;
        some().find(|stranger| counts.get(&stranger.from) == Some(&most)).map(|s| s.token)
    }

    /// All of them.
    pub fn tokens(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().map(|stranger| stranger.token)
    }
}

fn place(address: IpAddr) -> Place {
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_bits().into(),
        // The upper half is never all zero in an address that can be connected from elsewhere.
        IpAddr::V6(address) => (address.to_bits() >> 64) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_from_one_place_takes_room_from_itself() {
        let mut strangers = Strangers::default();
        let from = |text: &str| text.parse::<IpAddr>().unwrap();
        assert_eq!(strangers.least_welcome(), None);
        strangers.add(0, from("10.0.0.1"), 5);
        strangers.add(1, from("2001:db8::1"), 6);
        assert_eq!(strangers.least_welcome(), Some(0), "the oldest, if all are alike");
        strangers.add(2, from("2001:db8::2"), 7);
        assert_eq!(strangers.least_welcome(), Some(1), "one network");
        strangers.add(3, from("::ffff:10.0.0.1"), 8);
        strangers.add(4, from("10.0.0.1"), 8);
        assert_eq!(strangers.least_welcome(), Some(0), "written in another way");
        assert_eq!(strangers.least_welcome_of(|token| token % 2 == 1), Some(1));
        assert_eq!(strangers.tokens().collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        strangers.remove(0);
        assert_eq!(strangers.least_welcome(), Some(1));
        assert_eq!((strangers.overdue(5), strangers.overdue(6)), (None, Some(1)));
        assert_eq!((strangers.next_ms(), strangers.len()), (Some(6), 4));
    }
}
