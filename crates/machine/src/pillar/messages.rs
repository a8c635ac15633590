//! What a pillar and its replica tell each other.

use crate::checking::Checked;
use crate::factory::Started;
use pentarchy_core::auth::Verifier;
use pentarchy_core::ids::{Epoch, MemberId, Slot};
use pentarchy_core::membership::Membership;
use pentarchy_core::ports::replica::{Input, Output, pillar};
use pentarchy_core::request::Envelope;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What the replica tells a pillar.
pub enum ToPillar {
    /// For its core.
    Input(Box<Input>),
    /// Clients sent these: whether they are authentic.
    Check(Vec<Arc<Envelope>>),
    /// It goes over to this epoch.
    Epoch(Box<NextEpoch>),
    /// It may speak, in its epoch.
    Speak,
}

/// What changes with the epoch.
pub struct NextEpoch {
    /// The members.
    pub membership: Arc<Membership>,
    /// What checks their statements.
    pub verifier: Arc<dyn Verifier>,
    /// The pillar's core.
    pub started: Started,
}

impl ToPillar {
    /// The bytes that it keeps, though others may keep the same.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Input(input) => match &**input {
                Input::Request { envelope, .. } => envelope.len(),
                Input::Pillar(
                    pillar::Input::Beside { batch } | pillar::Input::Settled { batch },
                ) => batch.bytes(),
                _ => 0,
            },
            Self::Check(envelopes) => envelopes.iter().map(|envelope| envelope.len()).sum(),
            Self::Epoch(_) | Self::Speak => 0,
        }
    }
}

/// What a pillar tells the replica.
pub enum FromPillar {
    /// Its core said this in that epoch.
    Output(Epoch, Box<Output>),
    /// What it has found.
    Checked(Checked),
    /// In that epoch it has kept again all that it needs, from this entry of the log on.
    KeptAgain(Epoch, u64),
    /// A peer is in another epoch.
    OtherEpoch(MemberId, Epoch),
}

impl FromPillar {
    /// As [`ToPillar::bytes`].
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Output(_, output) => match &**output {
                Output::Admit { envelope } | Output::Full { envelope } => envelope.len(),
                Output::Execute { batch, .. } => batch.bytes(),
                _ => 0,
            },
            Self::Checked(checked) => checked.bytes(),
            Self::KeptAgain(..) | Self::OtherEpoch(..) => 0,
        }
    }
}

/// What a pillar's core last gave as
/// [`reads_from`](pentarchy_core::protocol::Protocol::reads_from): up to which slot a query must
/// not miss what the pillar knows of, as the replica's thread sees it.
///
/// The pillar sets it before it sends what it has to say about that slot. So whatever others do
/// because of what it sent, and whichever client asks because of what they did, the replica's
/// thread sees the slot by then: a message in a mailbox might come later.
#[derive(Clone, Default)]
pub struct Prepared(Arc<AtomicU64>);

impl Prepared {
    pub(super) fn set(&self, slot: Slot) {
        if self.get() != slot {
            self.0.store(slot.0, Ordering::SeqCst);
        }
    }

    pub(crate) fn get(&self) -> Slot {
        Slot(self.0.load(Ordering::SeqCst))
    }
}
