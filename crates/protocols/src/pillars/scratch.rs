//! Room for effects, empty between steps, so that a step allocates nothing for them.

use core::hash::{Hash, Hasher};
use pentarchy_core::protocol::{Effects, Protocol};

/// See the [module](self). No part of a core's state.
#[derive(Debug)]
pub(super) struct Scratch<P: Protocol>(Option<Effects<P>>);

impl<P: Protocol> Scratch<P> {
    /// Takes the room out.
    pub(super) fn take(&mut self) -> Effects<P> {
        self.0.take().unwrap_or_default()
    }

    /// Puts it back.
    pub(super) fn put(&mut self, mut effects: Effects<P>) {
        effects.drain().for_each(drop);
        self.0 = Some(effects);
    }
}

impl<P: Protocol> Default for Scratch<P> {
    fn default() -> Self {
        Self(None)
    }
}

impl<P: Protocol> Clone for Scratch<P> {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl<P: Protocol> PartialEq for Scratch<P> {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl<P: Protocol> Eq for Scratch<P> {}

impl<P: Protocol> Hash for Scratch<P> {
    fn hash<H: Hasher>(&self, _state: &mut H) {}
}
