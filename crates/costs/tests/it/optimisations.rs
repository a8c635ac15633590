//! What each optimisation of Zyzzyva's section 4 saves by itself, as counts: the table of
//! `docs/protocols/zyzzyva.md` is what this prints.

use crate::formulas::{OPERATION, PRIMARY, alone};
use crate::ledger::Ledger;
use pentarchy_core::ids::ReplicaId;
use pentarchy_core::limits::{ENVELOPE_INLINE_BYTES, REPLY_WHOLE_BYTES};
use pentarchy_core::protocol::Tuning;
use pentarchy_costs::group::{Group, Sum, Traffic};
use pentarchy_costs::real::tuned;
use pentarchy_costs::{Node, Unwatched};
use pentarchy_protocols::find;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

const LONG: usize = 4096;

/// What was counted, with an optimisation and without it.
struct Row {
    optimisation: &'static str,
    when: &'static str,
    counted: &'static str,
    with: usize,
    without: usize,
}

/// A group for one fault whose clients have one result each.
fn begun(protocol: &str, clients: usize, tuning: Tuning) -> Group {
    let mut group = tuned(find(protocol).expect("a protocol"), 1, clients, tuning);
    group.level(&mut Unwatched);
    group.submit(1, OPERATION);
    group.settle(1, &mut Unwatched);
    group.take_traffic();
    group
}

fn total(sums: &BTreeMap<&'static str, Sum>, of: fn(&Sum) -> u64) -> usize {
    sums.values().map(of).sum::<u64>() as usize
}

fn left(group: &mut Group, node: Node) -> Traffic {
    group.take_traffic().remove(&node).unwrap_or_default()
}

/// Signatures, messages and bytes of the primary for ten requests of ten clients.
fn batching() -> [Row; 3] {
    let count = |batch_requests| {
        let mut group = begun("zyzzyva", 10, Tuning { batch_requests, ..Tuning::default() });
        let mut ledger = Ledger::default();
        group.submit(1, OPERATION);
        group.settle(2, &mut ledger);
        let Sum { messages, bytes } = left(&mut group, PRIMARY).left["order"];
        [ledger.0[&PRIMARY].signatures_made, messages, bytes].map(|count| count as usize)
    };
    let (with, without) = (count(Tuning::default().batch_requests), count(1));
    let row = |index: usize, counted| Row {
        optimisation: "batching",
        when: "10 clients, a request each",
        counted,
        with: with[index],
        without: without[index],
    };
    [
        row(0, "signatures that the primary makes"),
        row(1, "ORDERs that it sends"),
        row(2, "bytes of these"),
    ]
}

/// Bytes that come to a client with a long result.
fn single_reply() -> Row {
    let count = |whole_bytes| {
        let mut group = begun("zyzzyva", 1, Tuning::default());
        group.tell_whole(whole_bytes);
        group.submit_for(1, OPERATION, LONG);
        group.settle(2, &mut Unwatched);
        total(&left(&mut group, Node::Client(0)).came, |sum| sum.bytes)
    };
    Row {
        optimisation: "a full reply of one replica only",
        when: "a result of 4 KiB",
        counted: "bytes that come to the client",
        with: count(REPLY_WHOLE_BYTES),
        without: count(usize::MAX),
    }
}

/// Bytes that the primary sends for a request that is just short enough to travel in its order,
/// and for one that is not.
fn order_by_digest() -> Row {
    let count = |length| {
        let mut group = begun("zyzzyva", 1, Tuning::default());
        group.submit_for(1, length, OPERATION);
        group.settle(2, &mut Unwatched);
        left(&mut group, PRIMARY).left["order"].bytes as usize
    };
    Row {
        optimisation: "ordering by digest",
        when: "a request of 16 KiB",
        counted: "bytes of ORDERs",
        with: count(ENVELOPE_INLINE_BYTES + 1),
        without: count(ENVELOPE_INLINE_BYTES - 64),
    }
}

/// Signatures that replicas make for ten requests of ten clients, and what comes to these.
fn signed_on_demand() -> [Row; 3] {
    let count = |protocol| {
        let mut group = begun(protocol, 10, Tuning::default());
        let mut ledger = Ledger::default();
        group.submit(1, OPERATION);
        let steps = group.settle(2, &mut ledger);
        assert_eq!(steps, 3, "signatures are made and not waited for");
        let replicas = ledger.0.iter().filter(|(node, _)| matches!(node, Node::Replica(_)));
        let made = replicas.map(|(_, spent)| spent.signatures_made as usize).sum();
        let came = left(&mut group, Node::Client(0)).came;
        [made, total(&came, |sum| sum.messages), total(&came, |sum| sum.bytes)]
    };
    let (with, without) = (count("zyzzyva"), count("zyzzyva-signed"));
    let row = |index: usize, counted| Row {
        optimisation: "MACs, signatures on demand",
        when: "10 clients, a request each",
        counted,
        with: with[index],
        without: without[index],
    };
    [
        row(0, "signatures that replicas make"),
        row(1, "messages that come to a client"),
        row(2, "bytes of these"),
    ]
}

/// The second request of a client after a backup is gone: the first had to be asked about.
fn commits() -> [Row; 3] {
    let count = |protocol| {
        let mut group = begun(protocol, 1, Tuning::default());
        group.crash(ReplicaId(3));
        group.submit(1, OPERATION);
        group.settle(2, &mut Unwatched);
        group.take_traffic();
        let mut ledger = Ledger::default();
        group.submit(1, OPERATION);
        let steps = group.settle(3, &mut ledger);
        let Traffic { came, left } = left(&mut group, Node::Client(0));
        let messages = total(&came, |sum| sum.messages) + total(&left, |sum| sum.messages);
        [steps, messages, ledger.0[&PRIMARY].signatures_verified as usize]
    };
    let (with, without) = (count("zyzzyva"), count("zyzzyva-plain"));
    let row = |index: usize, counted| Row {
        optimisation: "commit optimisation",
        when: "a backup is gone, the second request",
        counted,
        with: with[index],
        without: without[index],
    };
    [
        row(0, "steps"),
        row(1, "messages to and from the client"),
        row(2, "signatures that the primary checks"),
    ]
}

#[test]
fn the_table_on_the_page_is_what_is_counted() {
    let _alone = alone();
    let rows = batching().into_iter().chain(signed_on_demand());
    let rows = rows.chain([single_reply(), order_by_digest()]).chain(commits());
    let mut table = String::new();
    for Row { optimisation, when, counted, with, without } in rows {
        assert!(with < without, "{optimisation}, {counted}: {with} instead of {without}");
        let row = format!("| {optimisation} | {when} | {counted} | {with} | {without} |");
        writeln!(table, "{row}").expect("text can be written");
    }
    println!("{table}");
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/protocols/zyzzyva.md");
    let page = std::fs::read_to_string(page).expect("the page of the protocol");
    assert!(page.contains(&table), "docs/protocols/zyzzyva.md does not have this:\n{table}");
}
