//! What the system knows of a process.

use super::machine::{bytes, field};
use pentarchy_console::failure::{Failure, Outcome};

/// The system's word on one process.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Process {
    /// The most memory that it ever had resident, in bytes.
    pub peak_bytes: u64,
    /// Its threads.
    pub threads: usize,
    /// What its threads so far did not run for.
    pub switches: Switches,
}

/// Times that a processor was given to somebody else.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Switches {
    /// Because the thread had nothing to do.
    pub voluntary: u64,
    /// Because it was somebody else's turn.
    pub involuntary: u64,
}

impl Switches {
    /// Those since an earlier reading. Threads that have ended in between are missing.
    pub const fn since(self, before: Self) -> Self {
        Self {
            voluntary: self.voluntary.saturating_sub(before.voluntary),
            involuntary: self.involuntary.saturating_sub(before.involuntary),
        }
    }
}

impl Process {
    /// A process on this machine.
    pub fn read(pid: u32) -> Outcome<Self> {
        let path = format!("/proc/{pid}");
        let peak_bytes = bytes(&status(&path), "VmHWM").ok_or_else(|| {
            Failure::Internal(format!("{path} does not say how much memory the process has"))
        })?;
        let mut process = Self { peak_bytes, ..Self::default() };
        let threads = std::fs::read_dir(format!("{path}/task")).map_err(|error| {
            Failure::Internal(format!("{path} does not say what threads the process has: {error}"))
        })?;
        for thread in threads.flatten() {
            let status = std::fs::read_to_string(thread.path().join("status"));
            // A thread may have ended meanwhile.
            let Ok(status) = status else { continue };
            process.add_thread(&status);
        }
        Ok(process)
    }

    fn add_thread(&mut self, status: &str) {
        let count = |name| field(status, name).and_then(|text| text.parse().ok()).unwrap_or(0);
        self.threads += 1;
        self.switches.voluntary += count("voluntary_ctxt_switches");
        self.switches.involuntary += count("nonvoluntary_ctxt_switches");
    }
}

/// The memory that a process has resident, in bytes. Absent if there is no such process.
pub fn resident_bytes(pid: u32) -> Option<u64> {
    bytes(&status(&format!("/proc/{pid}")), "VmRSS")
}

fn status(path: &str) -> String {
    std::fs::read_to_string(format!("{path}/status")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_threads_of_a_process_count() {
        let mut process = Process::default();
        for (voluntary, involuntary) in [(5, 1), (7, 2)] {
            process.add_thread(&format!(
                "voluntary_ctxt_switches:\t{voluntary}\n\
                 nonvoluntary_ctxt_switches:\t{involuntary}\n"
            ));
        }
        let switches = Switches { voluntary: 12, involuntary: 3 };
        assert_eq!((process.threads, process.switches), (2, switches));
        let before = Switches { voluntary: 2, involuntary: 3 };
        assert_eq!(switches.since(before), Switches { voluntary: 10, involuntary: 0 });
    }

    #[test]
    fn the_system_knows_this_process_and_no_other_of_this_number() {
        let me = Process::read(std::process::id()).unwrap();
        assert!(me.peak_bytes > 100_000 && me.threads >= 1, "{me:?}");
        assert!(me.switches.voluntary > 0, "{me:?}");
        assert!(Process::read(u32::MAX).is_err());
    }
}
