//! A machine brings its service to a state of the group before it is a member.

use super::{Executor, OWN_SECTIONS, differing};
use crate::membership::Membership;
use crate::service::Service;
use crate::snapshot::Snapshot;
use crate::tree::{Leaf, Tree};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;

/// Why a service is not in the state to which it was to be brought. It is in a mixture then, which
/// must not be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Untaught {
    /// The state is another service's, or another version's.
    Strange,
    /// A part of the state cannot be read.
    Unreadable,
}

impl Executor {
    /// Brings a service to a state of the group: from the state before, or from its initial one.
    ///
    /// # Errors
    /// [`Untaught`]
    pub fn teach(
        service: &mut dyn Service,
        before: Option<&Snapshot>,
        state: &Snapshot,
    ) -> Result<(), Untaught> {
        let initial = Tree::new(OWN_SECTIONS + service.sections());
        if state.tree.sections() != initial.sections() {
            return Err(Untaught::Strange);
        }
        let changed = service.changed_sections().into_iter().map(|index| OWN_SECTIONS + index);
        let before = before.map_or(&initial, |before| &before.tree);
        let differing = differing(&state.tree, before, changed.collect());
        for index in differing.into_iter().filter_map(|index| index.checked_sub(OWN_SECTIONS)) {
            let leaf = state.tree.section(OWN_SECTIONS + index);
            let bytes = leaf.map_or(Some(Bytes::new()), Leaf::joined);
            let bytes = bytes.ok_or(Untaught::Unreadable)?;
            service.restore_section(index, &bytes).map_err(|_| Untaught::Strange)?;
        }
        service.changed_sections();
        Ok(())
    }

    /// Like [`Self::new`], of a service that was [brought](Self::teach) to this state. Nothing may
    /// be executed before a state is installed; then only those of the service's sections are
    /// restored that differ from this one.
    ///
    /// # Panics
    /// As there, and if the state is another service's.
    #[must_use]
    pub fn taught(
        membership: Arc<Membership>,
        service: Box<dyn Service>,
        state: &Snapshot,
    ) -> Self {
        let executor = Self::new(membership, service);
        assert_eq!(state.tree.sections(), executor.tree.sections(), "it was brought to that state");
        let own: Vec<_> = (0..OWN_SECTIONS).map(|index| (index, None)).collect();
        Self { tree: state.tree.changed(&own, state.slot), ..executor }
    }
}
