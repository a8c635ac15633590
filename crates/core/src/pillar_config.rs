//! How the order of a group is split.

use crate::ids::ClientId;

/// What of the order a core agrees on: all of it, or one of several pillars.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PillarConfig {
    /// Into how many pillars the order is split; 1 if it is not.
    pub pillars: u8,
    /// Whether each pillar begins with another primary.
    pub rotates: bool,
    /// The one that is agreed on; none where it is all of them.
    pub pillar: Option<u8>,
}

impl Default for PillarConfig {
    fn default() -> Self {
        Self { pillars: 1, rotates: false, pillar: None }
    }
}

impl PillarConfig {
    /// To which pillar a client belongs. It may choose its name, and so its pillar.
    #[must_use]
    pub fn of_client(&self, client: &ClientId) -> u8 {
        let bytes = client.0.first_chunk().expect("a name is longer");
        (u64::from_le_bytes(*bytes) % u64::from(self.pillars)) as u8
    }
}

/// How an order is split, in words.
impl core::fmt::Display for PillarConfig {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.pillars {
            1 => out.write_str("1 pillar")?,
            pillars => write!(out, "{pillars} pillars")?,
        }
        if self.rotates { out.write_str(" that begin with different primaries") } else { Ok(()) }
    }
}
