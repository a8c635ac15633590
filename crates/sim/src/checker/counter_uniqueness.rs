//! The assumption under which hybrid protocols are safe: a device certifies one statement at each
//! position, and positions ascend. Faulty replicas have honest devices, so it holds for them too.

use super::{Broken, Verdict};
use pentarchy_core::counter::{Counter, Instance, Position, Ui};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Epoch, Incarnation, ReplicaId};
use std::collections::BTreeMap;

/// The name of the property.
pub const PROPERTY: &str = "counter_uniqueness";

/// A device in one of its lives, in one epoch.
type Device = (ReplicaId, Instance, Incarnation, Epoch);

/// What each device certified.
#[derive(Default)]
pub struct CounterUniqueness {
    /// As what devices count in each epoch.
    kinds: BTreeMap<Epoch, Counter>,
    /// Statements, and what was named as the last commitment with them.
    certified: BTreeMap<(Device, Position), (Digest, Position)>,
    last: BTreeMap<Device, (Position, Position)>,
}

impl CounterUniqueness {
    /// In this epoch devices count like this. In others they count like a USIG.
    pub fn judge_by(&mut self, epoch: Epoch, counter: Counter) {
        self.kinds.insert(epoch, counter);
    }

    /// A device gave an identifier to a statement.
    ///
    /// # Errors
    /// If it gave that position to another one, went back, or named the wrong last commitment.
    pub fn certified(
        &mut self,
        replica: ReplicaId,
        epoch: Epoch,
        ui: &Ui,
        digest: Digest,
    ) -> Verdict {
        let (device, position) = ((replica, ui.instance, ui.incarnation, epoch), ui.position);
        if let Some((known, named)) = self.certified.get(&(device, position)) {
            if *known != digest {
                let detail = format!("{replica} certifies {known} and {digest} at {position:?}");
                return Err(Broken::new(PROPERTY, detail));
            }
            return names(replica, ui, *named);
        }
        let kind = self.kinds.range(..=epoch).next_back().map(|(_, kind)| *kind);
        let kind = kind.unwrap_or_default();
        let start = kind.start();
        let (last, committed) = self.last.get(&device).copied().unwrap_or((start, start));
        if position <= last {
            let detail = format!("{replica} certifies {position:?} after {last:?}");
            return Err(Broken::new(PROPERTY, detail));
        }
        names(replica, ui, kind.names(position, last, committed))?;
        let commits = position.index >= Position::COMMITMENT;
        let committed = if commits { position } else { committed };
        self.last.insert(device, (position, committed));
        self.certified.insert((device, position), (digest, ui.committed));
        Ok(())
    }
}

/// Whether an identifier names this as the device's last commitment.
fn names(replica: ReplicaId, ui: &Ui, committed: Position) -> Verdict {
    if ui.committed == committed {
        return Ok(());
    }
    let (named, position) = (ui.committed, ui.position);
    let detail = format!(
        "{replica} names {named:?} at {position:?} as what was before, which is {committed:?}"
    );
    Err(Broken::new(PROPERTY, detail))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pentarchy_core::counter::Certificate;
    use pentarchy_core::ids::View;

    fn ui(view: u64, index: u64, committed: (u64, u64)) -> Ui {
        let at = |view, index| Position::new(View(view), index);
        Ui {
            incarnation: Incarnation(1),
            instance: Instance::FIRST,
            position: at(view, index),
            committed: at(committed.0, committed.1),
            certificate: Certificate::Mac([0; 32]),
        }
    }

    #[test]
    fn a_device_that_lies_is_found() {
        let (a, b) = (Digest([1; 32]), Digest([2; 32]));
        let mut checker = CounterUniqueness::default();
        let mut certify = |ui: Ui, digest| checker.certified(ReplicaId(0), Epoch(0), &ui, digest);
        assert!(certify(ui(0, 3, (0, 1)), a).is_err(), "a past that it has not");
        certify(ui(0, 3, (0, 2)), a).unwrap();
        certify(ui(0, 3, (0, 2)), a).unwrap();
        assert!(certify(ui(0, 3, (0, 1)), a).is_err(), "the same with another past");
        assert_eq!(certify(ui(0, 3, (0, 2)), b).unwrap_err().property, PROPERTY);
        certify(ui(0, 5, (0, 3)), b).unwrap();
        assert!(certify(ui(0, 4, (0, 3)), b).is_err(), "back");
        assert!(certify(ui(1, 0, (0, 3)), b).is_err(), "hides a commitment");
        certify(ui(1, 0, (0, 5)), b).unwrap();
        certify(ui(1, 2, (0, 5)), b).unwrap();
        assert!(certify(ui(1, 3, (0, 5)), b).is_err());
    }
}
