//! Zyzzyva, Zyzzyva5, and what they are measured against or shown beside.

use pentarchy_core::protocol::{Authority, FaultModel, Rules, Value};
use pentarchy_core::quorum::{Count, QuorumRule, ReadRule};

/// In what one variant differs from another.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Kind {
    /// The protocol's name.
    pub name: &'static str,
    /// The size of a group.
    pub group_size: Count,
    /// With whose equal answers a client completes a request at once.
    pub fast: ReadRule,
    /// While clients find that not all answer, replicas keep certificates without being shown any.
    pub commits: bool,
    /// Replicas sign what they answer, whether or not anybody asks for that.
    pub signs: bool,
    /// Clients learn how long the slowest replicas take; if not, they wait for nobody, however late
    /// all were before.
    pub learns: bool,
    /// The view change is that of 2009, which is not safe.
    pub printed: bool,
}

impl Kind {
    /// `3f + 1` replicas.
    pub const THREE: Self = Self {
        name: "zyzzyva",
        group_size: Count::per_fault_and_one(3),
        fast: ReadRule::All,
        commits: true,
        signs: false,
        learns: true,
        printed: false,
    };
    /// `5f + 1` replicas.
    pub const FIVE: Self = Self {
        name: "zyzzyva5",
        group_size: Count::per_fault_and_one(5),
        fast: ReadRule::AllButFaulty,
        ..Self::THREE
    };
    /// Only clients have replicas keep certificates. To measure against.
    pub const PLAIN: Self = Self { name: "zyzzyva-plain", commits: false, ..Self::THREE };
    /// Replicas sign every answer. To measure against.
    pub const SIGNED: Self = Self { name: "zyzzyva-signed", signs: true, ..Self::THREE };
    /// Clients wait for nobody. To measure against.
    pub const HASTY: Self =
        Self { name: "zyzzyva-hasty", commits: false, learns: false, ..Self::THREE };
    /// As printed in 2009. For the museum.
    pub const PRINTED: Self =
        Self { name: "zyzzyva-2009", commits: false, printed: true, ..Self::THREE };

    /// The protocol's rules.
    #[must_use]
    pub const fn rules(self) -> Rules {
        Rules {
            name: self.name,
            fault_model: FaultModel::Byzantine,
            group_size: self.group_size,
            quorum: QuorumRule::Byzantine,
            replies: Count::per_fault_and_one(2),
            reads: ReadRule::AllButFaulty,
            pillars: false,
            speculative: true,
            hears_slot_results: false,
            replies_itself: false,
            authority: Authority::Members,
            counter: None,
        }
    }
}

/// A variant that is known when a replica is compiled.
pub trait Variant: Value {
    /// Which.
    const KIND: Kind;
}

macro_rules! variants {
    ($($(#[$about:meta])* $variant:ident = $kind:ident;)+) => {
        $(
            $(#[$about])*
            #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
            pub enum $variant {}

            impl Variant for $variant {
                const KIND: Kind = Kind::$kind;
            }
        )+
    };
}

variants! {
    /// See [`Kind::THREE`].
    Three = THREE;
    /// See [`Kind::FIVE`].
    Five = FIVE;
    /// See [`Kind::PLAIN`].
    Plain = PLAIN;
    /// See [`Kind::SIGNED`].
    Signed = SIGNED;
    /// See [`Kind::HASTY`].
    Hasty = HASTY;
    /// See [`Kind::PRINTED`].
    Printed = PRINTED;
}
