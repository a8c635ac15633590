//! What a replica would show if it had to leave its view now: a copy of its core and its devices
//! hears `f + 1` others ask for the next view, and everything that it then says about views has to
//! pass its own ingress, which is that of every correct replica. Nothing of that reaches the
//! replica.

use super::{ReplicaNode, Statuses};
use crate::devices::SimDevices;
use crate::packet::place_of;
use pentarchy_core::auth::{Auth, AuthTag, Checksum, Signature};
use pentarchy_core::counter::Counters as _;
use pentarchy_core::digest::Digest;
use pentarchy_core::erased::{CoreEffect, CoreEvent, Outgoing, ReplicaCore};
use pentarchy_core::ids::{ReplicaId, Slot, View};
use pentarchy_core::protocol::{Reject, To};
use pentarchy_storage::kept::DurableStore;
use std::collections::VecDeque;

/// Events of a replica after which it is asked again, whatever has changed.
const ASK_EVERY: u64 = 256;

/// Events that leaving may cause: more than there are messages that a view was waited for with.
const CHAIN_MAX: usize = 10_000;

/// When a replica was asked last what it would show.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Asked {
    stands: Vec<Stands>,
    steps: u64,
}

/// Where a core stands: what a VIEW-CHANGE rests on has moved if this has.
type Stands = (View, &'static str, Slot);

/// Where a core stands, and each of which it consists.
pub fn stands(statuses: &Statuses) -> impl Iterator<Item = Stands> {
    let all = core::iter::once(&statuses.whole).chain(&statuses.pillars);
    all.map(|status| (status.view, status.phase, status.stable))
}

impl ReplicaNode<'_> {
    /// Whether it is worth asking this replica again what it would show, and whether it can tell:
    /// what it said and nobody heard yet, its device has not certified.
    pub fn is_due_to_show(&mut self, statuses: &Statuses) -> bool {
        if self.faulty.is_some() || !self.has_spoken() {
            return false;
        }
        let Asked { stands: stood, steps } = &self.asked;
        let has_moved = !stands(statuses).eq(stood.iter().copied());
        let is_due = has_moved || self.watch.steps >= steps + ASK_EVERY;
        if is_due {
            let stands = stands(statuses).collect();
            self.asked = Asked { stands, steps: self.watch.steps };
        }
        is_due
    }

    /// Whether this replica takes part, and nothing that it said waits for its disk.
    #[must_use]
    pub fn has_spoken(&self) -> bool {
        let store = self.machine.store();
        let waits = store.is_some_and(|store| store.barrier().waiting_messages() > 0);
        let speaks = self.is_admitted()
            && !self.machine.is_resuming()
            && !self.is_dead()
            && !self.counter_failure().0;
        speaks && !waits
    }

    /// Whether everything that this replica would say about views is such that it would accept it
    /// itself, if `f + 1` others asked it now to leave.
    ///
    /// # Errors
    /// The kind of what it would refuse, and why.
    pub fn shows_what_it_accepts(&self) -> Result<(), (&'static str, Reject)> {
        let (mut core, keys) = (self.core().boxed_clone(), self.keys());
        let mut devices = self.watch.device.lock().expect("a panic ends the world").clone();
        let mut inbox: VecDeque<CoreEvent> = self.asks(&*core).collect();
        let mut effects = Vec::new();
        for _ in 0..CHAIN_MAX {
            let Some(event) = inbox.pop_front() else { return Ok(()) };
            core.step(event, &mut effects);
            core.assert_invariants();
            for effect in effects.drain(..) {
                let CoreEffect::Send { to, outgoing } = effect else { continue };
                let tag =
                    self.tag_of(&outgoing, &mut devices).map_err(|why| (outgoing.kind, why))?;
                let (wire, incoming) = core.seal(&outgoing, tag);
                if matches!(outgoing.kind, "view_change" | "new_view") {
                    let opened = core.open(&keys, self.me(), &wire);
                    opened.map_err(|why| (outgoing.kind, why))?;
                }
                if self.hears_itself(to) {
                    inbox.push_back(CoreEvent::Message(incoming));
                }
            }
        }
        panic!("{} would go on talking to itself", self.id);
    }

    /// `f + 1` others want it to leave.
    fn asks(&self, core: &dyn ReplicaCore) -> impl Iterator<Item = CoreEvent> {
        let crypto = self.crypto.clone();
        let membership = self.watch.membership.clone();
        let enough = membership.f + 1;
        let sign = move |by: ReplicaId, digest: &Digest| {
            let key = &membership.members[usize::from(by.0)].signing;
            let place = place_of(&membership, by).expect("it is a member");
            Signature(crypto.sign(place, key, digest))
        };
        let asks = |by| core.asks_to_leave(by, &sign);
        let me = self.me();
        let others = self.watch.membership.ids().filter(|id| *id != me);
        let all: Vec<_> = others.take(enough).flat_map(asks).collect();
        all.into_iter().map(CoreEvent::Message)
    }

    /// The tag that a message would get.
    fn tag_of(&self, outgoing: &Outgoing, devices: &mut SimDevices) -> Result<AuthTag, Reject> {
        Ok(match outgoing.auth {
            Auth::Channel => AuthTag::Channel,
            Auth::Checksum => AuthTag::Checksum(Checksum::of(&outgoing.digest)),
            Auth::Signature => AuthTag::Signature(self.sign(&outgoing.digest)),
            Auth::Vector => AuthTag::Vector(self.macs(&outgoing.digest)),
            Auth::Usig(instance, position) => {
                let store = self.machine.store();
                let certified = |store: &DurableStore<_>| {
                    store.barrier().certified(instance, position, &outgoing.digest)
                };
                let known = store.and_then(certified);
                let made = || devices.create(instance, position, &outgoing.digest);
                AuthTag::Usig(known.map_or_else(made, Ok).map_err(|_| Reject::BadAuth)?)
            }
            Auth::Mac(instance) => {
                let made = devices.of(instance).and_then(|device| device.mac(&outgoing.digest));
                AuthTag::Mac(made.map_err(|_| Reject::BadAuth)?)
            }
        })
    }

    fn hears_itself(&self, to: To) -> bool {
        match to {
            To::One(id) => id == self.me(),
            To::Others => false,
            To::All => true,
            To::Set(set) => set.contains(self.me()),
        }
    }
}
