//! Small cases of the model, of which a search visits every state: three members with trusted
//! devices and `f = 1`, one change, and at most one more member that the adversary takes.
//!
//! Rules, steps and adversary are those of the runs ([`Action`](super::action::Action)). A search
//! does not draw what happens, but tries all of it, in every order. After each step it asks what
//! runs ask only once: if the adversary falls silent now, and everybody who lost power comes back,
//! does all end well?
//!
//! # What keeps a case small
//!
//! - A *plan* bounds what the adversary and accidents may do. Lost messages need no bound: whatever
//!   was sent may arrive at any later time, or never.
//! - A step that nobody else can notice follows at once: a member whose vote is needed executes
//!   the slot; a member executes all that is ordered; it saves its state when a vote needs that. A
//!   machine that has begun to change epochs goes on until the log says so, and if nobody can lose
//!   power any more, until its old keys are erased.
//! - Exactly as many members log a slot as have to. Those of the adversary vote for whatever is
//!   ordered.
//! - Agreed time stands still or passes by the whole wait.
//! - What costs the adversary nothing it does at once: it signs every end with every key that it
//!   has, alters every proof, says false things to everybody who would listen, and has each of its
//!   members send that it is ready. Whether and when that is ordered or arrives stays open.
//! - States that differ only in the names of keys, or of members that play the same part, are one.
//!
//! # What no case contains
//!
//! A second change that takes effect, other numbers of members or faults, a change that expires,
//! groups without trusted devices, and members that never run.

mod canonical;
mod cases;
mod moves;

pub(super) use cases::CASES;

use super::rules;
use super::values::{Change, ConfigurationId, MemberId, Request};
use super::world::{Setup, World};
use crate::Searched;
use crate::search::search;
use fastrand::Rng;
use std::ops::Range;

/// Members of the first configuration.
const MEMBERS: usize = 3;

/// What may happen in a case.
#[derive(Debug)]
struct Plan {
    /// What administrators propose before anything else happens.
    proposals: &'static [Proposal],
    /// Whether they also withdraw it.
    withdraws: bool,
    /// The member that is the adversary's from the begin on. A search begins with each of these.
    liars: &'static [Option<usize>],
    /// Nobody is faulty, and requests are ordered in time.
    calm: bool,
    /// The adversary may take a member as soon as that has erased its keys.
    is_early: bool,
    /// A client waits for an answer, and may hear of links and answers at any time.
    has_client: bool,
    /// How much may go wrong.
    left: Left,
    /// Slots of all epochs together.
    slots: u32,
}

/// How much may still go wrong.
#[derive(Clone, Copy, Debug)]
struct Left {
    /// Members that the adversary takes.
    possessions: u8,
    /// Machines that lose power.
    stops: u8,
    /// Machines that lose power and the life of their device.
    losses: u8,
    /// Members of the adversary that ask to be admitted by another device.
    admissions: u8,
}

/// A change that administrators propose at the begin.
#[derive(Clone, Copy, Debug)]
struct Proposal {
    kind: Kind,
    /// The devices are to keep their secret.
    keeps_secret: bool,
    /// How many administrators signed it.
    signers: u8,
}

/// What a change changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// Nothing but keys.
    Refresh,
    /// The first member leaves, and a new one joins.
    Replace,
    /// A new member joins.
    Add,
}

impl Kind {
    /// The members after the change.
    const fn members(self) -> Range<usize> {
        match self {
            Self::Refresh => 0..MEMBERS,
            Self::Replace => 1..MEMBERS + 1,
            Self::Add => 0..MEMBERS + 1,
        }
    }
}

impl Plan {
    /// Members that play the same part. A state in which two of them changed places is the same.
    fn alike(&self) -> Range<usize> {
        let replaces = self.proposals.iter().any(|it| it.kind == Kind::Replace);
        if replaces { 1..MEMBERS } else { 0..MEMBERS }
    }
}

/// A state of a case.
#[derive(Clone)]
struct Small {
    plan: &'static Plan,
    left: Left,
    world: World,
}

impl Small {
    /// The first state: administrators have sent their proposals, and the client its operation.
    fn new(plan: &'static Plan, liar: Option<usize>, without: Option<usize>) -> Self {
        let setup = Setup {
            devices: true,
            f: 1,
            n: MEMBERS,
            calm: plan.calm,
            is_early: plan.is_early,
            admin_stolen: false,
            slow: MemberId(0),
        };
        let mut world = World::new(&setup, Rng::with_seed(0), without);
        world.clients.truncate(1);
        if let Some(id) = liar {
            world.take(MemberId(id));
        }
        if plan.proposals.iter().any(|it| it.kind != Kind::Refresh) {
            world.new_machine();
        }
        for proposal in plan.proposals {
            let change = proposal.change(&mut world);
            world.send_change(change);
        }
        if plan.withdraws {
            world.requests.push(Request::Withdraw { expects: ConfigurationId(0), attempt: 0 });
        }
        if plan.has_client {
            world.ask(0);
        }
        Self { plan, left: plan.left, world }
    }
}

impl Proposal {
    fn change(self, world: &mut World) -> Change {
        let members: Vec<MemberId> = self.kind.members().map(MemberId).collect();
        let is_new = |id: &&MemberId| id.0 >= MEMBERS;
        let card = |id: &MemberId| (*id, world.machines[id.0].card);
        let cards = members.iter().filter(is_new).map(card).collect();
        let known = world.configurations[0].secret;
        let secret = if self.keeps_secret { known } else { world.fresh_secret() };
        Change {
            expects: ConfigurationId(0),
            attempt: 0,
            expires: u32::MAX,
            devices: true,
            f: 1,
            members,
            cards,
            secret,
            needed: Vec::new(),
            signers: self.signers,
        }
    }
}

/// Searches a case, from each of its first states on.
fn search_case(plan: &'static Plan, without: Option<&str>, states_max: usize) -> Searched {
    let without = without.and_then(rules::position);
    let first = plan.liars.iter().map(|liar| Small::new(plan, *liar, without)).collect();
    search(first, states_max)
}
