//! A state that is larger than the memory that its replicas have together.

use std::path::Path;
use std::process::Command;

/// MiB of state, of which there are three copies.
const STATE_MIB: u64 = 128;

/// MiB of memory that three replicas and a client need at most, whatever the state. It was 206 with
/// a state of 64 MiB, and 237 with one of 256.
const MEMORY_MIB_MAX: u64 = 300;

/// It is put, gone on from, and fetched by a replica that has lost its folder.
#[test]
fn memory_does_not_grow_with_the_state() {
    let program = Path::new(env!("CARGO_BIN_EXE_pentarchy")).with_file_name("examples/large");
    let output = Command::new(&program).arg(STATE_MIB.to_string()).output();
    let output = output.expect("cargo test builds the examples");
    let (told, failed) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{told}{failed}");
    let last = told.lines().find(|line| line.starts_with("fetched: ")).expect("it says so");
    let words: Vec<&str> = last.split_whitespace().collect();
    let mebibytes = words.iter().position(|word| *word == "MiB").map(|at| words[at - 1].parse());
    let Some(Ok(peak)) = mebibytes else { panic!("{last}") };
    assert!((1..=MEMORY_MIB_MAX).contains(&peak), "{told}");
}
