//! Everything that can happen, with all that chance says about it. Runs draw actions, and the
//! search of small cases tries each of them; what an action does is the same for both.

use super::values::{HandoverId, Key, MemberId, ProofId, Request};
use super::world::World;
use crate::Broken;
use std::fmt;

/// One thing that happens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Action {
    /// Members order a request. Those whose votes are needed log it, and agreed time passes.
    Order { request: Request, voters: Vec<MemberId>, time: u32 },
    /// A machine executes the next slot of its epoch.
    Follow(MemberId),
    /// It makes its state durable.
    Save(MemberId),
    /// It signs the end of its epoch.
    Vote(MemberId),
    /// It hears a vote for the end of its epoch.
    HearVote(MemberId, (Key, HandoverId)),
    /// It is shown a proof of an epoch's end.
    HearProof(MemberId, ProofId),
    /// It takes the next step on its way into the next epoch.
    Begin(MemberId),
    /// It fetches a state.
    Fetch(MemberId),
    /// It makes keys for the pending change, or removes those for a void one.
    Prepare(MemberId),
    /// It asks to be admitted by another device.
    AskAdmission(MemberId),
    /// A removed member hears from another one that it holds the base.
    HearSettled(MemberId, MemberId),
    /// A removed member exits.
    Retire(MemberId),
    /// A machine loses power, and perhaps its device its life.
    Stop { id: MemberId, loses: bool },
    /// It starts again.
    Restart(MemberId),
    /// A client sends its next operation.
    Ask(usize),
    /// A client is shown a link of the chain.
    FollowChain(usize, ProofId),
    /// A client hears a member's answer.
    HearAnswer(usize, MemberId),
    /// The adversary does something.
    Scheme(Scheme),
}

/// What the adversary can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Scheme {
    /// It takes a member.
    Possess(MemberId),
    /// A member of the adversary says that it is ready.
    ClaimReady(MemberId),
    /// A member of the adversary asks to be admitted by another device.
    ClaimAdmission(MemberId),
    /// It signs what was said about an end with all keys that it has, and makes proofs of it.
    Sign(HandoverId),
    /// It invents another end of an epoch, and signs it.
    ForgeEnd(usize),
    /// It attaches another configuration to a proof.
    AlterProof(ProofId),
    /// It invents a link from a configuration of this number.
    InventLink(usize),
    /// It certifies as all devices of a configuration.
    ForgeDevices,
    /// It starts two devices of one life.
    StartTwice,
    /// It tells a replica something false about an epoch, as this member.
    Tell { to: MemberId, epoch: usize, liar: MemberId },
    /// It gives a client a false answer, as this member.
    Answer { client: usize, liar: MemberId },
}

impl World {
    /// Lets an action happen, if it can. Whether it changed anything.
    pub(super) fn apply(&mut self, action: &Action) -> Result<bool, Broken> {
        let changed = match *action {
            Action::Order { request, ref voters, time } => {
                self.fill_slot(request, voters, time)?;
                true
            }
            Action::Follow(id) => self.follow(id),
            Action::Save(id) => self.save(id),
            Action::Vote(id) => self.vote(id),
            Action::HearVote(id, vote) => self.hear_vote(id, vote),
            Action::HearProof(id, proof) => self.hear_proof(id, proof)?,
            Action::Begin(id) => self.begin_step(id)?,
            Action::Fetch(id) => self.fetch(id),
            Action::Prepare(id) => self.prepare(id),
            Action::AskAdmission(id) => self.ask_admission(id),
            Action::HearSettled(id, from) => self.hear_settled(id, from),
            Action::Retire(id) => self.retire(id),
            Action::Stop { id, loses } => self.lose_power(id, loses),
            Action::Restart(id) => {
                self.restart(id)?;
                true
            }
            Action::Ask(client) => self.ask(client),
            Action::FollowChain(client, proof) => self.follow_chain(client, proof)?,
            Action::HearAnswer(client, from) => self.hear_answer(client, from)?,
            Action::Scheme(scheme) => self.carry_out(scheme)?,
        };
        Ok(changed)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Order { request, voters, time } => {
                let voters: Vec<String> = voters.iter().map(|id| id.0.to_string()).collect();
                write!(f, "members order {request:?}; in the logs of {}", voters.join(" and "))?;
                if *time > 0 { write!(f, "; agreed time passes") } else { Ok(()) }
            }
            Self::Follow(id) => write!(f, "member {} executes what is ordered", id.0),
            Self::Save(id) => write!(f, "member {} makes its state durable", id.0),
            Self::Vote(id) => write!(f, "member {} signs the end of its epoch", id.0),
            Self::HearVote(id, _) => write!(f, "member {} hears a vote for the end", id.0),
            Self::HearProof(id, proof) => write!(f, "member {} is shown {proof:?}", id.0),
            Self::Begin(id) => write!(f, "member {} takes a step into the next epoch", id.0),
            Self::Fetch(id) => write!(f, "member {} fetches a state", id.0),
            Self::Prepare(id) => write!(f, "member {} makes or removes keys for a change", id.0),
            Self::AskAdmission(id) => write!(f, "member {} asks to be admitted", id.0),
            Self::HearSettled(id, from) => {
                write!(f, "member {} hears that member {} holds the base", id.0, from.0)
            }
            Self::Retire(id) => write!(f, "member {} exits", id.0),
            Self::Stop { id, loses: false } => write!(f, "member {} loses power", id.0),
            Self::Stop { id, loses: true } => write!(f, "member {} loses power and device", id.0),
            Self::Restart(id) => write!(f, "member {} starts again", id.0),
            Self::Ask(client) => write!(f, "client {client} sends an operation"),
            Self::FollowChain(client, proof) => write!(f, "client {client} is shown {proof:?}"),
            Self::HearAnswer(client, from) => {
                write!(f, "client {client} hears the answer of member {}", from.0)
            }
            Self::Scheme(scheme) => write!(f, "the adversary: {scheme:?}"),
        }
    }
}
