//! What the log of a replica holds.

use super::delta::Delta;
use bytes::Bytes;
use pentarchy_core::configuration::Configuration;
use pentarchy_core::counter::{Instance, Memory, Position, Ui};
use pentarchy_core::digest::Digest;
use pentarchy_core::epochs::{Handover, Proof};
use pentarchy_core::ids::{Epoch, Slot};
use pentarchy_core::limits::{MESSAGE_BYTES_MAX, PILLARS_MAX, REPLICAS_MAX};
use pentarchy_core::membership::{Base, Life, Member, Membership, PillarConfig};
use pentarchy_core::mutant;
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};
use std::sync::Arc;

/// Something that a replica must not forget, in one epoch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Entry {
    /// What the core asked to be kept.
    Record(Bytes),
    /// The trusted device is about to certify this. Kept before it does, so that a fresh device of
    /// the same life can be brought to where the one before was, or a step further.
    Certified {
        /// Which device.
        instance: Instance,
        /// At which position.
        position: Position,
        /// What.
        digest: Digest,
    },
    /// What a device remembers, without what is about to be certified and is named behind this.
    Memory(Instance, Memory),
    /// The device gave this identifier to what has this digest, and the message has not come back
    /// to its core yet. The device may have forgotten it.
    Issued {
        /// The identifier.
        ui: Ui,
        /// What it was given to.
        digest: Digest,
    },
}

/// From which entry on the log is needed beside a state: of each part of the core, as each has
/// kept again what it needs at another place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Needed([u64; PILLARS_MAX as usize]);

impl Needed {
    /// Of parts that each need entries from this one on. Of those beyond the given ones nothing is
    /// there.
    #[must_use]
    pub fn of_parts(parts: &[u64]) -> Self {
        let lowest = parts.iter().copied().min().unwrap_or_default();
        let mut all = Self::from(lowest);
        all.0.iter_mut().zip(parts).for_each(|(needed, part)| *needed = *part);
        all
    }

    /// No entry below this one is needed.
    #[must_use]
    pub fn lowest(&self) -> u64 {
        self.0.into_iter().min().unwrap_or_default()
    }

    /// From where, for people.
    pub(super) fn text(&self, lane: PillarConfig) -> String {
        let lowest = format!("from {}", self.lowest());
        if lane.pillars < 2 {
            return lowest;
        }
        let parts: Vec<String> = parts_of(*self, lane).map(|first| first.to_string()).collect();
        format!("{lowest}, by pillar from {},", parts.join(", "))
    }

    /// Whether this entry of a log that is split like that is needed.
    #[must_use]
    pub fn has(&self, number: u64, entry: &Entry, lane: PillarConfig) -> bool {
        let part = entry.part(lane).filter(|_| !mutant!("pillars.lowest-for-all"));
        let of_part = part.and_then(|part| self.0.get(usize::from(part)).copied());
        number >= of_part.unwrap_or_else(|| self.lowest())
    }
}

impl From<u64> for Needed {
    /// Entries from this one on are needed, whoever kept them.
    fn from(first: u64) -> Self {
        Self([first; PILLARS_MAX as usize])
    }
}

/// Up to where a quorum vouches for a replica's states.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    /// The slot of the state.
    pub slot: Slot,
    /// What is needed beside it.
    pub needed: Needed,
}

/// Kinds of records in the log.
pub const RECORD: u8 = 1;
pub const CERTIFIED: u8 = 2;
/// Of records that say how an epoch began.
pub const EPOCH: u8 = 3;
/// The same with a [`Mark`].
pub const STABLE: u8 = 4;
pub const MEMORY: u8 = 5;
pub const ISSUED: u8 = 6;
/// A state, as what makes it of another one.
pub const STATE: u8 = 7;

/// Of the epoch, before all else.
pub const EPOCH_BYTES: usize = 8;

/// The largest record of a core: a message with what proves it.
pub const RECORD_BYTES_MAX: usize = 2 * MESSAGE_BYTES_MAX;

impl Entry {
    /// Which part of the core kept it, if there are several: their records begin with the number,
    /// and each has the device of that number.
    fn part(&self, lane: PillarConfig) -> Option<u8> {
        let part = match self {
            Self::Record(record) => record.first().copied(),
            Self::Certified { instance, .. } | Self::Memory(instance, _) => Some(instance.0),
            Self::Issued { ui, .. } => Some(ui.instance.0),
        };
        part.filter(|_| lane.pillars > 1)
    }

    /// As kind and body of a record.
    pub fn seal(&self, epoch: Epoch) -> (u8, Vec<u8>) {
        let mut to = Writer::default();
        epoch.encode(&mut to);
        let kind = match self {
            Self::Record(record) => {
                to.bytes(record);
                RECORD
            }
            Self::Certified { instance, position, digest } => {
                position.encode(&mut to);
                digest.encode(&mut to);
                seal_instance(*instance, &mut to);
                CERTIFIED
            }
            Self::Memory(instance, memory) => {
                memory.encode(&mut to);
                seal_instance(*instance, &mut to);
                MEMORY
            }
            Self::Issued { ui, digest } => {
                ui.encode(&mut to);
                digest.encode(&mut to);
                ISSUED
            }
        };
        (kind, to.into_vec())
    }
}

/// Most replicas have one device: only another one is named.
fn seal_instance(instance: Instance, to: &mut Writer) {
    if instance != Instance::FIRST {
        to.u8(instance.0);
    }
}

/// Which device a record is about.
pub fn open_instance(from: &mut Reader<'_>) -> Result<Instance, Malformed> {
    if from.is_empty() {
        return Ok(Instance::FIRST);
    }
    let instance = Instance(from.u8()?);
    if instance == Instance::FIRST { Err(Malformed) } else { Ok(instance) }
}

/// An epoch, as kind and body of a record: all that may change from one to the next. With a mark,
/// also that it was reached.
pub fn seal_epoch(
    membership: &Membership,
    proof: Option<&Proof>,
    mark: Option<Mark>,
) -> (u8, Vec<u8>) {
    let mut to = Writer::default();
    membership.epoch.encode(&mut to);
    membership.configuration.encode(&mut to);
    membership.base.encode(&mut to);
    to.sequence(&membership.members.iter().map(Member::life).collect::<Vec<_>>());
    to.option(later_configuration(membership));
    to.option(proof);
    if let Some(Mark { slot, needed }) = mark {
        slot.encode(&mut to);
        to.u64(needed.lowest());
    }
    seal_lane(membership.lane, &mut to);
    if let Some(Mark { needed, .. }) = mark.filter(|_| membership.lane.pillars > 1) {
        parts_of(needed, membership.lane).for_each(|needed| to.u64(needed));
    }
    (if mark.is_some() { STABLE } else { EPOCH }, to.into_vec())
}

/// The configuration, if it is not the one with which the group began: that one is in everybody's
/// file.
fn later_configuration(membership: &Membership) -> Option<&Configuration> {
    membership.stated.as_deref().filter(|stated| stated.number > 0)
}

/// Most groups do not split their order: only where it is split, that is said.
fn seal_lane(lane: PillarConfig, to: &mut Writer) {
    if lane != PillarConfig::default() {
        to.u8(lane.pillars);
        to.u8(lane.rotates.into());
    }
}

/// What each part needs, if there are several.
fn parts_of(needed: Needed, lane: PillarConfig) -> impl Iterator<Item = u64> {
    needed.0.into_iter().take(usize::from(lane.pillars))
}

/// The same, behind how the order is split. Where one thread runs all parts, older programs named
/// only the lowest: what all need begins there.
pub fn open_needed(
    from: &mut Reader<'_>,
    lowest: u64,
    lane: PillarConfig,
) -> Result<Needed, Malformed> {
    if lane.pillars < 2 || from.is_empty() {
        return Ok(Needed::from(lowest));
    }
    let parts = (0..lane.pillars).map(|_| from.u64()).collect::<Result<Vec<u64>, _>>()?;
    let needed = Needed::of_parts(&parts);
    if needed.lowest() == lowest { Ok(needed) } else { Err(Malformed) }
}

/// How the order is split.
pub fn open_lane(from: &mut Reader<'_>) -> Result<PillarConfig, Malformed> {
    if from.is_empty() {
        return Ok(PillarConfig::default());
    }
    match (from.u8()?, from.u8()?) {
        (pillars @ 2..=PILLARS_MAX, rotates @ 0..=1) => {
            Ok(PillarConfig { pillars, rotates: rotates == 1, pillar: None })
        }
        _ => Err(Malformed),
    }
}

/// A state, as kind and body of a record.
pub fn seal_state(epoch: Epoch, delta: &Delta) -> (u8, Vec<u8>) {
    let mut to = Writer::onto(Vec::with_capacity(delta.bytes() + 256));
    epoch.encode(&mut to);
    delta.encode(&mut to);
    (STATE, to.into_vec())
}

/// What stands in a record.
pub enum Opened {
    /// An encoded [`Delta`].
    State(Bytes),
    Entry(Epoch, Entry),
    Epoch(Arc<Membership>, Option<Proof>, Option<Mark>),
}

/// Opens a record. `first` is the group as it began: members keep their keys within a
/// configuration, and of a later configuration the record has all. How the order is split, and the
/// digest of the configuration, are as the record says.
pub fn open(kind: u8, body: &Bytes, first: &Arc<Membership>) -> Result<Opened, Malformed> {
    let mut from = Reader::new(body);
    let epoch = Epoch::decode(&mut from)?;
    let opened = match kind {
        RECORD => Opened::Entry(epoch, Entry::Record(from.bytes(RECORD_BYTES_MAX)?)),
        CERTIFIED => {
            let position = Position::decode(&mut from)?;
            let digest = Digest::decode(&mut from)?;
            let instance = open_instance(&mut from)?;
            Opened::Entry(epoch, Entry::Certified { instance, position, digest })
        }
        MEMORY => {
            let memory = Memory::decode(&mut from)?;
            Opened::Entry(epoch, Entry::Memory(open_instance(&mut from)?, memory))
        }
        ISSUED => {
            let (ui, digest) = (Ui::decode(&mut from)?, Digest::decode(&mut from)?);
            Opened::Entry(epoch, Entry::Issued { ui, digest })
        }
        STATE => return Ok(Opened::State(body.slice(EPOCH_BYTES..))),
        EPOCH | STABLE => {
            let configuration = Digest::decode(&mut from)?;
            let base = Base::decode(&mut from)?;
            let lives: Vec<Life> = from.sequence(REPLICAS_MAX)?;
            let later: Option<Configuration> = from.option()?;
            let proof = from.option()?;
            let mark = match kind {
                EPOCH => None,
                _ => Some((Slot::decode(&mut from)?, from.u64()?)),
            };
            let lane = open_lane(&mut from)?;
            let needed =
                mark.map(|(_, lowest)| open_needed(&mut from, lowest, lane)).transpose()?;
            let mark = mark.zip(needed).map(|((slot, _), needed)| Mark { slot, needed });
            let membership = match later {
                Some(later) if later.digest() == configuration => {
                    of_later(&later, first, epoch, lives, base)?
                }
                Some(_) => return Err(Malformed),
                None if configuration == first.configuration => {
                    membership(first, epoch, base, lives)?
                }
                // Of another group no more is read than that it is another one.
                None => first.clone(),
            };
            let is_said = (lane, configuration) == (membership.lane, membership.configuration);
            let said = || Arc::new(Membership { lane, configuration, ..(*membership).clone() });
            Opened::Epoch(if is_said { membership } else { said() }, proof, mark)
        }
        _ => return Err(Malformed),
    };
    from.finish()?;
    Ok(opened)
}

/// In an epoch of a later configuration than the first one.
fn of_later(
    configuration: &Configuration,
    first: &Membership,
    epoch: Epoch,
    lives: Vec<Life>,
    base: Base,
) -> Result<Arc<Membership>, Malformed> {
    let before = epoch.0.checked_sub(1).map(Epoch).ok_or(Malformed)?;
    let follows = configuration.number > 0 && configuration.group == first.group;
    let has_lives = lives.len() == configuration.members.len();
    if !follows || !has_lives || configuration.check().is_err() {
        return Err(Malformed);
    }
    let handover = Handover { epoch: before, base, lives, next: None };
    Ok(Arc::new(configuration.after(&handover)))
}

fn membership(
    first: &Arc<Membership>,
    epoch: Epoch,
    base: Base,
    lives: Vec<Life>,
) -> Result<Arc<Membership>, Malformed> {
    if epoch == first.epoch {
        return Ok(first.clone());
    }
    if epoch < first.epoch || lives.len() != first.n() {
        return Err(Malformed);
    }
    let before = Epoch(epoch.0 - 1);
    Ok(Arc::new(first.after(&Handover { epoch: before, base, lives, next: None })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pentarchy_sim::world::membership as group;

    fn first(pillars: u8) -> Arc<Membership> {
        let lane = PillarConfig { pillars, rotates: false, pillar: None };
        Arc::new(Membership { lane, ..group(1, 3, 1) })
    }

    fn sealed(pillars: u8, parts: &[u64]) -> Vec<u8> {
        let mark = Mark { slot: Slot(64), needed: Needed::of_parts(parts) };
        let (kind, body) = seal_epoch(&first(pillars), None, Some(mark));
        assert_eq!(kind, STABLE);
        body
    }

    fn opened(pillars: u8, body: Vec<u8>) -> Result<Needed, Malformed> {
        match open(STABLE, &body.into(), &first(pillars))? {
            Opened::Epoch(_, _, Some(Mark { slot: Slot(64), needed })) => Ok(needed),
            _ => panic!("it is a mark"),
        }
    }

    fn record(part: u8) -> Entry {
        Entry::Record(Bytes::copy_from_slice(&[part, 7]))
    }

    #[test]
    fn a_mark_names_what_each_part_needs() {
        let needed = opened(3, sealed(3, &[12, 10, 11])).unwrap();
        assert_eq!((needed, needed.lowest()), (Needed::of_parts(&[12, 10, 11]), 10));
        let lane = first(3).lane;
        for (part, from) in [(0, 12), (1, 10), (2, 11)] {
            let has = |number| needed.has(number, &record(part), lane);
            assert!(!has(from - 1) && has(from), "{part}");
        }
        let ui = |part| Instance(part);
        let position = Position::default();
        let digest = Digest::default();
        let certified = |part| Entry::Certified { instance: ui(part), position, digest };
        assert!(!needed.has(11, &certified(0), lane) && needed.has(12, &certified(0), lane));
        assert!(needed.has(10, &certified(1), lane));
        // Of whom nobody knows, and where the order is not split.
        assert!(
            needed.has(10, &record(9), lane) && needed.has(10, &Entry::Record(Bytes::new()), lane)
        );
        assert!(needed.has(10, &record(0), first(1).lane));
    }

    #[test]
    fn where_the_order_is_not_split_a_mark_names_one_number() {
        let body = sealed(1, &[10]);
        assert_eq!(body.len() + 2 + 3 * 8, sealed(3, &[10, 10, 10]).len());
        assert_eq!(opened(1, body), Ok(Needed::from(10)));
    }

    /// As it was when one thread ran all parts.
    #[test]
    fn a_mark_without_a_list_means_that_all_need_entries_from_the_same_one_on() {
        let mut body = sealed(3, &[12, 10, 11]);
        body.truncate(body.len() - 3 * 8);
        assert_eq!(opened(3, body), Ok(Needed::from(10)));
    }

    #[test]
    fn a_list_that_is_not_what_the_mark_says_is_malformed() {
        let body = sealed(3, &[12, 10, 11]);
        let list = body.len() - 3 * 8;
        for (place, number) in [(0, 9_u64), (1, 11), (2, 1)] {
            let mut other = body.clone();
            other[list + 8 * place..][..8].copy_from_slice(&number.to_le_bytes());
            assert_eq!(opened(3, other), Err(Malformed), "{place}: another lowest one");
        }
        for end in 1..3 * 8 {
            assert_eq!(opened(3, body[..list + end].to_vec()), Err(Malformed), "{end} bytes of it");
        }
        assert_eq!(opened(3, [body.clone(), vec![0]].concat()), Err(Malformed), "and more");
        let unsplit = [sealed(1, &[10]), 10_u64.to_le_bytes().to_vec()].concat();
        assert_eq!(opened(1, unsplit), Err(Malformed), "a list of none");
    }
}
