//! What protocols share that order by trusted counters: a primary certifies a PREPARE for each
//! slot, backups certify COMMITs, a quorum of both decides, and who leaves a view shows what its
//! device will not let it hide.
//!
//! How a view is left, opened and entered is each protocol's own, as is what its device's
//! certificates name. All that differs here is in two small traits: [`Counted`], what a core's
//! messages and records are called, and [`Opened`], by what the opening of a view convinces.
//!
//! | module | what it does |
//! | --- | --- |
//! | [`order`] | PREPARE and COMMIT |
//! | [`slots`] | the slots of the view: proposing, committing, deciding, repeating |
//! | [`certificate`] | VIEW-CHANGEs and with what a view begins |
//! | [`views`] | holding the batches that a view takes over |
//! | [`past`] | going on from a log |
//! | [`record`] | what a log says of all this |
//! | [`liar`] | what a liar can say of all this |

pub mod certificate;
pub mod liar;
pub mod order;
pub mod past;
pub mod record;
pub mod slots;
pub mod views;

use super::frame::hooks::Framed;
use super::message::Statements;
use alloc::sync::Arc;
use certificate::{Opened, ViewChange};
use order::Order;
use pentarchy_core::counter::Position;
use pentarchy_core::ids::{Slot, View};
use record::Noted;

/// A core whose slots are ordered by counters.
pub trait Counted: Framed {
    /// By what a view's opening convinces.
    type Entry: Opened;

    /// As one of its messages.
    fn order(order: Order) -> Self::Message;

    /// The other way round.
    fn as_order(message: &Self::Message) -> Option<&Order>;

    /// What a VIEW-CHANGE shows; none if the message is another.
    fn as_change(message: &Self::Message) -> Option<&Arc<ViewChange<Self::Entry>>>;

    /// As one of its records.
    fn noted(record: Noted<Self::Message>) -> Self::Record;
}

/// Names and numbers of one protocol on counters.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// The name of what a PREPARE's certificate covers. No two protocols share a name.
    pub prepare: &'static str,
    /// Of a COMMIT's.
    pub commit: &'static str,
    /// Of a VIEW-CHANGE's.
    pub view_change: &'static str,
    /// Of a NEW-VIEW's.
    pub new_view: &'static str,
    /// Of what a NEW-VIEW rests on.
    pub members: &'static str,
    /// Of what replicas sign in every protocol.
    pub signed: Statements,
    /// The index in a view behind which its slots follow.
    pub before_slots: u64,
    /// Whether a seeded bug of this protocol is on.
    pub has: fn(Bug) -> bool,
}

impl Terms {
    /// The counter's position at which a view's primary proposes a slot and its backups commit to
    /// it.
    #[must_use]
    pub const fn position(&self, view: View, slot: Slot) -> Position {
        Position::new(view, slot.0.saturating_add(self.before_slots))
    }

    /// The slot that an index speaks of, if it speaks of one.
    #[must_use]
    pub const fn slot_at(&self, index: u64) -> Option<Slot> {
        let before = self.before_slots;
        if index > before { Some(Slot(index - before)) } else { None }
    }
}

/// Seeded bugs ([`mod@pentarchy_core::mutant`]) that every protocol on counters has under a name of
/// its own: [`Terms::has`] says which.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bug {
    /// `f` commitments decide a slot.
    DecideWithF,
    /// A decided proposal stays counted as under way.
    FlightLeaks,
    /// A PREPARE of another view counts in this one.
    PrepareOfAnyView,
    /// A COMMIT of another view counts in this one.
    CommitOfAnyView,
    /// A backup commits past a slot whose PREPARE it lacks.
    CommitSkipsGaps,
    /// What it lacks before a state from elsewhere does not keep a replica from committing above.
    CommitsBehindAHole,
    /// A commitment is not in the log.
    CommitNotKept,
    /// A commitment is lost when the log is cut.
    CommitmentNotKeptAgain,
    /// Nobody passes on the PREPAREs of others.
    OnlyAuthorsRepeat,
    /// A VIEW-CHANGE shows all but the last commitment.
    HidesLastCommitment,
    /// A VIEW-CHANGE may leave out commitments.
    OmissionNotChecked,
    /// A NEW-VIEW is believed whatever its members show.
    MembersNotChecked,
    /// A view begins on the lowest checkpoint shown.
    NewViewOnLowestBase,
    /// A view takes over the shortest list shown.
    NewViewTakesShortest,
    /// What a view took over is forgotten as it is entered.
    NothingTakenOver,
    /// After a crash own PREPAREs have no certificate.
    OwnPreparesForgotten,
    /// After a crash nothing is said again.
    SaysNothingAgain,
    /// What was said in a view that was left is said again if the log tells it once more.
    SaysWhatItLeft,
}
