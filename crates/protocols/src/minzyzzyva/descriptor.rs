//! What others have to know of it.

use super::{MinZyzzyva, MinZyzzyva2010, Settling};
use crate::common::usig::{Byzantine, STARTS, is_settled};
use crate::descriptor::{ClientStart, Descriptor, Status, confirming_client};
use alloc::boxed::Box;
use pentarchy_core::ports::client::ClientCore;
use pentarchy_core::protocol::{Protocol as _, Rules};

const PAPER: &str = "*Efficient Byzantine fault tolerance*, section 5";
const RULES: Rules = MinZyzzyva::RULES;

/// MinZyzzyva.
pub static DESCRIPTOR: Descriptor = Descriptor {
    title: "MinZyzzyva",
    about: "executes before it agrees",
    paper: PAPER,
    page: Some("minzyzzyva.md"),
    client,
    forger: Some(Byzantine::boxed),
    is_settled,
    starts: &STARTS,
    mutants: &["minzyzzyva", "usig.shows-commitments-only"],
    ..Descriptor::of::<MinZyzzyva>(Status::Young)
};

/// The same as it was printed in 2010.
pub static PRINTED: Descriptor = Descriptor {
    about: "`minzyzzyva` with views as printed: unsafe",
    paper: PAPER,
    page: Some("minzyzzyva.md"),
    client,
    forger: Some(Byzantine::boxed),
    is_settled,
    starts: &STARTS,
    ..Descriptor::of::<MinZyzzyva2010>(Status::Museum)
};

fn client(start: ClientStart) -> Box<dyn ClientCore> {
    confirming_client(&RULES, Settling(RULES.client_quorums(start.group)), start)
}
