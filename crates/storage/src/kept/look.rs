//! The newest state in a data folder, for whoever only looks. The folder may be of an older format
//! of the log, in which states are recorded as they are now.

use super::chain::{self, Root};
use super::delta::{self, Delta};
use super::{States, entry};
use crate::disk::Folder;
use crate::error::StorageError;
use crate::identity::Identity;
use crate::log;
use crate::snapshots::{Overlay, Sections, Snapshots, Walked, not_the_state};
use pentarchy_core::ids::Slot;
use pentarchy_core::membership::Base;
use pentarchy_core::snapshot::Snapshot;
use pentarchy_core::wire::Wire as _;

/// The newest state that is in the folder of snapshots or, if that is looked into too, in the log
/// that belongs to it; and whose it is. None if there is none yet. Changes nothing.
///
/// # Errors
/// [`StorageError`], also if a replica that runs removed meanwhile what was to be read: then there
/// is a newer state.
pub fn newest_state(
    snapshots: Box<dyn Folder>,
    log: Option<&dyn Folder>,
) -> Result<Option<(Identity, Snapshot)>, StorageError> {
    let mut states = States(Snapshots::read(snapshots, None)?.0);
    let identity = *states.0.identity();
    let roots: Vec<Root> = states.roots().collect();
    let (mut newest, mut problem) = (None, None);
    for Root { slot, behind } in roots.into_iter().rev() {
        match states.0.load(slot, None) {
            Ok(snapshot) => {
                newest = Some((behind, snapshot));
                break;
            }
            Err(error) => problem = problem.or(Some(error)),
        }
    }
    let Some((behind, file)) = newest else { return problem.map_or(Ok(None), Err) };
    let mut deltas = Vec::new();
    if let Some(log) = log {
        log::read_older(log, Some(&identity), |record| {
            if record.kind == entry::STATE && record.body.len() >= entry::EPOCH_BYTES {
                deltas.push((record.number, record.body.slice(entry::EPOCH_BYTES..)));
            }
        })?;
    }
    let newest = chain::assemble(vec![(behind, file)], &deltas).pop();
    Ok(newest.map(|newest| (identity, newest)))
}

/// The newest state in a data folder, to be read section by section: as [`newest_state`], but no
/// more of it is in memory than what the log says has changed since it was in files.
pub struct Newest {
    states: Snapshots,
    root: Slot,
    overlay: Overlay,
    /// Whose it is.
    pub identity: Identity,
    /// Its slot and digest.
    pub state: Base,
    /// Its sections, the empty ones included.
    pub sections: u32,
    /// What is in it.
    pub walked: Walked,
}

impl Newest {
    /// Looks for it, and reads all of it once. None if there is none yet. Changes nothing.
    ///
    /// # Errors
    /// As [`newest_state`].
    pub fn find(
        snapshots: Box<dyn Folder>,
        log: Option<&dyn Folder>,
    ) -> Result<Option<Self>, StorageError> {
        let states = States(Snapshots::read(snapshots, None)?.0);
        let identity = *states.0.identity();
        let roots: Vec<Root> = states.roots().collect();
        let mut problem = None;
        for root in roots.into_iter().rev() {
            let Some((sections, digest)) = states.0.shape(root.slot) else { continue };
            let (mut overlay, mut state) =
                (Overlay::new(), Base { slot: root.slot, state: digest });
            if let Some(log) = log {
                state = follow(log, &identity, root.behind, state, &mut overlay)?;
            }
            match states.0.walk(root.slot, &overlay, &mut ()) {
                Ok(walked) if walked.digest == state.state => {
                    let (states, root) = (states.0, root.slot);
                    let found = Self { states, root, overlay, identity, state, sections, walked };
                    return Ok(Some(found));
                }
                Ok(_) => problem = problem.or(Some(not_the_state(root.slot))),
                Err(error) => problem = problem.or(Some(error)),
            }
        }
        problem.map_or(Ok(None), Err)
    }

    /// Shows all sections that are not empty.
    ///
    /// # Errors
    /// [`StorageError`], as before; also if it is another state now, which means nothing.
    pub fn walk(&self, to: &mut dyn Sections) -> Result<(), StorageError> {
        let walked = self.states.walk(self.root, &self.overlay, to)?;
        if walked == self.walked { Ok(()) } else { Err(not_the_state(self.root)) }
    }
}

/// Collects what the log says has changed since a state in files, and gives the state that came of
/// it.
fn follow(
    log: &dyn Folder,
    identity: &Identity,
    behind: u64,
    mut state: Base,
    overlay: &mut Overlay,
) -> Result<Base, StorageError> {
    log::read_older(log, Some(identity), |record| {
        if record.kind != entry::STATE || record.number < behind {
            return;
        }
        let Some(encoded) = record.body.get(entry::EPOCH_BYTES..) else { return };
        let encoded = record.body.slice_ref(encoded);
        if delta::heads(&encoded).is_ok_and(|(base, _)| base == state)
            && let Ok(delta) = Delta::from_bytes(&encoded)
        {
            state = delta.state;
            overlay.extend(delta.into_changes());
        }
    })?;
    Ok(state)
}
