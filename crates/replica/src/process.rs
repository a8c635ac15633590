//! What a process has used, for the status report.

use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::TimeVal;
use pentarchy_crypto::costs::costs;
use pentarchy_io::calls::calls;
use pentarchy_io::costs::frames;
use pentarchy_machine::report::ProcessReport;
use pentarchy_machine::status::{AllocationReport, CallReport, CostReport};

/// What this process has used so far.
pub fn report(counter_process: Option<u32>) -> ProcessReport {
    let (cpu_micros, rss_kib, peak_rss_kib) = usage();
    let calls = calls();
    ProcessReport {
        pid: std::process::id(),
        counter_process,
        costs: operations(),
        calls: CallReport { reads: calls.reads, writes: calls.writes, waits: calls.waits },
        allocations: allocations(),
        cpu_micros,
        rss_kib,
        peak_rss_kib,
    }
}

fn operations() -> CostReport {
    let (costs, frames) = (costs(), frames());
    CostReport {
        signatures_made: costs.signatures_made,
        signatures_verified: costs.signatures_verified,
        macs_made: costs.macs_made,
        macs_verified: costs.macs_verified,
        session_tags_made: costs.session_tags_made,
        session_tags_verified: costs.session_tags_verified,
        key_agreements: costs.key_agreements,
        usigs_created: costs.usigs_created,
        usigs_verified: costs.usigs_verified,
        frames_sealed: frames.sealed,
        frames_opened: frames.opened,
        hashes: costs.hashes,
        hashed_bytes: costs.hashed_bytes,
    }
}

/// What was asked of the allocator; none unless the program counts it.
#[must_use]
pub fn allocations() -> Option<AllocationReport> {
    #[cfg(feature = "count-allocations")]
    {
        let stats = stats_alloc::INSTRUMENTED_SYSTEM.stats();
        let count = stats.allocations as u64 + stats.reallocations as u64;
        Some(AllocationReport { count, bytes: stats.bytes_allocated as u64 })
    }
    #[cfg(not(feature = "count-allocations"))]
    None
}

/// Processor time of this thread in microseconds. Zero where the system does not say.
#[must_use]
pub fn thread_cpu_micros() -> u64 {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    return getrusage(UsageWho::RUSAGE_THREAD).map_or(0, |usage| cpu_micros(&usage));
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    return 0;
}

fn cpu_micros(usage: &Usage) -> u64 {
    let micros = |time: TimeVal| {
        u64::try_from(time.tv_sec().saturating_mul(1_000_000).saturating_add(time.tv_usec()))
            .unwrap_or(0)
    };
    micros(usage.user_time()) + micros(usage.system_time())
}

/// What the process has used: processor time in microseconds, memory and peak memory in KiB. Zero
/// where the system does not say.
#[must_use]
pub fn usage() -> (u64, u64, u64) {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else { return (0, 0, 0) };
    let (now, peak) = resident_kib();
    (cpu_micros(&usage), now, peak)
}

/// From the system's table of processes: `getrusage` would count what a parent had before it
/// started this program.
fn resident_kib() -> (u64, u64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let number = line.and_then(|line| line.split_whitespace().next());
        number.and_then(|number| number.parse().ok()).unwrap_or(0)
    };
    (kib("VmRSS:"), kib("VmHWM:"))
}
