use super::*;
use crate::case::{Case, tests::case};
use crate::operations::Recipe;
use pentarchy_cluster::{KeyPair, LocalCluster, node};
use pentarchy_services::null::Null;

const PATIENCE: Duration = Duration::from_secs(60);

/// A crowd of three clients that are connected, each with room for so many operations.
fn crowd(cluster: &LocalCluster, case: &Case, outstanding: usize) -> Crowd {
    let mut crowd = Crowd::new(cluster.config().replicas.len()).unwrap();
    for number in 0..3 {
        let config = node::client_config(cluster.config(), KeyPair::generate()).unwrap();
        let operations = Recipe::new(case).client(number);
        let member = Member::new(config, operations, outstanding, crowd.next_token()).unwrap();
        crowd.add(member);
    }
    let share = Share { rate: None, thread: 0, threads: 1 };
    let mut tally = Tally::new();
    turn_until(&mut crowd, None, &mut tally, |crowd, _| {
        crowd.list_due(share, |_| false);
        crowd.members.iter().all(Member::is_connected)
    });
    crowd
}

fn turn_until(
    crowd: &mut Crowd,
    window: Option<Window>,
    tally: &mut Tally,
    mut is_over: impl FnMut(&mut Crowd, &Tally) -> bool,
) {
    let deadline = Instant::now() + PATIENCE;
    while !is_over(crowd, tally) {
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}");
        crowd.round(window, false, tally);
        crowd.wait(None, Instant::now() + TICK).unwrap();
    }
}

fn cluster() -> LocalCluster {
    LocalCluster::builder().start(|| Box::new(Null::new())).unwrap()
}

/// No coordinated omission: what could not be submitted in time has waited since it came.
#[test]
fn latency_counts_from_when_an_operation_came_and_not_from_when_it_was_submitted() {
    let cluster = cluster();
    let mut crowd = crowd(&cluster, &case("0/0"), 5);
    // A second has gone by in which nobody looked. Only 15 of 100 have room at a time.
    let now = Instant::now();
    let mut arrivals = Arrivals::new(now.checked_sub(Duration::from_secs(1)).unwrap(), 100, 0, 1);
    let window = Some(Window::starting(now, 2 * PATIENCE));
    let mut tally = Tally::new();
    let mut left = 100;
    let mut late = Tally::new();
    turn_until(&mut crowd, window, &mut tally, |crowd, tally| {
        // Those that come after the first hundred are for nobody.
        while left > 0 && crowd.members.iter().any(Member::has_room) {
            let until = arrivals.next_at();
            crowd.submit(&mut arrivals, until, window, &mut late);
            left -= 1;
        }
        tally.latencies.count() == 100
    });
    assert!(tally.errors.is_empty(), "{:?}", tally.errors);
    // Half of them came half a second or more before anybody looked.
    assert!(tally.latencies.quantiles().p50 >= 490_000.0, "{:?}", tally.latencies.quantiles());
    assert!(tally.latencies.quantiles().max >= 990_000.0);
}

#[test]
fn a_closed_loop_replaces_what_completes() {
    let cluster = cluster();
    let signals = Signals::default();
    let crowd = crowd(&cluster, &case("0/4"), 2);
    let share = Share { rate: None, thread: 0, threads: 1 };
    let measured = Duration::from_millis(300);
    signals.window.get_or_init(|| Window::starting(Instant::now(), measured));
    let tally = crowd.run(share, &signals).unwrap();
    assert!(tally.latencies.count() > 6, "more than the first of each: {tally:?}");
    assert!(tally.errors.is_empty() && tally.late.count() == 0, "{:?}", tally.errors);
}
