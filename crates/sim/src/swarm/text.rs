//! Options as text, to be pasted into a command: words `key=value`, where what is not named is as
//! in [`Options::calm`]. What is written is read as the same options.
//!
//! | word | meaning |
//! | --- | --- |
//! | `n=3`, `clients=2`, `loss_ppm=1000`, ... | a number; [`names`] lists them all |
//! | `pillars=2`, `rotates=1` | pillars, and whether each begins with another primary |
//! | `macs=1`, `sessions=1` | clients use MACs, session keys; without either they sign |
//! | `watch_devices=0` | nobody watches devices |
//! | `store=1` | replicas have the key-value store too |
//! | `administrators=1` | administrators may change the group |
//! | `possesses=1` | machines that have left the group lie to whoever has not heard of that |
//! | `joins_badly_ppm=300000` | of a million machines that are to join so many do it badly |
//! | `device=clone` | devices of faulty replicas are `honest`, `rollback` or `clone` |
//! | `hostile=flood` | one more hostile client |
//! | `faulty=r1:forge(0,20000)` | one more habit of a faulty replica |
//! | `at=1500000:crash(primary)` | a disturbance, by simulated microseconds |
//!
//! Habits: `silent(to clients too)`, `selective(friends,answers clients)`, `delay(least,up to)`,
//! `desert`, `replay(ppm)`, `corrupt(ppm)`, `liar`, `mislead`, `starve(client)`, `alternate`,
//! `poison(ppm)`, `rot(every)`, `twin`, `forge(alone,ppm)`, `lurk(quiet ms,ppm)`, `usurp(ppm)`,
//! `impostor(ppm)`, `busy`, `parrot(alone,ppm)`.
//!
//! Disturbances: `crash(whom)`, `counter_dies(whom)`, `restart(whom,after)`, `pause(whom,us)`,
//! `stop(whom,points,us)` and likewise `disk_fails`, `disk_full`, `disk_rots`, `disk_misdirects`
//! and `disk_put_back`, `blackout(points,us)`, `isolate(whom,hears,clients,us)`,
//! `split(part,one way,us)`, `partition(parts,us)`, `clock_jump(whom,ms)`, `refresh(way)`,
//! `replace(way)`, `reshape(way)`, `switch(way)`. Yes and no are 1 and 0, times are in
//! microseconds, sets are like `r0+r2`, and `partition(0110,...)` has one digit for the part of
//! each place.

use super::refreshes::WAYS_MAX;
use super::{DiskOptions, Disturbance, Failure, Options, Target};
use crate::adversary::Behaviour;
use crate::crypto::Means;
use crate::device::DeviceFault;
use crate::hostile::Hostility;
use crate::network::{NetworkOptions, Parts};
use crate::workload::WorkloadOptions;
use core::fmt;
use core::str::FromStr;
use pentarchy_core::ids::{ReplicaId, ReplicaSet};
use pentarchy_core::limits::{CHECKPOINT_BYTES, PILLARS_MAX};
use pentarchy_core::protocol::{Timeouts, Tuning};

/// Habits, hostile clients and disturbances that a text may name, each.
const LIST_MAX: usize = 64;

/// A number among the options.
struct Field {
    name: &'static str,
    least: u64,
    most: u64,
    get: fn(&Options) -> u64,
    set: fn(&mut Options, u64),
}

macro_rules! flag {
    ($name:literal, $field:ident) => {
        Field {
            name: $name,
            least: 0,
            most: 1,
            get: |options| u64::from(options.$field),
            set: |options, value| options.$field = value == 1,
        }
    };
}

macro_rules! field {
    ($name:literal, $least:literal..=$most:expr, $($path:ident).+) => {
        Field {
            name: $name,
            least: $least,
            most: $most,
            get: |options| options.$($path).+ as u64,
            // Below `most`, which the type holds.
            set: |options, value| options.$($path).+ = value as _,
        }
    };
}

/// An hour of simulated time.
const HOUR_US: u64 = 3_600_000_000;
const PPM: u64 = 1_000_000;

const FIELDS: &[Field] = &[
    field!("n", 1..=Parts::PLACES_MAX as u64, n),
    field!("f", 0..=5, f),
    field!("clients", 1..=64, clients),
    field!("outstanding", 1..=1_024, outstanding),
    field!("requests_each", 1..=1_000_000, requests_each),
    field!("think_us", 0..=HOUR_US, think_us),
    field!("rest_us", 0..=HOUR_US, rest_us),
    field!("checkpoint", 1..=100_000, tuning.checkpoint_slots),
    field!("checkpoint_bytes", 1..=1 << 30, tuning.checkpoint_bytes),
    field!("window", 1..=100_000, tuning.window_slots),
    field!("batch", 1..=10_000, tuning.batch_requests),
    field!("in_flight", 1..=10_000, tuning.proposals_in_flight),
    field!("interleaving", 0..=1_000_000, tuning.interleaving),
    field!("request_ms", 1..=600_000, timeouts.request_ms),
    field!("view_change_ms", 1..=600_000, timeouts.view_change_ms),
    field!("resend_ms", 1..=600_000, timeouts.resend_ms),
    field!("retry_ms", 1..=600_000, timeouts.client_retry_ms),
    field!("latency_us", 0..=HOUR_US, network.latency_us),
    field!("jitter_us", 0..=HOUR_US, network.jitter_us),
    field!("deviation_us", 0..=HOUR_US, network.deviation_us),
    field!("loss_ppm", 0..=PPM, network.loss_ppm),
    field!("duplicate_ppm", 0..=PPM, network.duplicate_ppm),
    field!("straggle_ppm", 0..=PPM, network.straggle_ppm),
    field!("straggle_us", 0..=HOUR_US, network.straggle_us),
    field!("slow_links", 0..=PPM, network.slow_links),
    field!("slow_link_us", 0..=HOUR_US, network.slow_link_us),
    field!("hearing", 0..=PPM, hearing),
    field!("hears_late_us", 0..=HOUR_US, hears_late_us),
    field!("late_checkpoints", 0..=Parts::PLACES_MAX as u64, late_checkpoints),
    field!("left_alone_us", 0..=HOUR_US, left_alone_us),
    field!("skew_ms", 0..=600_000, skew_ms),
    field!("drift_ppm", 0..=PPM, drift_ppm),
    field!("round_us", 0..=HOUR_US, round_us),
    field!("busy_ppm", 0..=PPM, busy_ppm),
    field!("stale_timer_ppm", 0..=PPM, stale_timer_ppm),
    field!("restart_at_end_ppm", 0..=PPM, restart_at_end_ppm),
    field!("stop_at_end_ppm", 0..=PPM, stop_at_end_ppm),
    field!("sync_us", 0..=HOUR_US, disk.sync_us),
    field!("stop_at_stable_ppm", 0..=PPM, disk.stop_at_stable_ppm),
    field!("stop_at_saved_ppm", 0..=PPM, disk.stop_at_saved_ppm),
    field!("split_steps_ppm", 0..=PPM, disk.split_steps_ppm),
    field!("slow_sync_ppm", 0..=PPM, disk.slow_ppm),
    field!("slow_log_ppm", 0..=PPM, disk.slow_log_ppm),
    field!("slow_sync_us", 0..=HOUR_US, disk.slow_us),
    field!("keys", 1..=10_000, workload.keys),
    field!("values", 0..=26, workload.values),
    field!("writers", 0..=64, workload.writers),
    field!("reads_percent", 0..=100, workload.reads_percent),
    field!("queries_percent", 0..=100, workload.queries_percent),
    field!("large_ppm", 0..=PPM, workload.large_ppm),
    field!("skip_ppm", 0..=PPM, workload.skip_ppm),
    field!("tells_percent", 0..=100, workload.tells_percent),
    field!("floods_ppm", 0..=PPM, workload.floods_ppm),
    field!("gives_up_ppm", 0..=PPM, workload.gives_up_ppm),
    field!("judged_percent", 0..=100, workload.judged_percent),
    field!("follow_late_ms", 0..=10_000, workload.follow_late_ms),
    field!("heal_at_us", 0..=HOUR_US, heal_at),
    field!("liveness_timeouts", 0..=100_000, liveness_timeouts),
    field!("pillars", 1..=PILLARS_MAX as u64, pillars),
    flag!("rotates", rotates),
    Field {
        name: "macs",
        least: 0,
        most: 1,
        get: |options| u64::from(options.means == Means::Macs),
        set: |options, value| choose(options, Means::Macs, value == 1),
    },
    Field {
        name: "sessions",
        least: 0,
        most: 1,
        get: |options| u64::from(options.means == Means::Session),
        set: |options, value| choose(options, Means::Session, value == 1),
    },
    flag!("store", has_store),
    flag!("counters", has_real_devices),
    flag!("administrators", has_administrators),
    flag!("possesses", possesses),
    field!("joins_badly_ppm", 0..=PPM, joins_badly_ppm),
    flag!("watch_devices", watch_devices),
];

/// Has clients use these means, or, if they did, sign.
fn choose(options: &mut Options, means: Means, on: bool) {
    if on {
        options.means = means;
    } else if options.means == means {
        options.means = Means::Signature;
    }
}

/// The numbers among the options.
pub fn names() -> impl Iterator<Item = &'static str> {
    FIELDS.iter().map(|field| field.name)
}

const DEVICES: [(&str, DeviceFault); 3] = [
    ("honest", DeviceFault::None),
    ("rollback", DeviceFault::RollBack),
    ("clone", DeviceFault::Clone),
];

const HOSTILE: [Hostility; 7] = [
    Hostility::Partial,
    Hostility::Reuse,
    Hostility::Flood,
    Hostility::Jump,
    Hostility::Forge,
    Hostility::Hoard,
    Hostility::PartialMacs,
];

impl Options {
    /// The plainest world: three replicas, one client with one request, nothing goes wrong.
    #[must_use]
    pub fn calm() -> Self {
        Self {
            f: 1,
            n: 3,
            pillars: 1,
            rotates: false,
            clients: 1,
            outstanding: 1,
            requests_each: 1,
            think_us: 1_000,
            rest_us: 0,
            tuning: Tuning {
                checkpoint_slots: 4,
                checkpoint_bytes: CHECKPOINT_BYTES,
                window_slots: 8,
                batch_requests: 1,
                proposals_in_flight: 1,
                interleaving: 0,
            },
            timeouts: Timeouts::default(),
            network: NetworkOptions { latency_us: 100, ..NetworkOptions::default() },
            hearing: 0,
            hears_late_us: 0,
            late_checkpoints: 0,
            left_alone_us: 0,
            skew_ms: 0,
            drift_ppm: 0,
            means: Means::Signature,
            hostile: Vec::new(),
            device: DeviceFault::None,
            watch_devices: true,
            round_us: 0,
            busy_ppm: 0,
            stale_timer_ppm: 0,
            restart_at_end_ppm: 0,
            stop_at_end_ppm: 0,
            disk: DiskOptions::default(),
            has_store: false,
            has_real_devices: false,
            has_administrators: false,
            possesses: false,
            joins_badly_ppm: 0,
            workload: WorkloadOptions {
                keys: 1,
                values: 0,
                writers: 0,
                reads_percent: 0,
                queries_percent: 0,
                large_ppm: 0,
                skip_ppm: 0,
                tells_percent: 0,
                floods_ppm: 0,
                gives_up_ppm: 0,
                judged_percent: 0,
                follow_late_ms: 0,
            },
            byzantine: Vec::new(),
            disturbances: Vec::new(),
            heal_at: 0,
            liveness_timeouts: 50,
        }
    }
}

impl fmt::Display for Options {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let calm = Self::calm();
        write!(out, "n={} f={}", self.n, self.f)?;
        for Field { name, get, .. } in &FIELDS[2..] {
            if get(self) != get(&calm) {
                write!(out, " {name}={}", get(self))?;
            }
        }
        if let Some((name, _)) =
            DEVICES.iter().find(|(_, it)| *it == self.device && self.device != calm.device)
        {
            write!(out, " device={name}")?;
        }
        for kind in &self.hostile {
            write!(out, " hostile={}", kind.name())?;
        }
        for (id, habits) in &self.byzantine {
            for habit in habits {
                write!(out, " faulty={id}:{}", habit_text(*habit))?;
            }
        }
        for (at, disturbance) in &self.disturbances {
            write!(out, " at={at}:{}", disturbance_text(*disturbance))?;
        }
        Ok(())
    }
}

fn habit_text(habit: Behaviour) -> String {
    match habit {
        Behaviour::Silent { to_clients_too } => format!("silent({})", u8::from(to_clients_too)),
        Behaviour::Selective { friends, answers_clients } => {
            format!("selective({},{})", set_text(friends), u8::from(answers_clients))
        }
        Behaviour::Delay { least, up_to } => format!("delay({least},{up_to})"),
        Behaviour::Echo { rate_ppm } => format!("echo({rate_ppm})"),
        Behaviour::Replay { repeat_ppm } => format!("replay({repeat_ppm})"),
        Behaviour::Corrupt { rate_ppm } => format!("corrupt({rate_ppm})"),
        Behaviour::Liar => "liar".to_owned(),
        Behaviour::Mislead => "mislead".to_owned(),
        Behaviour::Desert => "desert".to_owned(),
        Behaviour::Starve { client } => format!("starve({client})"),
        Behaviour::Alternate => "alternate".to_owned(),
        Behaviour::Poison { rate_ppm } => format!("poison({rate_ppm})"),
        Behaviour::Rot { every } => format!("rot({every})"),
        Behaviour::Twin => "twin".to_owned(),
        Behaviour::Usurp { rate_ppm } => format!("usurp({rate_ppm})"),
        Behaviour::Impostor { rate_ppm } => format!("impostor({rate_ppm})"),
        Behaviour::Busy => "busy".to_owned(),
        Behaviour::Parrot { alone, rate_ppm } => format!("parrot({},{rate_ppm})", u8::from(alone)),
        Behaviour::Lurk { quiet_ms, rate_ppm } => format!("lurk({quiet_ms},{rate_ppm})"),
        Behaviour::Forge { alone, rate_ppm } => format!("forge({},{rate_ppm})", u8::from(alone)),
    }
}

pub(crate) fn disturbance_text(disturbance: Disturbance) -> String {
    let name = disturbance.name();
    match disturbance {
        Disturbance::Crash(target) | Disturbance::CounterDies(target) => {
            format!("{name}({})", target_text(target))
        }
        Disturbance::Stop { target, points, lasts, .. } => {
            format!("{name}({},{points},{lasts})", target_text(target))
        }
        Disturbance::Blackout { points, lasts } => format!("{name}({points},{lasts})"),
        Disturbance::Restart(target, after) => format!("{name}({},{after})", target_text(target)),
        Disturbance::Pause(target, lasts) | Disturbance::Deafen(target, lasts) => {
            format!("{name}({},{lasts})", target_text(target))
        }
        Disturbance::Isolate { target, hears, clients, lasts } => {
            let (target, hears, clients) =
                (target_text(target), u8::from(hears), u8::from(clients));
            format!("{name}({target},{hears},{clients},{lasts})")
        }
        Disturbance::Split { part, one_way, lasts } => {
            format!("{name}({},{},{lasts})", set_text(part), u8::from(one_way))
        }
        Disturbance::Partition { parts, lasts } => {
            format!("{name}({},{lasts})", parts_text(parts))
        }
        Disturbance::Refresh(way)
        | Disturbance::Replace(way)
        | Disturbance::Reshape(way)
        | Disturbance::Switch(way) => format!("{name}({way})"),
        Disturbance::ClockJump(target, ms) => format!("{name}({},{ms})", target_text(target)),
    }
}

fn target_text(target: Target) -> String {
    match target {
        Target::Primary => "primary".to_owned(),
        Target::Replica(id) => id.to_string(),
    }
}

fn set_text(set: ReplicaSet) -> String {
    let names: Vec<String> = set.iter().map(|id| id.to_string()).collect();
    if names.is_empty() { "none".to_owned() } else { names.join("+") }
}

fn parts_text(parts: Parts) -> String {
    let parts = (0..Parts::PLACES_MAX as u16).map(|place| format!("{:x}", parts.of(place)));
    let text: String = parts.collect();
    let trimmed = text.trim_end_matches('0');
    if trimmed.is_empty() { "0".to_owned() } else { trimmed.to_owned() }
}

impl FromStr for Options {
    type Err = String;

    /// # Errors
    /// The word that is wrong, and what would be right.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut options = Self::calm();
        for word in text.split_whitespace() {
            let wrong = |why: String| format!("{word:?}: {why}");
            let pair = word.split_once('=');
            let (key, value) = pair.ok_or_else(|| wrong("write key=value".to_owned()))?;
            options.read(key, value).map_err(wrong)?;
        }
        options.fits().map(|()| options)
    }
}

impl Options {
    /// Makes a number what it is in the plainest world, unless the sizes of the group, the work or
    /// what is promised hang on it.
    pub(crate) fn calm_down(&mut self, name: &str) {
        const KEPT: [&str; 7] = [
            "n",
            "f",
            "clients",
            "requests_each",
            "heal_at_us",
            "watch_devices",
            "liveness_timeouts",
        ];
        if let Some(field) = FIELDS.iter().find(|it| it.name == name && !KEPT.contains(&name)) {
            (field.set)(self, (field.get)(&Self::calm()));
            if self.fits().is_err() {
                self.tuning = Self::calm().tuning;
            }
        }
    }

    fn read(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "device" => {
                let known = DEVICES.iter().find(|(name, _)| *name == value);
                self.device = known.ok_or("write honest, rollback or clone")?.1;
            }
            "hostile" => {
                let known = HOSTILE.into_iter().find(|kind| kind.name() == value);
                let names = HOSTILE.map(Hostility::name).join(", ");
                let kind = known.ok_or_else(|| format!("hostile clients are: {names}"))?;
                self.hostile.push(kind);
            }
            "faulty" => {
                let (id, habit) = value.split_once(':').ok_or("write faulty=r1:habit")?;
                let (id, habit) = (read_id(id)?, Call::of(habit)?.habit()?);
                match self.byzantine.iter_mut().find(|(known, _)| *known == id) {
                    Some((_, habits)) => habits.push(habit),
                    None => self.byzantine.push((id, vec![habit])),
                }
            }
            "at" => {
                let (at, what) = value.split_once(':').ok_or("write at=time:disturbance")?;
                let at = read_number(at, 0, HOUR_US)?;
                self.disturbances.push((at, Call::of(what)?.disturbance()?));
            }
            _ => {
                let field = FIELDS.iter().find(|field| field.name == key).ok_or_else(|| {
                    let names: Vec<&str> = names().collect();
                    format!("there are: device, hostile, faulty, at, {}", names.join(", "))
                })?;
                (field.set)(self, read_number(value, field.least, field.most)?);
            }
        }
        Ok(())
    }

    /// Whether the numbers go together.
    ///
    /// # Errors
    /// Which do not.
    fn fits(&self) -> Result<(), String> {
        let habits: usize = self.byzantine.iter().map(|(_, habits)| habits.len()).sum();
        let Tuning { checkpoint_slots, window_slots, .. } = self.tuning;
        let wrong = if self.n <= self.f {
            "n is above f"
        } else if self.byzantine.len() > self.f {
            "at most f replicas are faulty"
        } else if self.byzantine.iter().any(|(id, _)| usize::from(id.0) >= self.machines().count())
        {
            "a faulty replica is neither below n nor a machine that may join"
        } else if self.targets().any(|id| usize::from(id.0) >= self.n) {
            "a disturbed replica is not below n"
        } else if self.places().len() + self.joiners() > Parts::PLACES_MAX {
            "replicas, their copies and machines that may join are 16 at most"
        } else if self.joiners() > 0 && !(self.has_administrators && self.twins().next().is_none())
        {
            "machines join only where there are administrators and no twins"
        } else if habits.max(self.hostile.len()).max(self.disturbances.len()) > LIST_MAX {
            "64 habits, hostile clients and disturbances at most, each"
        } else if window_slots < 2 * checkpoint_slots || window_slots % checkpoint_slots != 0 {
            "window is checkpoint times 2 or more"
        } else {
            return Ok(());
        };
        Err(wrong.to_owned())
    }

    fn targets(&self) -> impl Iterator<Item = ReplicaId> {
        self.disturbances.iter().filter_map(|(_, it)| match it.target() {
            Some(Target::Replica(id)) => Some(id),
            _ => None,
        })
    }
}

fn read_number(text: &str, least: u64, most: u64) -> Result<u64, String> {
    let number = text.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("{text:?} is not a number from {least} to {most}"))
}

fn read_id(text: &str) -> Result<ReplicaId, String> {
    let number = text.strip_prefix('r').ok_or_else(|| format!("{text:?} is no replica like r1"))?;
    Ok(ReplicaId(read_number(number, 0, Parts::PLACES_MAX as u64 - 1)? as u16))
}

/// `name(argument,argument)`.
struct Call<'a> {
    name: &'a str,
    arguments: Vec<&'a str>,
}

impl<'a> Call<'a> {
    fn of(text: &'a str) -> Result<Self, String> {
        let Some((name, rest)) = text.split_once('(') else {
            return Ok(Self { name: text, arguments: Vec::new() });
        };
        let inner = rest.strip_suffix(')').ok_or("a closing bracket is missing")?;
        Ok(Self { name, arguments: inner.split(',').collect() })
    }

    fn word(&self, index: usize) -> Result<&'a str, String> {
        let missing = || format!("{} has more arguments: see docs/testing.md", self.name);
        self.arguments.get(index).copied().ok_or_else(missing)
    }

    fn number(&self, index: usize, most: u64) -> Result<u64, String> {
        read_number(self.word(index)?, 0, most)
    }

    fn flag(&self, index: usize) -> Result<bool, String> {
        self.number(index, 1).map(|number| number == 1)
    }

    fn ppm(&self, index: usize) -> Result<u32, String> {
        self.number(index, PPM).map(|number| number as u32)
    }

    fn target(&self) -> Result<Target, String> {
        match self.word(0)? {
            "primary" => Ok(Target::Primary),
            id => read_id(id).map(Target::Replica),
        }
    }

    fn set(&self) -> Result<ReplicaSet, String> {
        match self.word(0)? {
            "none" => Ok(ReplicaSet::from_iter([])),
            names => names.split('+').map(read_id).collect(),
        }
    }

    fn parts(&self) -> Result<Parts, String> {
        let text = self.word(0)?;
        if text.is_empty() || text.len() > Parts::PLACES_MAX {
            return Err(format!("{text:?} has not one digit for each place"));
        }
        let part = |parts: Parts, (place, digit): (usize, char)| {
            let part = digit.to_digit(16).ok_or_else(|| format!("{digit:?} is no part"))?;
            Ok(parts.with(place as u16, u64::from(part)))
        };
        text.chars().enumerate().try_fold(Parts(0), part)
    }

    /// That nothing follows the arguments that were read.
    fn ends(&self, count: usize) -> Result<(), String> {
        let many = self.arguments.len() > count;
        if many { Err(format!("{} has {count} arguments", self.name)) } else { Ok(()) }
    }

    fn habit(&self) -> Result<Behaviour, String> {
        let (habit, count) = match self.name {
            "silent" => (Behaviour::Silent { to_clients_too: self.flag(0)? }, 1),
            "selective" => {
                (Behaviour::Selective { friends: self.set()?, answers_clients: self.flag(1)? }, 2)
            }
            "delay" => {
                let (least, up_to) = (self.number(0, HOUR_US)?, self.number(1, HOUR_US)?);
                if least > up_to {
                    return Err("the least delay is above the longest".to_owned());
                }
                (Behaviour::Delay { least, up_to }, 2)
            }
            "echo" => (Behaviour::Echo { rate_ppm: self.ppm(0)? }, 1),
            "replay" => (Behaviour::Replay { repeat_ppm: self.ppm(0)? }, 1),
            "corrupt" => (Behaviour::Corrupt { rate_ppm: self.ppm(0)? }, 1),
            "liar" => (Behaviour::Liar, 0),
            "mislead" => (Behaviour::Mislead, 0),
            "desert" => (Behaviour::Desert, 0),
            "alternate" => (Behaviour::Alternate, 0),
            "starve" => (Behaviour::Starve { client: self.number(0, 1_000)? as u16 }, 1),
            "poison" => (Behaviour::Poison { rate_ppm: self.ppm(0)? }, 1),
            "usurp" => (Behaviour::Usurp { rate_ppm: self.ppm(0)? }, 1),
            "impostor" => (Behaviour::Impostor { rate_ppm: self.ppm(0)? }, 1),
            "rot" => (Behaviour::Rot { every: self.number(0, PPM)?.max(1) }, 1),
            "twin" => (Behaviour::Twin, 0),
            "busy" => (Behaviour::Busy, 0),
            "parrot" => (Behaviour::Parrot { alone: self.flag(0)?, rate_ppm: self.ppm(1)? }, 2),
            "lurk" => {
                (Behaviour::Lurk { quiet_ms: self.number(0, HOUR_US)?, rate_ppm: self.ppm(1)? }, 2)
            }
            "forge" => (Behaviour::Forge { alone: self.flag(0)?, rate_ppm: self.ppm(1)? }, 2),
            name => return Err(format!("no habit {name:?}: see docs/testing.md")),
        };
        self.ends(count).map(|()| habit)
    }

    fn stop(&self, failure: Failure) -> Result<Disturbance, String> {
        let (target, points, lasts) =
            (self.target()?, self.number(1, PPM)?, self.number(2, HOUR_US)?);
        Ok(Disturbance::Stop { target, failure, points, lasts })
    }

    fn disturbance(&self) -> Result<Disturbance, String> {
        let (disturbance, count) = match self.name {
            "crash" => (Disturbance::Crash(self.target()?), 1),
            "counter_dies" => (Disturbance::CounterDies(self.target()?), 1),
            "stop" => (self.stop(Failure::Power)?, 3),
            "disk_fails" => (self.stop(Failure::Disk)?, 3),
            "disk_full" => (self.stop(Failure::Full)?, 3),
            "disk_rots" => (self.stop(Failure::Rot)?, 3),
            "disk_misdirects" => (self.stop(Failure::Misdirected)?, 3),
            "disk_put_back" => (self.stop(Failure::PutBack)?, 3),
            "blackout" => {
                let (points, lasts) = (self.number(0, PPM)?, self.number(1, HOUR_US)?);
                (Disturbance::Blackout { points, lasts }, 2)
            }
            "restart" => (Disturbance::Restart(self.target()?, self.number(1, HOUR_US)?), 2),
            "pause" => (Disturbance::Pause(self.target()?, self.number(1, HOUR_US)?), 2),
            "deafen" => (Disturbance::Deafen(self.target()?, self.number(1, HOUR_US)?), 2),
            "isolate" => {
                let (target, lasts) = (self.target()?, self.number(3, HOUR_US)?);
                let (hears, clients) = (self.flag(1)?, self.flag(2)?);
                (Disturbance::Isolate { target, hears, clients, lasts }, 4)
            }
            "split" => {
                let (part, lasts) = (self.set()?, self.number(2, HOUR_US)?);
                (Disturbance::Split { part, one_way: self.flag(1)?, lasts }, 3)
            }
            "partition" => {
                let (parts, lasts) = (self.parts()?, self.number(1, HOUR_US)?);
                (Disturbance::Partition { parts, lasts }, 2)
            }
            "clock_jump" => (Disturbance::ClockJump(self.target()?, self.number(1, 600_000)?), 2),
            "refresh" => (Disturbance::Refresh(self.number(0, WAYS_MAX)?), 1),
            "replace" => (Disturbance::Replace(self.number(0, WAYS_MAX)?), 1),
            "reshape" => (Disturbance::Reshape(self.number(0, WAYS_MAX)?), 1),
            "switch" => (Disturbance::Switch(self.number(0, WAYS_MAX)?), 1),
            name => return Err(format!("no disturbance {name:?}: see docs/testing.md")),
        };
        self.ends(count).map(|()| disturbance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use crate::swarm::SimConfig;
    use pentarchy_core::counter::Counter;
    use pentarchy_core::protocol::{Authority, FaultModel, Rules};
    use pentarchy_core::quorum::{Count, QuorumRule, ReadRule};

    #[test]
    fn what_is_written_is_read_as_the_same_options() {
        let rules = Rules {
            name: "any",
            fault_model: FaultModel::Hybrid,
            group_size: Count::per_fault_and_one(2),
            quorum: QuorumRule::Majority,
            replies: Count::per_fault_and_one(1),
            reads: ReadRule::All,
            pillars: false,
            speculative: false,
            hears_slot_results: false,
            replies_itself: false,
            authority: Authority::Members,
            counter: Some(Counter::Usig),
        };
        for seed in 0..2_000 {
            for device in DEVICES.map(|(_, device)| device) {
                let config = SimConfig { device, ..SimConfig::default() };
                let drawn = Options::draw(&mut Rng::new(seed), &config, &rules);
                let text = drawn.to_string();
                assert_eq!(text.parse(), Ok(drawn), "seed {seed}: {text}");
            }
        }
        assert_eq!(Options::calm().to_string(), "n=3 f=1");
    }

    #[test]
    fn what_is_wrong_is_named() {
        let error = |text: &str| text.parse::<Options>().expect_err(text);
        for (text, part) in [
            ("n", "\"n\": write key=value"),
            ("n=3 tea=1", "\"tea=1\": there are: device, hostile"),
            ("loss_ppm=1000001", "is not a number from 0 to 1000000"),
            ("n=9999999999999999999999", "is not a number from 1 to 16"),
            ("f=3", "n is above f"),
            ("faulty=r1:forge(0)", "forge has more arguments"),
            ("faulty=r1:twin(3)", "twin has 0 arguments"),
            ("faulty=r1:dream", "no habit \"dream\""),
            ("faulty=r1:liar faulty=r2:liar", "at most f replicas"),
            ("faulty=r3:liar", "neither below n nor"),
            ("administrators=1 faulty=r4:liar at=1:replace(0)", "neither below n nor"),
            ("at=1:crash(r3)", "not below n"),
            ("at=1:crash(primary", "closing bracket"),
            ("at=1:partition(01g,5)", "'g' is no part"),
            ("hostile=kind", "hostile clients are: partial"),
            ("checkpoint=4 window=10", "window is checkpoint times"),
        ] {
            assert!(error(text).contains(part), "{text}: {}", error(text));
        }
    }
}
