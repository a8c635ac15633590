//! What all protocols say of themselves, and the tables that are made of it.

use super::swarm::factories_of;
use super::toy;
use pentarchy_core::mutant::MUTANTS;
use pentarchy_core::protocol::FaultModel;
use pentarchy_core::quorum::{ClientQuorums, QuorumRule, Quorums};
use pentarchy_protocols::{
    BASELINE, DEFAULT, Descriptor, EXAMPLES, Examples, PROTOCOLS, Status, find, in_pillars,
    of_mutant,
};
use pentarchy_sim::rng::Rng;
use pentarchy_sim::run::run_seed;
use pentarchy_sim::swarm::{Options, SimConfig};
use std::collections::BTreeSet;
use std::path::Path;

/// Every protocol, and one that only tests know.
pub fn every() -> impl Iterator<Item = &'static Descriptor> {
    PROTOCOLS.iter().copied().chain([&toy::DESCRIPTOR])
}

#[test]
fn a_name_is_of_one_protocol() {
    let names: BTreeSet<&str> = every().map(|it| it.rules.name).collect();
    assert_eq!(names.len(), every().count());
    for protocol in PROTOCOLS {
        let name = protocol.rules.name;
        assert_eq!(find(name).map(|it| it.rules.name), Some(name));
        let whole = protocol.split.and_then(|split| in_pillars(split.whole));
        assert_eq!(whole.map(|it| it.rules.name), protocol.rules.pillars.then_some(name));
    }
}

/// Among those who confirmed a result and those who answer a query there is a correct one, and the
/// correct ones are enough for a result.
#[test]
fn clients_of_every_protocol_believe_enough() {
    for Descriptor { rules, .. } in every() {
        for f in 0..=4 {
            let f = if rules.tolerates_faults() { f } else { 0 };
            let group = Quorums { n: rules.replicas(f), f };
            let ClientQuorums { replies, answers, .. } = rules.client_quorums(group);
            let (n, name) = (group.n, rules.name);
            let liars = if rules.fault_model.lies() { f } else { 0 };
            assert!(rules.quorum.works_in(group), "{name} {f}");
            assert!(replies > liars && replies <= n - f && answers <= n, "{name} {f}");
            assert!(replies + answers > n + liars, "{name} {f}");
        }
    }
    let enough = |protocol: &Descriptor, f| {
        let rules = protocol.rules;
        let quorums = rules.client_quorums(Quorums { n: rules.replicas(f), f });
        (quorums.replies, quorums.answers)
    };
    assert_eq!([enough(DEFAULT, 1), enough(DEFAULT, 2)], [(2, 3), (3, 5)], "all of 2f + 1");
    let signed = EXAMPLES.signed;
    assert_eq!([enough(signed, 1), enough(signed, 2)], [(3, 3), (5, 5)]);
    let large = PROTOCOLS.iter().find(|it| it.rules.group_size.per_fault == 5);
    assert_eq!(enough(large.expect("it is there"), 1), (3, 5));
    assert_eq!(enough(BASELINE, 0), (1, 1));
}

/// Quorums that share no correct member are enough only where devices, or the fault model, keep
/// replicas from saying two things.
#[test]
fn what_is_assumed_fits_together() {
    for Descriptor { rules, .. } in every() {
        let needs_one = rules.fault_model == FaultModel::Hybrid;
        assert!(!needs_one || rules.counter.is_some(), "{} has no device to trust", rules.name);
        let is_byzantine = rules.fault_model == FaultModel::Byzantine;
        assert!(!is_byzantine || rules.quorum == QuorumRule::Byzantine, "{}", rules.name);
    }
}

#[test]
fn every_seeded_bug_of_a_protocol_is_looked_for_there() {
    for protocol in PROTOCOLS {
        for claimed in protocol.mutants {
            let own = |name: &str| of_mutant(name).rules.name == protocol.rules.name;
            let any = MUTANTS.iter().any(|it| own(it.name));
            assert!(any || find(claimed).is_some(), "{claimed}");
        }
    }
    let place = |name| of_mutant(name).rules.name;
    let in_pillars = |whole: &Descriptor| in_pillars(whole.rules.name).map(|it| it.rules.name);
    assert_eq!(Some(place("pillars.statements-shared")), in_pillars(EXAMPLES.signed));
    assert_eq!(Some(place("pillars.hears-others")), in_pillars(EXAMPLES.split));
    assert_eq!(place("ingress.mac-not-checked"), EXAMPLES.macs.rules.name);
    assert_eq!(place("executor.clients-not-rolled-back"), EXAMPLES.speculative.rules.name);
    assert_ne!(place("usig.shows-commitments-only"), place("usig.hides-entry"));
    assert_eq!(place("usig.hides-entry"), DEFAULT.rules.name);
    assert_eq!(place("client.believes-f"), DEFAULT.rules.name);
}

/// Examples are what they are taken for.
#[test]
fn there_is_an_example_of_each_kind() {
    let Examples { split, signed, macs, speculative } = EXAMPLES;
    for example in [DEFAULT, split, signed, macs, speculative] {
        assert!(example.is_for_users(), "{example:?}");
    }
    for it in [split, signed, macs] {
        assert!(in_pillars(it.rules.name).is_some() && !it.rules.speculative, "{it:?}");
    }
    assert!(in_pillars(DEFAULT.rules.name).is_none() && DEFAULT.status == Status::Stable);
    assert!(DEFAULT.rules.trusts_devices() && split.rules.trusts_devices());
    assert!(signed.rules.counter.is_none() && macs.rules.counter.is_some());
    assert_eq!(macs.rules.group_size, signed.rules.group_size);
    assert!(speculative.rules.speculative && !DEFAULT.rules.speculative);
    assert!(!BASELINE.rules.tolerates_faults() && !BASELINE.is_for_users());
}

/// A replica that at most crashes tells no lies: none is drawn. Otherwise its worlds are like
/// those of others.
#[test]
fn a_protocol_is_added_by_its_descriptor() {
    let (toy, factories) = (&toy::DESCRIPTOR, factories_of(&toy::DESCRIPTOR));
    let config = SimConfig { requests: 100, ..SimConfig::default() };
    let lies =
        |rules, seed| !Options::draw(&mut Rng::new(seed), &config, rules).byzantine.is_empty();
    assert!((0..100).all(|seed| !lies(&toy.rules, seed)));
    assert!((0..100).any(|seed| lies(&DEFAULT.rules, seed)));
    for seed in 0..4 {
        let summary = run_seed(seed, &config, &factories).unwrap_or_else(|why| panic!("{why}"));
        assert!(summary.slots > 0, "seed {seed}");
    }
}

#[test]
fn every_page_is_there() {
    for protocol in PROTOCOLS {
        let Some(page) = protocol.page else { continue };
        let (file, section) = page.split_once('#').unwrap_or((page, ""));
        let path = root().join("docs/protocols").join(file);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{file}: {why}"));
        let sections = text.lines().filter(|line| line.starts_with('#'));
        let anchors = sections.map(|line| line.trim_start_matches(['#', ' ']).to_lowercase());
        let mut anchors = anchors.map(|line| line.replace(' ', "-"));
        assert!(section.is_empty() || anchors.any(|it| it == section), "{page}");
    }
}

/// `UPDATE=1` rewrites the tables.
#[test]
fn tables_in_documents_are_those_of_the_descriptors() {
    let users = PROTOCOLS.iter().filter(|it| it.is_for_users());
    let head = "| `up --protocol` | replicas | trusted counter | | paper |\n\
                | --- | --- | --- | --- | --- |\n";
    let table: String = users.map(|it| for_users(it)).collect();
    check_table("README.md", "", &format!("{head}{table}"));
    let head = "//! | name | replicas | what |\n//! | --- | --- | --- |\n";
    let table: String = PROTOCOLS.iter().map(|it| for_programmers(it)).collect();
    check_table("crates/protocols/src/lib.rs", "//! ", &format!("{head}{table}"));
}

fn for_users(protocol: &Descriptor) -> String {
    let Descriptor { rules, about, paper, .. } = protocol;
    let page = protocol.page.expect("users can read about it");
    let counter = rules.counter.map_or("none", |counter| counter.name());
    let young = if protocol.status == Status::Young { "; **young**" } else { "" };
    let name = format!("[`{}`](docs/protocols/{page})", rules.name);
    format!("| {name} | `{}` | {counter} | {about}{young} | {paper} |\n", rules.group_size)
}

fn for_programmers(protocol: &Descriptor) -> String {
    let Descriptor { rules, about, .. } = protocol;
    let status = match protocol.status {
        Status::Stable | Status::Young => "",
        Status::Comparator => "; for benchmarks",
        Status::Museum => "; for the museum",
    };
    format!("//! | `{}` | `{}` | {about}{status} |\n", rules.name, rules.group_size)
}

/// The table that begins with these two lines is this one.
fn check_table(path: &str, comment: &str, expected: &str) {
    let path = root().join(path);
    let text = std::fs::read_to_string(&path).expect("a document");
    let head = expected.lines().next().expect("a table has a head");
    let start = text.find(head).unwrap_or_else(|| panic!("{}: no {head}", path.display()));
    let is_row = |line: &&str| line.starts_with(&format!("{comment}|"));
    let length: usize = text[start..].split_inclusive('\n').take_while(is_row).map(str::len).sum();
    let found = &text[start..start + length];
    if found != expected && std::env::var_os("UPDATE").is_some() {
        let new = [&text[..start], expected, &text[start + length..]].concat();
        std::fs::write(&path, new).expect("a document can be written");
        return;
    }
    assert_eq!(found, expected, "{}: UPDATE=1 writes what it should be", path.display());
}

fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
