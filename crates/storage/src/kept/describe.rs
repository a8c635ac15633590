//! Records of the log in words, for people who look at one. Nothing here is secret: what a device
//! remembers is what it said, and contents are named by their digests.

use super::delta;
use super::entry::{self, CERTIFIED, EPOCH, ISSUED, MEMORY, RECORD, STABLE, STATE};
use bytes::Bytes;
use pentarchy_core::configuration::Configuration;
use pentarchy_core::counter::{Memory, Position, Ui};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Epoch, Slot};
use pentarchy_core::limits::REPLICAS_MAX;
use pentarchy_core::membership::{Base, Life, PillarConfig};
use pentarchy_core::wire::{Malformed, Reader, Wire};

/// A record of the log in words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Described {
    /// Its kind.
    pub kind: &'static str,
    /// The epoch to which it belongs.
    pub epoch: Epoch,
    /// What it says.
    pub text: String,
}

/// Says what a record is.
///
/// # Errors
/// [`Malformed`] if this program does not know it.
pub fn describe(kind: u8, body: &Bytes) -> Result<Described, Malformed> {
    let mut from = Reader::new(body);
    let epoch = Epoch::decode(&mut from)?;
    let (kind, text) = match kind {
        RECORD => {
            let record = from.bytes(entry::RECORD_BYTES_MAX)?;
            let tag = record.first().copied().unwrap_or_default();
            let digest = Digest::of(&record);
            ("record", format!("kind {tag} of the protocol, {} bytes, {digest}", record.len()))
        }
        CERTIFIED => {
            let position = Position::decode(&mut from)?;
            let digest = Digest::decode(&mut from)?;
            let by = entry::open_instance(&mut from)?.0;
            ("certified", format!("{digest} at {}{}", at(position), of_device(by)))
        }
        MEMORY => {
            Memory::decode(&mut from)?;
            let by = entry::open_instance(&mut from)?.0;
            ("device", format!("what the device remembers{}", of_device(by)))
        }
        ISSUED => {
            let (ui, digest) = (Ui::decode(&mut from)?, Digest::decode(&mut from)?);
            ("issued", format!("{digest} at {}{}", at(ui.position), of_device(ui.instance.0)))
        }
        STATE => {
            let (base, state) = delta::heads(&from.rest())?;
            let bytes = body.len();
            let (slot, digest, below) = (state.slot, state.state, base.slot);
            ("state", format!("{digest} of {slot}, resting on {below}, {bytes} bytes"))
        }
        EPOCH | STABLE => {
            let configuration = Digest::decode(&mut from)?;
            let base = Base::decode(&mut from)?;
            let members = from.sequence::<Life>(REPLICAS_MAX)?.len();
            let later = from.option::<Configuration>()?;
            from.option::<pentarchy_core::epochs::Proof>()?;
            let mark = match kind {
                EPOCH => None,
                _ => Some((Slot::decode(&mut from)?, from.u64()?)),
            };
            let lane = entry::open_lane(&mut from)?;
            let needed = match mark {
                Some((_, lowest)) => entry::open_needed(&mut from, lowest, lane)?.text(lane),
                None => String::new(),
            };
            let lane = match lane {
                whole if whole == PillarConfig::default() => String::new(),
                lane => format!(", {lane}"),
            };
            let slot = base.slot;
            let number = later.map_or(0, |later| later.number);
            let began = format!(
                "{members} members of configuration {number} ({configuration}) from {slot} on{lane}"
            );
            match mark {
                None => ("epoch", began),
                Some((slot, _)) => ("stable", format!("{slot}, with records {needed} on; {began}")),
            }
        }
        _ => return Err(Malformed),
    };
    from.finish()?;
    Ok(Described { kind, epoch, text })
}

fn at(position: Position) -> String {
    format!("{}:{}", position.view.0, position.index)
}

/// Which of several devices.
fn of_device(number: u8) -> String {
    if number == 0 { String::new() } else { format!(", device {number}") }
}
