//! Administrators: they propose configurations that are sound, as far as they can know, and
//! withdraw some. One of their keys may be the adversary's.

use super::machine::Control;
use super::values::{
    Change, ChangeId, Configuration, ConfigurationId, Key, MemberId, Request, THRESHOLD,
};
use super::world::World;

/// So many configurations are enough for one run.
const NUMBER_MAX: usize = 4;

impl World {
    /// Proposes a change or withdraws one; the thief of a key proposes one without the others.
    pub(super) fn administer(&mut self) {
        let current = self.current();
        let attempt = self.roster().attempt;
        match self.rng.u8(0..8) {
            0 if self.roster().pending.is_some() && self.rng.bool() => {
                self.requests.push(Request::Withdraw { expects: current, attempt });
            }
            1 if self.admin_stolen => self.propose_new(1),
            // Two administrators may propose at once, and some proposals come too late.
            2..=6 => self.propose_new(THRESHOLD),
            _ => {}
        }
    }

    fn propose_new(&mut self, signers: u8) {
        let current = self.current();
        let attempt = self.roster().attempt;
        let is_open = |change: &&Change| {
            (change.expects, change.attempt) == (current, attempt) && self.now < change.expires
        };
        let open = self.changes.iter().filter(is_open).count();
        if self.chain.len() > NUMBER_MAX || open >= 2 {
            return;
        }
        let Some(change) = self.draw_change(current, signers) else { return };
        // Faulty members that they do not know of must not be too many, and those that never come
        // must not either unless the change waits for them.
        if self.missing_after(&change) <= change.f {
            self.send_change(change);
        }
    }

    /// Proposes a change to the group.
    pub(super) fn send_change(&mut self, change: Change) {
        self.changes.push(change);
        let id = ChangeId(self.changes.len() - 1);
        self.requests.push(Request::Change(id));
    }

    fn draw_change(&mut self, current: ConfigurationId, signers: u8) -> Option<Change> {
        let of = self.configurations[current.0].clone();
        let devices = if self.rng.u8(0..5) == 0 { !of.devices } else { of.devices };
        let f = if self.rng.u8(0..4) == 0 { 2 } else { 1 };
        let size = Configuration::least(devices, f) + usize::from(self.rng.u8(0..5) == 0);
        let stays = self.rng.u8(0..=4);
        let mut members: Vec<MemberId> = of.members.iter().map(|entry| entry.id).collect();
        // From a change of all members to a change of nothing but keys.
        members.retain(|_| self.rng.u8(0..4) < stays);
        while members.len() > size {
            members.remove(self.rng.usize(0..members.len()));
        }
        let mut cards: Vec<(MemberId, Key)> = Vec::new();
        while members.len() < size {
            let id = self.newcomer(&of, &cards)?;
            cards.push((id, self.machines[id.0].card));
            members.push(id);
        }
        members.sort_unstable();
        let waits = self.rng.u8(0..4) > 0;
        let needed = if waits { cards.iter().map(|(id, _)| *id).collect() } else { Vec::new() };
        let keeps_secret = self.rng.u8(0..4) == 0 && devices == of.devices;
        let secret = if keeps_secret { of.secret } else { self.fresh_secret() };
        let is_short = self.rng.u8(0..4) == 0;
        let expires = if is_short { self.now + self.rng.u32(5..40) } else { u32::MAX };
        let attempt = self.roster().attempt;
        let expects = current;
        Some(Change {
            expects,
            attempt,
            expires,
            devices,
            f,
            members,
            cards,
            secret,
            needed,
            signers,
        })
    }

    /// A machine that was never a member, or a new one; some never run, and some are the
    /// adversary's from the begin on, if the change bears it.
    fn newcomer(&mut self, of: &Configuration, cards: &[(MemberId, Key)]) -> Option<MemberId> {
        let is_unused = |id: &MemberId| {
            let machine = &self.machines[id.0];
            let was_member = self.chain.iter().any(|at| self.configurations[at.0].has(*id));
            !was_member && machine.disk.epoch.is_none() && !cards.iter().any(|(card, _)| card == id)
        };
        let unused = (0..self.machines.len()).map(MemberId).find(is_unused);
        if let Some(id) = unused.filter(|id| !of.has(*id) && self.rng.bool()) {
            return Some(id);
        }
        let Some(id) = self.new_machine() else { return unused };
        match self.rng.u8(0..16) {
            0 if !self.calm => self.machines[id.0].control = Control::Nobody,
            1 if !self.calm => self.take(id),
            _ => {}
        }
        Some(id)
    }
}
