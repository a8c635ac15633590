//! How a machine becomes a member of a group that runs.
//!
//! It waits, as a client under its identity key, until administrators have a change pending that
//! names it. Then it [learns the state](crate::learning), makes the key by which it is to sign, and
//! says that it is ready, like every other member. When the group has begun with the change, it
//! starts as a replica of the epoch that began with it, and fetches what the state has become.

use crate::config::ClusterConfig;
use crate::following::{Follower, Said};
use crate::learning::{self, Learned, Learner};
use crate::node::StartError;
use crate::protocols;
use pentarchy_client::RequestError;
use pentarchy_core::Bytes;
use pentarchy_core::auth::Signature;
use pentarchy_core::change::{Change, Petition, Ready, is_accepted};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Epoch, ReplicaId};
use pentarchy_core::membership::{Life, Membership};
use pentarchy_core::standing::Standing;
use pentarchy_core::wire::Wire as _;
use pentarchy_crypto::keys::KeyPair;
use pentarchy_crypto::signing_keys::SharedSigningKeys;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long to wait for what the group says to that. It may go on before it says anything.
const ORDER: Duration = Duration::from_secs(1);

/// Between two times that it says so. In an idle group nothing else lets the agreed time pass.
const AGAIN: Duration = Duration::from_secs(2);

/// How far a machine has come.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Progress {
    /// Too few replicas answer.
    Unanswered,
    /// No change is pending that names it.
    NotInvited,
    /// A change is pending that names it. It fetches the state: none as long as it waits until
    /// `f + 1` replicas keep the same one for it.
    Learning(Option<learning::Progress>),
    /// It has said that it is ready for this configuration.
    Ready(u64),
    /// It has said so, and the group says why that does not count.
    Refused(String),
    /// A change is pending that names it, and needs this, which it lacks.
    Lacks(String),
    /// It is this replica of this group.
    Member(Box<ClusterConfig>, ReplicaId),
}

/// Between two looks how the group stands.
const LOOK: Duration = Duration::from_millis(250);

/// For how long it fetches at a time, ...
const SLICE: Duration = Duration::from_millis(250);

/// ... and once it is ready, when the group may begin at any moment.
const SHORT_SLICE: Duration = Duration::from_millis(50);

/// For how long it fetches without asking how the group stands.
const FETCH: Duration = Duration::from_secs(2);

/// A machine that is to become a member.
pub struct Joining {
    follower: Follower,
    /// The configuration that it was told.
    first: u64,
    keys: KeyPair,
    signing: SharedSigningKeys,
    life: Life,
    learner: Learner,
    /// When the group last said how it stands.
    heard: Option<Instant>,
    /// For which change it said that it is ready, in which epoch, and when.
    said: Option<(Digest, Epoch, Instant)>,
}

impl Joining {
    /// Of the machine with this identity key, these signing keys and this life of a device.
    /// `config` describes the group in any of its configurations.
    ///
    /// # Errors
    /// [`StartError`] as for [`Follower::new`].
    pub fn new(
        config: ClusterConfig,
        keys: KeyPair,
        signing: SharedSigningKeys,
        life: Life,
        learner: Learner,
    ) -> Result<Self, StartError> {
        let first = config.number();
        let follower = Follower::new(config, keys.clone())?;
        Ok(Self { follower, first, keys, signing, life, learner, heard: None, said: None })
    }

    /// Waits a moment after this progress, but no longer than until the group has begun with
    /// another configuration. Does not wait while the machine fetches, which takes its time anyway.
    ///
    /// # Errors
    /// [`StartError`] as for [`Follower::wait`].
    pub fn wait_after(&mut self, progress: &Progress) -> Result<(), StartError> {
        match progress {
            Progress::Learning(Some(_)) => Ok(()),
            _ => self.follower.wait(LOOK),
        }
    }

    /// What this machine has learned, for the replica that it has become. None if its service could
    /// not be brought to the group's state.
    #[must_use]
    pub fn into_learned(self) -> Option<Learned> {
        self.learner.into_learned()
    }

    /// Goes on for a few seconds at most. To be called again, a moment later, until it is a member.
    ///
    /// # Errors
    /// [`StartError`] as for [`Follower::ask`], and if it cannot write the key by which it is to
    /// sign.
    pub fn go_on(&mut self) -> Result<Progress, StartError> {
        if let Some(member) = self.as_member().filter(|_| self.has_followed()) {
            return Ok(member);
        }
        if let Some(learning) = self.fetch_on(FETCH) {
            return Ok(learning);
        }
        let quorum = self.follower.config().membership().quorums().weak();
        let said = self.follower.ask(|said| invitation(&self.keys, said, quorum).is_some())?;
        let membership = self.follower.config().membership();
        let quorum = membership.quorums().weak();
        let is_answered = said.len() >= quorum;
        // What a file says may be long over: the group has to say it.
        if let Some(member) = self.as_member().filter(|_| is_answered || self.has_followed()) {
            return Ok(member);
        }
        if !is_answered {
            // Answers may wait behind the state that it fetches.
            return Ok(self.fetch_on(Duration::MAX).unwrap_or(Progress::Unanswered));
        }
        self.heard = Some(Instant::now());
        let Some((epoch, change)) = invitation(&self.keys, &said, quorum) else {
            return Ok(Progress::NotInvited);
        };
        let number = change.next.number;
        if protocols::of(&change.next).is_none() {
            let protocol = &change.next.protocol;
            let what = format!("the protocol {protocol}: start it with the program of the members");
            return Ok(Progress::Lacks(what));
        }
        let has_secret = || self.signing.lock().secret_of(&change.next).is_some();
        if change.next.facts.counter.is_some() && !has_secret() {
            let what = "the secret that the members' trusted devices share: the administrators' \
                        program seals it for the key in this machine's card";
            return Ok(Progress::Lacks(what.to_owned()));
        }
        let digest = change.digest();
        self.learn(said, digest, &membership);
        if let Some(what) = self.learner.failure() {
            return Ok(Progress::Lacks(what.to_owned()));
        }
        if !self.learner.is_done() {
            // It may have been ready for another change before.
            self.said = None;
            return Ok(Progress::Learning(self.learner.progress()));
        }
        let has_said = |(said, of, at): &(Digest, Epoch, Instant)| {
            (*said, *of) == (digest, epoch) && at.elapsed() < AGAIN
        };
        if self.said.as_ref().is_some_and(has_said) {
            return Ok(Progress::Ready(number));
        }
        let answer = self.say_ready(epoch, &change)?;
        self.said = Some((digest, epoch, Instant::now()));
        Ok(match answer {
            Ok(answer) if is_accepted(&answer) => Progress::Ready(number),
            Ok(answer) => Progress::Refused(String::from_utf8_lossy(&answer).into_owned()),
            // The group may have gone on meanwhile. If it has not, this request must not stand in
            // the way of the next one.
            Err(_) => {
                self.follower.reconnect()?;
                Progress::Unanswered
            }
        })
    }

    /// Whether the group has shown it where it is.
    fn has_followed(&self) -> bool {
        self.follower.config().number() > self.first
    }

    /// As which replica the group that it knows has it, if it does.
    fn as_member(&self) -> Option<Progress> {
        let config = self.follower.config();
        let place = config.membership().member(&self.keys.client_id())?;
        Some(Progress::Member(Box::new(config.clone()), place))
    }

    /// Goes on with what it fetches, if it is not ready yet and the group said how it stands since
    /// so long ago.
    fn fetch_on(&mut self, since: Duration) -> Option<Progress> {
        let is_known = self.heard.is_some_and(|at| at.elapsed() < since);
        self.learner.progress().filter(|_| is_known && self.said.is_none())?;
        let membership = self.follower.config().membership();
        let quorum = membership.quorums().weak();
        self.learner.go_on(self.follower.client(), &membership, quorum, SLICE);
        Some(Progress::Learning(self.learner.progress()))
    }

    /// Fetches the state, or a newer one than it has.
    fn learn(&mut self, said: Said, change: Digest, membership: &Membership) {
        let quorum = membership.quorums().weak();
        let kept = said.into_iter().filter_map(|(id, Standing { pending, states, .. })| {
            pending.filter(|pending| pending.digest() == change)?;
            let member = membership.members.get(usize::from(id.0))?;
            Some((member.id, states))
        });
        self.learner.hear(change, kept, quorum);
        let slice = if self.said.is_some() { SHORT_SLICE } else { SLICE };
        self.learner.go_on(self.follower.client(), membership, quorum, slice);
    }

    fn say_ready(
        &mut self,
        epoch: Epoch,
        change: &Change,
    ) -> Result<Result<Bytes, RequestError>, StartError> {
        let mut signing = self.signing.lock();
        let key = signing.prepare(change)?;
        let (change, possession) = (change.digest(), Signature([0; 64]));
        let mut ready = Ready { epoch, change, signing: key, life: self.life, possession };
        let statement = ready.statement(&self.keys.client_id());
        let signer = signing.get(&key).expect("it was made just now");
        ready.possession = Signature(signer.sign(&statement));
        drop(signing);
        let petition = Petition::Ready(ready).to_bytes();
        Ok(self.follower.client().submit(petition).wait_timeout(ORDER))
    }
}

/// The change that so many replicas say is pending in one epoch, if it names the machine with these
/// keys.
fn invitation(keys: &KeyPair, said: &Said, quorum: usize) -> Option<(Epoch, Arc<Change>)> {
    let mut votes = BTreeMap::new();
    for Standing { epoch, pending, .. } in said.values() {
        let Some(change) = pending else { continue };
        let (count, _) = votes.entry((*epoch, change.digest())).or_insert((0, change));
        *count += 1;
    }
    let mut enough = votes.into_iter().filter(|(_, (count, _))| *count >= quorum);
    let ((epoch, _), (_, change)) = enough.next()?;
    let mut members = change.next.members.iter();
    members.any(|it| it.identity == keys.public()).then(|| (epoch, change.clone()))
}
