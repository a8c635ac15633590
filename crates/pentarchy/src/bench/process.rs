//! What a process used, as the kernel counts it.

use crate::cli::failure::{Failure, Outcome};
use std::time::Duration;

/// Processor time that a process has used so far, user and kernel mode, all threads. The kernel
/// reports it in clock ticks, commonly 10 ms.
pub fn cpu_time(pid: u32) -> Outcome<Duration> {
    let ticks_per_second = rustix::param::clock_ticks_per_second();
    let path = format!("/proc/{pid}/stat");
    let ticks = cpu_ticks(&read(&path)?).ok_or_else(|| not_understood(&path))?;
    Ok(Duration::from_secs_f64(ticks as f64 / ticks_per_second as f64))
}

/// The most memory that a process ever had resident, in bytes.
pub fn peak_bytes(pid: u32) -> Outcome<u64> {
    let path = format!("/proc/{pid}/status");
    kilobytes(&read(&path)?, "VmHWM:").map(|kib| kib * 1024).ok_or_else(|| not_understood(&path))
}

/// The number of kibibytes on the line of a file that starts with this word.
pub fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// Ticks in user and in kernel mode: fields 14 and 15. The second field is the program's name in
/// parentheses and may hold anything, so fields are counted from its end.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let kernel: u64 = fields.next()?.parse().ok()?;
    Some(user + kernel)
}

fn read(path: &str) -> Outcome<String> {
    std::fs::read_to_string(path)
        .map_err(|error| Failure::Internal(format!("cannot read {path}: {error}")))
}

fn not_understood(path: &str) -> Failure {
    Failure::Internal(format!("{path} is not written as expected"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_found_behind_any_name() {
        let stat = "17 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 250 50 7 7 20 0 1 0 99 0 0";
        assert_eq!(cpu_ticks(stat), Some(300));
        assert_eq!(cpu_ticks("17 (a) S 1 2"), None);
        assert_eq!(cpu_ticks(""), None);
    }

    #[test]
    fn kilobytes_are_found_by_name() {
        let status = "VmPeak:\t   99 kB\nVmHWM:\t  2048 kB\nThreads:\t3\n";
        assert_eq!(kilobytes(status, "VmHWM:"), Some(2048));
        assert_eq!(kilobytes(status, "Threads:"), None);
        assert_eq!(kilobytes(status, "VmSwap:"), None);
    }

    #[test]
    fn this_process_has_used_something() {
        let me = std::process::id();
        assert!(peak_bytes(me).unwrap() > 100_000);
        let before = cpu_time(me).unwrap();
        let start = std::time::Instant::now();
        while start.elapsed() < Duration::from_millis(60) {}
        assert!(cpu_time(me).unwrap() > before);
    }
}
