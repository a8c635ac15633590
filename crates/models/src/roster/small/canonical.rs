//! What tells states apart, as bytes that are equal for states from which the same can happen.
//!
//! First comes what concerns the group, then a block for each machine, with all that concerns it
//! alone. Blocks of members that play the same part are sorted. Keys and lives belong to one member
//! each and are only ever compared, so a block names them by the order in which it meets them.
//!
//! Left out is what follows from the rest: proofs and false words, which the adversary makes as
//! soon as it can; its own configurations; the votes that a member counted, which are its own until
//! it has enough; and agreed time, of which only the wait counts.

use super::Small;
use crate::roster::machine::{Disk, Machine, Stage};
use crate::roster::rules::Rule;
use crate::roster::values::{Key, Life, MemberId, ProofId, Ready, Request, Secret, WAIT};

/// Lives that follow from names have numbers from here on.
const NAMED: usize = 200;

/// Bytes, and the numbers that were named in them.
#[derive(Default)]
struct Block {
    bytes: Vec<u8>,
    names: Vec<u32>,
}

impl Block {
    fn put(&mut self, value: usize) {
        self.bytes.push(u8::try_from(value).expect("a small case has small numbers"));
    }

    fn put_flag(&mut self, flag: bool) {
        self.put(usize::from(flag));
    }

    /// A number, or none.
    fn put_maybe(&mut self, value: Option<usize>) {
        self.put(value.map_or(0, |value| value + 1));
    }

    /// A set of numbers, each below 8.
    fn put_set(&mut self, set: impl Iterator<Item = usize>) {
        self.put(set.fold(0, |bits, at| bits | 1 << at));
    }

    fn put_name(&mut self, number: u32) {
        let known = self.names.iter().position(|name| *name == number);
        let at = known.unwrap_or_else(|| {
            self.names.push(number);
            self.names.len() - 1
        });
        self.put(at + 1);
    }

    fn put_key(&mut self, key: Option<Key>) {
        match key {
            None => self.put(0),
            Some(Key(number)) => self.put_name(number),
        }
    }

    fn put_life(&mut self, life: Option<Life>) {
        match life {
            None => self.put(0),
            Some(Life::Random(number)) => self.put_name(number),
            Some(Life::Named(number, _)) => self.put(NAMED + number),
        }
    }

    fn put_secrets(&mut self, secrets: impl Iterator<Item = Secret>) {
        let mut numbers: Vec<u32> = secrets.map(|secret| secret.0).collect();
        numbers.sort_unstable();
        self.put(numbers.len());
        numbers.into_iter().for_each(|number| self.put(number as usize));
    }
}

impl Small {
    /// See the module.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let ids = (0..self.world.machines.len()).map(MemberId);
        let mut blocks: Vec<Vec<u8>> = ids.map(|id| self.machine(id)).collect();
        blocks[self.plan.alike()].sort_unstable();
        let mut all = Block::default();
        self.put_group(&mut all);
        // Every list has its length before it, so that each block says itself where it ends.
        blocks.into_iter().for_each(|block| all.bytes.extend(block));
        all.bytes
    }

    /// What concerns the group.
    fn put_group(&self, to: &mut Block) {
        let world = &self.world;
        let left = &self.left;
        for budget in [left.possessions, left.stops, left.losses, left.admissions] {
            to.put(budget.into());
        }
        to.put(world.chain.len());
        world.applied.iter().for_each(|change| to.put(change.0));
        to.put(world.withdrawn.len());
        to.put(world.epochs.len());
        for (at, epoch) in world.epochs.iter().enumerate() {
            to.put(world.configuration_of(at).number);
            to.put(epoch.rosters.len());
            for roster in &epoch.rosters {
                to.put_maybe(roster.pending.as_ref().map(|pending| pending.change.0));
                to.put(roster.attempt as usize);
            }
        }
        let since = world.roster().pending.as_ref().and_then(|pending| pending.enough);
        to.put_maybe(since.map(|since| (world.now - since).min(WAIT) as usize));
        for slot in &world.executed {
            to.put_maybe(slot.map(|slot| slot as usize));
        }
        to.put(world.clients[0].number);
        to.put_flag(world.clients[0].operation.is_some());
    }

    /// What concerns one machine.
    fn machine(&self, id: MemberId) -> Vec<u8> {
        let machine = &self.world.machines[id.0];
        let mut block = Block::default();
        self.put_member(&mut block, id);
        self.put_said(&mut block, id);
        block.put_flag(machine.is_faulty());
        if machine.is_faulty() {
            // What else it has is the adversary's.
            let prepared = machine.disk.prepared.iter().map(|it| it.secret);
            block.put_secrets(machine.disk.secrets.iter().copied().chain(prepared));
        } else {
            self.put_disk(&mut block, machine);
            self.put_memory(&mut block, machine);
        }
        block.bytes
    }

    /// What configurations and epochs have of a member, and the adversary.
    fn put_member(&self, to: &mut Block, id: MemberId) {
        let world = &self.world;
        to.put_set(world.machines[id.0].freed.iter().copied());
        let channels = world.taken_channels.iter().filter(|(of, _)| *of == id);
        to.put_set(channels.map(|(_, number)| *number));
        for configuration in &world.chain {
            let key = world.configurations[configuration.0].key_of(id);
            to.put_key(key);
            to.put_flag(key.is_some_and(|key| world.stolen.contains(&key)));
            for end in world.epochs.iter().filter_map(|epoch| epoch.end) {
                to.put_flag(key.is_some_and(|key| world.signatures.contains(&(key, end))));
            }
        }
        for (at, epoch) in world.epochs.iter().enumerate() {
            let index = world.configuration_of(at).index(id);
            to.put_life(index.and_then(|index| epoch.lives[index]));
        }
    }

    /// What a member said to the group, to the client and to others, as far as it still counts.
    fn put_said(&self, to: &mut Block, id: MemberId) {
        let world = &self.world;
        let last = world.epochs.len() - 1;
        let counts = |epoch: usize| epoch == last || !world.keeps(Rule::ReadyNamesEpoch);
        let readies = world.requests.iter().filter_map(|request| match request {
            Request::Ready(ready) if ready.member == id && counts(ready.epoch) => Some(ready),
            _ => None,
        });
        let readies: Vec<&Ready> = readies.collect();
        to.put(readies.len());
        readies.into_iter().for_each(|ready| self.put_ready(to, ready));
        let counted = world.roster().pending.as_ref().and_then(|it| it.ready.get(&id));
        to.put_flag(counted.is_some());
        if let Some(ready) = counted {
            self.put_ready(to, ready);
        }
        let admissions = world.requests.iter().filter_map(|request| match *request {
            Request::Admission { member, epoch, life } => {
                ((member, epoch) == (id, last)).then_some(life)
            }
            _ => None,
        });
        let admissions: Vec<Life> = admissions.collect();
        to.put(admissions.len());
        admissions.into_iter().for_each(|life| to.put_life(Some(life)));
        let client = &world.clients[0];
        let answer = client.answers.iter().find(|(from, _)| *from == id);
        let answer = answer.filter(|_| client.operation.is_some());
        to.put_maybe(answer.map(|(_, is_true)| usize::from(*is_true)));
        let heard = world.machines.iter().filter(|it| it.memory.settled.contains(&id));
        to.put_set(heard.map(|it| it.id.0));
    }

    fn put_ready(&self, to: &mut Block, ready: &Ready) {
        to.put(ready.epoch);
        to.put(ready.change.0);
        to.put_key(Some(ready.signing));
        to.put_flag(self.world.stolen.contains(&ready.signing));
        to.put_life(ready.life);
    }

    fn put_disk(&self, to: &mut Block, machine: &Machine) {
        let disk = &machine.disk;
        to.put(disk.chain);
        self.put_proof(to, disk.link);
        to.put_maybe(disk.epoch);
        to.put_maybe(disk.saved.map(|slot| slot as usize));
        to.put(self.logged(disk));
        to.put_key(disk.current);
        to.put(disk.old.len());
        disk.old.iter().for_each(|key| to.put_key(Some(*key)));
        to.put(disk.prepared.len());
        for made in &disk.prepared {
            to.put(made.change.0);
            to.put_key(Some(made.key));
            to.put_life(made.life);
        }
        to.put_secrets(disk.secrets.iter().copied());
        to.put(disk.erased);
        to.put_life(disk.device);
        to.put_flag(machine.is_up);
        to.put_flag(machine.is_gone);
        to.put_flag(machine.has_lost);
    }

    /// Slots in the log. If nobody can lose power any more, it only counts whether the whole epoch
    /// is there.
    fn logged(&self, disk: &Disk) -> usize {
        if self.left.stops + self.left.losses > 0 {
            return disk.logged as usize;
        }
        let epoch = disk.epoch.map(|at| &self.world.epochs[at]);
        let is_whole = epoch.is_some_and(|it| it.end.is_some() && disk.logged >= it.tip());
        usize::from(is_whole)
    }

    fn put_memory(&self, to: &mut Block, machine: &Machine) {
        let memory = &machine.memory;
        to.put(self.state(machine));
        match memory.stage {
            Stage::Running => to.put(0),
            Stage::Proved(proof) => {
                to.put(1);
                self.put_proof(to, Some(proof));
            }
            Stage::Linked(proof) => {
                to.put(2);
                self.put_proof(to, Some(proof));
            }
            Stage::Logged => to.put(3),
            Stage::Adopted => to.put(4),
            Stage::Rekeyed => to.put(5),
        }
        to.put_flag(memory.voted);
        to.put_set(memory.channels.iter().copied());
    }

    /// Executed slots. In a machine that has not begun any epoch, it only counts whether it has a
    /// state, and whether it can begin the present configuration with it.
    fn state(&self, machine: &Machine) -> usize {
        let world = &self.world;
        let Some(state) = machine.memory.state else { return 0 };
        let current = world.current();
        let begin = world.epochs.iter().find(|epoch| epoch.configuration == current);
        let joins = world.configuration_of(world.epochs.len() - 1).has(machine.id);
        let is_usable = joins && begin.is_some_and(|epoch| state >= epoch.base);
        if machine.disk.epoch.is_some() || is_usable { state as usize + 2 } else { 1 }
    }

    /// A proof, by what it proves.
    fn put_proof(&self, to: &mut Block, proof: Option<ProofId>) {
        to.put_flag(proof.is_some());
        let Some(proof) = proof.map(|at| &self.world.proofs[at.0]) else { return };
        let handover = &self.world.handovers[proof.handover.0];
        to.put(handover.epoch);
        to.put_flag(handover.genuine);
        to.put_flag(proof.attached == handover.next);
    }
}

#[cfg(test)]
mod tests {
    use super::super::cases::{QUIET, REFRESH_STOP};
    use super::super::{Plan, Small};
    use crate::roster::action::Action;
    use crate::roster::values::MemberId;
    use crate::search::State;

    fn after(state: &Small, action: &Action) -> Small {
        state.after(action).expect("nothing breaks").expect("something changes")
    }

    /// The change is ordered, with these members' votes.
    fn ordered(plan: &'static Plan, voters: &[usize]) -> Small {
        let first = Small::new(plan, None, None);
        let voters = voters.iter().map(|id| MemberId(*id)).collect();
        let request = first.world.requests[0];
        after(&first, &Action::Order { request, voters, time: 0 })
    }

    #[test]
    fn it_does_not_matter_which_of_the_members_that_are_alike_did_something() {
        let [one, other] = [[0, 1], [1, 2]].map(|voters| ordered(&QUIET, &voters));
        assert_eq!(one.encode(), other.encode());
        assert_ne!(one.encode(), Small::new(&QUIET, None, None).encode());
    }

    #[test]
    fn the_names_of_keys_do_not_matter() {
        let prepared = |order: [usize; 2]| {
            let state = ordered(&QUIET, &[0, 1]);
            order.iter().fold(state, |state, id| after(&state, &Action::Prepare(MemberId(*id))))
        };
        assert_eq!(prepared([0, 1]).encode(), prepared([1, 0]).encode());
    }

    #[test]
    fn whose_log_has_a_slot_matters_only_while_somebody_may_lose_power() {
        let differ = |plan: &'static Plan| {
            let followed = after(&ordered(plan, &[0, 1]), &Action::Follow(MemberId(2)));
            followed.encode() != ordered(plan, &[0, 1, 2]).encode()
        };
        assert!(!differ(&QUIET));
        assert!(differ(&REFRESH_STOP));
    }
}
