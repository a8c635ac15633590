//! What the disk does by itself, to be read beside what a log on it does.

use crate::files::temporary_folder;
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_storage::disk::{DiskError, Folder as _};
use pentarchy_storage::folder::OsFolder;
use serde::Serialize;
use std::time::{Duration, Instant};

/// Bytes of one write.
const WRITE_BYTES: usize = 4096;

/// Bytes of the file that is written, over and over.
const FILE_BYTES: u64 = 8 << 20;

/// How long is measured.
const MEASURED: Duration = Duration::from_millis(1_500);

/// One thread that writes 4 KiB and waits until they are on the disk, again and again, where the
/// replicas' logs will be, before anything else is measured.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct DiskReport {
    /// Writes, each with a sync, in a second.
    pub syncs_per_second: f64,
    /// Microseconds of one, the median.
    pub p50_us: f64,
    /// 99 % were faster.
    pub p99_us: f64,
    /// The slowest.
    pub max_us: f64,
}

impl DiskReport {
    /// Measures the disk below the folder for temporary files.
    pub fn measure() -> Outcome<Self> {
        let folder = temporary_folder("pentarchy-disk-")?;
        let waits = waits(&folder.path().join("data"));
        let waits = waits.map_err(|error| Failure::Unwell(error.to_string()))?;
        Self::of(waits).ok_or_else(|| Failure::Unwell("the disk does not sync".to_owned()))
    }

    fn of(mut waits: Vec<Duration>) -> Option<Self> {
        waits.sort_unstable();
        let total: Duration = waits.iter().sum();
        let at = |part: usize| {
            waits.get(waits.len().saturating_sub(1) * part / 100).map(|it| it.as_secs_f64() * 1e6)
        };
        Some(Self {
            syncs_per_second: waits.len() as f64 / total.as_secs_f64(),
            p50_us: at(50)?,
            p99_us: at(99)?,
            max_us: at(100)?,
        })
    }
}

fn waits(path: &std::path::Path) -> Result<Vec<Duration>, DiskError> {
    let mut folder = OsFolder::open(path)?;
    let mut file = folder.create("measured")?;
    file.preallocate(FILE_BYTES)?;
    file.sync()?;
    let (mut waits, begun) = (Vec::new(), Instant::now());
    while begun.elapsed() < MEASURED {
        let place = (waits.len() * WRITE_BYTES) as u64 % FILE_BYTES;
        let before = Instant::now();
        file.write_at(&[waits.len() as u8; WRITE_BYTES], place)?;
        file.sync()?;
        waits.push(before.elapsed());
    }
    Ok(waits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_and_the_tail_are_those_of_single_writes() {
        let waits = (1..=100).rev().map(Duration::from_millis).collect();
        let report = DiskReport::of(waits).unwrap();
        assert_eq!((report.p50_us, report.p99_us, report.max_us), (50e3, 99e3, 100e3));
        assert!((report.syncs_per_second - 100.0 / 5.05).abs() < 1e-9);
        assert_eq!(DiskReport::of(Vec::new()), None);
    }
}
