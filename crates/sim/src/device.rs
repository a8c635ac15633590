//! The trusted counter of a simulated replica. Keeps the contract of
//! [`pentarchy_core::counter::Usig`]: positions ascend, a repetition gives the same identifier, and
//! each identifier names the last commitment before it. Unless it is told to lie: then everything
//! that rests on it may fall, and checkers must notice.

use crate::certifier::Certifier;
use crate::crypto::{Crypto, INCARNATION};
use crate::real_devices::Shadow;
use pentarchy_core::counter::{
    Counter, Instance, Memory, Position, REPEATABLE, Refused, Statement, TrustedMac, Ui, Usig,
};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Epoch, Incarnation, ReplicaId, View};
use pentarchy_core::membership::Membership;
use pentarchy_core::mutant;
use std::collections::{BTreeMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// States to which a lying device can be set back.
const SNAPSHOTS: usize = 256;

/// How devices of faulty replicas are, against the assumption of hybrid protocols.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DeviceFault {
    /// They keep their contract.
    #[default]
    None,
    /// Set back to an earlier state whenever a position is spent.
    RollBack,
    /// Copied: of two copies of a replica each has a device of its own.
    Clone,
}

/// The device of one replica, in one life.
#[derive(Clone)]
pub struct SimDevice {
    by: Certifier,
    /// Of its epoch. A simulated group begins with none.
    configuration: Digest,
    crypto: Arc<Crypto>,
    /// As what it counts, in its epoch.
    kind: Counter,
    last: Position,
    committed: Position,
    /// The last index in each view; one that is not bound to views looks at nothing else.
    in_view: BTreeMap<View, u64>,
    recent: VecDeque<(Statement, Ui)>,
    /// It does not answer any more, ...
    fails: bool,
    /// ... although it was asked.
    was_missed: bool,
    /// The last position and commitment after each certificate, if this device can be set back.
    earlier: Option<Vec<(Position, Position)>>,
    /// The device of production that is asked the same.
    shadow: Shadow,
}

impl SimDevice {
    /// The device with which a replica begins.
    #[must_use]
    pub fn new(replica: ReplicaId, crypto: Arc<Crypto>) -> Self {
        Self::reborn(replica, INCARNATION, crypto)
    }

    /// A fresh device of another life.
    #[must_use]
    pub fn reborn(replica: ReplicaId, incarnation: Incarnation, crypto: Arc<Crypto>) -> Self {
        let kind = crypto.counter();
        let start = kind.start();
        Self {
            by: Certifier { replica, instance: Instance::FIRST, incarnation, epoch: Epoch(0) },
            configuration: crypto.configuration(),
            crypto,
            kind,
            last: start,
            committed: start,
            in_view: BTreeMap::new(),
            recent: VecDeque::new(),
            fails: false,
            was_missed: false,
            earlier: None,
            shadow: Shadow::none(),
        }
    }

    /// The same, but it is this one of its replica's.
    #[must_use]
    pub fn of_number(mut self, instance: Instance) -> Self {
        self.by.instance = instance;
        self
    }

    /// The same, with a device of production beside it.
    #[must_use]
    pub fn beside(self, shadow: Shadow) -> Self {
        Self { shadow, ..self }
    }

    /// Adds its whole state to a hash.
    pub fn fingerprint(&self, mut hasher: &mut dyn Hasher) {
        (self.by, self.last, self.committed, &self.in_view, &self.recent).hash(&mut hasher);
    }

    /// It does not answer any more.
    pub const fn fail(&mut self) {
        self.fails = true;
    }

    /// Whether it fails, and whether it was asked since it does.
    #[must_use]
    pub const fn failure(&self) -> (bool, bool) {
        (self.fails, self.was_missed)
    }

    fn answers(&mut self) -> Result<(), Refused> {
        self.was_missed |= self.fails;
        if self.fails { Err(Refused::Unavailable) } else { Ok(()) }
    }

    /// Who certifies now.
    #[must_use]
    pub const fn certifier(&self) -> Certifier {
        self.by
    }

    /// How it counts.
    #[must_use]
    pub const fn counter(&self) -> Counter {
        self.kind
    }

    /// Where it stands: the last position and the last commitment.
    #[must_use]
    pub const fn stands(&self) -> (Position, Position) {
        (self.last, self.committed)
    }

    fn is_spent(&self, position: Position) -> bool {
        let unbound = self.counter() == Counter::Unbound;
        if unbound || mutant!("device.not-bound-to-views") {
            let index = self.in_view.get(&position.view);
            return index.is_some_and(|index| position.index <= *index);
        }
        if mutant!("device.certifies-twice") { position < self.last } else { position <= self.last }
    }

    /// The same device, but it lies if `fault` is [`DeviceFault::RollBack`].
    #[must_use]
    pub fn with(self, fault: DeviceFault) -> Self {
        let start = self.kind.start();
        let earlier = (fault == DeviceFault::RollBack).then(|| vec![(start, start)]);
        Self { earlier, ..self }
    }

    /// Goes back to before a position, if it can.
    fn roll_back(&mut self, position: Position) {
        let Some(earlier) = &mut self.earlier else { return };
        while earlier.last().is_some_and(|(last, _)| *last >= position) {
            earlier.pop();
        }
        if let Some(state) = earlier.last() {
            (self.last, self.committed) = *state;
        }
    }

    fn go_over_to(&mut self, membership: &Membership) -> Result<(), Refused> {
        let Membership { epoch, configuration, .. } = *membership;
        if epoch < self.by.epoch {
            return Err(Refused::Spent);
        }
        if epoch == self.by.epoch {
            let same = configuration == self.configuration;
            return if same { Ok(()) } else { Err(Refused::Spent) };
        }
        (self.by.epoch, self.configuration) = (epoch, configuration);
        if let Some(stated) = &membership.stated {
            self.kind = stated.facts.counter.unwrap_or_default();
        }
        let start = self.kind.start();
        (self.last, self.committed) = (start, start);
        if let Some(earlier) = &mut self.earlier {
            *earlier = vec![(start, start)];
        }
        self.in_view.clear();
        self.recent.clear();
        Ok(())
    }

    fn certify(&mut self, position: Position, digest: &Digest) -> Result<Ui, Refused> {
        let same = |(it, _): &&(Statement, Ui)| it.position == position && it.digest == *digest;
        if let Some((_, ui)) = self.recent.iter().find(same) {
            return Ok(*ui);
        }
        if self.is_spent(position) {
            self.roll_back(position);
        }
        if self.is_spent(position) {
            return Err(Refused::Spent);
        }
        // One of TrInX remembers the position before, and a USIG the commitment before.
        let is_trinx = self.counter() == Counter::Trinx;
        let committed = if is_trinx { self.last } else { self.committed };
        let statement = Statement { position, committed, digest: *digest };
        let ui = self.identifier(&statement);
        self.last = position;
        self.in_view.insert(position.view, position.index);
        if position.index >= Position::COMMITMENT {
            self.committed = position;
        }
        if let Some(earlier) = &mut self.earlier {
            earlier.push((self.last, self.committed));
            if earlier.len() > SNAPSHOTS {
                earlier.remove(0);
            }
        }
        self.recent.push_back((statement, ui));
        if self.recent.len() > REPEATABLE {
            self.recent.pop_front();
        }
        Ok(ui)
    }

    fn identifier(&self, statement: &Statement) -> Ui {
        let Certifier { incarnation, instance, .. } = self.by;
        let Statement { position, committed, digest } = statement;
        let committed = self.counter().names(*position, *committed, *committed);
        let position = *position;
        let certificate = self.crypto.certify(self.by, position, committed, digest);
        Ui { incarnation, instance, position, committed, certificate }
    }

    fn take_over(&mut self, memory: &Memory) -> Result<(), Refused> {
        if self.last != self.kind.start() {
            return Err(Refused::Spent);
        }
        (self.last, self.committed) = (memory.last, memory.committed);
        for statement in memory.recent.iter().rev() {
            let position = statement.position;
            self.in_view.insert(position.view, position.index);
            self.recent.push_back((*statement, self.identifier(statement)));
        }
        Ok(())
    }
}

impl Usig for SimDevice {
    fn incarnation(&self) -> Incarnation {
        self.by.incarnation
    }

    fn begin_epoch(&mut self, membership: &Membership) -> Result<(), Refused> {
        let begun = self.go_over_to(membership);
        self.shadow.begin_epoch(membership, begun);
        begun
    }

    fn create(&mut self, position: Position, digest: &Digest) -> Result<Ui, Refused> {
        self.answers()?;
        let made = self.certify(position, digest);
        self.shadow.create((position, digest), &made);
        made
    }

    fn mac(&mut self, digest: &Digest) -> Result<TrustedMac, Refused> {
        self.answers()?;
        let is_trinx = self.counter() == Counter::Trinx;
        let mac = is_trinx.then(|| self.crypto.mac_by(self.by, digest));
        let made = mac.ok_or(Refused::Unavailable);
        self.shadow.mac(digest, &made);
        made
    }

    fn memory(&self) -> Option<Memory> {
        let recent = self.recent.iter().rev().map(|(statement, _)| *statement);
        // To one of TrInX each position is a commitment, as far as it remembers.
        let (last, is_trinx) = (self.last, self.counter() == Counter::Trinx);
        let committed = if is_trinx { last } else { self.committed };
        let memory = Memory { last, committed, recent: recent.collect() };
        self.shadow.memory(&memory);
        Some(memory)
    }

    fn restore(&mut self, memory: &Memory) -> Result<(), Refused> {
        let restored = self.take_over(memory);
        self.shadow.restore((memory, self.by.instance), restored);
        restored
    }

    fn verify(&self, replica: ReplicaId, ui: &Ui, digest: &Digest) -> bool {
        let Ui { instance, incarnation, .. } = *ui;
        let by = Certifier { replica, instance, incarnation, epoch: self.by.epoch };
        self.crypto.certified(by, digest, ui)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(view: u64, index: u64) -> Position {
        Position::new(View(view), index)
    }

    #[test]
    fn positions_ascend_and_repetitions_are_equal() {
        let crypto = Arc::new(Crypto::new(3, 3, 0));
        let mut device = SimDevice::new(ReplicaId(1), crypto.clone());
        let (a, b) = (Digest::of(b"a"), Digest::of(b"b"));
        assert_eq!(device.create(at(0, 2), &a), Err(Refused::Spent));
        let first = device.create(at(0, 3), &a).unwrap();
        let second = device.create(at(0, 5), &b).unwrap();
        assert_eq!(device.create(at(0, 3), &a), Ok(first));
        assert_eq!(device.create(at(0, 3), &b), Err(Refused::Spent));
        assert_eq!(device.create(at(0, 4), &b), Err(Refused::Spent));
        assert_eq!(device.create(at(0, 5), &a), Err(Refused::Spent));
        assert!(device.verify(ReplicaId(1), &second, &b));
        assert!(!device.verify(ReplicaId(0), &second, &b));
        assert!(!device.verify(ReplicaId(1), &second, &a));
        assert!(!device.verify(ReplicaId(1), &Ui { committed: at(0, 0), ..second }, &b));
    }

    #[test]
    fn each_identifier_names_the_last_commitment_before_it() {
        let mut device = SimDevice::new(ReplicaId(0), Arc::new(Crypto::new(3, 1, 0)));
        let digest = Digest::of(b"a");
        let committed = |device: &mut SimDevice, position| {
            device.create(position, &digest).map(|ui| ui.committed)
        };
        assert_eq!(committed(&mut device, at(0, 3)), Ok(at(0, 2)));
        assert_eq!(committed(&mut device, at(0, 4)), Ok(at(0, 3)));
        assert_eq!(committed(&mut device, at(1, 0)), Ok(at(0, 4)));
        assert_eq!(committed(&mut device, at(2, 0)), Ok(at(0, 4)), "leaving commits to nothing");
        assert_eq!(committed(&mut device, at(2, 2)), Ok(at(0, 4)));
        assert_eq!(committed(&mut device, at(2, 3)), Ok(at(2, 2)));
    }

    #[test]
    fn of_trinx_leaving_names_the_position_before_and_nothing_else_does() {
        let crypto = Crypto::new(3, 1, 0).counting(Counter::Trinx);
        let mut device = SimDevice::new(ReplicaId(0), Arc::new(crypto));
        let (a, none) = (Digest::of(b"a"), Position::default());
        assert_eq!(device.create(at(0, 0), &a), Err(Refused::Spent));
        let story = [
            (at(0, 1), none),
            (at(0, 4), none),
            (at(1, 0), at(0, 4)),
            (at(2, 0), at(1, 0)),
            (at(2, 1), none),
        ];
        for (position, names) in story {
            assert_eq!(device.create(position, &a).map(|ui| ui.committed), Ok(names));
        }
    }

    #[test]
    fn positions_are_free_again_in_a_later_epoch_and_there_is_no_way_back() {
        let crypto = Arc::new(Crypto::new(3, 3, 0));
        let mut device = SimDevice::new(ReplicaId(1), crypto);
        let (a, b) = (Digest::of(b"a"), Digest::of(b"b"));
        let first = crate::world::membership(3, 3, 1);
        let second = Membership { epoch: Epoch(1), ..first.clone() };
        let before = device.create(at(0, 9), &a).unwrap();
        device.begin_epoch(&second).unwrap();
        let after = device.create(at(0, 3), &b).unwrap();
        assert!(device.verify(ReplicaId(1), &after, &b));
        assert!(!device.verify(ReplicaId(1), &before, &a), "bound to its epoch");
        device.begin_epoch(&second).unwrap();
        assert_eq!(device.create(at(0, 3), &a), Err(Refused::Spent), "once in each epoch");
        let configuration = Digest::of(b"other keys");
        let changed = Membership { configuration, ..second.clone() };
        assert_eq!(device.begin_epoch(&changed), Err(Refused::Spent), "one in each epoch");
        device.begin_epoch(&second).unwrap();
        assert_eq!(device.begin_epoch(&first), Err(Refused::Spent));
        assert_eq!(device.certifier().epoch, Epoch(1));
        let third = Membership { epoch: Epoch(2), ..changed };
        device.begin_epoch(&third).unwrap();
        let back = Membership { configuration: second.configuration, ..third };
        assert_eq!(device.begin_epoch(&back), Err(Refused::Spent));
    }

    #[test]
    fn a_device_that_is_set_back_certifies_twice() {
        let crypto = Arc::new(Crypto::new(3, 1, 0));
        let mut device = SimDevice::new(ReplicaId(0), crypto).with(DeviceFault::RollBack);
        let (a, b) = (Digest::of(b"a"), Digest::of(b"b"));
        let first = device.create(at(0, 3), &a).unwrap();
        device.create(at(0, 4), &a).unwrap();
        let second = device.create(at(0, 3), &b).unwrap();
        assert_eq!((first.position, first.committed), (second.position, second.committed));
        assert!(
            device.verify(ReplicaId(0), &first, &a) && device.verify(ReplicaId(0), &second, &b)
        );
        assert_eq!(device.create(at(0, 2), &b), Err(Refused::Spent), "not before its beginning");
    }
}
