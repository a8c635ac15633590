//! What others have to know of it.

use super::{
    Byzantine, Five, Hasty, Plain, Printed, Proving, Signed, Table, Three, Variant, Zyzzyva,
    is_settled,
};
use crate::descriptor::{ClientStart, Descriptor, Status, confirming_client};
use alloc::boxed::Box;
use pentarchy_core::ports::client::ClientCore;
use pentarchy_core::protocol::Rules;

/// Zyzzyva.
pub static DESCRIPTOR: Descriptor = Descriptor {
    title: "Zyzzyva",
    about: "executes before it agrees",
    mutants: &[
        "zyzzyva",
        // Where all replicas have to answer a query, one of them has the state of the handover.
        "epochs.reads-before-base",
        // What is executed before it is final can be taken back.
        "frame.other-order-forgotten",
        "frame.waits-for-what-is-installed",
        "executor.clients-not-rolled-back",
        "executor.other-view-not-told",
        "executor.reads-what-may-be-taken-back",
        "frame.answers-having-gone-back",
        "frame.entered-views-worked",
        "client.ignores-places",
    ],
    ..describe::<Three>(Status::Young)
};

/// Zyzzyva5.
pub static FIVE: Descriptor = Descriptor {
    title: "Zyzzyva5",
    about: "`zyzzyva` that stays fast while `f` replicas are silent",
    mutants: &["zyzzyva5"],
    ..describe::<Five>(Status::Young)
};

/// Zyzzyva without its commit optimisation.
pub static PLAIN: Descriptor = Descriptor {
    about: "`zyzzyva` without its commit optimisation",
    ..describe::<Plain>(Status::Comparator)
};

/// Zyzzyva with signed answers.
pub static SIGNED: Descriptor = Descriptor {
    about: "`zyzzyva` whose replicas sign every answer",
    ..describe::<Signed>(Status::Comparator)
};

/// Zyzzyva with impatient clients: its replicas are Zyzzyva's.
pub static HASTY: Descriptor = Descriptor {
    rules: Rules { name: Hasty::KIND.name, ..Three::KIND.rules() },
    about: "`zyzzyva` whose clients wait for nobody",
    client: client::<Hasty>,
    ..describe::<Three>(Status::Comparator)
};

/// Zyzzyva as it was printed in 2009.
pub static PRINTED: Descriptor =
    Descriptor { about: "`zyzzyva` as printed: unsafe", ..describe::<Printed>(Status::Museum) };

const fn describe<V: Variant>(status: Status) -> Descriptor {
    Descriptor {
        paper: "*Zyzzyva: Speculative Byzantine Fault Tolerance*, sections 3 and 4",
        page: Some("zyzzyva.md"),
        client: client::<V>,
        forger: Some(Byzantine::boxed::<V>),
        is_settled,
        ..Descriptor::of::<Zyzzyva<V>>(status)
    }
}

fn client<V: Variant>(start: ClientStart) -> Box<dyn ClientCore> {
    let table = Table::new(V::KIND, start.group);
    confirming_client(&V::KIND.rules(), Proving(table), start)
}
