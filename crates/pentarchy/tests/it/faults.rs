//! Breaking replicas on command, and healing them, as a person would.

use crate::support::{Cluster, eventually, run, stderr, stdout, text};
use serde_json::Value;

impl Cluster {
    fn command(&self, arguments: &[&str]) -> (String, Option<i32>) {
        let output = run(&[arguments, &["--data", text(&self.data)]].concat());
        (stdout(&output) + &stderr(&output), output.status.code())
    }

    fn break_it(&self, id: u16, how: &[&str]) {
        let (said, code) = self.command(&[&["break", &id.to_string()], how].concat());
        assert_eq!(code, Some(0), "{said}");
    }

    fn heal(&self, id: u16) {
        let (said, code) = self.command(&["heal", &id.to_string()]);
        assert!(code == Some(0) && said.contains("caught up in"), "{said}");
    }

    /// Enough writes for several checkpoints, one at a time.
    fn work(&self) {
        let port = self.port.to_string();
        let load = ["-p", &port, "-t", "incr", "-n", "400", "-c", "1", "-q"];
        let output = crate::support::tool("redis-benchmark", &load);
        assert!(output.status.success(), "{}", stderr(&output));
    }

    /// That all replicas have the same state at the same checkpoint, by its digest.
    fn assert_equal_states(&self) {
        let states = |status: &Value| -> Vec<(u64, Value)> {
            let replicas = status["replicas"].as_array().expect("a list").iter();
            replicas
                .map(|replica| (replica["stable"].as_u64().unwrap_or(0), replica["state"].clone()))
                .collect()
        };
        eventually("the replicas' states are equal", || {
            self.work();
            let (status, code) = self.status();
            let states = states(&status);
            code == Some(0) && states.iter().all(|state| *state == states[0] && state.1.is_string())
        });
    }

    fn replica(&self, id: usize) -> Value {
        self.status().0["replicas"][id].clone()
    }
}

#[test]
fn each_fault_is_survived_shown_and_healed() {
    let cluster = Cluster::up(&[]);
    cluster.redis_cli(&["SET", "before", "1"]);
    let faults: [(u16, &[&str], &str); 4] = [
        (2, &["--silent"], "silent"),
        (1, &["--corrupt"], "corrupt"),
        (2, &["--slow", "50"], "slow 50"),
        (0, &["--equivocate"], "equivocate"),
    ];
    for (id, how, name) in faults {
        cluster.break_it(id, how);
        assert_eq!(cluster.redis_cli(&["SET", "during", name]), "OK");
        assert_eq!(cluster.redis_cli(&["GET", "during"]), name, "a lie must not be believed");
        assert_eq!(cluster.replica(id.into())["fault"], name);
        let (shown, _) = cluster.command(&["status"]);
        assert!(shown.contains(&format!("misbehaves on command ({name})")), "{shown}");
        if name == "corrupt" {
            // A vote that comes when others were enough is dropped unread.
            eventually("what was corrupted is refused and counted", || {
                cluster.redis_cli(&["SET", "during", name]);
                cluster.replica(0)["rejects"]["bad_auth"].as_u64() > Some(0)
            });
        }
        cluster.heal(id);
        assert_eq!(cluster.replica(id.into())["fault"], Value::Null);
        cluster.assert_equal_states();
    }
    assert_eq!(cluster.redis_cli(&["GET", "before"]), "1");
}

#[test]
fn a_lying_replica_takes_the_groups_state_back_and_says_so() {
    let cluster = Cluster::up(&[]);
    cluster.break_it(0, &["--equivocate"]);
    eventually("its checkpoints differ from the group's", || {
        let _ = cluster.redis_cli(&["INCR", "number"]);
        cluster.replica(0)["counters"]["diverged"].as_u64() > Some(0)
    });
    cluster.heal(0);
    cluster.assert_equal_states();
    let (shown, _) = cluster.command(&["status"]);
    assert!(shown.contains("ALARM"), "{shown}");
}

#[test]
fn the_killed_come_back_with_a_new_life_and_the_frozen_with_their_own() {
    let cluster = Cluster::up(&[]);
    cluster.redis_cli(&["SET", "key", "value"]);
    let life = |id| cluster.replica(id)["incarnation"].clone();
    let before = life(0);
    // The primary: its death changes the view, which carries its reason.
    cluster.break_it(0, &["--kill"]);
    assert_eq!(cluster.redis_cli(&["GET", "key"]), "value");
    assert_eq!(cluster.replica(1)["view"], 1);
    assert_eq!(cluster.replica(1)["view_change_reason"], "a request was not ordered in time");
    let (said, code) = cluster.command(&["break", "1", "--pause"]);
    assert!(code == Some(2) && said.contains("heal it first"), "{said}");
    cluster.heal(0);
    assert_ne!(life(0), before);
    assert_eq!(cluster.replica(0)["epoch"], 1);
    cluster.assert_equal_states();

    let before = life(1);
    cluster.break_it(1, &["--pause"]);
    assert_eq!(cluster.redis_cli(&["GET", "key"]), "value");
    cluster.heal(1);
    assert_eq!(life(1), before);
    cluster.assert_equal_states();
    assert!(cluster.command(&["heal"]).0.contains("No replica is broken"));
}

#[test]
fn with_a_disk_the_killed_go_on_as_whom_they_were() {
    let cluster = Cluster::up(&["--durability", "sync"]);
    cluster.redis_cli(&["SET", "key", "value"]);
    let life = |id| cluster.replica(id)["incarnation"].clone();
    let before = life(2);
    let (said, code) = cluster.command(&["break", "2", "--kill"]);
    assert!(code == Some(0) && said.contains("what it said is on its disk"), "{said}");
    // Fewer slots than a checkpoint: whoever only looks whether it lags by so many sees nothing.
    (0..20).for_each(|_| drop(cluster.redis_cli(&["INCR", "number"])));
    cluster.heal(2);
    let healed = cluster.replica(2);
    assert!(healed["executed"].as_u64() >= Some(20), "healed is who has caught up: {healed}");
    assert!(healed["peers"].as_array().is_some_and(|peers| !peers.is_empty()), "{healed}");
    assert_eq!((life(2), &healed["epoch"]), (before, &0.into()));
    assert_eq!(healed["view_changes"], 0, "it comes back without disturbing anybody");
    cluster.assert_equal_states();
}

#[test]
fn the_tour_runs_to_its_end() {
    let output = run(&["demo", "--fast"]);
    let said = stdout(&output);
    assert!(output.status.success(), "{said}{}", stderr(&output));
    assert_eq!(said.matches("caught up in").count(), 5, "{said}");
    assert_eq!(said.matches("begun after").count(), 2, "it changes while it runs: {said}");
    assert!(said.contains("Nothing was lost"), "{said}");
}
