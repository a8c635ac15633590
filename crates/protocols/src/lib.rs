//! The protocol cores, replica and client side, one directory each, and the registry by which
//! `--protocol` finds them.
//!
//! | name | replicas | module |
//! | --- | --- | --- |
//! | `minbft` | `2f + 1` | [`minbft`] |
//! | `pbft` | `3f + 1` | [`pbft`] |
//! | `unreplicated` | 1 | [`unreplicated`], for benchmarks only |

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod common;
pub mod minbft;
pub mod pbft;
pub mod unreplicated;

use alloc::boxed::Box;
use alloc::vec::Vec;
use pentarchy_core::Bytes;
use pentarchy_core::erased::{CoreEffect, Erased, ReplicaCore};
use pentarchy_core::forge::{IsSettled, MakeForger};
use pentarchy_core::protocol::{BadRecord, Protocol, Rules, Setup};

/// Starts a replica core; its first effects are appended.
pub type Start = fn(Setup, &mut Vec<CoreEffect>) -> Box<dyn ReplicaCore>;

/// One protocol that can be chosen by name.
#[derive(Clone, Copy)]
pub struct Entry {
    /// Fault model and group size.
    pub rules: Rules,
    /// Brings up a replica.
    pub start: Start,
    /// Whether these are records of such a replica; to be asked before it starts with them.
    pub check_records: fn(&[Bytes]) -> Result<(), BadRecord>,
    /// Whether a user may run a service on it.
    pub for_users: bool,
    /// Makes a replica that lies, for searches; none if nobody has written down how.
    pub forger: Option<MakeForger>,
    /// Which messages have no effect any more, for the explorer.
    pub is_settled: IsSettled,
    /// Where explorations can begin: names and scripts.
    pub starts: &'static [(&'static str, &'static str)],
}

/// Every protocol.
pub static PROTOCOLS: [Entry; 3] = [
    Entry {
        rules: minbft::MinBft::RULES,
        start: start_minbft,
        check_records: Erased::<minbft::MinBft>::check_records,
        for_users: true,
        forger: Some(minbft::Byzantine::boxed),
        is_settled: minbft::is_settled,
        starts: &minbft::STARTS,
    },
    Entry {
        rules: pbft::Pbft::RULES,
        start: start_pbft,
        check_records: Erased::<pbft::Pbft>::check_records,
        for_users: true,
        forger: Some(pbft::Byzantine::boxed),
        is_settled: pbft::is_settled,
        starts: &[],
    },
    Entry {
        rules: unreplicated::Unreplicated::RULES,
        start: start_unreplicated,
        check_records: Erased::<unreplicated::Unreplicated>::check_records,
        for_users: false,
        forger: None,
        is_settled: |_, _| false,
        starts: &[],
    },
];

/// The protocol of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Entry> {
    PROTOCOLS.iter().find(|entry| entry.rules.name == name)
}

/// The protocol in which a seeded bug of this name is looked for: the one that it names, or else
/// the first, as what protocols share is the same in all.
#[must_use]
pub fn of_mutant(name: &str) -> &'static Entry {
    let module = name.split_once('.').map_or(name, |(module, _)| module);
    find(module).unwrap_or(&PROTOCOLS[0])
}

fn start_minbft(setup: Setup, out: &mut Vec<CoreEffect>) -> Box<dyn ReplicaCore> {
    Box::new(Erased::<minbft::MinBft>::start(setup, out))
}

fn start_pbft(setup: Setup, out: &mut Vec<CoreEffect>) -> Box<dyn ReplicaCore> {
    Box::new(Erased::<pbft::Pbft>::start(setup, out))
}

fn start_unreplicated(setup: Setup, out: &mut Vec<CoreEffect>) -> Box<dyn ReplicaCore> {
    Box::new(Erased::<unreplicated::Unreplicated>::start(setup, out))
}
