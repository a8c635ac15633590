//! What others have to know of it.

use super::client::ShuttleClient;
use super::mode::{Checksums, Macs, Mode, Trusting};
use super::replica::Shuttle;
use crate::common::voting_client::VotingClient;
use crate::descriptor::{ClientStart, Descriptor, Status};
use alloc::boxed::Box;
use pentarchy_core::ports::client::ClientCore;
use pentarchy_core::protocol::Protocol as _;

/// Shuttle.
pub static DESCRIPTOR: Descriptor = Descriptor {
    title: "Shuttle",
    about: "a chain; `f + 1` replicas execute",
    client: client::<Macs>,
    ..describe::<Macs>(Status::Young)
};

/// Shuttle with checksums.
pub static CHECKSUMS: Descriptor = Descriptor {
    title: "Shuttle with checksums",
    about: "a chain whose replicas do not lie",
    client: client::<Checksums>,
    ..describe::<Checksums>(Status::Young)
};

/// Chain replication.
pub static CHAIN: Descriptor = Descriptor {
    title: "Chain replication",
    about: "a chain whose replicas stop, and do nothing else",
    ..describe::<Trusting>(Status::Comparator)
};

const fn describe<M: Mode>(status: Status) -> Descriptor {
    Descriptor {
        paper: "*Byzantine Chain Replication*, section 3",
        page: Some("shuttle.md"),
        mutants: &["shuttle"],
        ..Descriptor::of::<Shuttle<M>>(status)
    }
}

/// A client that waits for all replicas.
fn client<M: Mode>(start: ClientStart) -> Box<dyn ClientCore> {
    let ClientStart { client, group, timeouts, start_floor, .. } = start;
    let quorums = Shuttle::<M>::RULES.client_quorums(group);
    let inner = VotingClient::new(client, quorums, timeouts, start_floor);
    Box::new(ShuttleClient::new(client, group, inner))
}
