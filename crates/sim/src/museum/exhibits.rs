//! The collection. `docs/museum.md` has it as a table, with links.

use super::{Exhibit, Flaw, Scene};
use crate::adversary::Behaviour;
use crate::checker::promptness::Promptness;
use crate::crypto::Means;
use crate::device::DeviceFault;
use crate::hostile::Hostility;
use crate::network::{NetworkOptions, Parts};
use crate::swarm::{Disturbance, Options, Target};
use crate::time::Micros;
use pentarchy_core::ids::{ReplicaId, ReplicaSet};
use pentarchy_core::limits::TURNAROUND_MILLIS;

/// All exhibits.
pub const EXHIBITS: &[Exhibit] = &[
    Exhibit {
        name: "new-view-executed",
        source: "hyperledger-labs/minbft, pull request 212; Veronese et al., section 4",
        about: "a primary executes what its NEW-VIEW takes over, is cut off, and a later view that \
                knows nothing of it orders something else in that slot",
        protocol: "minbft",
        flaw: Flaw::Mutant("usig.execute-on-new-view"),
        scene: Scene::Explorer {
            liar: None,
            alphabet: &[],
            timeouts: 2,
            start: Some("view-2"),
            states: 600_000,
        },
        breaks: &["agreement"],
    },
    Exhibit {
        name: "commit-after-leaving",
        source: "hyperledger-labs/minbft, pull request 189; Veronese et al., section 4",
        about: "a liar shows an empty VIEW-CHANGE, and then commits in the view that it left",
        protocol: "minbft",
        flaw: Flaw::Mutant("device.not-bound-to-views"),
        scene: Scene::Explorer {
            liar: Some(2),
            alphabet: &["commit", "view-change", "acknowledge"],
            timeouts: 1,
            start: None,
            states: 200_000,
        },
        breaks: &["agreement"],
    },
    Exhibit {
        name: "omitted-commitment",
        source: "Veronese et al., section 4: a VIEW-CHANGE shows commitments without holes",
        about: "a liar's VIEW-CHANGE leaves out what it committed to, and the next view orders \
                something else there",
        protocol: "minbft",
        flaw: Flaw::Mutant("usig.omission-not-checked"),
        scene: Scene::Explorer {
            liar: Some(2),
            alphabet: &["commit", "view-change-empty", "acknowledge"],
            timeouts: 1,
            start: None,
            states: 200_000,
        },
        breaks: &["agreement"],
    },
    Exhibit {
        name: "device-cloned",
        source: "hyperledger-labs/minbft, pull request 14; Bano et al., Twins, 2021",
        about: "two copies of a replica, each with a device of its own and one key, equivocate",
        protocol: "minbft",
        flaw: Flaw::Device(DeviceFault::Clone),
        scene: Scene::Twins { rounds: 2 },
        breaks: &["agreement"],
    },
    Exhibit {
        name: "device-set-back",
        source: "Gupta et al., Dissecting BFT Consensus, EuroSys 2023",
        about: "a device is set back to before a message that it certified",
        protocol: "minbft",
        flaw: Flaw::Device(DeviceFault::RollBack),
        scene: Scene::Twins { rounds: 2 },
        breaks: &["agreement"],
    },
    Exhibit {
        name: "big-mac",
        source: "Clement et al., Making BFT Systems Tolerate Byzantine Faults, NSDI 2009",
        about: "a client's MACs convince the primary and not the backups, which cannot commit and \
                depose one primary after the other",
        protocol: "minbft",
        flaw: Flaw::Macs,
        scene: Scene::Swarm { seeds: 40, shape: partial_macs },
        breaks: &["liveness", "stability"],
    },
    Exhibit {
        name: "big-mac-pbft",
        source: "Clement et al., Making BFT Systems Tolerate Byzantine Faults, NSDI 2009",
        about: "the same in PBFT, on which it was published",
        protocol: "pbft",
        flaw: Flaw::Macs,
        scene: Scene::Swarm { seeds: 40, shape: partial_macs },
        breaks: &["liveness", "stability"],
    },
    Exhibit {
        name: "big-mac-zyzzyva",
        source: "Clement et al., Making BFT Systems Tolerate Byzantine Faults, NSDI 2009",
        about: "the same in Zyzzyva, on which it was published too",
        protocol: "zyzzyva",
        flaw: Flaw::Macs,
        scene: Scene::Swarm { seeds: 40, shape: partial_macs },
        breaks: &["liveness", "stability"],
    },
    Exhibit {
        name: "number-reused",
        source: "found here: Veronese et al., section 4, read as one timer for each request",
        about: "a client gives one number to different requests; backups wait for theirs for ever \
                and depose a correct primary",
        protocol: "minbft",
        flaw: Flaw::Mutant("pending.waits-for-digest"),
        scene: Scene::Swarm { seeds: 40, shape: reuse },
        breaks: &["stability", "liveness"],
    },
    Exhibit {
        name: "primary-left-out",
        source: "Castro and Liskov, Practical BFT, OSDI 1999: why backups relay requests",
        about: "a client sends to backups only; if they do not pass it on they depose a primary \
                that never saw the request",
        protocol: "minbft",
        flaw: Flaw::Mutant("frame.never-forwards"),
        scene: Scene::Swarm { seeds: 40, shape: partial },
        breaks: &["stability", "liveness"],
    },
    Exhibit {
        name: "stale-read",
        source: "Castro and Liskov, Practical BFT, OSDI 1999: how many must answer a read",
        about: "a read that is not ordered and asks fewer replicas than intersect with every write \
                returns what was overwritten",
        protocol: "minbft",
        flaw: Flaw::Mutant("client.reads-from-a-quorum"),
        scene: Scene::Swarm { seeds: 40, shape: reads },
        breaks: &["linearizability"],
    },
    Exhibit {
        name: "replies-not-transferred",
        source: "Behl, Distler and Kapitza, Hybrids on Steroids, EuroSys 2017, section 5.2.2",
        about: "a replica that fetched a state cannot answer requests that it skipped, and their \
                client never has enough answers",
        protocol: "minbft",
        flaw: Flaw::Mutant("sessions.replies-left-out"),
        scene: Scene::Swarm { seeds: 40, shape: skipped },
        breaks: &["liveness"],
    },
    Exhibit {
        name: "clients-not-transferred",
        source: "Castro and Liskov, Practical BFT, OSDI 1999: the last reply is part of the state",
        about: "a transfer brings the service and not the client table, so requests run twice or \
                states differ",
        protocol: "minbft",
        flaw: Flaw::Mutant("executor.clients-not-restored"),
        scene: Scene::Swarm { seeds: 100, shape: |_| {} },
        breaks: &["at_most_once", "checkpoint", "events"],
    },
    Exhibit {
        name: "new-view-said-once",
        source: "hyperledger-archives/fabric, issue 1917",
        about: "view-change messages that are lost are not sent again, and the group stands still",
        protocol: "minbft",
        flaw: Flaw::Mutant("usig.new-view-not-passed-on"),
        scene: Scene::Swarm { seeds: 100, shape: |_| {} },
        breaks: &["liveness"],
    },
    Exhibit {
        name: "counter-gap",
        source: "Veronese et al., section 4: messages count in counter order, without holes",
        about: "a message is lost and nobody sends it again: counters have no holes, so a backup \
                stands still for ever",
        protocol: "minbft",
        flaw: Flaw::Mutant("frame.slots-not-passed-on"),
        scene: Scene::Swarm { seeds: 40, shape: lossy },
        breaks: &["liveness"],
    },
    Exhibit {
        name: "gap-of-an-author",
        source: "found here: Veronese et al., section 4, read as authors who send again",
        about: "a faulty primary leaves one backup out, and answers clients, so nobody else misses \
                anything; only if others pass on what they have is that backup ever level",
        protocol: "minbft",
        flaw: Flaw::Mutant("usig.only-authors-repeat"),
        scene: Scene::Swarm { seeds: 40, shape: left_out },
        breaks: &["liveness"],
    },
    Exhibit {
        name: "stable-by-f",
        source: "Veronese et al., section 4: a stable checkpoint takes f + 1 equal messages",
        about: "a checkpoint counts as stable with f signatures: a liar alone makes up a state, \
                and a correct replica convinces nobody with what it believes itself",
        protocol: "minbft",
        flaw: Flaw::Mutant("frame.stable-by-f"),
        scene: Scene::Swarm { seeds: 40, shape: forging_backup },
        breaks: &["acceptance", "checkpoint", "leaving", "liveness"],
    },
    Exhibit {
        name: "time-from-the-future",
        source: "Castro and Liskov, Practical BFT, OSDI 1999: non-determinism",
        about: "a lying primary proposes a time far ahead, and the group's clock never moves again",
        protocol: "minbft",
        flaw: Flaw::Mutant("frame.any-time-is-good"),
        scene: Scene::Swarm { seeds: 60, shape: forging_primary },
        breaks: &["agreed_time"],
    },
    Exhibit {
        name: "poisoned-transfer",
        source: "Castro and Liskov, Practical BFT and Proactive Recovery, 2002: state transfer",
        about: "a liar answers a state transfer with chunks of its own",
        protocol: "minbft",
        flaw: Flaw::Mutant("transfer.chunk-not-checked"),
        scene: Scene::Swarm { seeds: 200, shape: poison },
        breaks: &["checkpoint", "durability", "panic"],
    },
    Exhibit {
        name: "reads-block",
        source: "Berger, Reiser and Bessani, Making Reads in BFT SMR Fast, Linearizable, and Live, \
                 SRDS 2021",
        about: "clients wait for 2f + 1 results, so that reads need not be ordered; a primary \
                leaves out f correct backups and answers nobody, and those left out are too few \
                to depose it",
        protocol: "pbft",
        flaw: Flaw::Mutant("frame.slots-not-passed-on"),
        scene: Scene::Swarm { seeds: 20, shape: left_out_of_writes },
        breaks: &["liveness"],
    },
    Exhibit {
        name: "first-slot",
        source: "Abraham et al., Revisiting Fast Practical Byzantine Fault Tolerance, 2017",
        about: "a liar gives two orders for the first slot and keeps a certificate for one; all \
                execute the other in view 1, clients act on it, and in view 2 the certificate \
                counts",
        protocol: "zyzzyva",
        flaw: Flaw::Printed("zyzzyva-2009"),
        scene: Scene::Swarm { seeds: 40, shape: first_slot },
        breaks: &["speculation", "panic"],
    },
    Exhibit {
        name: "certified-after-leaving",
        source: "found here: Veronese et al., section 5, taken at its word",
        about: "a liar leaves a view and shows nothing, then certifies what that view ordered; the \
                primary that was cut off holds it for final, and the next view knows nothing of it",
        protocol: "minzyzzyva",
        flaw: Flaw::Printed("minzyzzyva-2010"),
        scene: Scene::Explorer {
            liar: Some(2),
            alphabet: &["commit", "view-change", "acknowledge"],
            timeouts: 1,
            start: None,
            states: 200_000,
        },
        breaks: &["agreement", "invariants"],
    },
    Exhibit {
        name: "new-view-final",
        source: "found here: Veronese et al., section 5, taken at its word",
        about: "nobody lies; a primary takes its own NEW-VIEW for a commit certificate, is cut \
                off, and the next view knows nothing of what that took over",
        protocol: "minzyzzyva",
        flaw: Flaw::Printed("minzyzzyva-2010"),
        scene: Scene::Explorer {
            liar: None,
            alphabet: &[],
            timeouts: 2,
            start: Some("view-2"),
            states: 400_000,
        },
        breaks: &["agreement", "invariants"],
    },
    Exhibit {
        name: "omitted-commitment-hybster",
        source: "Behl, Distler and Kapitza, Hybrids on Steroids, EuroSys 2017, section 5.2.3: \
                 continuing certificates",
        about: "the same as omitted-commitment: a certificate names the value before, and nobody \
                compares what is shown with that",
        protocol: "hybster",
        flaw: Flaw::Mutant("hybster.omission-not-checked"),
        scene: Scene::Explorer {
            liar: Some(2),
            alphabet: &["commit", "view-change-empty", "enter"],
            timeouts: 1,
            start: None,
            states: 200_000,
        },
        breaks: &["agreement"],
    },
    Exhibit {
        name: "new-view-missed",
        source: "Behl, Distler and Kapitza, Hybrids on Steroids, EuroSys 2017, figure 3",
        about: "a replica misses the NEW-VIEW of a view that others were in, and nobody passes it \
                on: it never gets beyond that view, and cannot open the next",
        protocol: "hybster",
        flaw: Flaw::Mutant("hybster.new-view-not-passed-on"),
        scene: Scene::Swarm { seeds: 100, shape: |_| {} },
        breaks: &["liveness"],
    },
    Exhibit {
        name: "joiner-without-state",
        source: "Ongaro, Consensus: Bridging Theory and Practice, 2014, section 4.2.1",
        about: "a new member counts as soon as administrators propose it, although it has neither \
                the state nor a device; if it stays away, one fault less is tolerated",
        protocol: "minbft",
        flaw: Flaw::Mutant("roster.change-ends-epoch"),
        scene: Scene::Swarm { seeds: 20, shape: replaced },
        breaks: &["configuration"],
    },
    Exhibit {
        name: "leaver-with-the-state",
        source: "Liskov and Cowling, Viewstamped Replication Revisited, 2012, section 7",
        about: "a member ends as soon as the group goes on without it; the only other member that \
                has the state lies about it, so those that stay never get it",
        protocol: "minbft",
        flaw: Flaw::Mutant("epochs.leaves-at-once"),
        scene: Scene::Swarm { seeds: 20, shape: replaced_by_those_who_lag },
        breaks: &["liveness"],
    },
    Exhibit {
        name: "former-keys",
        source: "Kuznetsov and Tonkikh, Asynchronous Reconfiguration with Byzantine Failures, \
                 DISC 2020",
        about: "a member that leaves keeps its signing key; whoever finds the machines of f + 1 \
                such members can prove another end of their configuration",
        protocol: "minbft",
        flaw: Flaw::Mutant("epochs.signing-key-kept"),
        scene: Scene::Swarm { seeds: 20, shape: replaced },
        breaks: &["retirement"],
    },
    Exhibit {
        name: "former-member-answers",
        source: "Kuznetsov and Tonkikh, Asynchronous Reconfiguration with Byzantine Failures, \
                 DISC 2020",
        about: "an attacker takes over a machine that has left the group; it and a faulty member \
                tell one lie to a client that has not heard of the change",
        protocol: "minbft",
        flaw: Flaw::Mutant("welcome.by-identity"),
        scene: Scene::Swarm { seeds: 20, shape: replaced_and_taken_over },
        breaks: &["linearizability"],
    },
    Exhibit {
        name: "slow-primary",
        source: "Amir et al., Prime, 2011; Clement et al., NSDI 2009",
        about: "a primary that is just fast enough not to run into the timeout is never deposed, \
                and slows the group down",
        protocol: "minbft",
        flaw: Flaw::Mutant("pace.slow-primary-kept"),
        scene: Scene::Swarm { seeds: 10, shape: slow_primary },
        breaks: &["promptness"],
    },
    Exhibit {
        name: "tolerated-primary",
        source: "Clement et al., NSDI 2009, section 4: what a primary may still do",
        about: "a primary that is as slow as is tolerated stays; no replica can tell it from one \
                in a slow network",
        protocol: "minbft",
        flaw: Flaw::Known,
        scene: Scene::Swarm { seeds: 10, shape: tolerated_primary },
        breaks: &[],
    },
];

/// Nothing goes wrong but what follows.
fn calm(options: &mut Options) {
    options.network = NetworkOptions { latency_us: 50, jitter_us: 100, ..Default::default() };
    (options.skew_ms, options.drift_ppm, options.busy_ppm) = (0, 0, 0);
    (options.means, options.late_checkpoints) = (Means::Signature, 0);
    options.byzantine.clear();
    options.hostile.clear();
    options.disturbances.clear();
}

fn reuse(options: &mut Options) {
    calm(options);
    options.hostile.push(Hostility::Reuse);
}

fn partial(options: &mut Options) {
    calm(options);
    options.hostile.push(Hostility::Partial);
}

fn partial_macs(options: &mut Options) {
    calm(options);
    options.hostile.push(Hostility::PartialMacs);
    // Although nobody promises it with MACs: this is the attack.
    options.liveness_timeouts = 50;
}

/// Half of the group does not know what the other half wrote, and a faulty replica stands on both
/// sides: its two copies share a device and say what they know.
fn reads(options: &mut Options) {
    calm(options);
    (options.workload.reads_percent, options.workload.queries_percent) = (50, 100);
    (options.workload.keys, options.clients) = (1, options.clients.max(2));
    options.byzantine = vec![(ReplicaId(1), vec![Behaviour::Twin])];
    let (behind, copy) = (2, options.n as u16);
    let parts = Parts(0).with(behind, 1).with(copy, 1);
    let lasts = options.heal_at / 8;
    let split = |part: u64| (part * options.heal_at / 4, Disturbance::Partition { parts, lasts });
    options.disturbances = (0..4).map(split).collect();
}

fn lossy(options: &mut Options) {
    calm(options);
    options.network.loss_ppm = 20_000;
}

fn left_out(options: &mut Options) {
    calm(options);
    let friends = ReplicaSet::from_iter([ReplicaId(1)]);
    let selective = Behaviour::Selective { friends, answers_clients: true };
    options.byzantine = vec![(ReplicaId(0), vec![selective])];
}

fn forging_backup(options: &mut Options) {
    calm(options);
    let forge = Behaviour::Forge { alone: false, rate_ppm: 300_000 };
    options.byzantine = vec![(ReplicaId(2), vec![forge])];
}

/// One replica answers no client, and another one is behind by more than its peers keep: clients
/// need the answers of the one that fetches the state.
fn skipped(options: &mut Options) {
    calm(options);
    let friends = ReplicaSet((1 << options.n) - 1);
    let mute = Behaviour::Selective { friends, answers_clients: false };
    options.byzantine = vec![(ReplicaId(1), vec![mute])];
    let target = Target::Replica(ReplicaId(2));
    let lasts = options.heal_at / 4;
    let away = Disturbance::Isolate { target, hears: false, clients: false, lasts };
    options.disturbances = vec![(options.heal_at / 8, away), (options.heal_at / 2, away)];
    options.tuning.window_slots = 2 * options.tuning.checkpoint_slots;
    (options.tuning.batch_requests, options.outstanding) = (1, 32);
}

fn poison(options: &mut Options) {
    options.byzantine = vec![(ReplicaId(1), vec![Behaviour::Poison { rate_ppm: 1_000_000 }])];
}

fn forging_primary(options: &mut Options) {
    let forge = Behaviour::Forge { alone: true, rate_ppm: 300_000 };
    options.byzantine = vec![(ReplicaId(0), vec![forge])];
}

/// A primary that speaks to a quorum of itself and `f + 1` others, and answers no client.
fn left_out_of_writes(options: &mut Options) {
    calm(options);
    let friends = ReplicaSet::from_iter([ReplicaId(1), ReplicaId(2)]);
    let selective = Behaviour::Selective { friends, answers_clients: false };
    options.byzantine = vec![(ReplicaId(0), vec![selective])];
    // With more at a time a checkpoint may become stable, and bring the results with it.
    (options.clients, options.outstanding) = (1, 1);
    (options.workload.reads_percent, options.workload.queries_percent) = (50, 100);
}

/// The attack in the words of `sim replay --with`. The liar is r0, in two copies: r0 and r4.
///
/// Until 30 ms r0 orders for r1, and r4 for r2 and r3, whose answers get lost. Then what they vote
/// reaches only r4, which keeps a certificate. From 110 ms on it is alone; the others find the two
/// orders and open view 1 with what r0, r1 and r2 show, so that it begins as r0 says. There the
/// clients ask again, have equal answers of all four, and nobody can say to another what it
/// executed. From 225 ms on nothing is ordered; at 1.3 s r2 and r3 leave for view 2, and r4 with
/// them, which has heard of no view but the first.
const FIRST_SLOT: &str = "n=4 f=1 clients=2 requests_each=20 think_us=300000 checkpoint=128 \
    window=256 in_flight=6 latency_us=50 jitter_us=100 skew_ms=400 heal_at_us=3000000 \
    faulty=r0:twin at=0:partition(00111,30000) at=0:isolate(r3,1,1,30000) \
    at=0:isolate(r0,1,1,5000) at=30000:split(r2+r4,1,80000) at=30000:split(r3+r4,1,80000) \
    at=30000:split(r0+r1,1,80000) at=110000:split(r4,0,1190000) at=110000:split(r3,1,90550) \
    at=203000:partition(01234,22000) at=225000:partition(01222,2000000) \
    at=225000:isolate(r0,0,1,2000000)";

/// Two requests that reach the two copies of the first primary in different orders.
fn first_slot(options: &mut Options) {
    *options = FIRST_SLOT.parse().expect("words that `sim replay` knows");
}

/// Administrators replace r0, the first primary, by a new machine, r3. Of the two clients, only the
/// second one can be late to follow.
const REPLACED: &str = "n=3 f=1 clients=2 requests_each=60 think_us=100000 batch=16 in_flight=4 \
    latency_us=50 jitter_us=100 heal_at_us=4000000 administrators=1 at=100000:replace(0)";

fn replaced(options: &mut Options) {
    *options = REPLACED.parse().expect("words that `sim replay` knows");
}

/// All who know the state with which the group goes on are r0, which leaves, and r2, which gives it
/// to nobody. The other member that stays hears nothing until then.
fn replaced_by_those_who_lag(options: &mut Options) {
    replaced(options);
    options.byzantine = vec![(ReplicaId(2), vec![Behaviour::Poison { rate_ppm: 1_000_000 }])];
    let target = Target::Replica(ReplicaId(1));
    let away = Disturbance::Isolate { target, hears: false, clients: true, lasts: 6_000_000 };
    options.disturbances.push((50_000, away));
    options.heal_at = 7_000_000;
}

/// Somebody takes over r0 when it has left. The faulty member tells clients nothing but the lie.
fn replaced_and_taken_over(options: &mut Options) {
    replaced(options);
    (options.possesses, options.workload.follow_late_ms) = (true, 5_000);
    let friends = ReplicaSet((1 << (options.n + 1)) - 1);
    let mute = Behaviour::Selective { friends, answers_clients: false };
    options.byzantine = vec![(ReplicaId(2), vec![mute])];
}

/// Each message of the primary is late by a third of the request timeout.
fn slow_primary(options: &mut Options) {
    late_primary(options, options.timeouts.request_ms * 1_000 / 3);
    options.think_us = 30_000;
    options.requests_each = (Promptness::grace(options.f) + 6_000_000) / options.think_us;
}

/// Each message of the primary is late by what is tolerated.
fn tolerated_primary(options: &mut Options) {
    late_primary(options, TURNAROUND_MILLIS * 1_000);
    // What there is to do is done one thing after the other.
    options.think_us = 1;
}

fn late_primary(options: &mut Options, late: Micros) {
    calm(options);
    options.heal_at = 0;
    options.byzantine = vec![(ReplicaId(0), vec![Behaviour::Delay { least: late, up_to: late }])];
    options.outstanding = 1;
}
