//! Statements that a message makes and a certificate proves.

use crate::common::counters::{Bug, Terms};
use crate::common::message::Statements;
use pentarchy_core::counter::Position;
use pentarchy_core::digest::{Digest, Domain};
use pentarchy_core::ids::View;
use pentarchy_core::mutant;

/// Names and numbers of MinBFT. Its slots come behind ENTER, which is a view's first commitment.
pub const TERMS: Terms = Terms {
    prepare: "minbft prepare",
    commit: "minbft commit",
    view_change: "minbft view-change",
    new_view: "minbft new-view",
    members: "minbft members",
    signed: Statements {
        request_view_change: "minbft request-view-change",
        checkpoint: "minbft checkpoint",
    },
    before_slots: Position::COMMITMENT,
    has: is_on,
};

/// Whether a seeded bug is on that all protocols on counters have.
fn is_on(bug: Bug) -> bool {
    match bug {
        Bug::DecideWithF => mutant!("usig.decide-with-f"),
        Bug::FlightLeaks => mutant!("usig.flight-leaks"),
        Bug::PrepareOfAnyView => mutant!("usig.prepare-of-any-view"),
        Bug::CommitOfAnyView => mutant!("usig.commit-of-any-view"),
        Bug::CommitSkipsGaps => mutant!("usig.commit-skips-gaps"),
        Bug::CommitsBehindAHole => mutant!("usig.commits-behind-a-hole"),
        Bug::CommitNotKept => mutant!("usig.commit-not-kept"),
        Bug::CommitmentNotKeptAgain => mutant!("usig.commitment-not-kept-again"),
        Bug::OnlyAuthorsRepeat => mutant!("usig.only-authors-repeat"),
        Bug::HidesLastCommitment => mutant!("usig.hides-last-commitment"),
        Bug::OmissionNotChecked => mutant!("usig.omission-not-checked"),
        Bug::MembersNotChecked => mutant!("usig.members-not-checked"),
        Bug::NewViewOnLowestBase => mutant!("usig.new-view-on-lowest-base"),
        Bug::NewViewTakesShortest => mutant!("usig.new-view-takes-shortest"),
        Bug::NothingTakenOver => mutant!("usig.nothing-taken-over"),
        Bug::OwnPreparesForgotten => mutant!("usig.own-prepares-forgotten"),
        Bug::SaysNothingAgain => mutant!("usig.says-nothing-again"),
        Bug::SaysWhatItLeft => mutant!("usig.says-what-it-left"),
    }
}

/// What an ACKNOWLEDGE's certificate covers.
#[must_use]
pub fn acknowledge_statement(domain: &Domain, view: View, opening: &Digest) -> Digest {
    domain.statement("minbft acknowledge").u64(view.0).digest(opening).finish()
}

/// What an ENTER's certificate covers.
#[must_use]
pub fn enter_statement(domain: &Domain, view: View, opening: &Digest) -> Digest {
    domain.statement("minbft enter").u64(view.0).digest(opening).finish()
}
