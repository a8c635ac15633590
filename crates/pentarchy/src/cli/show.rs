//! A report as a table.

use pentarchy_console::status::report::{ClusterReport, Disk, Pillar, ReplicaReport};
use pentarchy_console::table;
use std::fmt::Write as _;

/// The table, and below it what deserves a sentence.
pub fn table(report: &ClusterReport) -> String {
    let heads = [
        "replica",
        "address",
        "view",
        "role",
        "phase",
        "executed",
        "stable",
        "behind",
        "peers",
        "clients",
        "requests",
        "incarnation",
    ];
    let mut table = table::new(&heads);
    for replica in &report.replicas {
        table.add_row(row(replica));
    }
    let mut text = format!("{}\n\n{}", report.verdict.text(), table::text(&table));
    for replica in &report.replicas {
        remarks(replica, &mut text);
    }
    if report.diverged {
        let _ = write!(text, "\n  states at one checkpoint differ: a replica is faulty");
    }
    if let Some(pillars) = pillars(report) {
        let _ = write!(text, "\n\n{pillars}");
    }
    if let Some(disks) = disks(report) {
        let _ = write!(text, "\n\n{disks}");
    }
    if let Some(counters) = counters(report) {
        let _ = write!(text, "\n\n{counters}");
    }
    let verdict = if report.level { "healthy" } else { "NOT healthy" };
    let _ = write!(text, "\n\n{} faulty: {verdict}", report.title());
    text
}

/// How each pillar is, where there are several.
fn pillars(report: &ClusterReport) -> Option<String> {
    let heads = [
        "replica",
        "pillar",
        "view",
        "primary",
        "phase",
        "committed",
        "stable",
        "waiting",
        "peers",
        "CPU s",
    ];
    let mut table = table::new(&heads);
    for replica in &report.replicas {
        for (number, pillar) in replica.known.pillars.iter().enumerate() {
            let Pillar { view, primary, phase, committed, stable, waiting, thread } = pillar;
            let ids = [replica.id.to_string(), number.to_string()];
            let stand = [view.to_string(), primary.to_string(), phase.clone()];
            let numbers = [committed, stable, waiting].map(u64::to_string);
            // A host that cannot run a core in parts has no threads to show.
            let of_thread = thread.as_ref().map_or_else(
                || ["-", "-"].map(str::to_owned),
                |it| [it.peers.len().to_string(), format!("{:.1}", it.cpu_micros as f64 / 1e6)],
            );
            table.add_row(ids.into_iter().chain(stand).chain(numbers).chain(of_thread));
        }
    }
    (!table.is_empty()).then(|| format!("pillars:\n{}", table::text(&table)))
}

/// What outlives the replicas' processes, and how their disks are doing.
fn disks(report: &ClusterReport) -> Option<String> {
    let reachable = report.replicas.iter().filter(|replica| replica.reachable);
    let disks: Vec<String> = reachable
        .map(|replica| match &replica.known.durability {
            None => format!("  replica {}: memory; nothing outlives its process", replica.id),
            Some(Disk { mode, saved, .. }) if mode == "async" => format!(
                "  replica {}: async; {}; its promises do not outlive its process",
                replica.id,
                match saved {
                    Some(slot) => format!("the state at slot {slot} is on the disk"),
                    None => "no state is on the disk yet".to_owned(),
                }
            ),
            Some(Disk { mode, log_bytes, lag_entries, last_sync_micros, .. }) => format!(
                "  replica {}: {mode}; log {} MiB, last sync {:.1} ms, {lag_entries} entries wait",
                replica.id,
                log_bytes >> 20,
                *last_sync_micros as f64 / 1e3
            ),
        })
        .collect();
    (!disks.is_empty()).then(|| format!("durability:\n{}", disks.join("\n")))
}

/// Which replicas have their trusted counter in another process, if any has.
fn counters(report: &ClusterReport) -> Option<String> {
    let apart = report.replicas.iter().filter_map(|replica| {
        let process = replica.known.counter_process?;
        Some(format!("  replica {}: in process {process}", replica.id))
    });
    let apart: Vec<String> = apart.collect();
    (!apart.is_empty()).then(|| format!("trusted counters:\n{}", apart.join("\n")))
}

fn row(replica: &ReplicaReport) -> Vec<String> {
    let ReplicaReport { id, address, known, .. } = replica;
    let mut row = vec![id.to_string(), address.clone()];
    if !replica.reachable {
        let phase = if replica.not_asked { "not asked" } else { "unreachable" };
        row.extend(["-", "-", phase].map(str::to_owned));
        row.extend(std::iter::repeat_n("-".to_owned(), 7));
        return row;
    }
    row.extend([known.view.to_string(), known.role.clone(), known.phase.clone()]);
    let numbers = [known.executed, known.stable, known.behind];
    row.extend(numbers.map(|number| number.to_string()));
    row.push(known.peers.len().to_string());
    row.extend([known.clients, known.requests].map(|number| number.to_string()));
    row.push(format!("{:016x}", known.incarnation));
    row
}

/// What is unusual about a replica.
fn remarks(replica: &ReplicaReport, text: &mut String) {
    let known = &replica.known;
    let mut remark = |what: String| {
        let _ = write!(text, "\n  replica {}: {what}", replica.id);
    };
    if let Some(problem) = &replica.problem {
        remark(problem.clone());
    }
    if let Some(fault) = &known.fault {
        remark(format!("misbehaves on command ({fault}); undo: pentarchy heal {}", replica.id));
    }
    if known.phase == "joining" {
        remark("has lost its memory and asks the group to admit it again".to_owned());
    } else if let Some(what) = known.approach() {
        remark(what);
    }
    if known.has_former_key == Some(true) {
        remark("has yet to erase the keys by which it signed before the last change".to_owned());
    }
    if known.counters.get("diverged").is_some_and(|times| *times != 0) {
        let what = "ALARM: its state differed from the group's, and it took theirs";
        let sections = known.diverged_sections.join(", ");
        let place = if sections.is_empty() { sections } else { format!(", in {sections}") };
        remark(format!("{what}{place}"));
    }
    if let Some(Disk { damaged_pieces, repaired_pieces, .. }) =
        known.durability.as_ref().filter(|disk| disk.damaged_pieces > 0)
    {
        remark(format!(
            "ALARM: {damaged_pieces} pieces of states on its disk were damaged, of which \
             {repaired_pieces} were repaired: check that disk"
        ));
    }
    if known.view_changes > 0 {
        let reason = &known.view_change_reason;
        remark(format!("view changes: {}, the last because: {reason}", known.view_changes));
    }
    let refused: Vec<String> = known
        .rejects
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(reason, count)| format!("{count} {reason}"))
        .collect();
    if !refused.is_empty() {
        remark(format!("refused messages of peers: {}", refused.join(", ")));
    }
}
