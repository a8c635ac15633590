//! What all protocols say of themselves, and the tables that are made of it.

use super::swarm::factories_of;
use super::toy;
use pentarchy_core::mutant::MUTANTS;
use pentarchy_core::protocol::FaultModel;
use pentarchy_core::quorum::{ClientQuorums, QuorumRule, Quorums};
use pentarchy_protocols::{DEFAULT, Descriptor, PROTOCOLS, Status, find, in_pillars, of_mutant};
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
            assert!(rules.quorum.works_in(group), "{name} {f}");
            assert!(replies > f && replies <= n - f && answers <= n, "{name} {f}");
            assert!(replies + answers > n + f, "{name} {f}");
        }
    }
    let enough = |name: &str, f| {
        let rules = find(name).expect("it is there").rules;
        let quorums = rules.client_quorums(Quorums { n: rules.replicas(f), f });
        (quorums.replies, quorums.answers)
    };
    assert_eq!([enough("minbft", 1), enough("minbft", 2)], [(2, 3), (3, 5)], "all of 2f + 1");
    assert_eq!([enough("pbft", 1), enough("pbft", 2)], [(3, 3), (5, 5)]);
    assert_eq!(enough("zyzzyva5", 1), (3, 5));
    assert_eq!(enough("unreplicated", 0), (1, 1));
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
    assert_eq!(place("pillars.statements-shared"), "pbft-pillars");
    assert_eq!(place("pillars.hears-others"), "hybster-pillars");
    assert_eq!(place("hybrid-pbft.mac-of-anyone"), "hybrid-pbft");
    assert_eq!(place("ingress.mac-not-checked"), "hybrid-pbft");
    assert_eq!(place("executor.clients-not-rolled-back"), "zyzzyva");
    assert_eq!(place("usig.shows-commitments-only"), "minzyzzyva");
    assert_eq!(place("client.believes-f"), DEFAULT.rules.name);
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
