//! Laws 2 and 7 of the host contract: nothing leaves before what it rests on is durable, and what
//! was durable when something left is there after a crash.

use super::{Broken, Verdict};
use crate::observation::{Observation, Recovered};
use pentarchy_core::ids::{Epoch, ReplicaId, Slot};

/// The name of the property.
pub const PROPERTY: &str = "durability";

/// A correct replica did something.
///
/// # Errors
/// If that came too early, or something on which others may rely is not there.
pub fn saw(replica: ReplicaId, seen: &Observation) -> Verdict {
    match seen {
        Observation::Left { behind, durable } => left(replica, *behind, *durable),
        Observation::Rests { slot, saved } => rests(replica, *slot, *saved),
        Observation::Found(it) => found(replica, it),
        Observation::Rewound(text) => {
            Err(Broken::new(PROPERTY, format!("{replica} ends, though its disk works: {text}")))
        }
        _ => Ok(()),
    }
}

/// A message left that was handed over behind entries, of which so many are on the disk.
///
/// # Errors
/// If those are fewer.
fn left(replica: ReplicaId, behind: u64, durable: u64) -> Verdict {
    if behind <= durable {
        return Ok(());
    }
    let detail = format!("{replica} says something behind entry {behind}, and {durable} is next");
    Err(Broken::new(PROPERTY, detail))
}

/// A replica went on because its state of a slot is on the disk.
///
/// # Errors
/// If it is not.
fn rests(replica: ReplicaId, slot: Slot, saved: Option<Slot>) -> Verdict {
    if saved >= Some(slot) {
        return Ok(());
    }
    let detail = format!("{replica} vouches for {slot} and has {saved:?} on its disk");
    Err(Broken::new(PROPERTY, detail))
}

/// A replica started again.
///
/// # Errors
/// If its disk works, and something is not there on which others may rely.
fn found(replica: ReplicaId, it: &Recovered) -> Verdict {
    if it.rots || (it.relied <= it.found && it.vouched <= it.has) {
        return Ok(());
    }
    let detail = if it.relied > it.found {
        format!("{replica} had said something behind {}, and finds {}", it.relied, it.found)
    } else {
        format!("{replica} had vouched for {}, and finds the state of {}", it.vouched, it.has)
    };
    Err(Broken::new(PROPERTY, detail))
}

/// A replica whose disk was put back from a copy speaks, although all others had seen what it said
/// since then, and enough of them were asked.
#[must_use]
pub fn spoke(replica: ReplicaId) -> Broken {
    Broken::new(PROPERTY, format!("{replica} speaks from a disk that was put back from a copy"))
}

/// A replica that went on from its disk asks its peers again in a later epoch, although enough of
/// them have answered it: each time it is silent for as long as they take.
#[must_use]
pub fn asks_again(replica: ReplicaId, epoch: Epoch) -> Broken {
    Broken::new(PROPERTY, format!("{replica} asks again in {epoch} what others saw of it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_early_or_lost_is_named() {
        let me = ReplicaId(1);
        left(me, 4, 4).unwrap();
        assert_eq!(left(me, 5, 4).unwrap_err().property, PROPERTY);
        rests(me, Slot(4), Some(Slot(4))).unwrap();
        assert!(rests(me, Slot(5), Some(Slot(4))).is_err());
        assert!(rests(me, Slot(1), None).is_err());
        let none = Slot(0);
        let (rots, is_old) = (false, false);
        let whole =
            Recovered { had: none, relied: 7, found: 7, vouched: none, has: none, rots, is_old };
        found(me, &whole).unwrap();
        assert!(found(me, &Recovered { found: 6, ..whole }).is_err());
        found(me, &Recovered { found: 6, rots: true, ..whole }).unwrap();
        assert!(found(me, &Recovered { vouched: Slot(8), has: Slot(7), ..whole }).is_err());
        found(me, &Recovered { vouched: Slot(8), has: Slot(8), ..whole }).unwrap();
    }
}
