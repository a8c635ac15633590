//! Replays the corpora and the seeds: what was found once must not come back.

use pentarchy_fuzz::{replay, targets};

#[test]
fn every_kept_input_and_every_seed_holds() {
    replay::watch_panics();
    let mut broken = Vec::new();
    for target in targets::ALL {
        let kept = replay::inputs(&target);
        assert!(!kept.is_empty(), "{} has no corpus: cargo xtask fuzz --renew", target.name);
        for (path, input) in kept {
            if !replay::holds(&target, &input) {
                broken.push(path.display().to_string());
            }
        }
        for (number, seed) in (target.seeds)().iter().enumerate() {
            if !replay::holds(&target, seed) {
                broken.push(format!("seed {number} of {}", target.name));
            }
        }
    }
    assert!(broken.is_empty(), "these inputs break a property:\n{}", broken.join("\n"));
}
