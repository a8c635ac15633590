//! Runs every input that is kept, and writes those that honest nodes make.

use crate::{Target, targets};
use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Panics of any thread or task, also of those that a runtime catches.
static PANICS: AtomicU64 = AtomicU64::new(0);

/// The folder with one folder of inputs for each target.
#[must_use]
pub fn corpora() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpora")
}

/// Counts panics, and prints them as before.
pub fn watch_panics() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        PANICS.fetch_add(1, Relaxed);
        before(info);
    }));
}

/// Runs one input. False if something panicked; [`watch_panics`] came first.
pub fn holds(target: &Target, input: &[u8]) -> bool {
    let before = PANICS.load(Relaxed);
    let survived = catch_unwind(AssertUnwindSafe(|| (target.run)(input))).is_ok();
    survived && PANICS.load(Relaxed) == before
}

/// The inputs that are kept for a target, by name.
///
/// # Panics
/// If they cannot be read.
#[must_use]
pub fn inputs(target: &Target) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = corpora().join(target.name);
    let entries = fs::read_dir(&folder);
    let entries = entries.unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| entry.expect("a readable folder").path()).collect();
    paths.sort();
    let read = |path: PathBuf| {
        let bytes = fs::read(&path).expect("a readable input");
        (path, bytes)
    };
    paths.into_iter().map(read).collect()
}

/// Writes the seeds of all targets, each to a folder of its own in this one.
///
/// # Errors
/// What the system says.
pub fn write_seeds(folder: &Path) -> io::Result<()> {
    for target in targets::ALL {
        let folder = folder.join(target.name);
        fs::create_dir_all(&folder)?;
        for (number, seed) in (target.seeds)().iter().enumerate() {
            fs::write(folder.join(format!("seed-{number:03}")), seed)?;
        }
    }
    Ok(())
}
