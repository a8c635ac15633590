//! How a group goes on that cannot by itself, because more than `f` of its members lost their
//! memory: its administrators sign from which saved state, and on which new machines
//! (`docs/decisions/0012-administrators-sign-how-a-lost-group-goes-on.md`).

use crate::administration::{Alteration, CannotAlter, Terms, altered};
use crate::card::Card;
use crate::config::ClusterConfig;
use pentarchy_core::auth::Signature;
use pentarchy_core::change::Shown;
use pentarchy_core::configuration::Configuration;
use pentarchy_core::epochs::{Handover, Proof, Witnesses};
use pentarchy_core::executor::Executor;
use pentarchy_core::ids::{Epoch, MemberId, Millis, ReplicaId};
use pentarchy_core::membership::{Base, Life};
use pentarchy_core::snapshot::Snapshot;
use pentarchy_core::wire::Malformed;
use pentarchy_crypto::keys::{KeyPair, is_signed_by};
use std::sync::Arc;
use std::time::Duration;

/// By so many epochs the group goes on later than the state knows. Members that are lost may have
/// seen some of them, and nothing that was said there is to mean anything any more.
const EPOCHS_LATER: u64 = 1 << 32;

/// Why administrators cannot have a group go on like that.
#[derive(Debug, thiserror::Error)]
pub enum CannotRescue {
    /// It is something else.
    #[error("that is no state of a replica, or of a group that administrators cannot change")]
    NoState,
    /// It is of another group, or the group has changed since.
    #[error(
        "the state is of configuration {state} of its group, and the files describe configuration \
         {known} of theirs. If it is the same group, write cluster.chain anew from the folder of \
         the replica that had the state: pentarchy config export --data. If it is and the group \
         was just about to change, take an older state: pentarchy snapshot save --last-checkpoint"
    )]
    OtherConfiguration {
        /// The number of the state's.
        state: u64,
        /// The number of the files'.
        known: u64,
    },
    /// Too few machines, or too many, or one that was a member before.
    #[error(transparent)]
    Machines(#[from] CannotAlter),
    /// Nobody knows what its device has certified.
    #[error("the machine at {0} was a member before: prepare its keys anew")]
    Former(String),
    /// It says two things, or is not for the group as the files describe it.
    #[error(
        "that does not say how configuration {0} of this group ended: take cluster.toml and \
         cluster.chain as whoever wrote it had them, and the file as it was written"
    )]
    OtherLink(u64),
    /// Somebody has signed something else, or altered the file.
    #[error("the signature of administrator {0} is none of what the file says")]
    BadSignature(u16),
    /// It goes on from something else.
    #[error("the group would go on from another state than the one that was given")]
    OtherState,
    /// Somebody else's key.
    #[error("this key is no administrator's of the group")]
    NoAdministrator,
    /// Nobody may change this group.
    #[error("this group has no administrators: begin another one with the state")]
    Ungoverned,
}

/// Says how the group goes on, for administrators to sign: as these machines, from this state. The
/// state replaces whatever other replicas have executed after it.
///
/// # Errors
/// [`CannotRescue`]
pub fn rescue(
    config: &ClusterConfig,
    state: &Snapshot,
    cards: &[Card],
    f: Option<u16>,
) -> Result<Proof, CannotRescue> {
    if config.administrators.keys.is_empty() {
        return Err(CannotRescue::Ungoverned);
    }
    let (epoch, stated) = group_of(state)?;
    let current = config.configuration();
    if stated.agreed() != current.agreed() {
        let (state, known) = (stated.number, current.number);
        return Err(CannotRescue::OtherConfiguration { state, known });
    }
    if let Some(former) = cards.iter().find(|card| config.has_had(&card.identity)) {
        return Err(CannotRescue::Former(former.address.clone()));
    }
    let leaves: Vec<MemberId> = current.members.iter().map(|member| member.id).collect();
    let shown = Shown {
        epoch,
        time: Millis(0),
        configuration: current,
        withdrawn: 0,
        pending: None,
        proposed: Vec::new(),
    };
    let wanted = Alteration { joins: cards, leaves: &leaves, f, ..Alteration::default() };
    let terms = Terms { counter: config.counter, ..Terms::new(Duration::ZERO) };
    let next = altered(&shown, &wanted, &terms)?.next;
    let life = |card: &Card| Life { incarnation: card.device, ..Life::default() };
    let lives = cards.iter().map(life).collect();
    let epoch = Epoch(epoch.0.saturating_add(EPOCHS_LATER));
    let mut handover = Handover { epoch, base: Base::default(), lives, next: Some(next.digest()) };
    handover.base = base(state, &next, &handover)?;
    let (next, by) = (Some(Arc::new(next)), Witnesses::Administrators);
    Ok(Proof { handover, next, by, signatures: Vec::new() })
}

/// With what a configuration begins that adopts this state when the epoch ends so.
fn base(state: &Snapshot, next: &Configuration, handover: &Handover) -> Result<Base, CannotRescue> {
    let adopted = Executor::adopted(state, Arc::new(next.after(handover)));
    let adopted = adopted.map_err(|_| CannotRescue::NoState)?;
    Ok(Base { slot: adopted.slot, state: adopted.digest })
}

/// Of which epoch and configuration a state is.
fn group_of(state: &Snapshot) -> Result<(Epoch, Configuration), CannotRescue> {
    let read = Executor::group_of(state)
        .and_then(|(epoch, stated)| stated.map(|stated| (epoch, stated)).ok_or(Malformed));
    read.map_err(|_| CannotRescue::NoState)
}

/// Whether what others may have signed is how the last configuration of this group ended, and says
/// one thing.
///
/// # Errors
/// [`CannotRescue::OtherLink`] and [`CannotRescue::BadSignature`]
pub fn check(config: &ClusterConfig, link: &Proof) -> Result<(), CannotRescue> {
    let membership = config.membership();
    let is_link = link.by == Witnesses::Administrators && link.next.is_some();
    let is_next = link.handover.epoch >= membership.epoch && link.names_a_life_each(&membership);
    if !(is_link && is_next) {
        return Err(CannotRescue::OtherLink(config.number()));
    }
    let statement = link.handover.rescue(&membership);
    let bad = link.signatures.iter().find(|(place, signature)| {
        let key = config.administrators.keys.get(usize::from(place.0));
        key.is_none_or(|key| !is_signed_by(key, &statement, &signature.0))
    });
    bad.map_or(Ok(()), |(place, _)| Err(CannotRescue::BadSignature(place.0 + 1)))
}

/// Whether the group would go on from this state.
///
/// # Errors
/// [`CannotRescue`]
pub fn compare(link: &Proof, state: &Snapshot) -> Result<(), CannotRescue> {
    let next = link.next.as_ref().ok_or(CannotRescue::NoState)?;
    let is_it = base(state, next, &link.handover)? == link.handover.base;
    is_it.then_some(()).ok_or(CannotRescue::OtherState)
}

/// An administrator signs it.
///
/// # Errors
/// [`CannotRescue::NoAdministrator`], and as [`check`]
pub fn sign(config: &ClusterConfig, link: &mut Proof, keys: &KeyPair) -> Result<(), CannotRescue> {
    check(config, link)?;
    let mut known = config.administrators.keys.iter();
    let place = known.position(|key| *key == keys.public());
    let place = ReplicaId(place.ok_or(CannotRescue::NoAdministrator)? as u16);
    let statement = link.handover.rescue(&config.membership());
    link.signatures.retain(|(other, _)| *other != place);
    link.signatures.push((place, Signature(keys.sign(&statement))));
    link.signatures.sort_by_key(|(place, _)| *place);
    Ok(())
}

/// How many more administrators have to sign.
#[must_use]
pub fn lacks(config: &ClusterConfig, link: &Proof) -> usize {
    usize::from(config.administrators.threshold).saturating_sub(link.signatures.len())
}

impl ClusterConfig {
    /// The state with which its last configuration begins, if administrators said so of a group
    /// that was lost.
    #[must_use]
    pub fn rescued_from(&self) -> Option<Base> {
        let last = self.later.as_ref()?.links.last()?;
        (last.by == Witnesses::Administrators).then_some(last.handover.base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{GroupOptions, NewCluster, NewMember};
    use pentarchy_core::digest::Digest;
    use pentarchy_core::ids::Slot;
    use pentarchy_core::mutant;
    use pentarchy_core::service::{Context, Service, SmallService, Whole};
    use pentarchy_core::wire::Wire as _;

    struct Nothing;

    impl SmallService for Nothing {
        fn execute(&mut self, _: &Context, _: &[u8]) -> Vec<u8> {
            Vec::new()
        }
        fn query(&self, _: &[u8]) -> Vec<u8> {
            Vec::new()
        }
        fn save(&self) -> Vec<u8> {
            Vec::new()
        }
        fn load(&mut self, _: &[u8]) -> Result<(), Malformed> {
            Ok(())
        }
    }

    fn group() -> NewCluster {
        let options = GroupOptions { administrators: 3, ..GroupOptions::default() };
        NewCluster::generate(&[0, 1, 2].map(|id| format!("10.0.0.{id}:7000")), &options)
    }

    /// What a replica of the group has.
    fn state(config: &ClusterConfig) -> Snapshot {
        let service: Box<dyn Service> = Box::new(Whole::new(Nothing));
        let mut executor = Executor::new(Arc::new(config.membership()), service);
        executor.checkpoint();
        executor.snapshot(Slot(0)).expect("it was made").clone()
    }

    fn cards(of: &ClusterConfig, n: u16) -> Vec<Card> {
        let new = |id| NewMember::generate(of.group, &format!("10.0.1.{id}:7000"));
        (0..n).map(|id| new(id).expect("an address").card().clone()).collect()
    }

    #[test]
    fn enough_administrators_have_a_group_go_on_elsewhere() {
        let NewCluster { config, administrator_keys: keys, .. } = group();
        let (state, cards) = (state(&config), cards(&config, 3));
        let mut link = rescue(&config, &state, &cards, None).expect("three machines for three");
        assert_eq!(lacks(&config, &link), 2);
        sign(&config, &mut link, &keys[2]).expect("an administrator");
        sign(&config, &mut link, &keys[2]).expect("the same one");
        assert_eq!(lacks(&config, &link), 1);
        assert!(config.follow(std::slice::from_ref(&link)).is_err());
        let stranger = sign(&config, &mut link.clone(), &KeyPair::generate());
        assert!(matches!(stranger, Err(CannotRescue::NoAdministrator)));
        sign(&config, &mut link, &keys[0]).expect("an administrator");
        let led = config.follow(std::slice::from_ref(&link)).expect("two of three signed");
        let addresses: Vec<_> = led.replicas.iter().map(|it| it.address.as_str()).collect();
        assert_eq!(addresses, ["10.0.1.0:7000", "10.0.1.1:7000", "10.0.1.2:7000"]);
        // Who shows that over the network may have made it up with administrators of another time.
        let shown = || config.follow_shown(std::slice::from_ref(&link)).is_ok();
        assert!(!shown() && mutant::with(Some("following.rescue-shown"), shown));
        assert_eq!(led.follow_shown(std::slice::from_ref(&link)).as_ref(), Ok(&led), "known");
        let base = led.rescued_from().expect("that is how it began");
        let adopted = Executor::adopted(&state, Arc::new(led.membership())).expect("a state");
        assert_eq!((base.slot, base.state), (Slot(0), adopted.digest));
        compare(&link, &state).expect("that is the state");
        // The administrators have signed that, and nothing else.
        let mut other = link.clone();
        other.handover.base.state = Digest([1; 32]);
        assert!(config.follow(&[other]).is_err());
        let mut other = link.clone();
        other.by = Witnesses::Members;
        assert!(config.follow(&[other]).is_err());
        let same = Proof::from_bytes(&link.to_bytes());
        assert_eq!(same.as_ref(), Ok(&link));
        // It is over for the group as it was, and for the one that it becomes.
        assert_eq!(led.follow(std::slice::from_ref(&link)).as_ref(), Ok(&led));
        let again = rescue(&led, &state, &cards, None);
        assert!(matches!(again, Err(CannotRescue::OtherConfiguration { state: 0, known: 1 })));
    }

    /// One administrator shows another one something else than what would be signed.
    #[test]
    fn nobody_signs_what_says_two_things_or_is_of_another_time() {
        let NewCluster { config, administrator_keys: keys, .. } = group();
        let state = state(&config);
        let of_three = || rescue(&config, &state, &cards(&config, 3), None);
        let shown = of_three().expect("three machines");
        let meant = of_three().expect("three others");
        let mut mixed = Proof { handover: meant.handover.clone(), ..shown.clone() };
        let refused = |link: &mut Proof, of: &ClusterConfig| sign(of, link, &keys[0]).unwrap_err();
        assert!(matches!(refused(&mut mixed, &config), CannotRescue::OtherLink(0)));
        let mut signed = shown.clone();
        sign(&config, &mut signed, &keys[1]).expect("an administrator");
        let mut altered = Proof { signatures: signed.signatures.clone(), ..meant };
        assert!(matches!(refused(&mut altered, &config), CannotRescue::BadSignature(2)));
        sign(&config, &mut signed, &keys[0]).expect("an administrator");
        let led = config.follow(std::slice::from_ref(&signed)).expect("two signed");
        assert!(matches!(refused(&mut signed, &led), CannotRescue::OtherLink(1)));
        let mut other = signed.clone();
        other.handover.base.state = Digest([1; 32]);
        assert!(matches!(compare(&other, &state), Err(CannotRescue::OtherState)));
    }

    #[test]
    fn what_no_group_can_be_is_refused() {
        let NewCluster { config, .. } = group();
        let state = state(&config);
        let refused = |cards: &[Card]| rescue(&config, &state, cards, None).expect_err("no group");
        let other = group().config;
        let foreign = refused(&cards(&other, 3));
        assert!(matches!(foreign, CannotRescue::Machines(CannotAlter::OtherGroup(_))));
        let cards = |n| cards(&config, n);
        assert!(matches!(refused(&cards(2)), CannotRescue::Machines(CannotAlter::Bad(_))));
        let found = rescue(&other, &state, &cards(3), None);
        assert!(matches!(found, Err(CannotRescue::OtherConfiguration { .. })));
        let none = ClusterConfig { administrators: Default::default(), ..config.clone() };
        assert!(matches!(rescue(&none, &state, &cards(3), None), Err(CannotRescue::Ungoverned)));
    }
}
