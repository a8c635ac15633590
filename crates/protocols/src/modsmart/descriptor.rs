//! What others have to know of it.

use super::{
    Byzantine, Crash, CrashModSmart, ModSmart, Serial, SerialModSmart, Windowed, is_settled,
};
use crate::descriptor::{Descriptor, Status};

/// Mod-SMaRt.
pub static DESCRIPTOR: Descriptor = Descriptor {
    title: "Mod-SMaRt",
    about: "three phases; votes are not signed",
    paper: "*From Byzantine Consensus to BFT State Machine Replication*, sections 4.2 and 4.3",
    page: Some("modsmart.md"),
    forger: Some(Byzantine::<Windowed>::boxed),
    is_settled: is_settled::<Windowed>,
    mutants: &["modsmart"],
    ..Descriptor::of::<ModSmart>(Status::Young)
};

/// Mod-SMaRt one slot at a time, with signed ACCEPTs.
pub static SERIAL: Descriptor = Descriptor {
    about: "`modsmart` one slot at a time",
    paper: "*State Machine Replication for the Masses with BFT-SMaRt*, sections 3 and 4",
    page: Some("modsmart.md#one-slot-at-a-time"),
    forger: Some(Byzantine::<Serial>::boxed),
    is_settled: is_settled::<Serial>,
    ..Descriptor::of::<SerialModSmart>(Status::Comparator)
};

/// Mod-SMaRt where replicas crash and do not lie.
pub static CRASH: Descriptor = Descriptor {
    title: "Mod-SMaRt's crash mode",
    about: "`modsmart` for replicas that crash and never lie: two phases",
    paper: "*State Machine Replication for the Masses with BFT-SMaRt*, section 3",
    page: Some("modsmart.md#crash-mode"),
    is_settled: is_settled::<Crash>,
    mutants: &["modsmart-cft"],
    ..Descriptor::of::<CrashModSmart>(Status::Young)
};
