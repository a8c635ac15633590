//! What may happen in a state of a case, and the state behind it.

use super::Small;
use crate::Broken;
use crate::roster::action::{Action, Scheme};
use crate::roster::machine::{Machine, Stage};
use crate::roster::values::{HandoverId, Key, MemberId, Pending, Proof, ProofId, Request, WAIT};
use crate::roster::world::World;
use crate::search::State;
use std::collections::BTreeSet;

impl State for Small {
    type Action = Action;

    fn actions(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        if let Some(id) = self.on_its_way() {
            actions.push(Action::Begin(id));
            self.add_stops(id, &mut actions);
            return actions;
        }
        self.add_orders(&mut actions);
        for machine in &self.world.machines {
            if machine.works() {
                self.add_order_steps(machine, &mut actions);
                self.add_change_steps(machine, &mut actions);
                self.add_stops(machine.id, &mut actions);
            }
            self.add_faults(machine, &mut actions);
        }
        if self.plan.has_client {
            self.add_client_steps(&mut actions);
        }
        actions
    }

    fn after(&self, action: &Action) -> Result<Option<Self>, Broken> {
        let mut next = self.clone();
        if !next.happen(action)? {
            return Ok(None);
        }
        for scheme in next.schemes() {
            next.world.apply(&Action::Scheme(scheme))?;
        }
        for at in 0..next.world.proofs.len() {
            next.world.apply(&Action::Scheme(Scheme::AlterProof(ProofId(at))))?;
        }
        next.world.check_base()?;
        Ok(Some(next))
    }

    fn check(&self) -> Result<(), Broken> {
        self.world.clone().finish()
    }

    fn encode(&self) -> Vec<u8> {
        self.bytes()
    }
}

impl Small {
    /// Lets an action happen, with what follows at once. Whether it changed anything.
    fn happen(&mut self, action: &Action) -> Result<bool, Broken> {
        let (world, left) = (&mut self.world, &mut self.left);
        match action {
            Action::Order { voters, .. } => {
                let changed = world.apply(action)?;
                for id in voters {
                    follow_all(world, *id)?;
                }
                return Ok(changed);
            }
            Action::Follow(id) => return follow_all(world, *id),
            Action::Vote(id) => {
                let votes = world.apply(action)?;
                return Ok(votes || world.apply(&Action::Save(*id))? && world.apply(action)?);
            }
            Action::Stop { loses: false, .. } => left.stops -= 1,
            Action::Stop { loses: true, .. } => left.losses -= 1,
            Action::Scheme(Scheme::Possess(_)) => left.possessions -= 1,
            Action::Scheme(Scheme::ClaimAdmission(_)) => left.admissions -= 1,
            _ => {}
        }
        world.apply(action)
    }

    /// A machine that takes its next step into an epoch before anything else happens.
    fn on_its_way(&self) -> Option<MemberId> {
        let may_stop = self.left.stops + self.left.losses > 0;
        let goes_on = |machine: &&Machine| match machine.memory.stage {
            Stage::Running => false,
            Stage::Logged => !may_stop,
            _ => true,
        };
        self.world.machines.iter().filter(|it| it.works()).find(goes_on).map(|it| it.id)
    }

    /// Requests that have an effect, and one that has none if agreed time is waited for.
    fn add_orders(&self, actions: &mut Vec<Action>) {
        let world = &self.world;
        let tip = world.epochs.last().map_or(0, |epoch| epoch.tip());
        if tip >= self.plan.slots {
            return;
        }
        let pending = world.roster().pending.as_ref();
        let waits = pending.is_some_and(|pending| pending.enough.is_some());
        let mut may_idle = waits;
        for request in world.requests.iter().copied() {
            let Some((voters, least)) = world.voters(request, true) else { continue };
            let has_effect = world.has_effect(request);
            if !has_effect && !may_idle {
                continue;
            }
            may_idle &= has_effect;
            for (time, is_due) in [(0, has_effect), (WAIT, waits)] {
                if is_due {
                    let order = |voters| Action::Order { request, voters, time };
                    actions.extend(choices(&voters, least).into_iter().map(order));
                }
            }
        }
    }

    /// What a machine can do that works, about the order and the end of its epoch.
    fn add_order_steps(&self, machine: &Machine, actions: &mut Vec<Action>) {
        let world = &self.world;
        let (id, state) = (machine.id, machine.memory.state);
        if machine.memory.stage == Stage::Logged {
            actions.push(Action::Begin(id));
        }
        let proofs = self.proofs_for(machine).into_iter();
        actions.extend(proofs.map(|proof| Action::HearProof(id, proof)));
        let Some(at) = machine.disk.epoch else { return };
        let (epoch, configuration) = (&world.epochs[at], world.configuration_of(at));
        if state.is_some_and(|state| state < epoch.tip()) {
            actions.push(Action::Follow(id));
        }
        if configuration.has(id) {
            let holds = machine.disk.saved.is_some_and(|saved| saved >= epoch.base);
            if state.is_some() && !holds {
                actions.push(Action::Save(id));
            }
        } else {
            let others = (0..world.machines.len()).map(MemberId).filter(|from| *from != id);
            actions.extend(others.map(|from| Action::HearSettled(id, from)));
            actions.push(Action::Retire(id));
        }
        let Some(end) = epoch.end.filter(|_| world.is_at_rest(id)) else { return };
        if !machine.memory.voted && state == Some(epoch.tip()) {
            actions.push(Action::Vote(id));
        }
        // With its own vote, one more is enough.
        let is_new = |key: Key| {
            let index = configuration.members.iter().position(|entry| entry.signing == key);
            index.is_some_and(|index| !machine.memory.votes.contains_key(&index))
        };
        let vote = world.signatures.iter().find(|(key, of)| *of == end && is_new(*key));
        let vote = vote.filter(|_| machine.memory.voted);
        actions.extend(vote.map(|vote| Action::HearVote(id, *vote)));
    }

    /// What a machine can do that works, about a change and its state.
    fn add_change_steps(&self, machine: &Machine, actions: &mut Vec<Action>) {
        let world = &self.world;
        let id = machine.id;
        let pending = world.roster().pending.as_ref();
        if machine.memory.state.is_none() {
            let invites = |of: &Pending| world.changes[of.change.0].members.contains(&id);
            let last = world.epochs.len() - 1;
            let needs_it = world.configuration_of(machine.disk.epoch.unwrap_or(last)).has(id);
            if needs_it || machine.disk.epoch.is_none() && pending.is_some_and(invites) {
                actions.push(Action::Fetch(id));
            }
            return;
        }
        if !world.is_at_rest(id) {
            return;
        }
        if pending.is_some() || !machine.disk.prepared.is_empty() {
            actions.push(Action::Prepare(id));
        }
        if world.lacks_life(id) {
            actions.push(Action::AskAdmission(id));
        }
    }

    /// What may be shown to a machine and convinces it.
    fn proofs_for(&self, machine: &Machine) -> Vec<ProofId> {
        let world = &self.world;
        if !world.is_at_rest(machine.id) {
            return Vec::new();
        }
        let under = world.chain[world.number_at(machine.id)];
        let own = machine.disk.epoch;
        self.proofs(|proof| {
            let ended = world.handovers[proof.handover.0].epoch;
            own.is_none_or(|own| ended >= own) && world.convinces(proof, under)
        })
    }

    /// The proofs of which this is true: of those that differ only in who signed them, one.
    fn proofs(&self, is_it: impl Fn(&Proof) -> bool) -> Vec<ProofId> {
        let all = &self.world.proofs;
        let content = |proof: &Proof| (proof.handover, proof.attached);
        let mut found: Vec<ProofId> = Vec::new();
        for (at, proof) in all.iter().enumerate().filter(|(_, proof)| is_it(proof)) {
            if !found.iter().any(|it| content(&all[it.0]) == content(proof)) {
                found.push(ProofId(at));
            }
        }
        found
    }

    /// Power that a machine may lose.
    fn add_stops(&self, id: MemberId, actions: &mut Vec<Action>) {
        let world = &self.world;
        if self.left.stops > 0 {
            actions.push(Action::Stop { id, loses: false });
        }
        let has_life = world.machines[id.0].has_life();
        if self.left.losses > 0 && has_life && world.may_fail(id, &BTreeSet::new()) {
            actions.push(Action::Stop { id, loses: true });
        }
    }

    /// A machine comes back, or is the adversary's from now on, or asks for it to be admitted.
    fn add_faults(&self, machine: &Machine, actions: &mut Vec<Action>) {
        let id = machine.id;
        if machine.is_correct() && !machine.is_up && !machine.is_gone {
            actions.push(Action::Restart(id));
        }
        if self.left.possessions > 0 && machine.is_correct() {
            actions.push(Action::Scheme(Scheme::Possess(id)));
        }
        let last = self.world.configuration_of(self.world.epochs.len() - 1);
        if self.left.admissions > 0 && machine.is_faulty() && last.has(id) {
            actions.push(Action::Scheme(Scheme::ClaimAdmission(id)));
        }
    }

    /// What the client can be shown as long as it waits for its answer.
    fn add_client_steps(&self, actions: &mut Vec<Action>) {
        let world = &self.world;
        let client = &world.clients[0];
        if client.operation.is_none() {
            return;
        }
        let links = self.proofs(|proof| {
            let number = proof.attached.map(|at| world.configurations[at.0].number);
            let named = world.handovers[proof.handover.0].configuration;
            let own = world.chain[client.number];
            number.is_some_and(|number| number > client.number)
                && (world.convinces(proof, own) || world.convinces(proof, named))
        });
        actions.extend(links.into_iter().map(|link| Action::FollowChain(0, link)));
        let answers = world.machines.iter().filter(|machine| machine.works());
        actions.extend(answers.map(|machine| Action::HearAnswer(0, machine.id)));
    }

    /// What the adversary does at once, as it costs it nothing. It also alters all proofs.
    fn schemes(&self) -> Vec<Scheme> {
        let world = &self.world;
        let ends = (0..world.handovers.len()).filter(|at| world.handovers[*at].genuine);
        let mut schemes: Vec<Scheme> = ends.map(|at| Scheme::Sign(HandoverId(at))).collect();
        if self.plan.has_client {
            schemes.push(Scheme::InventLink(0));
        }
        let faulty = world.machines.iter().filter(|machine| machine.is_faulty());
        let faulty: Vec<MemberId> = faulty.map(|machine| machine.id).collect();
        if faulty.is_empty() {
            return schemes;
        }
        schemes.extend([Scheme::ForgeDevices, Scheme::StartTwice]);
        schemes.extend((0..world.epochs.len()).map(Scheme::ForgeEnd));
        for id in faulty {
            self.add_lies(id, &mut schemes);
        }
        schemes
    }

    /// What a member of the adversary says to replicas, to the client and to the group.
    fn add_lies(&self, liar: MemberId, schemes: &mut Vec<Scheme>) {
        let world = &self.world;
        let last = world.epochs.len() - 1;
        for to in (0..world.machines.len()).map(MemberId).filter(|id| world.listens(*id)) {
            let own = world.machines[to.0].disk.epoch.unwrap_or(last);
            let epochs = own..=last.min(own + 1);
            schemes.extend(epochs.map(|epoch| Scheme::Tell { to, epoch, liar }));
        }
        if self.plan.has_client {
            schemes.push(Scheme::Answer { client: 0, liar });
        }
        let Some(pending) = &world.roster().pending else { return };
        let is_said = |request: &Request| {
            matches!(request, Request::Ready(it)
                if (it.member, it.epoch, it.change) == (liar, last, pending.change))
        };
        let is_invited = world.changes[pending.change.0].members.contains(&liar);
        if is_invited && !world.requests.iter().any(is_said) {
            schemes.push(Scheme::ClaimReady(liar));
        }
    }
}

/// Executes all that is ordered in its epoch. Whether that was anything.
fn follow_all(world: &mut World, id: MemberId) -> Result<bool, Broken> {
    let mut follows = false;
    while world.apply(&Action::Follow(id))? {
        follows = true;
    }
    Ok(follows)
}

/// All ways to choose so many of some members.
fn choices(of: &[MemberId], count: usize) -> Vec<Vec<MemberId>> {
    let chosen = |set: usize, at: usize| ((set >> at) & 1 == 1).then_some(of[at]);
    let sets = (0..1 << of.len()).filter(|set: &usize| set.count_ones() as usize == count);
    sets.map(|set| (0..of.len()).filter_map(|at| chosen(set, at)).collect()).collect()
}
