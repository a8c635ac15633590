//! Statements that a message makes and a certificate proves.

use crate::common::counters::{Bug, Terms};
use crate::common::message::Statements;
use pentarchy_core::counter::Position;
use pentarchy_core::digest::{Digest, Domain};
use pentarchy_core::ids::View;
use pentarchy_core::mutant;

/// Names and numbers of Hybster. Its slots come behind NEW-VIEW and ENTER: the counter's value for
/// one is the paper's `[view|slot + 1]`.
pub const TERMS: Terms = Terms {
    prepare: "hybster prepare",
    commit: "hybster commit",
    view_change: "hybster view-change",
    new_view: "hybster new-view",
    members: "hybster members",
    signed: Statements {
        request_view_change: "hybster request-view-change",
        checkpoint: "hybster checkpoint",
    },
    before_slots: Position::OPEN,
    has: is_on,
};

/// Whether a seeded bug is on that all protocols on counters have.
fn is_on(bug: Bug) -> bool {
    match bug {
        Bug::DecideWithF => mutant!("hybster.decide-with-f"),
        Bug::FlightLeaks => mutant!("hybster.flight-leaks"),
        Bug::PrepareOfAnyView => mutant!("hybster.prepare-of-any-view"),
        Bug::CommitOfAnyView => mutant!("hybster.commit-of-any-view"),
        Bug::CommitSkipsGaps => mutant!("hybster.commit-skips-gaps"),
        Bug::CommitsBehindAHole => mutant!("hybster.commits-behind-a-hole"),
        Bug::CommitNotKept => mutant!("hybster.commit-not-kept"),
        Bug::CommitmentNotKeptAgain => mutant!("hybster.commitment-not-kept-again"),
        Bug::OnlyAuthorsRepeat => mutant!("hybster.only-authors-repeat"),
        Bug::HidesLastCommitment => mutant!("hybster.hides-last-commitment"),
        Bug::OmissionNotChecked => mutant!("hybster.omission-not-checked"),
        Bug::MembersNotChecked => mutant!("hybster.members-not-checked"),
        Bug::NewViewOnLowestBase => mutant!("hybster.new-view-on-lowest-base"),
        Bug::NewViewTakesShortest => mutant!("hybster.new-view-takes-shortest"),
        Bug::NothingTakenOver => mutant!("hybster.nothing-taken-over"),
        // No bug here: who leaves a second time in a row shows what a certificate's members show,
        // and one of those shows whatever may have been committed.
        Bug::OwnPreparesForgotten => false,
        Bug::SaysNothingAgain => mutant!("hybster.says-nothing-again"),
        Bug::SaysWhatItLeft => mutant!("hybster.says-what-it-left"),
    }
}

/// What an ACKNOWLEDGE's signature covers. A view has one NEW-VIEW that convinces, so its number
/// says which.
#[must_use]
pub fn acknowledge_statement(domain: &Domain, view: View) -> Digest {
    domain.statement("hybster acknowledge").u64(view.0).finish()
}

/// What an ENTER's certificate covers.
#[must_use]
pub fn enter_statement(domain: &Domain, view: View, opening: &Digest) -> Digest {
    domain.statement("hybster enter").u64(view.0).digest(opening).finish()
}
