//! The newest state in a data folder, for whoever only looks.

use super::chain::{self, Root};
use super::{States, entry};
use crate::disk::Folder;
use crate::error::StorageError;
use crate::identity::Identity;
use crate::log;
use crate::snapshots::Snapshots;
use pentarchy_core::snapshot::Snapshot;

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
        log::read(log, Some(&identity), |record| {
            if record.kind == entry::STATE && record.body.len() >= entry::EPOCH_BYTES {
                deltas.push((record.number, record.body.slice(entry::EPOCH_BYTES..)));
            }
        })?;
    }
    let newest = chain::assemble(vec![(behind, file)], &deltas).pop();
    Ok(newest.map(|newest| (identity, newest)))
}
