use super::{Case, shrink};
use crate::checker::{agreement, liveness};
use crate::rng::Rng;
use crate::swarm::{Options, SimConfig};
use crate::tests::{factories, naive};

fn drawn(seed: u64, factories: &crate::run::Factories<'_>) -> Case {
    let config = SimConfig { byzantine: false, requests: 300, ..SimConfig::default() };
    let options = Options::draw(&mut Rng::new(seed), &config, &factories.rules);
    Case { seed, options }
}

#[test]
fn what_is_left_breaks_the_same_property_and_hardly_anything_else_is_left() {
    let factories = factories::<{ naive::WITHOUT_AGREEMENT }>();
    for seed in 0..4 {
        let shrunk = shrink(drawn(seed, &factories), agreement::PROPERTY, &factories, |_| true);
        let shrunk = shrunk.expect("smaller worlds break it too");
        let again = shrunk.case.run(&factories, None).expect_err("it still fails");
        assert_eq!((again.broken.property, &again), (agreement::PROPERTY, &shrunk.violation));
        let options = &shrunk.case.options;
        let requests = options.requests_each * options.clients as u64;
        assert!(requests <= 4 && options.n == 3, "{options}");
        assert!(options.disturbances.is_empty() && options.hostile.is_empty(), "{options}");
        let read: Options = options.to_string().parse().expect("it can be pasted");
        assert_eq!(&read, options);
    }
}

#[test]
fn without_time_and_without_the_property_nothing_is_found() {
    let factories = factories::<{ naive::WITHOUT_AGREEMENT }>();
    let case = drawn(1, &factories);
    assert!(shrink(case.clone(), agreement::PROPERTY, &factories, |_| false).is_none());
    assert!(shrink(case, liveness::PROPERTY, &factories, |runs| runs < 40).is_none());
}
