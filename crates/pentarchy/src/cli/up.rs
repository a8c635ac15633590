//! `up`: a cluster on this machine. A convenience over `init`, `replica` and `gateway`: it writes
//! the same files and starts the same processes.

use super::args::UpArgs;
use super::backup;
use super::barrier;
use super::init::{check_counter, warn_of_protocol};
use super::machines::{self, Machine};
use super::probe;
use pentarchy::RequestMode;
use pentarchy::config::{ClusterConfig, CounterPlace, Durability, request_mode_name};
use pentarchy::data::{DATA_FOLDER, DataFolder};
use pentarchy::generate::{GroupOptions, NewCluster, gateway_key_name};
use pentarchy_console::background::{self, READY};
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_console::folder::{self, Held, Part, Running, Stopped};
use pentarchy_console::options::{GroupArgs, lane_options};
use pentarchy_console::patient::fault_file;
use pentarchy_console::status::verdict::ordering;
use pentarchy_console::stop::wait_for_end_of_leash;
use pentarchy_console::supervisor::{Death, Supervisor, take_ports};
use pentarchy_console::table;
use pentarchy_console::{complain, say};
use pentarchy_io::ports::Taken;
use rustix::process::{Signal, getpid, kill_process};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use std::io::IsTerminal as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// How long a cluster may take until it answers.
const START_LIMIT: Duration = Duration::from_secs(30);

/// How long the group may take to come to a checkpoint before it stops.
const CHECKPOINT_LIMIT: Duration = Duration::from_secs(15);

/// How many ports after the asked one are tried.
const PORTS_TRIED: u16 = 100;

/// How long a process that was just started may hold what it inherited.
const INHERITED_LIMIT: Duration = Duration::from_secs(2);

/// Runs the command.
pub fn run(args: &UpArgs) -> Outcome {
    // Before anything is touched.
    let n = args.group.replicas()?;
    check_counter(args.counter, &args.group)?;
    if !args.background {
        warn_of_protocol(&args.group);
    }
    if args.detach {
        return detach(args);
    }
    let outcome = supervise(args, n);
    if let (true, Err(failure)) = (args.background, &outcome) {
        // For who waits: the log may be on a disk that is full.
        say(&failure.to_string());
    }
    outcome
}

/// Starts this program in the background and waits until it says that the cluster answers.
fn detach(args: &UpArgs) -> Outcome {
    let _: Child = in_background(args)?;
    let running = folder::running(&args.data)?;
    let running =
        running.ok_or_else(|| Failure::Unwell("the cluster stopped at once".to_owned()))?;
    report(args, &running);
    Ok(())
}

/// Starts the background half, and waits until it says that the cluster answers.
fn in_background(args: &UpArgs) -> Outcome<Child> {
    let (held, replaced) = Held::take(&args.data)?;
    if kept(args)?.is_some() {
        say(&goes_on(&args.data));
    } else if replaced {
        say(&replaces(&args.data));
        held.clear()?;
    }
    let mut options = args.group.words();
    let (port, timeout) = (args.port.to_string(), args.timeout.to_string());
    let more = ["--port", &port, "--timeout", &timeout, "--log-format", args.log_format.name()];
    options.extend(more.map(str::to_owned));
    let durability = Durability::from(args.durability).name();
    let counter = CounterPlace::from(args.counter).name();
    options.extend(["--durability", durability, "--counter", counter].map(str::to_owned));
    options.extend(args.replica_ports.map(|first| format!("--replica-ports={first}")));
    background::start(held, &options, Stdio::null())
}

fn replaces(root: &Path) -> String {
    format!("Replacing the stopped cluster in {}: new keys, empty state.", root.display())
}

fn goes_on(root: &Path) -> String {
    format!("Resuming the stopped cluster in {}, with its keys and its state.", root.display())
}

/// A stopped cluster that kept its state.
struct Kept {
    /// As it began.
    first: ClusterConfig,
    /// As it stopped: it may have switched to another protocol.
    last: ClusterConfig,
}

impl Kept {
    fn new(first: ClusterConfig, root: &Path) -> Self {
        let known = |(_, folder): (u16, PathBuf)| {
            let path = folder.join(DATA_FOLDER);
            let folder = path.exists().then(|| DataFolder::open(&path).ok()).flatten();
            folder?.known(&first).ok()
        };
        let ends = machines::folders(root).into_iter().filter_map(known);
        let last = ends.max_by_key(ClusterConfig::number).unwrap_or_else(|| first.clone());
        Self { first, last }
    }
}

/// The stopped cluster in the folder, if it kept its state there.
fn kept(args: &UpArgs) -> Outcome<Option<Kept>> {
    let path = args.data.join("cluster.toml");
    if !path.exists() {
        return Ok(None);
    }
    let config = ClusterConfig::load(&path)?;
    if config.durability != Durability::Sync {
        return Ok(None);
    }
    let kept = Kept::new(config, &args.data);
    let is_asked = |config: &ClusterConfig| {
        let GroupArgs { protocol, f, request_auth, .. } = &args.group;
        let asked = (protocol, f, args.group.lane(), RequestMode::from(*request_auth));
        (&config.protocol, &config.f, config.lane, config.request_auth) == asked
    };
    if !is_asked(&kept.first) && !is_asked(&kept.last) {
        let config = &kept.last;
        return Err(Failure::Usage(format!(
            "{} holds the state of a cluster with --protocol {} --f {}{} --request-auth {}: use \
             the same options, or name another folder with --data",
            args.data.display(),
            config.protocol,
            config.f,
            lane_options(config.lane),
            request_mode_name(config.request_auth),
        )));
    }
    Ok(Some(kept))
}

/// Runs the cluster until a signal says to stop.
fn supervise(args: &UpArgs, n: usize) -> Outcome {
    if args.background {
        // A session of its own: closing the terminal does not end it.
        let _ = rustix::process::setsid();
    }
    let signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGUSR1, SIGUSR2])
        .map_err(|error| Failure::Internal(format!("cannot watch for signals: {error}")))?;
    if args.leash {
        std::thread::spawn(|| {
            wait_for_end_of_leash();
            // Only a process without permission to signal itself would go on.
            let _ = kill_process(getpid(), Signal::TERM);
        });
    }
    let (held, replaced) = Held::take(&args.data)?;
    let kept = kept(args)?;
    match &kept {
        Some(_) if !args.background => say(&goes_on(&args.data)),
        None if replaced && !args.background => say(&replaces(&args.data)),
        _ => {}
    }
    if kept.is_none() {
        held.clear()?;
    }
    held.begin()?;
    let gateway = free_port(args.port)?;
    let mut supervisor = Supervisor::default();
    let result = start((args, kept), n, gateway, &held, &mut supervisor, signals);
    let settled = result.as_ref().ok().and_then(|()| come_to_checkpoint(args, &mut supervisor));
    held.retire();
    let folders: Vec<PathBuf> = supervisor.parts().map(|part| part.folder.clone()).collect();
    let killed = supervisor.stop();
    if let Some(settled) = settled
        && let Err(failure) = held.leave(&stopped(&folders, settled))
    {
        complain(&failure.to_string());
    }
    if !killed.is_empty() {
        complain(&format!("had to kill {}", killed.join(", ")));
    }
    result
}

/// Before a group that keeps something stops: no client is served any more, and each replica's
/// folder gets a checkpoint with all that was acknowledged. A group that stands still gets none.
/// Gives its slot, or why there is none; nothing for a group that keeps nothing.
fn come_to_checkpoint(args: &UpArgs, supervisor: &mut Supervisor) -> Option<Outcome<u64>> {
    let first = ClusterConfig::load(&args.data.join("cluster.toml"));
    let first = first.ok().filter(|config| config.durability != Durability::Memory)?;
    let config = machines::present(&args.data).unwrap_or(first);
    let settled = too_few(&config, supervisor).map_or_else(
        || {
            supervisor.stop_last();
            // A replica may just be ending, which shows a little later.
            let settled = barrier::settle(&config, CHECKPOINT_LIMIT);
            settled.map_err(|failure| too_few(&config, supervisor).unwrap_or(failure))
        },
        Err,
    );
    if let Err(failure) = &settled {
        complain(&format!("stopping without a last checkpoint: {failure}"));
    }
    Some(settled)
}

/// Says so if so few replicas are left that nothing is ordered.
fn too_few(config: &ClusterConfig, supervisor: &mut Supervisor) -> Option<Failure> {
    supervisor.deaths();
    let n = config.replicas.len();
    let members = supervisor.parts().filter(|part| is_member(config, part));
    let running = members.filter(|part| supervisor.is_alive(part.pid)).count();
    let what = format!("{running} of {n} replicas ran, too few to order anything");
    (running < ordering(&config.configuration())).then_some(Failure::Unwell(what))
}

/// What is left for `down` to say, once the replicas of a group have stopped.
fn stopped(folders: &[PathBuf], settled: Outcome<u64>) -> Stopped {
    match settled {
        Ok(slot) => {
            let folders = folders.iter().map(|folder| folder.join(DATA_FOLDER));
            // Requests that were to fill the slots up to that one may have led to a later one.
            let newest = folders.filter_map(|data| Some((backup::newest_slot(&data)?, data)));
            let least = newest.filter(|(newest, _)| *newest >= slot).min();
            let time = least.as_ref().and_then(|(_, data)| backup::newest_time(data));
            let slot = least.map_or(slot, |(newest, _)| newest);
            Stopped { slot: Some(slot), time, problem: None }
        }
        Err(failure) => Stopped { slot: None, time: None, problem: Some(failure.to_string()) },
    }
}

/// Starts everything, waits until it answers, then watches over it.
fn start(
    (args, kept): (&UpArgs, Option<Kept>),
    n: usize,
    port: TcpListener,
    held: &Held,
    supervisor: &mut Supervisor,
    mut signals: Signals,
) -> Outcome {
    let gateway = port.local_addr().map_err(|error| Failure::Internal(error.to_string()))?;
    let kept_machines = kept.as_ref().map(|kept| Machine::all(&args.data, &kept.first, &kept.last));
    let n = kept_machines.as_ref().map_or(n, Vec::len);
    // Two for each replica: one to listen on, one for metrics; and one for the gateway's metrics.
    let count = 2 * n + 1;
    let first = args.replica_ports.map_or_else(|| take_ports(count).map(Taken::for_good), Ok)?;
    let addresses: Vec<String> =
        (first..=u16::MAX).map(|port| format!("127.0.0.1:{port}")).take(count).collect();
    if addresses.len() < count {
        return Err(Failure::Usage(format!("there are no {count} ports from {first} on")));
    }
    let (replicas, metrics) = addresses.split_at(n);
    let (mut protocol, mut f) = (args.group.protocol.clone(), args.group.f);
    let all = match (kept, kept_machines) {
        (Some(Kept { last, .. }), Some(all)) => {
            (protocol, f) = (last.protocol, last.f);
            all
        }
        _ => {
            let durability = args.durability.into();
            let counter = args.counter.into();
            let options = GroupOptions { durability, counter, ..args.group.options() };
            NewCluster::generate(replicas, &options).write(&args.data)?;
            let first = (0..).zip(replicas);
            first.map(|(id, address)| Machine::first(&args.data, id, address)).collect()
        }
    };
    for (machine, metrics) in all.iter().zip(metrics) {
        let Started { part, log, arguments } = started(args, machine, metrics)?;
        supervisor.start(part, log, &words(&arguments))?;
    }
    // Nobody else has taken the gateway's port so far.
    give_back(port, gateway);
    start_gateway(args, gateway, &metrics[n], supervisor)?;
    if !wait_until_it_answers(gateway, supervisor, &mut signals)? {
        return Ok(());
    }
    let mut parts: Vec<Part> = supervisor.parts().cloned().collect();
    let gateway = parts.pop().ok_or_else(|| Failure::Internal("no gateway".to_owned()))?;
    let mut running =
        Running { supervisor: std::process::id(), protocol, f, gateway, replicas: parts };
    held.announce(&running)?;
    if args.background {
        say(READY);
    } else {
        report(args, &running);
    }
    watch_over(args, &mut running, held, supervisor, signals)
}

/// Watches over what runs, and does what signals ask, until one says to stop.
fn watch_over(
    args: &UpArgs,
    running: &mut Running,
    held: &Held,
    supervisor: &mut Supervisor,
    mut signals: Signals,
) -> Outcome {
    for signal in &mut signals.forever() {
        match signal {
            SIGCHLD => {
                for name in supervisor.done(|part| is_no_member(&args.data, part)) {
                    complain(&format!("{name} is no member any more, and has ended"));
                }
                for death in supervisor.deaths() {
                    let consequence = consequence(args, supervisor, running);
                    complain(&format!("{}; {consequence}", say_death(&death)));
                }
                announce(supervisor, running, held)?;
            }
            SIGUSR1 => revive(supervisor, running, held)?,
            SIGUSR2 => {
                if let Err(failure) = start_another(args, supervisor) {
                    complain(&failure.to_string());
                }
                announce(supervisor, running, held)?;
            }
            _ => break,
        }
    }
    Ok(())
}

/// Starts again what has died, as `heal` asks.
fn revive(supervisor: &mut Supervisor, running: &mut Running, held: &Held) -> Outcome {
    match supervisor.revive() {
        Ok(names) => names.iter().for_each(|name| complain(&format!("{name} is started again"))),
        Err(failure) => complain(&failure.to_string()),
    }
    announce(supervisor, running, held)
}

/// Says in `cluster.json` what runs now.
fn announce(supervisor: &Supervisor, running: &mut Running, held: &Held) -> Outcome {
    let mut parts: Vec<Part> = supervisor.parts().cloned().collect();
    if let Some(gateway) = parts.pop() {
        (running.gateway, running.replicas) = (gateway, parts);
    }
    held.announce(running)
}

/// Makes another machine and starts it, as `members` asks. It waits until the group takes it.
fn start_another(args: &UpArgs, supervisor: &mut Supervisor) -> Outcome {
    let port = take_ports(2)?.for_good();
    let [address, metrics] = [port, port + 1].map(|port| format!("127.0.0.1:{port}"));
    let machine = Machine::new(&args.data, &address)?;
    complain(&format!("{} is started, to become a member", machine.name()));
    let Started { part, log, arguments } = started(args, &machine, &metrics)?;
    supervisor.start_before_last(part, log, &words(&arguments))
}

/// What a replica is started with.
struct Started {
    part: Part,
    log: PathBuf,
    arguments: Vec<String>,
}

fn words(arguments: &[String]) -> Vec<&str> {
    arguments.iter().map(String::as_str).collect()
}

/// How the replica of a machine is started, with its metrics at this address.
fn started(args: &UpArgs, machine: &Machine, metrics: &str) -> Outcome<Started> {
    let Machine { folder, number, address, joins } = machine;
    let part = part(machine.name(), address, metrics, folder);
    let (config, faults) = (args.data.join("cluster.toml"), fault_file(folder));
    let number = number.to_string();
    let which: &[&str] = if *joins { &["--join"] } else { &["--id", &number] };
    // Also of a cluster that was made with another one.
    let counter = ["--counter", CounterPlace::from(args.counter).name()];
    let files = ["--config", text(&config)?, "--keys", text(folder)?, "--faults", text(&faults)?];
    let arguments = [&["replica", "--leash"], which, &files, &sight(args, metrics), &counter];
    let arguments = arguments.concat().into_iter().map(str::to_owned).collect();
    Ok(Started { part, log: folder.join("replica.log"), arguments })
}

fn part(name: String, address: &str, metrics: &str, folder: &Path) -> Part {
    let (address, metrics) = (address.to_owned(), Some(metrics.to_owned()));
    Part { name, pid: 0, address, metrics, folder: folder.to_path_buf() }
}

fn start_gateway(
    args: &UpArgs,
    address: SocketAddr,
    metrics: &str,
    supervisor: &mut Supervisor,
) -> Outcome {
    let (root, address) = (&args.data, address.to_string());
    let timeout = args.timeout.to_string();
    let (config, key) = (root.join("cluster.toml"), root.join(gateway_key_name(1)));
    let (config, key) = (text(&config)?, text(&key)?);
    let arguments = [
        "gateway",
        "--leash",
        "--config",
        config,
        "--key",
        key,
        "--listen",
        &address,
        "--timeout",
        &timeout,
    ];
    let arguments = [&arguments[..], &sight(args, metrics)].concat();
    let part = part("gateway".to_owned(), &address, metrics, root);
    supervisor.start(part, root.join("gateway.log"), &arguments)
}

/// How a part shows what it does.
const fn sight<'a>(args: &UpArgs, metrics: &'a str) -> [&'a str; 4] {
    ["--metrics", metrics, "--log-format", args.log_format.name()]
}

fn text(path: &Path) -> Outcome<&str> {
    path.to_str().ok_or_else(|| {
        Failure::Usage(format!("{} is not UTF-8; use another --data", path.display()))
    })
}

/// False if a signal came first.
fn wait_until_it_answers(
    gateway: SocketAddr,
    supervisor: &mut Supervisor,
    signals: &mut Signals,
) -> Outcome<bool> {
    let spinner = spinner();
    let deadline = Instant::now() + START_LIMIT;
    while !probe::answers(gateway) {
        if signals.pending().any(|signal| signal != SIGCHLD) {
            return Ok(false);
        }
        if let Some(death) = supervisor.deaths().first() {
            return Err(Failure::Unwell(say_death(death)));
        }
        if Instant::now() >= deadline {
            let seconds = START_LIMIT.as_secs();
            return Err(Failure::Unwell(format!(
                "the cluster does not answer within {seconds} s; see the logs beside the keys"
            )));
        }
        spinner.tick();
        std::thread::sleep(Duration::from_millis(20));
    }
    spinner.finish_and_clear();
    Ok(true)
}

fn spinner() -> indicatif::ProgressBar {
    if std::io::stdout().is_terminal() {
        indicatif::ProgressBar::new_spinner().with_message("waiting until the cluster answers")
    } else {
        indicatif::ProgressBar::hidden()
    }
}

fn say_death(death: &Death) -> String {
    let mut line = death.what.clone();
    if let Some(words) = &death.last_words {
        line = format!("{line}; it said: {}", words.strip_prefix("pentarchy: ").unwrap_or(words));
    }
    format!("{line} (log: {})", death.log.display())
}

/// Whether this is a replica's process, and the group has no place for it any more.
fn is_no_member(root: &Path, part: &Part) -> bool {
    let key = folder::identity(&part.folder);
    key.is_some() && machines::present(root).is_ok_and(|config| !is_member(&config, part))
}

fn is_member(config: &ClusterConfig, part: &Part) -> bool {
    let key = folder::identity(&part.folder);
    config.replicas.iter().any(|replica| Some(replica.key) == key)
}

/// What a death means for those who use the cluster, whose administrators may have changed the
/// group since `up` began it.
fn consequence(args: &UpArgs, supervisor: &Supervisor, running: &Running) -> String {
    let alive = |part: &Part| supervisor.is_alive(part.pid);
    if !alive(&running.gateway) {
        return "Redis clients cannot connect until `pentarchy up` starts a new cluster".to_owned();
    }
    let Ok(config) = machines::present(&args.data) else { return "see its log".to_owned() };
    let members = running.replicas.iter().filter(|part| is_member(&config, part));
    let (n, left) = (config.replicas.len(), members.filter(|part| alive(part)).count());
    if left < ordering(&config.configuration()) {
        format!("{left} of {n} replicas are left, too few to answer")
    } else {
        format!("{left} of {n} replicas still run")
    }
}

fn report(args: &UpArgs, running: &Running) {
    let Running { protocol, f, gateway, .. } = running;
    let port = gateway.address.rsplit_once(':').map_or("", |(_, port)| port);
    if *port != args.port.to_string() {
        say(&format!("Port {} is taken; Redis clients connect to {port}.", args.port));
    }
    let mut table = table::new(&["", "address", "pid", "folder"]);
    for part in running.replicas.iter().chain([gateway]) {
        let folder = part.folder.display().to_string();
        table.add_row([part.name.clone(), part.address.clone(), part.pid.to_string(), folder]);
    }
    say(&format!("{}\n", table::text(&table)));
    let n = running.replicas.len();
    say(&format!("{protocol} with {n} replicas answers, while at most {f} of them fail."));
    let data = folder::option(&args.data);
    say(&format!("  redis-cli -p {port} set greeting hello"));
    say(&format!("  pentarchy status{data}"));
    if args.detach {
        say(&format!("  pentarchy down{data}"));
    } else {
        say(&format!("  Ctrl-C here, or elsewhere: pentarchy down{data}"));
    }
}

/// The asked port or the next free one, held.
fn free_port(asked: u16) -> Outcome<TcpListener> {
    let last = asked.saturating_add(PORTS_TRIED);
    let mut free = (asked.max(1)..=last)
        .filter_map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok());
    free.next().ok_or_else(|| {
        Failure::Usage(format!("no port from {asked} to {last} is free; name another with --port"))
    })
}

/// Gives a port back, so that the gateway can listen there. A process that was just started closes
/// what it inherited only once its program is loaded, so on a busy machine a replica may hold the
/// port for some milliseconds more. If it takes longer, another program has it, and the gateway
/// says so.
fn give_back(port: TcpListener, address: SocketAddr) {
    drop(port);
    let deadline = Instant::now() + INHERITED_LIMIT;
    while TcpListener::bind(address).is_err() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
}
