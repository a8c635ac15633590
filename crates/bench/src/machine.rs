//! Where and with what was measured. A figure without this says little.

use pentarchy_console::complain;
use serde::Serialize;
use std::thread::available_parallelism;

/// The commit that this program was built from, where that is known.
pub const COMMIT: Option<&str> = option_env!("PENTARCHY_COMMIT");

/// The machine.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Machine {
    /// What the processor calls itself; empty if the system does not say.
    pub processor: String,
    /// Processors that this process may use.
    pub cores: usize,
    /// Bytes of main memory; 0 if the system does not say.
    pub memory_bytes: u64,
    /// Name and release of the operating system's kernel.
    pub kernel: String,
    /// Processes that ran or waited to run in the last minute, on average, before the first
    /// measurement. Well above 0, it tells of a machine that is busy with something else.
    pub load_before: Option<f64>,
}

/// The program.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Program {
    /// Its version.
    pub version: &'static str,
    /// The commit it was built from, with `-dirty` if files had changed since; absent if it was not
    /// built in a checkout.
    pub commit: Option<&'static str>,
    /// The compiler that built it.
    pub rustc: Option<&'static str>,
    /// Whether it was compiled with optimisation and without the checks of debug builds.
    pub release: bool,
}

impl Machine {
    /// This one.
    pub fn here() -> Self {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let word = |path| read(path).trim().to_owned();
        let kernel =
            [word("/proc/sys/kernel/ostype"), word("/proc/sys/kernel/osrelease")].join(" ");
        Self {
            processor: field(&read("/proc/cpuinfo"), "model name").unwrap_or_default(),
            cores: available_parallelism().map_or(1, usize::from),
            memory_bytes: bytes(&read("/proc/meminfo"), "MemTotal").unwrap_or(0),
            kernel: kernel.trim().to_owned(),
            load_before: first_number(&read("/proc/loadavg")),
        }
    }
}

impl Program {
    /// This one.
    pub const fn this() -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION"),
            commit: COMMIT,
            rustc: option_env!("PENTARCHY_RUSTC"),
            release: !cfg!(debug_assertions),
        }
    }

    /// Says so if figures of this program mean little.
    pub fn warn_of_debug(&self) {
        if !self.release {
            complain("this is a debug build; measure with a release build");
        }
    }
}

/// What stands behind the colon on the first line of that name.
pub fn field(text: &str, name: &str) -> Option<String> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = pairs.find(|(key, _)| key.trim() == name)?;
    Some(value.trim().to_owned())
}

/// The memory on the first line of that name.
pub fn bytes(text: &str, name: &str) -> Option<u64> {
    let kibibytes = field(text, name)?;
    let kibibytes: u64 = kibibytes.strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

fn first_number(text: &str) -> Option<f64> {
    text.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let cpuinfo =
            "processor\t: 0\nmodel\t\t: 2\nmodel name\t: Some CPU: 2 GHz\nmodel name: x\n";
        assert_eq!(field(cpuinfo, "model name").as_deref(), Some("Some CPU: 2 GHz"));
        assert_eq!(field(cpuinfo, "name"), None);
        assert_eq!(bytes("MemFree: 1 kB\nMemTotal:   2048 kB\n", "MemTotal"), Some(2 << 20));
        assert_eq!(bytes("MemTotal: lots\n", "MemTotal"), None);
        assert_eq!(first_number("0.50 0.10 0.05 1/100 4242\n"), Some(0.5));
    }
}
