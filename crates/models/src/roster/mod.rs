//! Reconfiguration: members, keys, faults and secrets of a group change while it runs.
//!
//! # What a run is
//!
//! Up to twelve machines, of which some are members of the first configuration. Administrators
//! propose configurations: they add, remove and replace members, replace all of them, renew keys,
//! change `f`, and switch between a protocol with trusted devices (`2f + 1` members) and one
//! without (`3f + 1`). A scheduler draws what happens next. It delivers old votes, proofs and
//! requests whenever it likes, has power fail between any two durable steps, and lets one machine
//! lag behind. An adversary has up to `f` members of each configuration. It also takes every member
//! that has erased its keys, with its disk, its memory and its identity key, and such a member no
//! longer counts. In the end the adversary is silent, and everybody must get to the last
//! configuration.
//!
//! The order inside an epoch is a list that grows only while a quorum of members that run the epoch
//! is at its tip; the model asks nothing about how a protocol agrees on it.
//!
//! # What is checked
//!
//! - *configuration*: replicas and clients only ever enter the one configuration of a number that
//!   was ordered; that is a change which enough administrators signed, applied to the configuration
//!   for which it was made, not withdrawn, and with enough members ready for it.
//! - *second proof*: nobody can prove another end of an epoch.
//! - *agreement*: no replica executes what the adversary invented, be it that `f + 1` members or
//!   all devices seem to say so.
//! - *acceptance*: no client believes an answer that no correct member of that configuration gave.
//! - *durability*: the base of the last epoch survives on disks of correct machines.
//! - *liveness*: changes with enough willing members end, nobody is stuck, removed members exit.
//!
//! # Small cases
//!
//! Chance seldom draws what needs many coincidences. So [small] cases are searched whole, with the
//! rules, steps and adversary of the runs.
//!
//! # Why some rules are as they are
//!
//! Each can be left out, under the name given here.
//!
//! - `fallback-by-name`. A member that is not ready keeps the life of its running device, and the
//!   device opens the new secret itself. A life that follows from names is one under which a faulty
//!   host starts its device twice: with n = 3, the faulty primary is not ready, gets the life,
//!   starts two devices and proposes two batches with one counter value.
//! - `lifeless-members-may-be-late`. So new members, and all members if devices come into being
//!   with the change, must be ready. With n = 3, B late and X faulty: A and X are ready, X falls
//!   silent, and A alone cannot order that B is admitted. The price is that one of them can hold up
//!   the change (and nothing else).
//! - `sealed-to-identity`. A secret is sealed to a key that lives as long as the signing key. The
//!   links stay public, so the identity key of a removed member opens the secret of a configuration
//!   that it erased, and a replica that still is in it believes the forged devices.
//! - `joiner-learns-the-secret`. Every change brings another secret, not only one by which a member
//!   leaves: a joiner opens it while it is not yet a member of the configuration that uses it.
//! - `peers-by-identity`, `channel-not-rekeyed`. A channel between replicas counts for a
//!   configuration, too, only once its signing key signed for it, and is re-keyed when the
//!   configuration changes. Else a former member's identity key, or its open channel, tells a
//!   replica that lags what nobody signs.
//! - `withdrawn-change-returns`. A change names how many changes of this configuration were
//!   withdrawn. Compare and swap does not refuse a withdrawn change that someone sends again, for
//!   the configuration is still the same.
//! - `enough-stays`. The wait begins anew if a member stops to be ready: it asks to be admitted
//!   after enough were ready, and the epoch would end with too few.
//! - `silent-when-counted`. Members say that they are ready until the epoch ends. If they stop once
//!   counted, an idle group orders nothing, agreed time stands still and the wait never ends.
//! - `folder-goes-when-not-pending`. A member drops the keys for a change only when the change is
//!   void (another configuration, a withdrawal counted, or expired). A member that crashed executes
//!   again from a snapshot in which the change is not pending yet, and others count it as ready.
//! - `ready-for-ever`. A member says for one epoch that it is ready. Its device may lose its life
//!   and be admitted by another one, and whoever sends the old request again has the next epoch
//!   count on a device that is gone. With one faulty member, too few are left to admit another.
//! - `waits-for-the-departed`. A removed member also exits when the next configuration is proved to
//!   have ended. Its members may have exited before they told it that they hold the base.
//! - `taken-before-settled`. This is an assumption. To have erased its keys frees a member for
//!   safety only. The state that an epoch ended with is lost if those who voted for it are taken
//!   before `n - f` members of the next epoch hold it; so until then they count.
//!
//! # What is not in it
//!
//! Programs that disagree on what a protocol's name means, statements of a protocol, rotation of
//! identity keys, addresses, the number of links that are kept, the report of who has erased, and
//! changes of the administrators. Three rules break by what they say, and not by a story that the
//! model had to find: `fallback-by-name` (the model starts the second device),
//! `configuration-from-file` (a restart with an old file) and `ready-at-once` (in calm runs, the
//! requests of all members come within the wait). Agreed time moves with slots, and real time is
//! not there: that a request of a correct member is ordered within the wait is true in calm runs
//! because the scheduler says so.

mod action;
mod administrators;
mod adversary;
mod begin;
mod client;
mod fair;
mod machine;
mod order;
mod rules;
mod schemes;
mod small;
mod steps;
mod values;
mod world;

use crate::{Broken, Model};
use action::Action;
use fastrand::Rng;
use rules::RULES;
use std::collections::BTreeSet;
use values::{MemberId, ProofId, Request};
use world::World;

/// See the module.
pub const MODEL: Model = Model {
    name: "roster",
    about: "how a group changes its members, keys and faults, and what a former member can do",
    rules: RULES,
    run,
    cases: small::CASES,
};

/// How many things a machine can do.
const ACTIONS: u8 = 11;

/// Fewest and most things that happen in a run before the adversary becomes silent.
const LENGTH: std::ops::Range<u32> = 200..800;

fn run(rng: Rng, without: Option<&str>) -> Result<(), Broken> {
    let mut world = World::draw(rng, without.and_then(rules::position));
    for _ in 0..world.rng.u32(LENGTH) {
        world.happen()?;
        world.check_base()?;
    }
    world.finish()
}

impl World {
    /// One thing happens.
    fn happen(&mut self) -> Result<(), Broken> {
        match self.rng.u8(0..100) {
            0..25 => self.happen_to_order(),
            25..75 => (0..3).try_for_each(|_| self.happen_to_machine()),
            75..84 => self.happen_to_client(),
            84..87 => {
                self.administer();
                if self.rng.u8(0..4) == 0 {
                    self.slow = MemberId(self.rng.usize(0..self.machines.len()));
                }
                Ok(())
            }
            87..97 => self.scheme(),
            _ => self.stop_or_start(),
        }
    }

    /// Some request is ordered: mostly one of the last that were sent, and also an old one again.
    /// Most members follow at once, so that there is a quorum for the next one.
    fn happen_to_order(&mut self) -> Result<(), Broken> {
        for id in (0..self.machines.len()).map(MemberId) {
            let is_prompt = id != self.slow && self.rng.u8(0..4) > 0;
            let follows = is_prompt && self.machines[id.0].works();
            while follows && self.apply(&Action::Follow(id))? {}
        }
        if self.requests.is_empty() || self.rng.u8(0..6) == 0 {
            // One of clients that nobody looks at.
            self.requests.push(Request::Operation(self.executed.len()));
            self.executed.push(None);
        }
        let count = self.requests.len();
        let recent = self.rng.u8(0..4) > 0;
        let from = if recent { count.saturating_sub(8) } else { 0 };
        let faulty_vote = self.rng.u8(0..4) > 0;
        for _ in 0..4 {
            let request = self.requests[self.rng.usize(from..count)];
            if self.order(request, faulty_vote)? {
                break;
            }
        }
        Ok(())
    }

    /// A machine does something that it can do. Which of these things, chance says.
    fn happen_to_machine(&mut self) -> Result<(), Broken> {
        let id = MemberId(self.rng.usize(0..self.machines.len()));
        if !self.machines[id.0].works() || id == self.slow && self.rng.u8(0..12) > 0 {
            return Ok(());
        }
        let first = self.rng.u8(0..ACTIONS);
        for action in first..first + ACTIONS {
            if self.act(id, action % ACTIONS)? && self.rng.bool() {
                break;
            }
        }
        Ok(())
    }

    /// One of the things that a machine can do. Whether it could.
    fn act(&mut self, id: MemberId, action: u8) -> Result<bool, Broken> {
        let rests = self.is_at_rest(id);
        let from = MemberId(self.rng.usize(0..self.machines.len()));
        let action = match action {
            0 => {
                let follows = self.apply(&Action::Follow(id))?;
                while self.rng.u8(0..4) > 0 && self.apply(&Action::Follow(id))? {}
                return Ok(follows);
            }
            1 if self.rng.bool() => Action::Save(id),
            2 => Action::Vote(id),
            3 if !self.signatures.is_empty() => {
                let vote = self.signatures[self.rng.usize(0..self.signatures.len())];
                Action::HearVote(id, vote)
            }
            4 if !self.proofs.is_empty() => {
                let proof = ProofId(self.rng.usize(0..self.proofs.len()));
                Action::HearProof(id, proof)
            }
            5 if self.rng.bool() => Action::Begin(id),
            6 => Action::Fetch(id),
            7 if rests => Action::Prepare(id),
            8 if rests => Action::AskAdmission(id),
            9 => Action::HearSettled(id, from),
            10 => Action::Retire(id),
            _ => return Ok(false),
        };
        self.apply(&action)
    }

    fn happen_to_client(&mut self) -> Result<(), Broken> {
        let at = self.rng.usize(0..self.clients.len());
        let action = match self.rng.u8(0..8) {
            0..=2 => Action::Ask(at),
            3 if !self.proofs.is_empty() => {
                let proof = ProofId(self.rng.usize(0..self.proofs.len()));
                Action::FollowChain(at, proof)
            }
            _ => {
                let from = MemberId(self.rng.usize(0..self.machines.len()));
                Action::HearAnswer(at, from)
            }
        };
        self.apply(&action).map(|_| ())
    }

    /// Machines lose power, or start again: all at once, one of those that are on their way into an
    /// epoch, one of those that are counted as ready, or any.
    fn stop_or_start(&mut self) -> Result<(), Broken> {
        let all = (0..self.machines.len()).map(MemberId);
        let can_stop = |id: &MemberId| {
            let machine = &self.machines[id.0];
            !self.calm && machine.is_correct() && !machine.is_gone
        };
        let some: Vec<MemberId> = all.filter(can_stop).collect();
        let counted = |id: &&MemberId| {
            let pending = self.roster().pending.as_ref();
            pending.is_some_and(|pending| pending.ready.contains_key(id))
        };
        let ready: Vec<MemberId> = some.iter().filter(counted).copied().collect();
        let begins = some.iter().filter(|id| !self.is_at_rest(**id)).copied().collect::<Vec<_>>();
        match self.rng.u8(0..8) {
            0 => {
                // Power fails, and comes back for most of them at once.
                for id in some {
                    self.stop(id, false)?;
                    if self.rng.u8(0..4) > 0 {
                        self.apply(&Action::Restart(id))?;
                    }
                }
            }
            1..=2 if !begins.is_empty() => {
                let id = begins[self.rng.usize(0..begins.len())];
                self.stop(id, true)?;
            }
            3..=4 if !ready.is_empty() => {
                // What it said may be over now, and it comes back to say something else.
                let id = ready[self.rng.usize(0..ready.len())];
                self.stop(id, true)?;
                if !self.machines[id.0].is_up {
                    self.apply(&Action::Restart(id))?;
                }
            }
            _ => {
                let Some(id) = self.rng.choice(some) else { return Ok(()) };
                if !self.machines[id.0].is_up {
                    self.apply(&Action::Restart(id))?;
                } else if self.rng.u8(0..4) == 0 {
                    self.stop(id, true)?;
                }
            }
        }
        Ok(())
    }

    /// A machine loses power, and perhaps its device its life, if no more than `f` fail by that.
    fn stop(&mut self, id: MemberId, may_lose: bool) -> Result<(), Broken> {
        let machine = &self.machines[id.0];
        let may_lose = may_lose && machine.is_up && machine.has_life();
        let loses = may_lose && self.rng.bool() && self.may_fail(id, &BTreeSet::new());
        self.apply(&Action::Stop { id, loses }).map(|_| ())
    }
}
