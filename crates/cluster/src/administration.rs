//! What administrators do to a group that runs, each under its own key
//! (`docs/decisions/0011-changes-are-proposed-one-by-one.md`).

use crate::card::Card;
use crate::config::{ClusterConfig, CounterPlace};
use crate::node::{self, StartError};
use crate::protocols;
use pentarchy_client::{Client, RequestError};
use pentarchy_core::change::{
    ANOTHER_PENDING, Change, Petition, Proposed, REPEATED, Shown, Withdrawal, is_accepted,
};
use pentarchy_core::configuration::{
    Access, Administrators, BadConfiguration, Configuration, MemberEntry, RequestMeans,
};
use pentarchy_core::ids::{ClientId, MemberId, Millis};
use pentarchy_core::wire::Wire as _;
use pentarchy_crypto::keys::{GroupSecret, KeyPair, channel_public};
use pentarchy_crypto::sealed::Receiver;
use pentarchy_trusted::session;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Why a group does not do what an administrator asks.
#[derive(Debug, thiserror::Error)]
pub enum AdministrationError {
    /// The group does not know this key as an administrator's.
    #[error("this key is no administrator's of the group, {0}")]
    NoAdministrator(String),
    /// Replicas keep no answers for this key.
    #[error(
        "this key is no administrator's of the group, or another command uses it now, or this \
         host's clock is behind that of the host where the key was used last: try again"
    )]
    Unknown,
    /// The group refuses.
    #[error("the group refuses: {0}")]
    Refused(String),
    /// Too few replicas answered, or the answer came too late.
    #[error("the group did not answer: {0}")]
    Unanswered(#[from] RequestError),
}

/// How often an administrator asks how the group is before it concludes that it is none.
const ATTEMPTS: u32 = 4;

/// The connection of one administrator.
pub struct Administrator {
    client: Client,
    /// Where the members are, as long as their configuration is the first one, ...
    addresses: Vec<String>,
    /// ... and who may be a client.
    access: Access,
}

impl Administrator {
    /// Connects under an administrator's key. Does not wait for any replica.
    ///
    /// # Errors
    /// [`StartError`] as for [`node::connect`].
    pub fn connect(config: &ClusterConfig, keys: KeyPair) -> Result<Self, StartError> {
        let client = Client::connect(node::signing_client_config(config, keys)?)?;
        let addresses = config.replicas.iter().map(|entry| entry.address.clone()).collect();
        Ok(Self { client, addresses, access: config.access.clone() })
    }

    /// Its public key.
    #[must_use]
    pub fn key(&self) -> [u8; 32] {
        self.client.id().0
    }

    /// Its connection, to ask members how they are.
    #[must_use]
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// Whether the configuration that a change makes has this administrator.
    #[must_use]
    pub fn stays(&self, change: &Change) -> bool {
        change.next.administrators.keys.contains(&self.key())
    }

    fn ask(&self, petition: &Petition, limit: Duration) -> Result<Vec<u8>, RequestError> {
        self.client.submit(petition.to_bytes()).wait_timeout(limit).map(|answer| answer.to_vec())
    }

    /// Asks how the group is. The answer is ordered, and `f + 1` replicas give it alike.
    ///
    /// # Errors
    /// [`AdministrationError`]
    pub fn show(&self, limit: Duration) -> Result<Shown, AdministrationError> {
        let deadline = Instant::now() + limit;
        let mut attempts = 0;
        let answer = loop {
            attempts += 1;
            match self.ask(&Petition::Show, deadline.saturating_duration_since(Instant::now())) {
                // Replicas keep no answers for administrators that are not connected yet.
                Err(RequestError::Forgotten) if attempts < ATTEMPTS => {}
                Err(RequestError::Forgotten) => return Err(AdministrationError::Unknown),
                answer => break answer?,
            }
        };
        let mut shown = Shown::from_bytes(&answer.clone().into())
            .map_err(|_| AdministrationError::NoAdministrator(text(&answer)))?;
        if shown.configuration.number == 0 {
            for (member, address) in shown.configuration.members.iter_mut().zip(&self.addresses) {
                member.address.clone_from(address);
            }
            shown.configuration.access = self.access.clone();
        }
        Ok(shown)
    }

    /// Proposes a change. It is pending once enough administrators have proposed the same. What the
    /// group says to it.
    ///
    /// # Errors
    /// [`AdministrationError`]
    pub fn propose(&self, change: Change, limit: Duration) -> Result<String, AdministrationError> {
        match self.say(&Petition::Propose(Arc::new(change.clone())), limit) {
            Err(AdministrationError::Unanswered(RequestError::Forgotten)) => {
                let shown = self.show(limit)?;
                let has_begun = shown.configuration.number >= change.next.number;
                let is_another = shown.pending.as_ref().is_some_and(|it| it.change != change);
                let is_pending = shown.pending.is_some() && !is_another;
                let by_me =
                    |it: &Proposed| it.change == change && it.by.contains(&self.client.id());
                if has_begun || is_pending || shown.proposed.iter().any(by_me) {
                    return Ok("proposed".to_owned());
                }
                let why = match is_another {
                    true => ANOTHER_PENDING,
                    false => "it came to nothing; see pentarchy members list",
                };
                Err(AdministrationError::Refused(why.to_owned()))
            }
            said => said,
        }
    }

    /// Takes back whatever administrators have proposed for the configuration that was shown.
    ///
    /// # Errors
    /// [`AdministrationError`]
    pub fn withdraw(&self, shown: &Shown, limit: Duration) -> Result<String, AdministrationError> {
        let (expects, attempt) = (shown.configuration.digest(), shown.withdrawn);
        match self.say(&Petition::Withdraw(Withdrawal { expects, attempt }), limit) {
            Err(AdministrationError::Unanswered(RequestError::Forgotten)) => {
                let now = self.show(limit)?;
                let is_over = now.withdrawn > attempt || now.configuration.digest() != expects;
                match is_over {
                    true => Ok("withdrawn".to_owned()),
                    false => Err(AdministrationError::Refused(REPEATED.to_owned())),
                }
            }
            said => said,
        }
    }

    fn say(&self, petition: &Petition, limit: Duration) -> Result<String, AdministrationError> {
        let answer = self.ask(petition, limit)?;
        if is_accepted(&answer) {
            Ok(text(&answer))
        } else {
            Err(AdministrationError::Refused(text(&answer)))
        }
    }
}

fn text(answer: &[u8]) -> String {
    String::from_utf8_lossy(answer).into_owned()
}

/// How administrators propose a change.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// From when the group was shown: after this the change is void.
    pub expires: Duration,
    /// Where the members have their trusted counters. Those in processes of their own keep the
    /// secret with which they were started.
    pub counter: CounterPlace,
}

impl Terms {
    /// Of a group whose counters are in the processes of its replicas.
    #[must_use]
    pub const fn new(expires: Duration) -> Self {
        Self { expires, counter: CounterPlace::InProcess }
    }
}

/// The change after which each member signs by a new key, and the trusted devices share another
/// secret, if there are any and they can take it.
#[must_use]
pub fn refresh(shown: &Shown, terms: &Terms) -> Change {
    let mut change = unaltered(shown, terms);
    if change.next.facts.counter.is_some() && terms.counter == CounterPlace::InProcess {
        renew_secret(&mut change.next);
    }
    change
}

/// The change after which each member signs by a new key, and nothing else is different.
fn unaltered(shown: &Shown, terms: &Terms) -> Change {
    let current = &shown.configuration;
    let next = Configuration { number: current.number + 1, ..current.clone() };
    Change {
        expects: current.digest(),
        attempt: shown.withdrawn,
        expires: Millis(shown.time.0.saturating_add(terms.expires.as_millis() as u64)),
        next,
        needed: Vec::new(),
    }
}

/// Makes another secret for the devices, which this program forgets, and seals it for each member.
/// Clients that convince devices convince these from then on.
fn renew_secret(next: &mut Configuration) {
    let secret = GroupSecret::generate();
    next.secret = Some(secret.name());
    for member in &mut next.members {
        let receiver = Receiver { group: next.group, member: member.id };
        member.sealed = receiver.seal(&secret, &member.signing);
    }
    if let RequestMeans::Session(key) = &mut next.requests {
        *key = session::public_key(secret.as_bytes());
    }
}

/// The same, and members find this one elsewhere from then on.
///
/// # Errors
/// [`CannotAlter`] if there is no such member, or another one is there.
pub fn relocate(
    shown: &Shown,
    member: MemberId,
    address: &str,
    terms: &Terms,
) -> Result<Change, CannotAlter> {
    let mut change = unaltered(shown, terms);
    let entry = change.next.members.iter_mut().find(|entry| entry.id == member);
    address.clone_into(&mut entry.ok_or(CannotAlter::NoMember(member.0))?.address);
    have_a_place_each(&change.next)?;
    Ok(change)
}

/// Whether no two members are to be found at the same address.
fn have_a_place_each(next: &Configuration) -> Result<(), CannotAlter> {
    let mut known = BTreeMap::new();
    for MemberEntry { id, address, .. } in &next.members {
        if let Some(MemberId(other)) = known.insert(address, *id) {
            return Err(CannotAlter::Address { member: other, address: address.clone() });
        }
    }
    Ok(())
}

/// What administrators want to be different about the members, and about how they order.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alteration<'a> {
    /// Who joins.
    pub joins: &'a [Card],
    /// Who leaves.
    pub leaves: &'a [MemberId],
    /// How many may be faulty from then on; as many as before, if it is none.
    pub f: Option<u16>,
    /// By which protocol they order from then on; by the same, if it is none.
    pub switch: Option<Switch<'a>>,
}

/// To which protocol administrators want the group to switch.
#[derive(Clone, Copy, Debug)]
pub struct Switch<'a> {
    /// The name of the protocol.
    pub protocol: &'a str,
    /// The public key with which clients of the first configuration convince trusted devices, if
    /// they are to convince devices, and not to sign, where the protocol has some.
    pub session_key: Option<[u8; 32]>,
}

/// Why members cannot be altered like that.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CannotAlter {
    /// There is no such member.
    #[error("the group has no member {0}")]
    NoMember(u32),
    /// It was named twice.
    #[error("member {0} was named twice")]
    Twice(u32),
    /// Two members would be at one address.
    #[error("member {member} is at {address} already; `members move` has a member be elsewhere")]
    Address {
        /// The member that has the address.
        member: u32,
        /// Where.
        address: String,
    },
    /// A card is a member's.
    #[error("the machine at {0} is a member already, or its card was given twice")]
    Member(String),
    /// A card is for another group.
    #[error(
        "the card of the machine at {0} is for another group: prepare the machine anew, with the \
         cluster.toml of this group: `pentarchy members prepare`"
    )]
    OtherGroup(String),
    /// The members' devices would have to take another secret, and cannot.
    #[error(
        "where members come or go, the trusted counters of {0} need another secret, and counters \
         in processes of their own cannot take one: start the replicas with --counter in-process, \
         and say counter = \"in-process\" in cluster.toml"
    )]
    CounterProcesses(String),
    /// Those that stay may all be faulty.
    #[error(
        "only {stay} of the members would stay, and {f} may be faulty: nobody would have to have \
         the state; replace fewer at a time"
    )]
    TooFewStay {
        /// How many stay.
        stay: usize,
        /// How many may be faulty.
        f: u16,
    },
    /// There is no such protocol.
    #[error("no protocol {name:?} to switch to; there are: {known}")]
    NoProtocol {
        /// The name that the administrator gave.
        name: String,
        /// What there is.
        known: String,
    },
    /// The group keeps its protocol.
    #[error("this group keeps its protocol, {0}, as its order is split into pillars")]
    Keeps(String),
    /// No group can be like that.
    #[error(
        "no group can be like that: {0}; `members add`, `members remove` and `reconfigure` take --f"
    )]
    Bad(BadConfiguration),
}

/// The change after which others are members, or they order by another protocol. Those that join
/// have to be ready for it.
///
/// # Errors
/// [`CannotAlter`]
pub fn alter(shown: &Shown, wanted: &Alteration<'_>, terms: &Terms) -> Result<Change, CannotAlter> {
    let (change, current) = (altered(shown, wanted, terms)?, &shown.configuration);
    let next = &change.next;
    let is_there = |member: &&MemberEntry| current.members.iter().any(|it| it.id == member.id);
    let stay = next.members.iter().filter(is_there).count();
    if stay <= usize::from(next.f) {
        return Err(CannotAlter::TooFewStay { stay, f: next.f });
    }
    Ok(change)
}

/// The same, whoever stays: for a group that nobody has to hand anything over.
pub(crate) fn altered(
    shown: &Shown,
    wanted: &Alteration<'_>,
    terms: &Terms,
) -> Result<Change, CannotAlter> {
    let (mut change, current) = (unaltered(shown, terms), &shown.configuration);
    let next = &mut change.next;
    for (at, id) in wanted.leaves.iter().enumerate() {
        if wanted.leaves[..at].contains(id) {
            return Err(CannotAlter::Twice(id.0));
        }
        let at = next.members.iter().position(|member| member.id == *id);
        next.members.remove(at.ok_or(CannotAlter::NoMember(id.0))?);
    }
    for card in wanted.joins {
        let (identity, signing, address) = (card.identity, card.signing, card.address.clone());
        if card.group != next.group {
            return Err(CannotAlter::OtherGroup(address));
        }
        if next.members.iter().any(|member| member.identity == identity) {
            return Err(CannotAlter::Member(address));
        }
        let id = next.next_member;
        next.next_member = MemberId(id.0 + 1);
        next.members.push(MemberEntry { id, identity, signing, sealed: None, address });
        change.needed.push(id);
    }
    next.f = wanted.f.unwrap_or(next.f);
    if let Some(switch) = &wanted.switch {
        switch_to(next, switch)?;
    }
    let are_same = next.members == current.members;
    let begins_with_devices = next.facts.counter.is_some() && current.facts.counter.is_none();
    if !are_same || begins_with_devices && terms.counter == CounterPlace::InProcess {
        renew_secret(next);
    }
    let needs_other = next.facts.counter.is_some() && next.secret.is_some();
    if needs_other && terms.counter == CounterPlace::Process {
        return Err(CannotAlter::CounterProcesses(next.protocol.clone()));
    }
    next.check().map_err(CannotAlter::Bad)?;
    have_a_place_each(next)?;
    Ok(change)
}

/// Has a configuration name another protocol.
fn switch_to(next: &mut Configuration, switch: &Switch<'_>) -> Result<(), CannotAlter> {
    if !next.can_switch() {
        return Err(CannotAlter::Keeps(next.protocol.clone()));
    }
    let found = |name| protocols::find(name).filter(|it| it.can_be_switched_to());
    let Some(entry) = found(switch.protocol) else {
        let known = protocols::names().filter(|name| found(name).is_some());
        let known = known.collect::<Vec<_>>().join(", ");
        return Err(CannotAlter::NoProtocol { name: switch.protocol.to_owned(), known });
    };
    let had_devices = next.facts.counter.is_some();
    next.protocol = entry.rules.name.to_owned();
    next.facts = entry.rules.facts();
    let key = match next.requests {
        RequestMeans::Macs => return Ok(()),
        // The devices are the same ones.
        RequestMeans::Session(key) => switch.session_key.map(|_| key),
        // Clients that signed although they need not go on to.
        RequestMeans::Signature => switch.session_key.filter(|_| !had_devices),
    };
    let key = key.filter(|_| next.facts.counter.is_some());
    next.requests = key.map_or(RequestMeans::Signature, RequestMeans::Session);
    Ok(())
}

/// Who administrators want to be the administrators.
#[derive(Clone, Copy, Debug, Default)]
pub struct Appointment<'a> {
    /// The public keys of the administrators that join.
    pub joins: &'a [[u8; 32]],
    /// Those of the administrators that leave.
    pub leaves: &'a [[u8; 32]],
    /// How many have to agree from then on. If it is none, more than half of them where that was so
    /// before, otherwise as many as before.
    pub threshold: Option<u8>,
}

/// Why administrators cannot be appointed like that.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CannotAppoint {
    /// There is no such administrator.
    #[error("the group has no administrator with the key {0}")]
    NoAdministrator(String),
    /// There is one already.
    #[error("the group has an administrator with the key {0} already, or it was given twice")]
    Administrator(String),
    /// Nobody can sign by that.
    #[error("{0} is nobody's public key: `members prepare --administrator` prints one")]
    NoKey(String),
    /// Replicas serve one process for each key.
    #[error("{0} is the key of a client: an administrator has a key that nothing else uses")]
    Client(String),
    /// The group could never be changed again.
    #[error("a group without administrators can never be changed again: at least one has to stay")]
    Nobody,
    /// No group can be like that.
    #[error("no group can be like that: {0}; --agree says how many have to agree")]
    Bad(BadConfiguration),
}

/// The change after which others are the administrators.
///
/// # Errors
/// [`CannotAppoint`]
pub fn appoint(
    shown: &Shown,
    wanted: &Appointment<'_>,
    terms: &Terms,
) -> Result<Change, CannotAppoint> {
    let mut change = unaltered(shown, terms);
    let mut keys = change.next.administrators.keys;
    for key in wanted.leaves {
        let at = keys.iter().position(|known| known == key);
        keys.remove(at.ok_or_else(|| CannotAppoint::NoAdministrator(hex::encode(key)))?);
    }
    for key in wanted.joins {
        if keys.contains(key) {
            return Err(CannotAppoint::Administrator(hex::encode(key)));
        }
        if channel_public(key).is_none() {
            return Err(CannotAppoint::NoKey(hex::encode(key)));
        }
        if matches!(&shown.configuration.access, Access::Only(ids) if ids.contains(&ClientId(*key)))
        {
            return Err(CannotAppoint::Client(hex::encode(key)));
        }
        keys.push(*key);
    }
    if keys.is_empty() {
        return Err(CannotAppoint::Nobody);
    }
    let before = &shown.configuration.administrators;
    let was_majority = *before == Administrators::by_majority(before.keys.clone());
    let by_majority = Administrators::by_majority(keys);
    let usual = if was_majority { by_majority.threshold } else { before.threshold };
    let threshold = wanted.threshold.unwrap_or(usual);
    change.next.administrators = Administrators { threshold, ..by_majority };
    change.next.check().map_err(CannotAppoint::Bad)?;
    Ok(change)
}

/// Whom administrators want to be a client.
#[derive(Clone, Copy, Debug)]
pub enum Admitting<'a> {
    /// Besides those that are listed, or no more.
    Altered {
        /// The clients that the group admits, too.
        joins: &'a [ClientId],
        /// The clients that the group admits no more.
        leaves: &'a [ClientId],
    },
    /// These, and nobody else.
    Only(&'a [ClientId]),
    /// Anyone who has a key.
    Everyone,
}

/// Why clients cannot be admitted like that.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CannotAdmit {
    /// There is no list.
    #[error("this group is open: anyone who has a key may be a client. `clients only` closes it")]
    Open,
    /// There is no such client.
    #[error("the group lists no client with the key {0}")]
    NotListed(String),
    /// There is one already.
    #[error("the group lists the client {0} already, or it was given twice")]
    Listed(String),
    /// Nobody can sign by that.
    #[error("{0} is nobody's public key: `clients prepare` prints one")]
    NoKey(String),
    /// Nobody would be served.
    #[error("no client would be left: `clients open` lets in anyone who has a key")]
    Nobody,
    /// No group can be like that.
    #[error("no group can be like that: {0}")]
    Bad(BadConfiguration),
}

/// The change after which others may be clients. Members and administrators need not be listed.
///
/// # Errors
/// [`CannotAdmit`]
pub fn admit(shown: &Shown, wanted: Admitting<'_>, terms: &Terms) -> Result<Change, CannotAdmit> {
    let mut change = unaltered(shown, terms);
    change.next.access = match wanted {
        Admitting::Everyone => Access::Open,
        Admitting::Only(clients) => listed(Vec::new(), clients)?,
        Admitting::Altered { joins, leaves } => {
            let Access::Only(mut clients) = change.next.access else {
                return Err(CannotAdmit::Open);
            };
            for leaver in leaves {
                let at = clients.iter().position(|client| client == leaver);
                clients.remove(at.ok_or_else(|| CannotAdmit::NotListed(hex::encode(leaver.0)))?);
            }
            listed(clients, joins)?
        }
    };
    change.next.check().map_err(CannotAdmit::Bad)?;
    Ok(change)
}

/// These clients, and others.
fn listed(mut clients: Vec<ClientId>, others: &[ClientId]) -> Result<Access, CannotAdmit> {
    for other in others {
        if clients.contains(other) {
            return Err(CannotAdmit::Listed(hex::encode(other.0)));
        }
        if channel_public(&other.0).is_none() {
            return Err(CannotAdmit::NoKey(hex::encode(other.0)));
        }
        clients.push(*other);
    }
    match clients.is_empty() {
        true => Err(CannotAdmit::Nobody),
        false => Ok(Access::only(clients)),
    }
}

/// In which of its parts a change differs from the present configuration, beside the keys by which
/// members sign, which are always new.
#[must_use]
pub fn differences(current: &Configuration, change: &Change) -> Vec<&'static str> {
    let next = &change.next;
    let who = |it: &Configuration| -> (_, Vec<_>) {
        let members = it.members.iter().map(|member| (member.id, member.identity));
        (it.next_member, members.collect())
    };
    let secret = |it: &Configuration| -> (_, Vec<_>) {
        (it.secret, it.members.iter().map(|member| member.sealed).collect())
    };
    let places = |it: &Configuration| -> Vec<_> {
        it.members.iter().map(|member| member.address.clone()).collect()
    };
    // All that is not compared by name: nothing that a change alters may go unseen.
    let mut rest = current.clone();
    rest.number = next.number;
    rest.members.clone_from(&next.members);
    rest.next_member = next.next_member;
    rest.administrators.clone_from(&next.administrators);
    rest.access.clone_from(&next.access);
    (rest.f, rest.secret, rest.facts) = (next.f, next.secret, next.facts);
    rest.requests = next.requests;
    rest.protocol.clone_from(&next.protocol);
    let parts = [
        ("members", who(next) == who(current)),
        ("addresses", places(next) == places(current)),
        ("administrators", next.administrators == current.administrators),
        ("clients", next.access == current.access),
        ("f", next.f == current.f),
        ("protocol", (&next.protocol, &next.facts) == (&current.protocol, &current.facts)),
        ("secret", secret(next) == secret(current)),
        ("request authentication", next.requests == current.requests),
        ("settings", rest == *next),
    ];
    parts.into_iter().filter(|(_, same)| !same).map(|(part, _)| part).collect()
}

/// Whether a configuration is what a change makes: members that were ready have other keys.
#[must_use]
pub fn is_made_by(configuration: &Configuration, change: &Change) -> bool {
    configuration.number == change.next.number && differences(configuration, change).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{GroupOptions, NewCluster, NewMember};
    use pentarchy_core::ids::Epoch;
    use pentarchy_crypto::signing_keys::SharedSigningKeys;
    use pentarchy_crypto::verifier::RequestMode;
    use pentarchy_protocols::{DEFAULT, EXAMPLES};

    const TERMS: Terms = Terms::new(Duration::from_secs(60));

    fn group(request_auth: RequestMode) -> NewCluster {
        let addresses = [0, 1, 2].map(|id| format!("10.0.0.{id}:7000"));
        let options = GroupOptions { request_auth, ..GroupOptions::default() };
        NewCluster::generate(&addresses, &options)
    }

    fn shown(configuration: Configuration) -> Shown {
        let (epoch, time, withdrawn) = (Epoch(0), Millis(5), 0);
        Shown { epoch, time, configuration, withdrawn, pending: None, proposed: Vec::new() }
    }

    /// The secret that these can read, if all read the same one.
    fn read(keys: &[SharedSigningKeys], next: &Configuration) -> Option<[u8; 32]> {
        let mut all = keys.iter().map(|keys| Some(*keys.lock().secret_of(next)?.as_bytes()));
        let first = all.next()??;
        all.all(|other| other == Some(first)).then_some(first)
    }

    #[test]
    fn members_that_come_or_stay_can_read_the_next_secret_and_others_cannot() {
        let group = group(RequestMode::Session);
        let keys: Vec<_> = group.replicas.iter().map(|it| it.signing.clone()).collect();
        let new = NewMember::generate(group.config.group, "10.0.0.9:7000").expect("an address");
        let first = group.config.configuration();
        let cards = [new.card().clone()];
        let wanted = Alteration { joins: &cards, leaves: &[MemberId(1)], ..Alteration::default() };
        let change = alter(&shown(first.clone()), &wanted, &TERMS).expect("it can be");
        let there = [keys[0].clone(), keys[2].clone(), new.signing().clone()];
        let secret = read(&there, &change.next).expect("all read the same");
        assert_ne!(secret, *group.group_secret.as_bytes());
        assert!(keys[1].lock().secret_of(&change.next).is_none(), "it has left");
        // Clients convince devices that have the next secret.
        let key = session::public_key(&secret);
        assert_eq!(change.next.requests, RequestMeans::Session(key));
        let parts = ["members", "addresses", "secret", "request authentication"];
        assert_eq!(differences(&first, &change), parts);
        // An administrator who alters only what is sealed is seen, too.
        let mut altered = change.clone();
        altered.next.members[0].sealed = altered.next.members[1].sealed;
        assert_eq!(differences(&change.next, &altered), ["secret"]);
    }

    #[test]
    fn a_card_brings_a_machine_into_its_own_group_alone() {
        let [own, other] = [(); 2].map(|()| group(RequestMode::Signature).config);
        let alters = |of: &ClusterConfig, with: &ClusterConfig| {
            let new = NewMember::generate(with.group, "10.0.0.9:7000").expect("an address");
            let cards = [new.card().clone()];
            let wanted = Alteration { joins: &cards, ..Alteration::default() };
            alter(&shown(of.configuration()), &wanted, &TERMS).map(|change| change.needed.len())
        };
        assert_eq!(alters(&own, &own), Ok(1));
        let foreign = CannotAlter::OtherGroup("10.0.0.9:7000".to_owned());
        assert_eq!(alters(&own, &other), Err(foreign));
    }

    #[test]
    fn devices_share_another_secret_after_a_refresh_or_a_time_without_them() {
        let group = group(RequestMode::Session);
        let keys: Vec<_> = group.replicas.iter().map(|it| it.signing.clone()).collect();
        let first = group.config.configuration();
        let next = refresh(&shown(first.clone()), &TERMS).next;
        assert!(next.secret.is_some() && read(&keys, &next).is_some());
        assert_ne!(read(&keys, &next), read(&keys, &first));
        let apart = Terms { counter: CounterPlace::Process, ..TERMS };
        let kept = refresh(&shown(first.clone()), &apart).next;
        assert_eq!((kept.secret, kept.requests), (None, first.requests));

        let switch = |from: &Configuration, protocol, terms: &Terms| {
            let session_key = group.config.session_key;
            let wanted = Some(Switch { protocol, session_key });
            let wanted = Alteration { switch: wanted, f: Some(0), ..Alteration::default() };
            alter(&shown(from.clone()), &wanted, terms)
        };
        let (with, without) = (DEFAULT.rules.name, EXAMPLES.signed.rules.name);
        let away = switch(&next, without, &TERMS).expect("it can be").next;
        assert_eq!((away.secret, away.requests), (next.secret, RequestMeans::Signature));
        let back = switch(&away, with, &TERMS).expect("it can be").next;
        let secret = read(&keys, &back).expect("all read the same");
        assert_ne!(Some(secret), read(&keys, &next));
        assert_eq!(back.requests, RequestMeans::Session(session::public_key(&secret)));
        let refused = switch(&away, with, &apart).map(|_| ());
        assert_eq!(refused, Err(CannotAlter::CounterProcesses(with.to_owned())));
        let away = switch(&first, without, &apart).expect("it can be").next;
        let back = switch(&away, with, &apart).expect("nobody came or went").next;
        assert_eq!((back.secret, back.requests), (None, first.requests));
    }
}
