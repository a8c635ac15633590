//! How a machine becomes a member of a group that runs.
//!
//! It waits, as a client under its identity key, until administrators have a change pending that
//! names it. Then it makes the key by which it is to sign, and says that it is ready, like every
//! other member. When the group has begun with the change, it starts as a replica of the epoch that
//! began with it, and fetches the state.

use crate::config::ClusterConfig;
use crate::following::{Follower, Said};
use crate::node::StartError;
use crate::protocols;
use pentarchy_client::RequestError;
use pentarchy_core::Bytes;
use pentarchy_core::auth::Signature;
use pentarchy_core::change::{Change, Petition, Ready, is_accepted};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Epoch, ReplicaId};
use pentarchy_core::membership::Life;
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
    /// It has said that it is ready for this configuration.
    Ready(u64),
    /// It has said so, and the group says why that does not count.
    Refused(String),
    /// A change is pending that names it, and needs this, which it lacks.
    Lacks(String),
    /// It is this replica of this group.
    Member(Box<ClusterConfig>, ReplicaId),
}

/// A machine that is to become a member.
pub struct Joining {
    follower: Follower,
    keys: KeyPair,
    signing: SharedSigningKeys,
    life: Life,
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
    ) -> Result<Self, StartError> {
        let follower = Follower::new(config, keys.clone())?;
        Ok(Self { follower, keys, signing, life, said: None })
    }

    /// Goes on for a few seconds at most. To be called again, a moment later, until it is a member.
    ///
    /// # Errors
    /// [`StartError`] as for [`Follower::ask`], and if it cannot write the key by which it is to
    /// sign.
    pub fn go_on(&mut self) -> Result<Progress, StartError> {
        let before = self.follower.config().number();
        let said = self.follower.ask()?;
        let membership = self.follower.config().membership();
        let quorum = membership.quorums().weak();
        // What a file says may be long over: the group has to say it.
        let is_known = self.follower.config().number() > before || said.len() >= quorum;
        if !is_known {
            return Ok(Progress::Unanswered);
        }
        if let Some(place) = membership.member(&self.keys.client_id()) {
            return Ok(Progress::Member(Box::new(self.follower.config().clone()), place));
        }
        let Some((epoch, change)) = self.invitation(&said, quorum) else {
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

    /// The change that so many replicas say is pending in one epoch, if it names this machine.
    fn invitation(&self, said: &Said, quorum: usize) -> Option<(Epoch, Arc<Change>)> {
        let mut votes = BTreeMap::new();
        for (epoch, change) in said.values() {
            let Some(change) = change else { continue };
            let (count, _) = votes.entry((*epoch, change.digest())).or_insert((0, change));
            *count += 1;
        }
        let mut enough = votes.into_iter().filter(|(_, (count, _))| *count >= quorum);
        let ((epoch, _), (_, change)) = enough.next()?;
        let mut members = change.next.members.iter();
        members.any(|it| it.identity == self.keys.public()).then(|| (epoch, change.clone()))
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
