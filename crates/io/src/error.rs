//! Why a channel is closed.

use std::fmt;

/// Why a channel is closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChannelError {
    /// The other side announced more bytes than it may send.
    Oversize,
    /// The handshake failed: another key, group or version, or no channel at all.
    Handshake,
    /// A frame was not encrypted by the other side, or not in this order.
    Decrypt,
    /// A decrypted frame was not a list of messages.
    Malformed,
    /// So much was sent that the keys must change.
    Exhausted,
}

impl ChannelError {
    /// For metrics and logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Oversize => "frame above the limit",
            Self::Handshake => "handshake failed",
            Self::Decrypt => "frame not authentic",
            Self::Malformed => "frame malformed",
            Self::Exhausted => "keys used up",
        }
    }
}

impl fmt::Display for ChannelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl std::error::Error for ChannelError {}
