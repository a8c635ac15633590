//! A cluster inside this process, whose machines come and go while clients count.

use crate::members::{Stops, count, increment, service};
use crate::support::eventually;
use pentarchy::services::null::Null;
use pentarchy::{AlterError, LocalAlteration, LocalCluster, RequestMode, Service};
use pentarchy_protocols::{DEFAULT, Descriptor, EXAMPLES, PROTOCOLS};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Waits until a machine's replica has all that the others have.
fn is_level(cluster: &LocalCluster, machine: usize) {
    eventually("it is level", || {
        cluster.status(machine).is_some_and(|it| it.phase == "normal" && it.behind == 0)
    });
}

/// Waits until a machine that has left has ended.
fn has_ended(cluster: &mut LocalCluster, machine: usize) {
    eventually("it ends by itself", || !cluster.is_running(machine));
    assert!(cluster.kill(machine).is_err_and(|ended| ended.is_removal()));
    let refusal = cluster.restart(machine, service()).expect_err("it is no member");
    assert_eq!(refusal.to_string(), format!("machine {machine} is no member of the group"));
}

/// The group begins with three machines, or four: one dies and is replaced, others come and go, and
/// it tolerates more, and less again.
fn changes(first: &Descriptor, mode: RequestMode, data: Option<&Path>) {
    let builder = LocalCluster::builder().protocol(first.rules.name).request_auth(mode);
    let builder = match data {
        Some(folder) => builder.data(folder).cold_state(),
        None => builder,
    };
    let mut cluster = builder.start(service).expect("a cluster");
    let n = first.rules.replicas(1);
    let client = cluster.client().expect("a client");
    let (stop, made) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let _stops = Stops(&stop);
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                increment(&client);
                made.fetch_add(1, Ordering::Relaxed);
            }
        });
        cluster.kill(1).expect("it ran");
        assert_eq!(cluster.replace(1, service()).expect("a new machine"), n);
        is_level(&cluster, n);
        // The new one counts: another one is gone.
        cluster.kill(2).expect("it ran");
        let before = made.load(Ordering::Relaxed);
        eventually("clients go on", || made.load(Ordering::Relaxed) > before + 20);
        cluster.restart(2, service()).expect("it starts");
        is_level(&cluster, 2);
        assert_eq!(cluster.add(service()).expect("another machine"), n + 1);
        is_level(&cluster, n + 1);
        cluster.remove(0).expect("as many are enough");
        has_ended(&mut cluster, 0);
        cluster.kill(n).expect("it ran");
        cluster.restart(n, service()).expect("it starts as the replica that it is now");
        is_level(&cluster, n);
        let more = first.rules.replicas(2) - n;
        let joins = (0..more).map(|_| service()).collect();
        let two = LocalAlteration { joins, f: Some(2), ..Default::default() };
        let joined = cluster.alter(two).expect("it tolerates two");
        assert_eq!(joined, n + 2..n + 2 + more);
        joined.clone().for_each(|machine| is_level(&cluster, machine));
        assert_eq!((cluster.config().f, cluster.config().replicas.len()), (2, n + more));
        let leaves: Vec<usize> = joined.collect();
        let one = LocalAlteration { leaves: &leaves, f: Some(1), ..Default::default() };
        assert!(cluster.alter(one).expect("one again").is_empty());
        leaves.iter().for_each(|machine| has_ended(&mut cluster, *machine));
    });
    let made = made.load(Ordering::Relaxed);
    assert_eq!(count(&client), made, "each was executed once");
    assert_eq!(count(&cluster.client().expect("a new client")), made);
}

#[test]
fn machines_come_and_go() {
    changes(DEFAULT, RequestMode::Signature, None);
}

#[test]
fn machines_that_keep_what_they_say_come_and_go() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    changes(EXAMPLES.signed, RequestMode::Signature, Some(folder.path()));
}

#[test]
fn machines_that_execute_before_they_agree_come_and_go() {
    changes(EXAMPLES.speculative, RequestMode::Signature, None);
}

#[test]
fn machines_that_speculate_on_devices_come_and_go() {
    let is_one = |it: &&&Descriptor| it.rules.speculative && it.rules.trusts_devices();
    let protocol = PROTOCOLS.iter().find(is_one).expect("there is one");
    changes(protocol, RequestMode::Session, None);
}

#[test]
fn machines_that_keep_what_they_executed_too_early_come_and_go() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    changes(EXAMPLES.speculative, RequestMode::Signature, Some(folder.path()));
}

#[test]
fn a_cluster_switches_to_a_protocol_that_needs_another_machine() {
    let mut cluster = LocalCluster::builder().start(service).expect("a cluster");
    let client = cluster.client().expect("a client");
    increment(&client);
    let signed = EXAMPLES.signed.rules.name;
    let to_signed = |joins| LocalAlteration { joins, protocol: Some(signed), ..Default::default() };
    let refused = cluster.alter(to_signed(Vec::new()));
    assert!(matches!(refused, Err(AlterError::CannotAlter(_))), "{refused:?}");
    assert_eq!(cluster.alter(to_signed(vec![service()])).expect("four are enough"), 3..4);
    increment(&client);
    is_level(&cluster, 3);
    assert_eq!(cluster.status(3).map(|it| it.protocol.clone()).as_deref(), Some(signed));
    assert_eq!(count(&client), 2);
}

#[test]
fn a_change_that_cannot_be_leaves_the_cluster_as_it_is() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let cluster = LocalCluster::builder().data(folder.path());
    let mut cluster = cluster.start(service).expect("a cluster");
    let client = cluster.client().expect("a client");
    // So many that there is a state to be learned.
    (0..300).for_each(|_| increment(&client));
    let stranger = cluster.remove(7).expect_err("there is none");
    assert_eq!(stranger.to_string(), "machine 7 is no member of the group");
    assert!(matches!(cluster.remove(2), Err(AlterError::CannotAlter(_))), "two are too few");
    // The cluster says what one machine lacks, and not that the other one gave up.
    let joins: Vec<Box<dyn Service>> = vec![service(), Box::new(Null::default())];
    let other = cluster.alter(LocalAlteration { joins, ..Default::default() });
    assert!(matches!(other, Err(AlterError::Lacks(_))), "{other:?}");
    assert_eq!(cluster.config().number(), 0);
    increment(&client);
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 3);
    // The administrators took back what they had proposed for that machine.
    assert_eq!(cluster.add(service()).expect("the same service"), 3);
    is_level(&cluster, 3);
    assert_eq!(count(&client), 301);
}

#[test]
fn machines_with_which_clients_share_keys_come_and_go() {
    changes(EXAMPLES.signed, RequestMode::Mac, None);
}

#[test]
fn clients_that_share_keys_with_members_do_so_under_another_protocol() {
    let cluster = LocalCluster::builder().protocol(EXAMPLES.signed.rules.name);
    let cluster = cluster.request_auth(RequestMode::Mac).start(service);
    let mut cluster = cluster.expect("a cluster");
    let client = cluster.client().expect("a client");
    increment(&client);
    let protocol = Some(DEFAULT.rules.name);
    cluster.alter(LocalAlteration { protocol, ..Default::default() }).expect("it switches");
    increment(&client);
    assert_eq!(cluster.config().request_auth, RequestMode::Mac);
    assert_eq!(count(&client), 2);
}

#[test]
fn a_cluster_comes_to_execute_before_it_agrees_and_back() {
    let [first, other] = [EXAMPLES.signed, EXAMPLES.speculative].map(|it| it.rules.name);
    let mut cluster = LocalCluster::builder().protocol(first).start(service).expect("a cluster");
    let client = cluster.client().expect("a client");
    for protocol in [other, first, other] {
        (0..20).for_each(|_| increment(&client));
        let protocol = Some(protocol);
        cluster.alter(LocalAlteration { protocol, ..Default::default() }).expect("it switches");
    }
    (0..20).for_each(|_| increment(&client));
    assert_eq!(count(&client), 80);
    assert_eq!(count(&cluster.client().expect("a new client")), 80);
}
