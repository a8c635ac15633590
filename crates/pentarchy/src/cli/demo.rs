//! `demo`: a guided tour. Real processes, real faults; what it prints is what it measured.

use super::args::DemoArgs;
use pentarchy::config::ClusterConfig;
use pentarchy::services::kv::{Command as Words, Reply};
use pentarchy::{Client, Fault, KeyPair, node};
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_console::patient::{Harm, Patient};
use pentarchy_console::say;
use pentarchy_protocols::{DEFAULT, Descriptor};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time to read what was printed.
const PAUSE: Duration = Duration::from_secs(7);

/// How long each fault is looked at.
const WATCHED: Duration = Duration::from_secs(2);

/// How long a write may take before the tour gives up.
const PATIENCE: Duration = Duration::from_secs(20);

/// A fault, and what to say about it.
struct Scene {
    of_primary: bool,
    harm: Harm,
    what: &'static str,
    healed: &'static str,
}

const SCENES: [Scene; 5] = [
    Scene {
        of_primary: false,
        harm: Harm::Kill,
        what: "A backup is killed. The other two agree without it.",
        healed: "It had lost its memory, so it must not go on under its old promises: its trusted\n\
                 counter began a new incarnation, the group admitted that by an ordered request,\n\
                 and it fetched the state.",
    },
    Scene {
        of_primary: true,
        harm: Harm::Kill,
        what: "The primary is killed. The others wait a moment, then make another one primary.",
        healed: "It came back as a new member.",
    },
    Scene {
        of_primary: true,
        harm: Harm::Misbehave(Fault::Equivocate),
        what: "The primary lies: it shows each statement to one replica and not to the other, and\n\
               gives clients and checkpoints false results. Its trusted counter keeps it from\n\
               proving two orders.",
        healed: "Its lies were outvoted. A replica that missed something got it from the others.",
    },
    Scene {
        of_primary: false,
        harm: Harm::Misbehave(Fault::Corrupt),
        what: "A backup flips a bit in all that it sends.",
        healed: "Replicas refused its messages, and clients outvoted its replies.",
    },
    Scene {
        of_primary: true,
        harm: Harm::Pause,
        what: "The primary freezes, like a machine that swaps.",
        healed: "It woke up, found that the group had moved on, and caught up.",
    },
];

/// Runs the command.
pub fn run(args: &DemoArgs) -> Outcome {
    let tour = Tour::start(args.fast)?;
    tour.play()
}

/// A cluster of its own, and a client that counts all the time.
struct Tour {
    data: PathBuf,
    pause: Duration,
}

impl Drop for Tour {
    fn drop(&mut self) {
        let _ = this_program(&["down", "--data"], &self.data);
        let _ = std::fs::remove_dir_all(self.data.parent().unwrap_or(&self.data));
    }
}

impl Tour {
    fn start(fast: bool) -> Outcome<Self> {
        let name = format!("pentarchy-demo-{}", std::process::id());
        let data = std::env::temp_dir().join(name).join("data");
        let pause = if fast { Duration::ZERO } else { PAUSE };
        let tour = Self { data, pause };
        say("Three replicas, each in a process of its own, run the same store. One of them may");
        say("fail in any way, and even lie. A client believes an answer that two replicas give.\n");
        // A port that is likely to be free; `up` takes the next free one.
        if !this_program(&["up", "--detach", "--port", "16379", "--data"], &tour.data)? {
            return Err(Failure::Unwell("the cluster did not start".to_owned()));
        }
        Ok(tour)
    }

    fn play(&self) -> Outcome {
        let patient = Patient::of(&self.data)?;
        let config = ClusterConfig::load(&self.data.join("cluster.toml"))?;
        let counter = Counter::start(&config)?;
        self.read("All the time a client increments a number in the store.");

        for scene in &SCENES {
            let primary = self.primary(&patient);
            let id = if scene.of_primary { primary } else { (primary + 1) % 3 };
            self.play_scene(&patient, &counter, id, scene)?;
        }
        let gone = (self.primary(&patient) + 1) % 3;
        self.replace(&patient, &counter, gone)?;
        self.switch(&counter)?;
        self.verdict(&Patient::of(&self.data)?, counter)
    }

    /// Another machine takes the place of one that is gone for good.
    fn replace(&self, patient: &Patient, counter: &Counter, gone: u32) -> Outcome {
        say(&format!("\n$ pentarchy break {gone} --kill"));
        say("Suppose that this machine is gone for good. Another one is to take its place.");
        patient.harm(gone, Harm::Kill)?;
        self.change(counter, &["members", "replace", &gone.to_string()])?;
        self.read(
            "It fetched the state. All members sign by new keys now, and their trusted counters\n\
             share a new secret: whoever finds the old machine can do nothing with it.",
        );
        Ok(())
    }

    /// The group orders by another protocol.
    fn switch(&self, counter: &Counter) -> Outcome {
        let fits = |entry: &&Descriptor| {
            let rules = &entry.rules;
            let is_like = rules.replicas(1) == DEFAULT.rules.replicas(1) && !rules.speculative;
            is_like && rules.fault_model.lies()
        };
        let Some(other) = DEFAULT.switches_to().find(fits) else { return Ok(()) };
        self.change(counter, &["reconfigure", "--protocol", other.rules.name])?;
        self.read(&format!("The same group orders by {} now. The client went on.", other.title));
        Ok(())
    }

    /// Has the group change, as its administrator.
    fn change(&self, counter: &Counter, words: &[&str]) -> Outcome {
        say(&format!("$ pentarchy {}", words.join(" ")));
        let (before, begun) = (counter.reset(), Instant::now());
        if !this_program(&[words, &["--data"]].concat(), &self.data)? {
            return Err(Failure::Unwell(format!("pentarchy {} failed", words.join(" "))));
        }
        let took = begun.elapsed().as_secs_f32();
        std::thread::sleep(WATCHED);
        let (counted, gap) = (counter.acknowledged() - before, counter.longest_gap());
        say(&format!(
            "  begun after {took:.1} s; meanwhile: {counted} more increments, the longest wait \
             {} ms",
            gap.as_millis()
        ));
        Ok(())
    }

    fn primary(&self, patient: &Patient) -> u32 {
        let report = patient.report();
        let primary = report.replicas.iter().find(|replica| replica.known.role == "primary");
        primary.map_or(0, |replica| replica.id)
    }

    /// Breaks a replica, looks on, and heals it.
    fn play_scene(&self, patient: &Patient, counter: &Counter, id: u32, scene: &Scene) -> Outcome {
        let &Scene { harm, what, healed, .. } = scene;
        say(&format!("\n$ pentarchy break {id} {}", flag(harm)));
        say(what);
        let before = counter.reset();
        patient.harm(id, harm)?;
        std::thread::sleep(WATCHED);
        let (counted, gap) = (counter.acknowledged() - before, counter.longest_gap());
        say(&format!(
            "  meanwhile: {counted} more increments, the longest wait {} ms",
            gap.as_millis()
        ));
        for replica in patient.report().replicas.iter().filter(|replica| replica.id != id) {
            let known = &replica.known;
            let reason = Some(&known.view_change_reason).filter(|reason| !reason.is_empty());
            let reason = reason.map(|reason| format!(", since {reason}")).unwrap_or_default();
            let place = format!("view {}, epoch {}", known.view, known.epoch);
            say(&format!("  replica {}: {} in {place}{reason}", replica.id, known.role));
        }
        self.read("");
        say(&format!("$ pentarchy heal {id}"));
        let begun = Instant::now();
        let replica = patient.heal(id)?;
        let took = begun.elapsed().as_secs_f32();
        say(&format!("  caught up in {took:.1} s, in epoch {}", replica.known.epoch));
        self.read(healed);
        Ok(())
    }

    /// Compares what the client knows with what the group has.
    fn verdict(&self, patient: &Patient, counter: Counter) -> Outcome {
        let (acknowledged, stored) = counter.finish()?;
        say(&format!(
            "\nThe client was told of {acknowledged} increments; the store says {stored}."
        ));
        let report = patient.report();
        if report.diverged || stored != acknowledged {
            return Err(Failure::Unwell("that should not be: please report it".to_owned()));
        }
        say("Nothing was lost, nothing was counted twice, and the replicas' states are equal.");
        say("Try it yourself: pentarchy up, pentarchy break --help, pentarchy top");
        Ok(())
    }

    fn read(&self, text: &str) {
        if !text.is_empty() {
            say(text);
        }
        std::thread::sleep(self.pause);
    }
}

fn flag(harm: Harm) -> String {
    match harm {
        Harm::Kill => "--kill".to_owned(),
        Harm::Pause => "--pause".to_owned(),
        Harm::Misbehave(fault) => format!("--{fault}"),
    }
}

/// Runs another command of this program. True if it went well.
fn this_program(arguments: &[&str], data: &Path) -> Outcome<bool> {
    let cannot = |error| Failure::Internal(format!("cannot start this program again: {error}"));
    let program = std::env::current_exe().map_err(cannot)?;
    let mut command = Command::new(program);
    command.args(arguments).arg(data).stdin(Stdio::null()).stdout(Stdio::null());
    Ok(command.status().map_err(cannot)?.success())
}

/// Counts on a thread of its own.
struct Counter {
    shared: Arc<Shared>,
    thread: JoinHandle<Outcome<u64>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    acknowledged: AtomicU64,
    longest_micros: AtomicU64,
}

impl Counter {
    fn start(config: &ClusterConfig) -> Outcome<Self> {
        let client = node::connect(config, KeyPair::generate());
        let client = client.map_err(|error| Failure::Usage(error.to_string()))?;
        let shared = Arc::new(Shared::default());
        let seen = shared.clone();
        let thread = std::thread::spawn(move || count(&client, &seen));
        Ok(Self { shared, thread })
    }

    fn acknowledged(&self) -> u64 {
        self.shared.acknowledged.load(Ordering::Relaxed)
    }

    /// Forgets the longest gap, and says how far the count has come.
    fn reset(&self) -> u64 {
        self.shared.longest_micros.store(0, Ordering::Relaxed);
        self.acknowledged()
    }

    fn longest_gap(&self) -> Duration {
        Duration::from_micros(self.shared.longest_micros.load(Ordering::Relaxed))
    }

    /// What was acknowledged, and what is stored.
    fn finish(self) -> Outcome<(u64, u64)> {
        self.shared.stop.store(true, Ordering::Relaxed);
        let stored = self.thread.join();
        let stored = stored.map_err(|_| Failure::Internal("the client panicked".to_owned()))??;
        Ok((self.shared.acknowledged.load(Ordering::Relaxed), stored))
    }
}

/// Increments until it is told to stop, then says what is stored.
fn count(client: &Client, shared: &Shared) -> Outcome<u64> {
    let increment = Words::new(&["INCRBY", "count", "1"]).to_operation();
    while !shared.stop.load(Ordering::Relaxed) {
        let begun = Instant::now();
        let done = client.submit(increment.clone()).wait_timeout(PATIENCE);
        done.map_err(|error| Failure::Unwell(format!("an increment failed: {error}")))?;
        let micros = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        shared.longest_micros.fetch_max(micros, Ordering::Relaxed);
        shared.acknowledged.fetch_add(1, Ordering::Relaxed);
    }
    let read = Words::new(&["GET", "count"]).to_operation();
    let read = client.submit(read).wait_timeout(PATIENCE);
    let read = read.map_err(|error| Failure::Unwell(format!("a read failed: {error}")))?;
    let stored = match Reply::decode(&read) {
        Ok(Reply::Bulk(digits)) => std::str::from_utf8(&digits).ok().and_then(|d| d.parse().ok()),
        _ => None,
    };
    stored.ok_or_else(|| Failure::Internal("the store gave no number".to_owned()))
}
