//! Worlds about changing the primary: `SEEDS=1000 PROTOCOL=minbft cargo test --release -p
//! pentarchy-protocols --test it changes` runs more of them.

use crate::swarm::{bound, factories_of, jobs, swept};
use pentarchy_core::mutant;
use pentarchy_core::protocol::FaultModel;
use pentarchy_protocols::{DEFAULT, Descriptor, EXAMPLES, PROTOCOLS};
use pentarchy_sim::run::{run_many, run_seed};
use pentarchy_sim::swarm::{SimConfig, Theme};

fn config(theme: Theme) -> SimConfig {
    let f = (theme == Theme::Changes).then_some(1);
    SimConfig { requests: 200, f, theme: Some(theme), ..SimConfig::default() }
}

fn seeds(release: u64) -> u64 {
    let asked = std::env::var("SEEDS").ok().and_then(|text| text.parse().ok());
    asked.unwrap_or_else(|| bound(release))
}

fn survive(theme: Theme, worlds: u64) {
    for entry in swept() {
        let protocol = entry.rules.name;
        let mut broken = Vec::new();
        run_many(0..seeds(worlds), jobs(), &config(theme), &factories_of(entry), |outcome| {
            broken.extend(outcome.as_ref().err().map(ToString::to_string));
            broken.len() < 5
        });
        assert!(broken.is_empty(), "{protocol}:\n{}", broken.join("\n"));
    }
}

#[test]
fn groups_survive_changes_of_their_primary() {
    survive(Theme::Changes, 8);
}

#[test]
fn groups_survive_views_that_fail_by_exact_minorities() {
    survive(Theme::Minorities, 4);
}

#[test]
fn groups_survive_changes_of_themselves() {
    survive(Theme::Reconfiguration, 12);
}

/// A liar is ready with the key that another member has just named. Worlds of all kinds show it
/// once in several thousand.
#[test]
fn a_member_that_names_the_key_of_another_is_found() {
    let (config, factories) = (config(Theme::Reconfiguration), factories_of(EXAMPLES.split));
    let run = || run_seed(0xb1, &config, &factories).map_err(|it| it.broken.property);
    assert!(run().is_ok());
    let bug = Some("changing.possession-not-checked");
    assert_eq!(mutant::with(bug, run).err(), Some("configuration"));
}

/// Two rules about requests when the next configuration begins. The last request of an epoch and
/// others may come in one round, and the next configuration may not list their clients: a replica
/// checks the others once more. A member that was not ready keeps its key: MACs that a client made
/// for the configuration before do not convince that member either.
#[test]
fn requests_for_the_configuration_before_are_found() {
    let config = SimConfig { requests: 60, ..config(Theme::Reconfiguration) };
    for (bug, entry, seed) in [
        ("epochs.checked-in-the-one-before", EXAMPLES.split, 0x1_65a0_f728),
        ("request.macs-outlast-configuration", of_crash_mode(), 0x1_65a1_02f7),
    ] {
        let run = || run_seed(seed, &config, &factories_of(entry)).map_err(|it| it.broken.property);
        assert_eq!(run().err(), None, "without {bug}");
        assert_eq!(mutant::with(Some(bug), run).err(), Some("acceptance"), "{bug}");
    }
}

fn of_crash_mode() -> &'static Descriptor {
    let tolerates_crashes = |it: &&&Descriptor| it.rules.fault_model == FaultModel::Crash;
    PROTOCOLS.iter().find(tolerates_crashes).expect("there is one")
}

/// The first of so many worlds that a seeded bug breaks, and what names it.
fn found(
    protocol: &'static Descriptor,
    mutant: &'static str,
    worlds: u64,
) -> Option<(u64, &'static str)> {
    let (config, factories) = (config(Theme::Changes), factories_of(protocol));
    mutant::with(Some(mutant), || {
        (0..worlds).find_map(|seed| {
            let violation = run_seed(seed, &config, &factories).err()?;
            Some((seed, violation.broken.property))
        })
    })
}

/// In whatever protocol.
#[test]
fn a_replica_without_a_timer_is_found() {
    for protocol in swept() {
        let name = protocol.rules.name;
        let found = |mutant| found(protocol, mutant, 4).map(|(_, property)| property);
        assert_eq!(found("frame.waits-untimed-for-a-quorum"), Some("panic"), "{name}");
        // The core believes that it has one.
        assert_eq!(found("frame.trusts-new-primary"), Some("moving_on"), "{name}");
    }
}

/// The liar keeps what a correct replica asked for in a bad moment, and plays it long after.
#[test]
fn asks_that_nobody_stands_by_are_found() {
    for protocol in [DEFAULT, EXAMPLES.split, EXAMPLES.speculative] {
        let found = found(protocol, "frame.old-asks-count", 40);
        let property = found.map(|(_, property)| property);
        assert_eq!(property, Some("deposition"), "{}: {found:?}", protocol.rules.name);
    }
}
