//! Why a backend has no result.

/// Why there is no result.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BackendError {
    /// Not executed: too much is outstanding.
    Busy,
    /// Not executed: too large.
    TooLarge,
    /// Executed once, with a result that is no longer kept.
    Forgotten,
    /// No result in time. May still be executed.
    TimedOut,
    /// No result in time. Not executed, and never will be.
    GivenUp,
    /// Another process uses the same key, and this one serves no more.
    Overtaken,
    /// The backend ended. May have been executed.
    Closed,
}

/// The line for a command that waits for an element, such as `BLPOP`, if the gateway does not know
/// whether the command still waits at the replicas. Unlike others, it may wait on after a later
/// command has succeeded: until the gateway has it forgotten, or its session ends.
pub(crate) const MAY_TAKE: &str = "ERR timed out waiting for the replicas; it may still take an \
                                   element, also after later commands";

impl BackendError {
    /// The line that follows the `-` in RESP.
    #[must_use]
    pub const fn line(self) -> &'static str {
        match self {
            Self::Busy => "BUSY too many requests are outstanding; not executed, try again",
            Self::TooLarge => "ERR command is larger than 1048576 bytes; not executed",
            Self::Forgotten => "ERR executed once, but the reply is no longer kept",
            Self::TimedOut => {
                "ERR timed out waiting for the replicas; it may still be executed, until a later \
                 command on keys succeeds here"
            }
            Self::GivenUp => {
                "ERR timed out waiting for the replicas; not executed, and it never will be"
            }
            Self::Overtaken => {
                "ERR another process uses this gateway's key, or this host's clock is behind that \
                 of the one that did, so this gateway serves no more; executed at most once, and \
                 not from now on"
            }
            Self::Closed => "ERR the gateway is closing; the command may or may not be executed",
        }
    }

    /// Whether what the operation asked for may be there, or come.
    pub(crate) const fn may_wait(self) -> bool {
        !matches!(self, Self::Busy | Self::TooLarge | Self::GivenUp)
    }
}
