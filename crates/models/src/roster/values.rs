//! The values of the model: ids, configurations, changes, requests, handovers and proofs. A digest
//! is a position in a table of the world, so equal digests mean equal contents.

use std::collections::BTreeMap;

/// Agreed time that has to pass between "enough members are ready" and the end of the epoch.
pub(super) const WAIT: u32 = 6;

/// How many administrators have to sign a change.
pub(super) const THRESHOLD: u8 = 2;

/// Permanent number of a member, which is its place in the table of machines.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct MemberId(pub usize);

/// Digest of a configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ConfigurationId(pub usize);

/// Digest of a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ChangeId(pub usize);

/// Digest of a handover.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct HandoverId(pub usize);

/// Place of a proof in the bag of all proofs that were ever made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ProofId(pub usize);

/// A signing key, with the key that opens secrets sealed to its owner: the two are made, replaced
/// and erased together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Key(pub u32);

/// The secret that the devices of a configuration share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Secret(pub u32);

/// One incarnation of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Life {
    /// The device chose it at random when it started.
    Random(u32),
    /// It follows from the configuration and the member, so a host can start it twice.
    Named(usize, MemberId),
}

/// A member of a configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    pub id: MemberId,
    pub signing: Key,
}

/// A configuration. Its members' lives belong to the epochs, because admissions change them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Configuration {
    pub number: usize,
    /// Whether members have trusted devices, so that `2f + 1` suffice.
    pub devices: bool,
    pub f: usize,
    pub members: Vec<Entry>,
    pub secret: Secret,
}

impl Configuration {
    /// The smallest group for so many faults.
    pub(super) const fn least(devices: bool, f: usize) -> usize {
        if devices { 2 * f + 1 } else { 3 * f + 1 }
    }

    /// Any two quorums share a member with devices, and a correct member without.
    pub(super) fn quorum(&self) -> usize {
        let n = self.members.len();
        if self.devices { n / 2 + 1 } else { (n + self.f) / 2 + 1 }
    }

    pub(super) fn index(&self, id: MemberId) -> Option<usize> {
        self.members.iter().position(|entry| entry.id == id)
    }

    pub(super) fn has(&self, id: MemberId) -> bool {
        self.index(id).is_some()
    }

    pub(super) fn key_of(&self, id: MemberId) -> Option<Key> {
        self.members.iter().find(|entry| entry.id == id).map(|entry| entry.signing)
    }

    pub(super) fn owns(&self, key: Key) -> bool {
        self.members.iter().any(|entry| entry.signing == key)
    }
}

/// What administrators propose: the whole next configuration.
#[derive(Clone, Debug)]
pub(super) struct Change {
    /// The configuration that it changes, and how often administrators had withdrawn changes of it.
    pub expects: ConfigurationId,
    pub attempt: u32,
    pub expires: u32,
    pub devices: bool,
    pub f: usize,
    pub members: Vec<MemberId>,
    /// Signing keys of new members' cards.
    pub cards: Vec<(MemberId, Key)>,
    pub secret: Secret,
    /// Must be ready whatever the count.
    pub needed: Vec<MemberId>,
    /// How many administrators signed.
    pub signers: u8,
}

/// What a member brings for the next configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ready {
    pub member: MemberId,
    /// The epoch in which it says so: in the next one, its device may have lost this life.
    pub epoch: usize,
    pub change: ChangeId,
    pub signing: Key,
    pub life: Option<Life>,
}

/// What can be ordered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Request {
    /// A client's operation of this number.
    Operation(usize),
    Change(ChangeId),
    Withdraw {
        expects: ConfigurationId,
        attempt: u32,
    },
    Ready(Ready),
    /// A member asks to count by a device of another life.
    Admission {
        member: MemberId,
        epoch: usize,
        life: Life,
    },
}

/// A change that waits for its members.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Pending {
    pub change: ChangeId,
    pub ready: BTreeMap<MemberId, Ready>,
    /// Since when, by agreed time, enough are ready.
    pub enough: Option<u32>,
}

/// The part of the replicated state that is about the group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Roster {
    /// Agreed time.
    pub now: u32,
    /// How often a change of this configuration was withdrawn.
    pub attempt: u32,
    pub pending: Option<Pending>,
}

/// One epoch as it really went.
#[derive(Clone, Debug)]
pub(super) struct Epoch {
    pub configuration: ConfigurationId,
    /// By index; none where there are no devices.
    pub lives: Vec<Option<Life>>,
    /// Slots of all epochs before.
    pub base: u32,
    /// The roster at the begin, and after each slot.
    pub rosters: Vec<Roster>,
    pub end: Option<HandoverId>,
}

impl Epoch {
    /// Slots of all epochs up to and with this one, as far as it is ordered.
    pub(super) fn tip(&self) -> u32 {
        self.base + self.rosters.len() as u32 - 1
    }
}

/// How an epoch ends. Its signatures cover the configuration that ends (A-R1: a domain names it).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Handover {
    pub epoch: usize,
    pub configuration: ConfigurationId,
    pub next: Option<ConfigurationId>,
    /// False in what only the adversary says: another base, or a configuration that never was.
    pub genuine: bool,
}

/// A handover with keys that signed it, and the next configuration as its sender attached it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Proof {
    pub handover: HandoverId,
    pub keys: Vec<Key>,
    pub attached: Option<ConfigurationId>,
}

/// What a client knows.
#[derive(Clone, Debug, Default)]
pub(super) struct Client {
    /// Number of the configuration that it knows.
    pub number: usize,
    /// The operation that it waits for.
    pub operation: Option<usize>,
    /// Who answered, and whether that answer is what execution gave.
    pub answers: Vec<(MemberId, bool)>,
}
