//! The protocols that can be run, by name.

use pentarchy_core::configuration::Configuration;
use pentarchy_core::limits::{PILLARS_MAX, REPLICAS_MAX};
use pentarchy_core::membership::PillarConfig;
use pentarchy_core::mutant;
use pentarchy_protocols::{Descriptor, PROTOCOLS, Status};

/// What to say to whoever chooses a protocol that has not proved itself yet, whole or in pillars.
#[must_use]
pub fn warning(name: &str, lane: PillarConfig) -> Option<String> {
    if in_lane(name, lane)?.status != Status::Young {
        return None;
    }
    let what = if lane.pillars == 1 { name.to_owned() } else { format!("{name} in pillars") };
    Some(format!(
        "warning: {what} is young: it lacks tests or reviews that its page in docs/protocols \
         names. Try it, and do not bet a service on it yet"
    ))
}

/// What to say to whoever chooses a protocol whose faulty replicas may not do anything they like.
/// One that trusts devices says in its page what it trusts them with.
#[must_use]
pub fn assumption(name: &str) -> Option<String> {
    let rules = find(name)?.rules;
    let lies = rules.fault_model.lies();
    (!lies).then(|| {
        format!(
            "note: {name} tolerates replicas that stop, and none that lies: whoever takes over one \
             of them, or a bug that has one say what is not so, can make the others lose or change \
             what they have"
        )
    })
}

/// The names of those on which a service may run, as after `--protocol`.
pub fn names() -> impl Iterator<Item = &'static str> {
    PROTOCOLS.iter().filter(|entry| entry.is_for_users()).map(|entry| entry.rules.name)
}

/// The protocol of this name, also if it is one to measure others against, and no service should
/// run on it. Not one that is known to be unsafe: that can be simulated, and nothing else. With its
/// order split it has no name of its own: see [`in_lane`].
#[must_use]
pub fn find(name: &str) -> Option<&'static Descriptor> {
    let can_run = |it: &&Descriptor| it.status != Status::Museum && !it.rules.pillars;
    pentarchy_protocols::find(name).filter(can_run)
}

/// The names of those whose order can be split into pillars.
pub fn names_in_pillars() -> impl Iterator<Item = &'static str> {
    names().filter(|name| pentarchy_protocols::in_pillars(name).is_some())
}

/// The protocol of this name with its order split like this: another core than without, whatever
/// it is called. `None` if there is none, as [`check_lane`] says.
#[must_use]
pub fn in_lane(name: &str, lane: PillarConfig) -> Option<&'static Descriptor> {
    let whole = find(name)?;
    check_lane(name, lane).ok()?;
    if lane.pillars == 1 { Some(whole) } else { pentarchy_protocols::in_pillars(name) }
}

/// The protocol of a configuration; none if this program has no such protocol, or means something
/// else by that name.
#[must_use]
pub fn of(stated: &Configuration) -> Option<&'static Descriptor> {
    let entry = in_lane(&stated.protocol, stated.lane);
    let by_name = mutant!("protocols.facts-not-compared");
    entry.filter(|entry| by_name || entry.rules.facts() == stated.facts)
}

/// Whether the order of this protocol can be split like this.
///
/// # Errors
/// Why not, and what could.
pub fn check_lane(name: &str, lane: PillarConfig) -> Result<(), String> {
    let PillarConfig { pillars, rotates, .. } = lane;
    let able: Vec<_> = names_in_pillars().collect();
    if !(1..=PILLARS_MAX).contains(&pillars) {
        return Err(format!("{pillars} pillars; 1 to {PILLARS_MAX} work"));
    }
    if pillars == 1 && rotates {
        return Err("with 1 pillar no leader rotates: say 2 or more".to_owned());
    }
    if pillars > 1 && !able.contains(&name) {
        let able = able.join(", ");
        return Err(format!("{name} cannot be split into pillars; what can: {able}"));
    }
    Ok(())
}

/// How many replicas a protocol needs to tolerate `f` faults. `None` if there is no such protocol,
/// or no group of that size.
#[must_use]
pub fn replicas_needed(name: &str, f: usize) -> Option<usize> {
    let entry = find(name)?;
    // One that is only measured may tolerate nothing.
    let least = usize::from(entry.is_for_users());
    (least..=REPLICAS_MAX)
        .contains(&f)
        .then(|| entry.rules.replicas(f))
        .filter(|n| *n <= REPLICAS_MAX)
}

/// Whether clients of this protocol may authenticate by session keys, which trusted devices check:
/// only where it has such devices.
#[must_use]
pub fn takes_sessions(name: &str) -> bool {
    find(name).is_some_and(|entry| entry.rules.trusts_devices())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{GroupOptions, NewCluster};
    use pentarchy_core::protocol::Rules;
    use pentarchy_core::quorum::Count;
    use pentarchy_protocols::DEFAULT;

    #[test]
    fn what_is_known_to_be_unsafe_cannot_be_run() {
        let named = |is: fn(&Descriptor) -> bool| -> Vec<&str> {
            PROTOCOLS.iter().filter(|entry| is(entry)).map(|entry| entry.rules.name).collect()
        };
        let unsafe_ones = named(|entry| entry.status == Status::Museum);
        assert_eq!(unsafe_ones, named(|entry| entry.about.ends_with("unsafe")));
        assert_eq!(unsafe_ones.len(), 2);
        for name in unsafe_ones {
            assert!(find(name).is_none() && replicas_needed(name, 1).is_none(), "{name}");
            assert!(names().all(|it| it != name), "{name}");
        }
    }

    #[test]
    fn who_chooses_a_protocol_without_liars_is_told() {
        for entry in PROTOCOLS {
            let said = assumption(entry.rules.name);
            let may_run = find(entry.rules.name).is_some();
            assert_eq!(said.is_some(), may_run && !entry.rules.fault_model.lies());
            assert!(said.is_none_or(|said| said.contains("none that lies")));
        }
        assert!(names().any(|name| assumption(name).is_some()));
    }

    #[test]
    fn what_can_be_split_is_called_by_its_own_name() {
        let split = |pillars, rotates| PillarConfig { pillars, rotates, pillar: None };
        let able: Vec<_> = names_in_pillars().collect();
        let inside = PROTOCOLS.iter().filter(|entry| entry.rules.pillars);
        assert_eq!(able.len(), inside.clone().count(), "each can be asked for");
        assert!(inside.map(|entry| entry.rules.name).all(|name| find(name).is_none()));
        for name in able {
            for lane in [split(2, false), split(PILLARS_MAX, true)] {
                let entry = in_lane(name, lane).expect("it can be split");
                let whole = find(name).expect("it has a name").rules;
                assert_eq!(Rules { name, pillars: false, ..entry.rules }, whole);
            }
            assert!(!in_lane(name, PillarConfig::default()).expect("it need not be").rules.pillars);
            let bad = [split(0, false), split(PILLARS_MAX + 1, false), split(1, true)];
            assert!(bad.into_iter().all(|lane| in_lane(name, lane).is_none()));
        }
        let whole = DEFAULT.rules.name;
        let able = names_in_pillars().collect::<Vec<_>>().join(", ");
        assert_eq!(
            check_lane(whole, split(2, false)).unwrap_err(),
            format!("{whole} cannot be split into pillars; what can: {able}")
        );
    }

    /// The group's members could run a version of the program in which one reply is enough.
    #[test]
    fn no_configuration_is_taken_that_means_something_else_by_a_protocol() {
        let addresses = [0, 1, 2].map(|id| format!("10.0.0.{id}:7000"));
        let NewCluster { config, .. } = NewCluster::generate(&addresses, &GroupOptions::default());
        let mut stated = config.configuration();
        assert!(of(&stated).is_some());
        stated.facts.replies = Count::per_fault_and_one(0);
        let is_taken = || of(&stated).is_some();
        assert!(!is_taken() && mutant::with(Some("protocols.facts-not-compared"), is_taken));
    }
}
