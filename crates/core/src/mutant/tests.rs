use super::{MUTANTS, index};

fn enough(votes: usize, f: usize) -> bool {
    votes >= if mutant!("example.quorum-of-f") { f } else { f + 1 }
}

#[test]
fn names_are_unique_and_sorted_into_modules() {
    for (at, mutant) in MUTANTS.iter().enumerate() {
        assert_eq!(index(mutant.name), at, "{} is there twice", mutant.name);
        let (module, words) = mutant.name.split_once('.').expect("<module>.<words>");
        assert!(!module.is_empty() && !words.is_empty() && !mutant.about.is_empty());
    }
}

#[test]
fn without_a_choice_nothing_is_broken() {
    assert!(!enough(1, 1) && enough(2, 1));
}

#[cfg(feature = "mutants")]
#[test]
fn a_thread_breaks_what_it_chose_and_nothing_else() {
    use super::{times_reached, with};
    let chosen = with(Some("example.quorum-of-f"), || {
        let elsewhere = std::thread::spawn(|| enough(1, 1)).join();
        let inside = with(None, || enough(1, 1));
        (enough(1, 1), inside, elsewhere.expect("no panic"))
    });
    assert_eq!(chosen, (true, false, false));
    let before = times_reached();
    assert!(!enough(1, 1));
    assert_eq!(times_reached(), before, "it is off");
    with(Some("example.quorum-of-f"), || assert!((0..3).all(|_| enough(1, 1))));
    assert_eq!(times_reached(), before + 3);
    let other = with(Some("usig.execute-on-new-view"), || enough(1, 1));
    assert!(!other);
    let panicked = std::panic::catch_unwind(|| {
        with(Some("example.quorum-of-f"), || panic!("a test that fails"))
    });
    assert!(panicked.is_err() && !enough(1, 1));
}
