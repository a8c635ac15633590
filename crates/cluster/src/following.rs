//! From the group that a `cluster.toml` describes to the one that it has become since: along the
//! proofs with which its configurations ended.

use crate::config::{ClusterConfig, Later, ReplicaEntry};
use crate::node::{self, StartError};
use pentarchy_client::{Client, Completions, RequestError};
use pentarchy_core::Bytes;
use pentarchy_core::configuration::{MemberEntry, RequestMeans};
use pentarchy_core::counter::Ui;
use pentarchy_core::digest::Digest;
use pentarchy_core::epochs::{Proof, Witnesses};
use pentarchy_core::ids::{ReplicaId, ReplicaSet};
use pentarchy_core::membership::{Member, Membership};
use pentarchy_core::mutant;
use pentarchy_core::standing::Standing;
use pentarchy_core::wire::Wire as _;
use pentarchy_crypto::keys::KeyPair;
use pentarchy_crypto::verifier::{GroupVerifier, RequestMode, UsigCheck};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long replicas may take to say how the group stands.
const LIMIT: Duration = Duration::from_millis(500);

/// How much longer others may take once a replica has shown how the configuration ended, or enough
/// was said.
const BRIEF: Duration = Duration::from_millis(50);

/// Why proofs do not lead on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("that is no proof of how configuration {0} ended")]
pub struct BadLink(u64);

/// Devices have no part in how a configuration ends: members sign for that.
struct NoDevice;

impl UsigCheck for NoDevice {
    fn check(&self, _: ReplicaId, _: &Ui, _: &Digest) -> bool {
        false
    }
}

impl ClusterConfig {
    /// The same as [`Self::follow`], by what somebody shows over the network. What administrators
    /// signed for a group that was lost is not believed of anybody but who has it in a file, where
    /// an operator put it: the group may not have been lost, and they may be no administrators any
    /// more, which whoever is behind cannot know.
    ///
    /// # Errors
    /// [`BadLink`] names the first that leads nowhere.
    pub fn follow_shown(&self, links: &[Proof]) -> Result<Self, BadLink> {
        match self.rescue_in(links) {
            Some(number) if !mutant!("following.rescue-shown") => Err(BadLink(number - 1)),
            _ => self.follow(links),
        }
    }

    /// The number of the first configuration behind this one with which administrators have a lost
    /// group go on, as these links say. Nobody has looked whether administrators signed that.
    pub(crate) fn rescue_in(&self, links: &[Proof]) -> Option<u64> {
        let by_administrators = links.iter().filter(|link| link.by != Witnesses::Members);
        let mut numbers = by_administrators.filter_map(|link| Some(link.next.as_ref()?.number));
        numbers.find(|number| *number > self.number())
    }

    /// The cluster in the configuration to which these proofs lead, each from where the one before
    /// ended; those of configurations that have ended here are passed over. Whoever sent them need
    /// not be trusted, but for those that administrators signed ([`Self::follow_shown`]). Sizes,
    /// delays and the like stay those of the file; so do the addresses, until a configuration says
    /// others.
    ///
    /// # Errors
    /// [`BadLink`] names the first that leads nowhere.
    pub fn follow(&self, links: &[Proof]) -> Result<Self, BadLink> {
        let number = |link: &Proof| link.next.as_ref().map(|next| next.number);
        let is_known = |link: &&Proof| number(link).is_some_and(|it| it <= self.number());
        let new: Vec<&Proof> = links.iter().skip_while(is_known).collect();
        if new.is_empty() {
            return Ok(self.clone());
        }
        let mut membership = Arc::new(self.membership());
        for (at, link) in (self.number()..).zip(&new) {
            let bad = || BadLink(at);
            // Before anything that takes time: whoever sent it may be lying.
            if number(link) != Some(at + 1) {
                return Err(bad());
            }
            let (devices, mode) = (Arc::new(NoDevice), RequestMode::Signature);
            let signers = match mutant!("following.believes-single-link") {
                true => Arc::new(link.successor(&membership)),
                false => membership.clone(),
            };
            let verifier = GroupVerifier::new(signers, devices, mode, None);
            let verifier = verifier.map_err(|_| bad())?;
            if !link.is_valid(&membership, &verifier) {
                return Err(bad());
            }
            membership = Arc::new(link.successor(&membership));
        }
        let known = self.later.as_ref().map_or(&[][..], |later| &later.links);
        let links = known.iter().chain(new).cloned().collect();
        Ok(self.in_later(membership, links))
    }

    fn in_later(&self, membership: Arc<Membership>, links: Vec<Proof>) -> Self {
        let stated = membership.stated.clone().expect("a proof states its configuration");
        let entry = |(member, at): (&Member, &MemberEntry)| {
            let Member { identity: key, signing, incarnation, device_key, .. } = *member;
            ReplicaEntry { address: at.address.clone(), key, signing, incarnation, device_key }
        };
        let replicas = membership.members.iter().zip(&stated.members).map(entry).collect();
        let (request_auth, session_key) = match stated.requests {
            RequestMeans::Signature => (RequestMode::Signature, self.session_key),
            RequestMeans::Macs => (RequestMode::Mac, self.session_key),
            RequestMeans::Session(key) => (RequestMode::Session, Some(key)),
        };
        Self {
            f: membership.f,
            protocol: stated.protocol.clone(),
            request_auth,
            session_key,
            administrators: stated.administrators.clone(),
            access: stated.access.clone(),
            replicas,
            later: Some(Later { membership, links }),
            ..self.clone()
        }
    }

    /// Whether a machine with this identity key is a member, or was one since the first change.
    #[must_use]
    pub fn has_had(&self, identity: &[u8; 32]) -> bool {
        let links = self.later.iter().flat_map(|later| &later.links);
        let members = links.filter_map(|link| link.next.as_ref()).flat_map(|next| &next.members);
        let mut keys = members.map(|it| it.identity).chain(self.replicas.iter().map(|it| it.key));
        keys.any(|key| key == *identity)
    }

    /// The number of the configuration.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.later.as_ref().map_or(0, |later| later.links.len() as u64)
    }
}

/// Follows a group, as a client of it.
pub struct Follower {
    config: ClusterConfig,
    keys: KeyPair,
    client: Client,
    /// Where replicas say how the configuration ended, once it has, ...
    ends: Arc<Completions>,
    /// ... and which of them are to.
    watched: ReplicaSet,
}

/// How the group stands as replicas say, by who says it. That is one replica's word.
pub type Said = BTreeMap<ReplicaId, Standing>;

impl Follower {
    /// Begins with the group that the configuration describes. Does not wait for any replica.
    ///
    /// # Errors
    /// [`StartError`] as for [`node::connect`].
    pub fn new(config: ClusterConfig, keys: KeyPair) -> Result<Self, StartError> {
        let client = connect(&config, keys.clone())?;
        Ok(Self { config, keys, client, ends: Completions::new(), watched: ReplicaSet::EMPTY })
    }

    /// The group, as far as it was followed.
    #[must_use]
    pub const fn config(&self) -> &ClusterConfig {
        &self.config
    }

    /// A client of that group.
    #[must_use]
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// Connects anew. Nothing that was asked before is waited for any more.
    ///
    /// # Errors
    /// [`StartError`] as for [`Self::new`].
    pub fn reconnect(&mut self) -> Result<(), StartError> {
        self.client = connect(&self.config, self.keys.clone())?;
        (self.ends, self.watched) = (Completions::new(), ReplicaSet::EMPTY);
        Ok(())
    }

    /// Asks all replicas how the group stands, and follows it as far as their proofs lead. Gives
    /// what else they say, if the group is where it was. Waits for half a second at most, and no
    /// more than a moment once what they have said is enough.
    ///
    /// # Errors
    /// [`StartError`] if the members of a later configuration cannot be connected to.
    pub fn ask(&mut self, is_enough: impl Fn(&Said) -> bool) -> Result<Said, StartError> {
        let mut deadline = Instant::now() + LIMIT;
        let (number, completions) = (self.config.number(), Completions::new());
        let mut waiting: ReplicaSet = self.ids().collect();
        waiting.iter().for_each(|id| self.client.standing(id, number, &completions));
        let (mut said, mut furthest) = (Said::new(), None::<ClusterConfig>);
        while !waiting.is_empty() && Instant::now() < deadline {
            for (id, standing) in take_said(&completions, deadline) {
                waiting.remove(id);
                let Some(standing) = standing else { continue };
                // One that lies has others' proofs judged, and no more.
                let led = self.config.follow_shown(&standing.links).ok();
                said.insert(id, standing);
                let known = furthest.as_ref().map_or(number, ClusterConfig::number);
                furthest = led.filter(|led| led.number() > known).or(furthest);
            }
            // Machines that have died must not hold it up.
            if furthest.is_some() || is_enough(&said) {
                deadline = deadline.min(Instant::now() + BRIEF);
            }
        }
        if let Some(config) = furthest {
            self.config = config;
            self.reconnect()?;
            said.clear();
        }
        Ok(said)
    }

    /// Waits until a replica says that the configuration has ended, and follows its proof. Waits no
    /// longer than so long.
    ///
    /// # Errors
    /// [`StartError`] as for [`Self::ask`].
    pub fn wait(&mut self, limit: Duration) -> Result<(), StartError> {
        let (number, deadline) = (self.config.number(), Instant::now() + limit);
        for id in self.ids() {
            if self.watched.insert(id) {
                self.client.end(id, number, &self.ends);
            }
        }
        while Instant::now() < deadline {
            for (id, standing) in take_said(&self.ends, deadline) {
                self.watched.remove(id);
                let led = standing.and_then(|it| self.config.follow_shown(&it.links).ok());
                if let Some(led) = led.filter(|led| led.number() > number) {
                    self.config = led;
                    return self.reconnect();
                }
            }
        }
        Ok(())
    }

    fn ids(&self) -> impl Iterator<Item = ReplicaId> + use<> {
        (0..self.config.replicas.len() as u16).map(ReplicaId)
    }

    /// Follows the group as far as its replicas know it. Gives what else they say; nothing, if none
    /// answers in time.
    ///
    /// # Errors
    /// [`StartError`] as for [`Self::ask`].
    pub fn catch_up(&mut self) -> Result<Said, StartError> {
        loop {
            let number = self.config.number();
            let said = self.ask(|_| false)?;
            if self.config.number() == number {
                return Ok(said);
            }
        }
    }

    /// Gives the group as its replicas know it. Where none answers in time, that is the group that
    /// the configuration describes.
    ///
    /// # Errors
    /// [`StartError`] as for [`Self::ask`].
    pub fn present(mut self) -> Result<ClusterConfig, StartError> {
        self.catch_up()?;
        Ok(self.config)
    }
}

/// What replicas have said, at the deadline at the latest; of each one that said nothing that could
/// be read, or is not connected, that alone.
fn take_said(from: &Completions, deadline: Instant) -> Vec<(ReplicaId, Option<Standing>)> {
    let (mut came, left) = (Vec::new(), deadline.saturating_duration_since(Instant::now()));
    from.wait(left, &mut came);
    let read = |(id, said): (u64, Result<Bytes, RequestError>)| {
        let standing = said.ok().and_then(|said| Standing::from_bytes(&said).ok());
        (ReplicaId(id as u16), standing)
    };
    came.into_iter().map(read).collect()
}

fn connect(config: &ClusterConfig, keys: KeyPair) -> Result<Client, StartError> {
    let client = node::signing_client_config(config, keys)?;
    // It has to see each configuration itself.
    Ok(Client::connect(pentarchy_client::ClientConfig { follows: None, ..client })?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::administration::{Alteration, Terms, alter};
    use crate::card::Card;
    use crate::generate::{GroupOptions, NewCluster};
    use pentarchy_core::auth::Signature;
    use pentarchy_core::change::Shown;
    use pentarchy_core::configuration::Configuration;
    use pentarchy_core::epochs::{Handover, Witnesses};
    use pentarchy_core::ids::{Incarnation, MemberId, Millis, Slot};
    use pentarchy_core::membership::{Base, Life};
    use pentarchy_protocols::EXAMPLES;

    fn group() -> NewCluster {
        let protocol = EXAMPLES.signed.rules.name.to_owned();
        let options = GroupOptions { protocol, ..GroupOptions::default() };
        let addresses = [0, 1, 2, 3].map(|id| format!("10.0.0.{id}:7000"));
        NewCluster::generate(&addresses, &options)
    }

    /// How a configuration ends, in which member 1 makes way for a new machine, as these say.
    fn link(config: &ClusterConfig, signers: &[(u16, &KeyPair)]) -> Proof {
        let membership = config.membership();
        let shown = Shown {
            epoch: membership.epoch,
            time: Millis(5),
            configuration: config.configuration(),
            withdrawn: 0,
            pending: None,
            proposed: Vec::new(),
        };
        let (new, signing) = (KeyPair::generate(), KeyPair::generate().public());
        let address = format!("10.0.1.{}:7000", config.configuration().next_member.0);
        let card = Card::new(config.group, &new, signing, Incarnation(1), &address);
        let card = card.expect("an address");
        let leaves = [membership.members[1].id];
        let wanted = Alteration { joins: &[card], leaves: &leaves, ..Alteration::default() };
        let change =
            alter(&shown, &wanted, &Terms::new(Duration::from_secs(60))).expect("it can be");
        let next = change.next;
        let base = Base { slot: Slot(9), ..Base::default() };
        let lives = vec![Life::default(); next.members.len()];
        let handover = Handover { epoch: membership.epoch, base, lives, next: Some(next.digest()) };
        let statement = handover.statement(&membership);
        let sign =
            |(id, keys): &(u16, &KeyPair)| (ReplicaId(*id), Signature(keys.sign(&statement)));
        let signatures = signers.iter().map(sign).collect();
        Proof { handover, next: Some(Arc::new(next)), by: Witnesses::Members, signatures }
    }

    /// By which the members sign in the first configuration.
    fn signing(group: &NewCluster) -> Vec<KeyPair> {
        group.replicas.iter().map(|it| it.signing.lock().current().clone()).collect()
    }

    #[test]
    fn a_proof_leads_to_the_next_configuration_and_no_further() {
        let group = group();
        let signing = signing(&group);
        let NewCluster { config, .. } = group;
        let keys = |id: u16| (id, &signing[usize::from(id)]);
        let first = link(&config, &[keys(0), keys(2)]);
        let led = config.follow(std::slice::from_ref(&first)).expect("two of four signed");
        assert_eq!((config.number(), led.number(), led.f), (0, 1, 1));
        let ids: Vec<_> = led.membership().members.iter().map(|it| it.id.0).collect();
        assert_eq!(ids, [0, 2, 3, 4]);
        let addresses: Vec<_> = led.replicas.iter().map(|it| it.address.as_str()).collect();
        assert_eq!(addresses[3], "10.0.1.4:7000");
        assert_eq!(led.membership().base.slot, Slot(9));

        // Its places are others, and the first proof proves nothing of it.
        let second = link(&led, &[(0, &signing[0]), (1, &signing[2])]);
        let both = config.follow(&[first.clone(), second.clone()]).expect("one after the other");
        assert_eq!(both, led.follow(std::slice::from_ref(&second)).expect("the same"));
        assert_eq!(both.membership().index_of(MemberId(5)), Some(ReplicaId(3)));
        assert_eq!(led.follow(std::slice::from_ref(&first)).as_ref(), Ok(&led), "it has ended");
        let forged = Proof { signatures: second.signatures[..1].to_vec(), ..second.clone() };
        assert_eq!(config.follow(&[first.clone(), forged]), Err(BadLink(1)));
        assert_eq!(config.follow(&[second]), Err(BadLink(0)));
        assert_eq!(config.follow(&[]), Ok(config));
    }

    #[test]
    fn what_too_few_members_signed_leads_nowhere() {
        let group = group();
        let signing = signing(&group);
        let NewCluster { config, .. } = group;
        let keys = |id: u16| (id, &signing[usize::from(id)]);
        let one_for_two = [keys(0), (2, &signing[0])];
        for signers in [&[keys(0)][..], &[keys(0), keys(0)], &one_for_two, &[]] {
            assert_eq!(config.follow(&[link(&config, signers)]), Err(BadLink(0)));
        }
        let mut other = link(&config, &[keys(0), keys(2)]);
        let mut next = Configuration::clone(other.next.as_deref().expect("it names one"));
        next.f = 0;
        other.next = Some(Arc::new(next));
        assert_eq!(config.follow(&[other]), Err(BadLink(0)), "they signed for another one");
    }

    /// Whoever makes a configuration up has the keys that it names.
    #[test]
    fn a_link_that_the_members_of_the_next_configuration_sign_leads_nowhere() {
        let NewCluster { config, .. } = group();
        let keys: Vec<KeyPair> = (0..4).map(|_| KeyPair::generate()).collect();
        let mut forged = link(&config, &[]);
        let mut next = Configuration::clone(forged.next.as_deref().expect("it names one"));
        for (member, keys) in next.members.iter_mut().zip(&keys) {
            member.signing = keys.public();
        }
        forged.handover.next = Some(next.digest());
        forged.next = Some(Arc::new(next));
        let statement = forged.handover.statement(&config.membership());
        let signatures = keys.iter().map(|keys| Signature(keys.sign(&statement)));
        forged.signatures = (0..2).map(ReplicaId).zip(signatures).collect();
        let led_to = || config.follow_shown(std::slice::from_ref(&forged)).map(|led| led.number());
        assert_eq!(led_to(), Err(BadLink(0)));
        assert_eq!(mutant::with(Some("following.believes-single-link"), led_to), Ok(1));
    }
}
