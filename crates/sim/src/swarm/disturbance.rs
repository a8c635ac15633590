//! What happens to a group.

use crate::network::Parts;
use crate::time::Micros;
use pentarchy_core::ids::{ReplicaId, ReplicaSet};

/// Whom a disturbance hits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// The primary of the highest view that a correct replica is in at that moment.
    Primary,
    /// This one.
    Replica(ReplicaId),
}

/// Why a replica ends that has a disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// Its power fails.
    Power,
    /// A write or a sync fails; what it was to write is lost.
    Disk,
    /// There is no room on the disk, until it starts again.
    Full,
    /// Its power fails, and when it is back a bit of what is on the disk has flipped: if no more
    /// than `f` have lost their memory then.
    Rot,
    /// The same, with one of the last writes that were synced: it is found in another place.
    Misdirected,
    /// Its power fails, and its disk is put back from a copy that is made now: if the others have
    /// seen what it said since then.
    PutBack,
}

/// What happens to the group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Disturbance {
    /// A replica stops for good, if that does not make more than `f` faulty ones.
    Crash(Target),
    /// A replica loses its memory, if that does not make more than `f` faulty ones, and starts
    /// again after a while.
    Restart(Target, Micros),
    /// A correct replica ends after so many more writes, syncs and sends, and starts again after a
    /// while with what it had synced.
    Stop {
        /// Which.
        target: Target,
        /// Why.
        failure: Failure,
        /// Crash points that it survives.
        points: u64,
        /// How long it is away.
        lasts: Micros,
    },
    /// The same for all correct replicas together, each at another moment.
    Blackout {
        /// Crash points that each survives.
        points: u64,
        /// How long they are away.
        lasts: Micros,
    },
    /// A replica does nothing for a while and then goes on with all that has come.
    Pause(Target, Micros),
    /// For a while a replica hears of the protocol's messages only what is about checkpoints.
    Deafen(Target, Micros),
    /// A replica is cut off from the others for a while.
    Isolate {
        /// Which.
        target: Target,
        /// It hears the others nevertheless.
        hears: bool,
        /// Clients cannot reach it either.
        clients: bool,
        /// For how long.
        lasts: Micros,
    },
    /// The group falls into two parts for a while.
    Split {
        /// One part, by places: copies of one replica may be in different ones.
        part: ReplicaSet,
        /// The other part's messages arrive.
        one_way: bool,
        /// For how long.
        lasts: Micros,
    },
    /// The group falls into several parts for a while.
    Partition {
        /// Who is where.
        parts: Parts,
        /// For how long.
        lasts: Micros,
    },
    /// A replica's counters do not answer any more, if that does not make more than `f` faulty
    /// replicas. It ends when it notices, and comes back with others.
    CounterDies(Target),
    /// A replica's clock is set ahead.
    ClockJump(Target, u64),
    /// Administrators want all members to have new keys. How they go about it, this number says.
    Refresh(u64),
    /// Administrators want another machine in the place of a member. Which, and how they go about
    /// it, this number says.
    Replace(u64),
    /// Administrators want the group to grow or to shrink, or a member elsewhere, or more or fewer
    /// of them to agree. Which, and how they go about it, this number says.
    Reshape(u64),
    /// Administrators want another protocol. Which, and how they go about it, this number says.
    Switch(u64),
}

impl Disturbance {
    /// Its name, for summaries.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Crash(_) => "crash",
            Self::Restart(..) => "restart",
            Self::Stop { failure: Failure::Power, .. } => "stop",
            Self::Stop { failure: Failure::Disk, .. } => "disk_fails",
            Self::Stop { failure: Failure::Full, .. } => "disk_full",
            Self::Stop { failure: Failure::Rot, .. } => "disk_rots",
            Self::Stop { failure: Failure::Misdirected, .. } => "disk_misdirects",
            Self::Stop { failure: Failure::PutBack, .. } => "disk_put_back",
            Self::Blackout { .. } => "blackout",
            Self::Pause(..) => "pause",
            Self::Deafen(..) => "deafen",
            Self::Isolate { .. } => "isolate",
            Self::Split { .. } => "split",
            Self::Partition { .. } => "partition",
            Self::CounterDies(_) => "counter_dies",
            Self::ClockJump(..) => "clock_jump",
            Self::Refresh(_) => "refresh",
            Self::Replace(_) => "replace",
            Self::Reshape(_) => "reshape",
            Self::Switch(_) => "switch",
        }
    }

    /// The one replica that it hits, if there is one.
    #[must_use]
    pub const fn target(self) -> Option<Target> {
        match self {
            Self::Crash(target)
            | Self::CounterDies(target)
            | Self::Restart(target, _)
            | Self::Stop { target, .. }
            | Self::Pause(target, _)
            | Self::Deafen(target, _)
            | Self::Isolate { target, .. }
            | Self::ClockJump(target, _) => Some(target),
            Self::Split { .. }
            | Self::Partition { .. }
            | Self::Blackout { .. }
            | Self::Refresh(_)
            | Self::Replace(_)
            | Self::Reshape(_)
            | Self::Switch(_) => None,
        }
    }

    /// For how long it lasts, if it ends by itself.
    pub const fn lasts(&mut self) -> Option<&mut u64> {
        match self {
            Self::Restart(_, lasts)
            | Self::Stop { lasts, .. }
            | Self::Blackout { lasts, .. }
            | Self::Pause(_, lasts)
            | Self::Deafen(_, lasts)
            | Self::Isolate { lasts, .. }
            | Self::Split { lasts, .. }
            | Self::Partition { lasts, .. } => Some(lasts),
            Self::Crash(_)
            | Self::CounterDies(_)
            | Self::ClockJump(..)
            | Self::Refresh(_)
            | Self::Replace(_)
            | Self::Reshape(_)
            | Self::Switch(_) => None,
        }
    }
}
