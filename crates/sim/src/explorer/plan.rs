//! What may happen in one exploration, as data.

use pentarchy_core::forge::{IsSettled, MakeForger};
use pentarchy_core::ids::ReplicaId;
use pentarchy_core::limits::CHECKPOINT_BYTES;
use pentarchy_core::protocol::{Rules, Tuning};

/// The protocol that is explored.
#[derive(Clone, Copy)]
pub struct Explored<'a> {
    /// Fault model and group size.
    pub rules: Rules,
    /// Brings up a replica.
    pub start: &'a super::StartCore,
    /// Makes a liar.
    pub forger: Option<MakeForger>,
    /// Which messages have no effect any more.
    pub is_settled: IsSettled,
}

/// Kinds of lies, whatever the protocol, that are told only if asked for: they concern liveness
/// (retransmission, clocks), and here nothing is lost for ever and clocks stand still.
pub const IDLE: [&str; 2] = ["report", "prepare-future"];

/// The budgets. Everything that they do not bound is explored in every order: see the
/// [module](super).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Faults to tolerate; the group is as large as the protocol asks for this.
    pub f: usize,
    /// Sizes.
    pub tuning: Tuning,
    /// Which replica lies, if one does.
    pub liar: Option<ReplicaId>,
    /// Lies that it tells in one run.
    pub lies: u8,
    /// Kinds of lies that it tells; all but those that change nothing if this is empty.
    pub alphabet: Vec<String>,
    /// Clients; each has one request, which may reach any replicas at any time.
    pub requests: u8,
    /// Times that a timer of each correct replica runs out: those by which it judges the primary
    /// and the view.
    pub timeouts: u8,
    /// The same for the timer by which it repairs loss.
    pub resends: u8,
    /// States after which the search stops.
    pub states_max: usize,
    /// Whether to follow the newest state first: long runs at once, and no shortest one.
    pub deep: bool,
    /// Whether settled messages and early lies are left out. Off only to show that nothing is
    /// missed by it.
    pub reduced: bool,
    /// Whether each replica that moved is asked what it would show if it had to leave its view. Off
    /// only to show that a bug breaks something else too.
    pub asks: bool,
    /// Steps to begin with, one a line; see `start.rs`.
    pub start: String,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            f: 1,
            tuning: Tuning {
                checkpoint_slots: 4,
                checkpoint_bytes: CHECKPOINT_BYTES,
                window_slots: 8,
                batch_requests: 1,
                proposals_in_flight: 2,
                interleaving: 0,
            },
            liar: None,
            lies: 5,
            alphabet: Vec::new(),
            requests: 2,
            timeouts: 2,
            resends: 0,
            states_max: 1_000_000,
            deep: false,
            reduced: true,
            asks: true,
            start: String::new(),
        }
    }
}

impl Plan {
    /// Whether the liar may tell this kind of lie.
    #[must_use]
    pub fn tells(&self, kind: &str) -> bool {
        match self.alphabet.is_empty() {
            true => !IDLE.contains(&kind),
            false => self.alphabet.iter().any(|known| known == kind),
        }
    }
}
