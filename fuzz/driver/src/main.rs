//! libFuzzer around one target, which the environment names. `cargo xtask fuzz` builds and runs it.

#![no_main]

use pentarchy_fuzz::{Run, find, replay, targets};
use std::sync::OnceLock;

/// Before anything is run: prints the names of all targets, or writes their seeds, if that is all
/// that is asked.
fn serve_questions() {
    if std::env::var_os("PENTARCHY_FUZZ_LIST").is_some() {
        targets::ALL.iter().for_each(|target| println!("{}", target.name));
        std::process::exit(0);
    }
    if let Some(folder) = std::env::var_os("PENTARCHY_FUZZ_SEEDS") {
        replay::write_seeds(folder.as_ref()).expect("a folder to write seeds to");
        std::process::exit(0);
    }
}

libfuzzer_sys::fuzz_target!(init: serve_questions(), |input: &[u8]| {
    static TARGET: OnceLock<Run> = OnceLock::new();
    let run = TARGET.get_or_init(|| {
        let name = std::env::var("PENTARCHY_FUZZ_TARGET").unwrap_or_default();
        find(&name).expect("PENTARCHY_FUZZ_TARGET names a target").run
    });
    run(input);
});
