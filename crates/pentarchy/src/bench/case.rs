//! What is measured: workloads, payloads, and the systems that are compared.

use bytes::Bytes;
use clap::ValueEnum;
use pentarchy::RequestMode;
use pentarchy::config::request_mode_name;
use pentarchy::limits::OPERATION_BYTES_MAX;
use pentarchy_services::null::Null;
use std::fmt;
use std::str::FromStr;

/// How clients offer load.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Workload {
    /// Each client waits for a result before it sends the next operation
    Closed,
    /// Each client keeps many operations outstanding
    Pipelined,
}

impl Workload {
    /// The word on the command line and in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Pipelined => "pipelined",
        }
    }
}

/// Sizes in bytes, written `request/reply`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Payload {
    /// Bytes that an operation carries. The smallest operation has 4, which say the reply's size.
    pub request: usize,
    /// Bytes of the reply.
    pub reply: usize,
}

impl Payload {
    /// An operation of the null service with these sizes.
    pub fn operation(self) -> Bytes {
        Null::operation(self.request, self.reply as u32).into()
    }
}

impl FromStr for Payload {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let size = |digits: &str| digits.parse().ok().filter(|size| *size <= OPERATION_BYTES_MAX);
        let sizes = text.split_once('/').and_then(|(request, reply)| {
            Some(Self { request: size(request)?, reply: size(reply)? })
        });
        sizes.ok_or_else(|| {
            format!(
                "{text:?} is no payload; write request/reply in bytes, such as 0/4096, each at \
                 most {OPERATION_BYTES_MAX}"
            )
        })
    }
}

impl fmt::Display for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.request, self.reply)
    }
}

/// One set of conditions, under which each system is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Case {
    /// How clients offer load.
    pub workload: Workload,
    /// Sizes.
    pub payload: Payload,
    /// How clients convince replicas.
    pub request_auth: RequestMode,
    /// Clients, each with a key, connections and two threads of its own.
    pub clients: usize,
    /// Operations that each client keeps outstanding.
    pub outstanding: usize,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let auth = request_mode_name(self.request_auth);
        write!(f, "{} {}, {auth}", self.workload.name(), self.payload)
    }
}

/// What is measured under a case.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct System {
    /// The protocol's name.
    pub protocol: String,
    /// Faults tolerated.
    pub f: usize,
    /// Replicas.
    pub n: usize,
}

/// The baseline's protocol.
pub const BASELINE: &str = "unreplicated";

impl System {
    /// One server, to which everything else is compared.
    pub fn baseline() -> Self {
        Self { protocol: BASELINE.to_owned(), f: 0, n: 1 }
    }

    /// Whether this is [`Self::baseline`].
    pub fn is_baseline(&self) -> bool {
        self.protocol == BASELINE
    }
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} f={} n={}", self.protocol, self.f, self.n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_are_two_bounded_sizes() {
        let payload: Payload = "1024/4096".parse().unwrap();
        assert_eq!(payload, Payload { request: 1024, reply: 4096 });
        assert_eq!(payload.to_string(), "1024/4096");
        for text in ["", "1", "1/", "/1", "-1/0", "a/b", "1/2/3", "0/1048577", "1048577/0"] {
            assert!(text.parse::<Payload>().unwrap_err().contains("0/4096"), "{text}");
        }
    }

    #[test]
    fn operations_have_the_asked_size_and_ask_for_the_reply() {
        let bytes = |text: &str| text.parse::<Payload>().unwrap().operation();
        assert_eq!(*bytes("0/0"), [0, 0, 0, 0]);
        assert_eq!(*bytes("0/4096"), [0, 16, 0, 0]);
        let large = bytes("4096/1");
        assert_eq!((large.len(), &large[..4]), (4096, &[1, 0, 0, 0][..]));
    }
}
