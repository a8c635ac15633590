//! Mod-SMaRt: its normal case, and the phase in which a new primary opens a view.
//!
//! # What a run is
//!
//! Three to seven replicas order four slots, two or three of them at a time. An adversary draws who
//! hears what, who leaves for which view, which VIEW-CHANGEs a NEW-VIEW contains, who loses power,
//! and what the `f` liars say: proposals, WRITEs and ACCEPTs that differ by receiver, false locks,
//! false writes, digests of batches that nobody has, and a NEW-VIEW for each receiver. Then it
//! stops. The correct replicas hear each other, first in their view, then in the next view of a
//! correct primary. Some runs begin with one of the [scenes], which a random draw finds seldom.
//!
//! # Properties
//!
//! - *Agreement and validity*: a slot has one batch for which enough correct replicas sent ACCEPT
//!   that liars can complete the quorum. A primary proposed it, or it is empty.
//! - *No decided slot is lost*: no later NEW-VIEW orders another batch there, or leaves it out.
//! - *Bounded tables*: a replica shows at most `cap` writes of a slot.
//! - *A correct primary opens its view*, and *all slots get decided* in it at all correct replicas.
//! - *No needless view change*: what `f + 1` correct replicas wrote, and no correct one wrote
//!   otherwise, is decided in their view.
//! - *Nobody left behind*: at most `f` replicas that lack a decision get it without a view change,
//!   because they are too few to cause one.
//! - *Reads do not go back* (crash mode): `n - f` equal answers never show less than a client saw.
//!
//! # Rules that these runs taught
//!
//! `cap` is the number of batches that a replica's table of writes in a slot holds. In the examples
//! `A`, `B` and `C` are correct, and `D` is the liar.
//!
//! *A replica signs a WRITE that its table has no room for*, and only such a WRITE. A lock carries
//! the signed ones among its quorum, and the authors of these count as writers. So neither views
//! nor NEW-VIEWs decide who signs. If the distance from the NEW-VIEW's checkpoint decides it
//! (`signs-by-base`), a liar gives `A` and `C` NEW-VIEWs of different checkpoints: `A` signs its
//! WRITE and does not keep it, and `C` locks without a certificate. If `D` is silent from then on,
//! no view can bind that lock, and none can pass over it. And with each checkpoint the count of
//! views begins again, while the tables of the slots above it stay as they are: they outgrow `cap`.
//!
//! *A NEW-VIEW says nothing about which writes to forget* (`prune-unshown`). With a `cap` of 1, `A`
//! has another write, so it signs its WRITE of a batch; `C` keeps its own; `D` writes it, too; `C`
//! locks. A NEW-VIEW of `A`, `B` and `D` shows the batch nowhere, so `C` forgets that it wrote it.
//! `A` is the lock's only writer left, by its signature: no view can bind it. Only a higher lock,
//! or a stable checkpoint, makes a replica forget a write. The model `synchronisation-pruning` has
//! no signed WRITEs; there pruning by batch holds.
//!
//! *The primary leaves out a VIEW-CHANGE if it does not get the body of its lock*
//! (`waits-for-bound-body`). A replica keeps the body of a signed WRITE only until it leaves the
//! view. `A` signs a WRITE, nobody else hears of it, and `A` leaves. `D` shows a lock with the
//! signatures of `A` and `D`: it is bound, and only `D` has the body. A correct replica that has
//! the lock has the body as well, so the primary loses nothing by leaving out who does not supply
//! it. In the crash mode the same rule leaves out the dead.
//!
//! *A replica saves the state before it signs a checkpoint* (`checkpoint-not-durable`). `A` and `B`
//! sign one and lose power. `D` has its proof and shows it: the view begins above the checkpoint,
//! of which nobody has the state. The crash mode does not need the rule: who shows a checkpoint
//! there has its state.
//!
//! *`f + 1` signed checkpoints let a replica behind them take the state* (`state-needs-quorum`).
//! `A` and `B` decide, sign a checkpoint, and lose power: they go on from the saved state and know
//! the decision no more, so they tell it to nobody. `C` wrote another batch, asks for a view alone,
//! and `D` is silent, so that the checkpoint has two signatures, and never three.
//!
//! *A PROPOSE is the primary's WRITE*, so it carries a signature in the same case.
//!
//! *Two rules are not needed with these*: in some runs of the Byzantine mode replicas echo before
//! they open their view, and a restart forgets that they opened it. With pruning the first breaks
//! (`echo-before-opening`), and in the crash mode the second (`opening-not-durable`).
//!
//! # What is left out
//!
//! Requests, clients (but for the reads of the crash mode), time-outs, the size of messages, and
//! signatures other than as the names of their authors. Whoever asks for a view is not counted: a
//! replica may leave at any time. A vote counts in its own view only, while a decision is told in
//! all. State is transferred in one step. `collect-names-no-view` is the only way in which an old
//! VIEW-CHANGE is used again: with the rule it does not pass.

mod checkpoints;
mod liars;
mod opening;
mod outcome;
mod quiet;
mod reads;
mod replica;
mod rules;
mod scenes;
mod steps;
mod types;
mod world;

use crate::{Broken, Model};
use fastrand::Rng;
use rules::Mode;
use world::World;

/// Mod-SMaRt with liars. Who has no room for a write signs it.
pub(crate) const BYZANTINE: Model = Model {
    name: "synchronisation",
    about: "Mod-SMaRt: normal case, and the phase that opens a view",
    rules: rules::BYZANTINE,
    run: |rng, without| run(rng, Mode::Byzantine, without),
    cases: &[],
};

/// Mod-SMaRt with liars, and without signed WRITEs: each NEW-VIEW prunes tables of any length.
pub(crate) const PRUNING: Model = Model {
    name: "synchronisation-pruning",
    about: "Mod-SMaRt without signed WRITEs: a NEW-VIEW says which writes to forget",
    rules: rules::PRUNING,
    run: |rng, without| run(rng, Mode::Pruning, without),
    cases: &[],
};

/// Mod-SMaRt without liars: no WRITEs, and majorities.
pub(crate) const CRASH: Model = Model {
    name: "synchronisation-crash",
    about: "Mod-SMaRt in the crash mode",
    rules: rules::CRASH,
    run: |rng, without| run(rng, Mode::Crash, without),
    cases: &[],
};

fn run(rng: Rng, mode: Mode, without: Option<&str>) -> Result<(), Broken> {
    let mut world = World::draw(rng, mode, without);
    world.trouble()?;
    world.quiet_end()
}
