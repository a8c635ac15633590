//! Every command and option, with its help text.

use super::backup::args::{LogArgs, SnapshotArgs};
use super::clients::ClientsArgs;
use super::config::ConfigArgs;
use super::counter::{CounterArgs, CounterChoice};
use super::members::args::{MembersArgs, ReconfigureArgs};
use super::service::ReplicatedChoice;
use super::sim::args::SimArgs;
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use pentarchy::config::{Durability, LOG_MIB_MAX, LOG_MIB_MIN};
use pentarchy::limits::{ADMINISTRATORS_MAX, BATCH_REQUESTS_MAX};
use pentarchy::{Fault, logging};
use pentarchy_bench::BenchArgs;
use pentarchy_console::folder::DATA_DEFAULT;
use pentarchy_console::options::{DurabilityChoice, GroupArgs, at_least_one};
use pentarchy_console::patient::Harm;
use pentarchy_protocols::{DEFAULT, EXAMPLES};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// The command line.
#[derive(Parser)]
#[command(
    name = "pentarchy",
    version,
    about = "Byzantine fault-tolerant replication: services that survive f lying replicas",
    after_help = "Start with:\n  pentarchy up\n\n\
        Exit codes: 0 all is well, 1 the group or file in question is not, 2 usage, 3 internal.\n\
        PENTARCHY_LOG=debug shows more on stderr; NO_COLOR switches colours off."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Subcommand)]
pub enum Command {
    /// Start a cluster on this machine and a Redis gateway to it
    Up(UpArgs),
    /// Stop a cluster that `up` started
    Down(DownArgs),
    /// Make keys and configuration for a cluster over several hosts
    Init(InitArgs),
    /// Run one replica in the foreground
    Replica(ReplicaArgs),
    /// Be a replica's trusted counter; replicas start this by themselves
    #[command(hide = true)]
    Counter(CounterArgs),
    /// Run a voting Redis gateway in the foreground
    Gateway(GatewayArgs),
    /// Show the health of the group and of each replica
    Status(StatusArgs),
    /// Break a replica of a cluster that `up` started, to see the others hold
    Break(BreakArgs),
    /// Undo what `break` did, and wait until the replica has caught up
    Heal(HealArgs),
    /// Play a guided tour of what a cluster survives, in two minutes
    Demo(DemoArgs),
    /// Watch every replica live; in a pipe, print a table once
    Top(TopArgs),
    /// Change a group while it runs, as its administrators
    Members(MembersArgs),
    /// Say who may be a client of a group that runs, as its administrators
    Clients(ClientsArgs),
    /// Have a running group switch to another protocol, with other members and another f if need be
    Reconfigure(ReconfigureArgs),
    /// Export and check what has become of a group, or convert what an older version has left
    Config(ConfigArgs),
    /// Save, check, compare and restore the state of a replica
    Snapshot(SnapshotArgs),
    /// Check and print the log of a replica
    Log(LogArgs),
    /// Search for bugs: run a protocol under simulated faults, one run per seed
    Sim(SimArgs),
    /// Search for bugs: every order of events in a small group, within budgets
    Explore(ExploreArgs),
    /// Measure throughput, latency and cost of a protocol against an unreplicated server
    Bench(Box<BenchArgs>),
    /// Print a completion script for a shell
    #[command(after_help = "Example:\n  pentarchy completions bash > \
        ~/.local/share/bash-completion/completions/pentarchy")]
    Completions {
        /// The shell
        shell: Shell,
    },
}

/// `--disk`, to try out power failures.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DiskChoice {
    /// What was not synced is lost when the process is killed
    Forgets,
    /// After 40 syncs nothing is synced any more
    Lies,
    /// It has room for 34 MiB
    Fills,
}

/// `--log-format`.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people
    Text,
    /// For programs: one JSON object a line
    Json,
}

impl LogFormat {
    /// As it is written on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
        }
    }
}

impl From<LogFormat> for logging::Format {
    fn from(choice: LogFormat) -> Self {
        match choice {
            LogFormat::Text => Self::Text,
            LogFormat::Json => Self::Json,
        }
    }
}

/// `up`.
#[derive(Args)]
#[command(after_help = format!(
    "Examples:\n  pentarchy up\n  pentarchy up --f 2 --port 7379 --detach\n  \
    pentarchy up --protocol {} --pillars 2 --rotate-leader\n\n\
    State lives in memory: a cluster that is stopped and started again is empty and has new keys.\n\
    With --durability sync it lives on disk: `up` on the same folder resumes where it stopped.",
    EXAMPLES.split.rules.name
))]
pub struct UpArgs {
    #[command(flatten)]
    pub group: GroupArgs,
    /// Port for Redis clients on 127.0.0.1; if it is taken, the next free one
    #[arg(long, default_value_t = 6379, value_name = "PORT",
        value_parser = clap::value_parser!(u16).range(1..))]
    pub port: u16,
    /// Seconds after which the gateway gives up a command without a reply. Within two more it sends
    /// the reply, or an error that says whether the replicas execute the command; if too few
    /// replicas answer, the outcome stays unknown
    #[arg(long, default_value_t = 30, value_name = "SECONDS",
        value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub timeout: u64,
    /// How replicas and gateway write their logs
    #[arg(long, value_enum, default_value = "text", value_name = "FORMAT")]
    pub log_format: LogFormat,
    /// What outlives the replicas' processes
    #[arg(long, value_enum, default_value = "memory", value_name = "MODE")]
    pub durability: DurabilityChoice,
    /// Where the trusted counters are
    #[arg(long, value_enum, default_value = "in-process", value_name = "PLACE")]
    pub counter: CounterChoice,
    /// Folder for keys and logs; made if absent
    #[arg(long, default_value = DATA_DEFAULT, value_name = "DIR")]
    pub data: PathBuf,
    /// Leave the cluster running in the background; `pentarchy down` stops it
    #[arg(long)]
    pub detach: bool,
    /// Run as the background half of --detach: own session, one line on stdout when ready
    #[arg(long, hide = true, conflicts_with = "detach")]
    pub background: bool,
    /// Stop when standard input ends, so that no cluster outlives who made it for itself
    #[arg(long, hide = true, requires = "background")]
    pub leash: bool,
    /// First of the ports, two for each replica and one, on which replicas listen and metrics are
    /// served; whoever names it sees to it that nobody else takes them
    #[arg(long, hide = true, value_name = "PORT",
        value_parser = clap::value_parser!(u16).range(1..))]
    pub replica_ports: Option<u16>,
}

/// `down`.
#[derive(Args)]
#[command(after_help = "Example:\n  pentarchy down --data pentarchy-data\n\n\
    With durability \"sync\" or \"async\" the gateway stops first. Then the group makes a \
    checkpoint\nwith all that was acknowledged, and `down` prints what each folder has. A group \
    that stands\nstill stops without a checkpoint, and `down` exits with 1.")]
pub struct DownArgs {
    /// Folder that was given to `up`
    #[arg(long, default_value = DATA_DEFAULT, value_name = "DIR")]
    pub data: PathBuf,
}

/// `init`.
#[derive(Args)]
#[command(after_help = "Example:\n  \
    pentarchy init --hosts 10.0.0.1:7000,10.0.0.2:7000,10.0.0.3:7000 --out cluster\n\n\
    Then copy cluster.toml and one replica-N folder to each host, and start them:\n  \
    pentarchy replica --config cluster.toml --id 0 --keys replica-0\n\n\
    Replicas serve the clients whose keys are made here: client.key, for the operator, and one\n\
    for each gateway. More public keys can be added to cluster.toml before the replicas start.")]
pub struct InitArgs {
    #[command(flatten)]
    pub group: GroupArgs,
    /// Address of each replica, in the order of their ids
    #[arg(long, value_delimiter = ',', required = true, value_name = "HOST:PORT,...")]
    pub hosts: Vec<String>,
    /// Gateways to make a key for: gateway-1.key and so on. Each gateway needs its own: of two that
    /// share one, only the one started last serves, if the clocks of their hosts agree
    #[arg(long, default_value_t = 1, value_name = "N",
        value_parser = clap::value_parser!(u16).range(1..=256))]
    pub gateways: u16,
    /// Administrators to make a key for: admin-1.key and so on. More than half of them together may
    /// change the group while it runs; with 0 nobody can
    #[arg(long, default_value_t = 3, value_name = "N",
        value_parser = clap::value_parser!(u8).range(0..=i64::from(ADMINISTRATORS_MAX as u8)))]
    pub administrators: u8,
    /// What outlives a replica's process
    #[arg(long, value_enum, default_value = "sync", value_name = "MODE")]
    pub durability: DurabilityChoice,
    /// Where the trusted counters are
    #[arg(long, value_enum, default_value = "in-process", value_name = "PLACE")]
    pub counter: CounterChoice,
    /// Serve every client that can reach a replica, not only those whose keys are made here
    #[arg(long)]
    pub open: bool,
    /// Folder to make
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
}

/// `replica`.
#[derive(Args)]
#[command(after_help = "Example:\n  \
    pentarchy replica --config cluster.toml --id 0 --keys replica-0\n\n\
    With durability \"sync\" in the configuration a replica resumes where it stopped, from its\n\
    data folder. With \"memory\" or \"async\", or with an empty data folder, it has forgotten\n\
    its promises: its trusted device begins a new incarnation, the group admits that, and the\n\
    replica catches up. Never start a copy of a data folder.\n\n\
    SIGTERM stops it. SIGUSR1 makes the survivor of a lost group save its state beside its keys,\n\
    and stop: see docs/operations.md, \"A group that is lost\".")]
pub struct ReplicaArgs {
    /// The cluster's public configuration
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// Which replica this is, from 0, of those in the configuration
    #[arg(long, value_name = "N", required_unless_present = "join", conflicts_with = "join")]
    pub id: Option<u16>,
    /// Wait until administrators have this machine join the group, and then be a replica of it; so
    /// also when it is started again. Its keys are from `members prepare`
    #[arg(long)]
    pub join: bool,
    /// Folder with this replica's secrets
    #[arg(long, value_name = "DIR")]
    pub keys: PathBuf,
    /// Address to listen on, if it is not the one in the configuration
    #[arg(long, value_name = "IP:PORT")]
    pub listen: Option<SocketAddr>,
    /// The service to replicate; the same for all replicas of a group
    #[arg(long, value_enum, default_value = "kv", value_name = "NAME")]
    pub service: ReplicatedChoice,
    /// What outlives the process, instead of what the configuration says
    #[arg(long, value_enum, value_name = "MODE")]
    pub durability: Option<DurabilityChoice>,
    /// Where the trusted counter is, instead of where the configuration says
    #[arg(long, value_enum, value_name = "PLACE")]
    pub counter: Option<CounterChoice>,
    /// MiB that the log in the data folder may have between checkpoints, instead of what the
    /// configuration says
    #[arg(long, value_name = "MIB",
        value_parser = clap::value_parser!(u64).range(LOG_MIB_MIN..=LOG_MIB_MAX))]
    pub log_mib: Option<u64>,
    /// Keep the content of checkpoints only in the files of the data folder, and not in memory:
    /// for states that are larger than memory
    #[arg(long)]
    pub cold_state: bool,
    /// Folder for what outlives the process; `data` in the folder with the secrets if left out
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Serve /metrics, /healthz and /readyz over HTTP here; a port alone means 127.0.0.1
    #[arg(long, value_parser = parse_metrics, value_name = "[IP:]PORT")]
    pub metrics: Option<SocketAddr>,
    /// How the log on stderr is written
    #[arg(long, value_enum, default_value = "text", value_name = "FORMAT")]
    pub log_format: LogFormat,
    /// Requests that a batch may hold, for measurements; the same for all replicas and clients of a
    /// group, and at every start from one data folder, since it is a part of the configuration
    #[arg(long, hide = true, value_name = "N", value_parser = at_least_one(BATCH_REQUESTS_MAX))]
    pub batch_requests: Option<usize>,
    /// A disk that forgets what was not synced when the process is killed, lies about it, or fills
    /// up
    #[arg(long, hide = true, value_enum, value_name = "KIND")]
    pub disk: Option<DiskChoice>,
    /// Misbehave as this file says: for clusters that are made to be broken
    #[arg(long, hide = true, value_name = "FILE")]
    pub faults: Option<PathBuf>,
    /// Stop when standard input ends, so that no child outlives its parent
    #[arg(long, hide = true)]
    pub leash: bool,
}

/// `gateway`.
#[derive(Args)]
#[command(after_help = "Example:\n  pentarchy gateway --config cluster.toml --key gateway-1.key \
    --listen 127.0.0.1:6379\n\n\
    The gateway counts the replicas' votes for its clients, which trust it like a single server. \
    Without\n--password-file it asks for no password and listens on loopback addresses only: run \
    one beside each\napplication. With a password it listens on any address, and the password \
    travels in the clear.")]
pub struct GatewayArgs {
    /// The cluster's public configuration. When the group has changed, the gateway writes how into
    /// the file beside it that ends in .chain, and finds the group by both when it starts again
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// The gateway's client key. If another process starts with the same key, this one stops
    /// serving, says why in its log and is not ready; restart the one that should serve
    #[arg(long, value_name = "FILE")]
    pub key: PathBuf,
    /// Address for Redis clients
    #[arg(long, default_value = "127.0.0.1:6379", value_name = "IP:PORT")]
    pub listen: SocketAddr,
    /// File whose first line is the password that clients must say with AUTH. Without one the
    /// gateway listens on loopback addresses only
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// Seconds after which the gateway gives up a command without a reply. Within two more it sends
    /// the reply, or an error that says whether the replicas execute the command; if too few
    /// replicas answer, the outcome stays unknown
    #[arg(long, default_value_t = 30, value_name = "SECONDS",
        value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub timeout: u64,
    /// Serve /metrics, /healthz and /readyz over HTTP here; a port alone means 127.0.0.1
    #[arg(long, value_parser = parse_metrics, value_name = "[IP:]PORT")]
    pub metrics: Option<SocketAddr>,
    /// How the log on stderr is written
    #[arg(long, value_enum, default_value = "text", value_name = "FORMAT")]
    pub log_format: LogFormat,
    /// Stop when standard input ends, so that no child outlives its parent
    #[arg(long, hide = true)]
    pub leash: bool,
}

/// `status`.
#[derive(Args)]
#[command(after_help = "Examples:\n  pentarchy status\n  \
    pentarchy status --config cluster.toml --key client.key --json\n\n\
    The first line says whether the group serves, how many more faults it tolerates, and which\n\
    replicas are suspected. Exit code 0 if all replicas have caught up, have the same state, and\n\
    none is suspected, else 1.")]
pub struct StatusArgs {
    /// Folder that was given to `up`
    #[arg(long, default_value = DATA_DEFAULT, value_name = "DIR")]
    pub data: PathBuf,
    /// The cluster's public configuration, for a cluster that `up` did not start
    #[arg(long, value_name = "FILE", conflicts_with = "data")]
    pub config: Option<PathBuf>,
    /// A client key; needed where only listed clients are admitted. Never one that a gateway or
    /// another process uses: replicas serve one connection of a key at a time
    #[arg(long, value_name = "FILE", requires = "config")]
    pub key: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Ask again every second until interrupted; with --json, one line each time
    #[arg(long)]
    pub watch: bool,
}

/// `break`.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  pentarchy break 2 --kill\n  pentarchy break 0 --equivocate\n  \
    pentarchy break 1 --slow 100\n\n\
    Only a cluster that `up` started can be broken like this."
)]
pub struct BreakArgs {
    /// Which replica, by its member's number
    pub replica: u32,
    /// How
    #[command(flatten)]
    pub what: HarmArgs,
    /// Do it even if then more replicas are broken than the group tolerates
    #[arg(long)]
    pub anyway: bool,
    /// Folder that was given to `up`
    #[arg(long, default_value = DATA_DEFAULT, value_name = "DIR")]
    pub data: PathBuf,
}

/// What `break` does; exactly one.
#[derive(Args)]
#[group(required = true, multiple = false)]
pub struct HarmArgs {
    /// End its process at once; with durability `memory`, all that it knew is lost
    #[arg(long)]
    pub kill: bool,
    /// Freeze its process
    #[arg(long)]
    pub pause: bool,
    /// It sends nothing any more
    #[arg(long)]
    pub silent: bool,
    /// It tells different replicas different things, and clients something else
    #[arg(long)]
    pub equivocate: bool,
    /// It changes a bit in all that it sends
    #[arg(long)]
    pub corrupt: bool,
    /// It sends everything this many milliseconds late
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(1..=60_000))]
    pub slow: Option<u32>,
}

impl HarmArgs {
    /// As a value.
    pub fn harm(&self) -> Harm {
        match self {
            Self { kill: true, .. } => Harm::Kill,
            Self { pause: true, .. } => Harm::Pause,
            Self { silent: true, .. } => Harm::Misbehave(Fault::Silent),
            Self { equivocate: true, .. } => Harm::Misbehave(Fault::Equivocate),
            Self { corrupt: true, .. } => Harm::Misbehave(Fault::Corrupt),
            Self { slow, .. } => Harm::Misbehave(slow.map_or(Fault::None, Fault::Slow)),
        }
    }

    /// What the replica does from now on, for people, if so much outlives its process.
    pub fn done(&self, durability: Durability) -> String {
        match self.harm() {
            Harm::Kill => match durability {
                Durability::Memory => "is killed; its memory is lost".to_owned(),
                Durability::Async => {
                    "is killed; its promises are lost, its last saved state is on disk".to_owned()
                }
                Durability::Sync => "is killed; what it said is on its disk".to_owned(),
            },
            Harm::Pause => "is frozen".to_owned(),
            Harm::Misbehave(Fault::Silent) => "sends nothing any more".to_owned(),
            Harm::Misbehave(Fault::Equivocate) => {
                "tells different replicas different things, and lies to clients".to_owned()
            }
            Harm::Misbehave(Fault::Corrupt) => "corrupts all that it sends".to_owned(),
            Harm::Misbehave(Fault::Slow(ms)) => format!("sends everything {ms} ms late"),
            Harm::Misbehave(Fault::None) => "works".to_owned(),
        }
    }
}

/// `heal`.
#[derive(Args)]
#[command(after_help = "Example:\n  pentarchy heal 2\n\n\
    `heal` starts a killed replica again. With durability \"sync\" it resumes from its disk.\n\
    With \"memory\" or \"async\" its trusted device begins a new incarnation, the group admits\n\
    that, and the replica fetches the state. A replica that lost its memory often in a short\n\
    time waits for its admission: 5 s, then twice as long each time, up to 640 s.\n\
    A replica has caught up when it has executed what the others had when it came back.\n\
    Exit code 1 if it has not caught up within a minute,\n\
    and at once if more than f replicas have lost their memory: such a group is lost.")]
pub struct HealArgs {
    /// Which replicas; by default all that are broken
    pub replicas: Vec<u32>,
    /// Folder that was given to `up`
    #[arg(long, default_value = DATA_DEFAULT, value_name = "DIR")]
    pub data: PathBuf,
}

/// `demo`.
#[derive(Args)]
#[command(after_help = "Example:\n  pentarchy demo\n\n\
    Starts a cluster of its own in a temporary folder and stops it in the end.")]
pub struct DemoArgs {
    /// Without pauses for the reader
    #[arg(long)]
    pub fast: bool,
}

/// `top`.
#[derive(Args)]
#[command(after_help = "Examples:\n  pentarchy top\n  \
    pentarchy top --config cluster.toml --key client.key\n\n\
    Keys: q ends. With --once, the exit code is that of `status`.")]
pub struct TopArgs {
    /// Folder that was given to `up`
    #[arg(long, default_value = DATA_DEFAULT, value_name = "DIR")]
    pub data: PathBuf,
    /// The cluster's public configuration, for a cluster that `up` did not start
    #[arg(long, value_name = "FILE", conflicts_with = "data")]
    pub config: Option<PathBuf>,
    /// A client key; needed where only listed clients are admitted. Never one that a gateway or
    /// another process uses: replicas serve one connection of a key at a time
    #[arg(long, value_name = "FILE", requires = "config")]
    pub key: Option<PathBuf>,
    /// Print a table once and end
    #[arg(long)]
    pub once: bool,
}

/// Where metrics are served. Other machines see it only if an address is named.
fn parse_metrics(text: &str) -> Result<SocketAddr, String> {
    let address = match text.parse::<u16>() {
        Ok(port) => SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
        Err(_) => text.parse().map_err(|_| "write a port, or an IP address and a port")?,
    };
    if address.port() == 0 { Err("port 0 is no port".to_owned()) } else { Ok(address) }
}

/// `explore`.
#[derive(Args)]
#[command(after_help = format!(
    "Examples:\n  pentarchy explore --protocol {name} --liar 2\n  \
    pentarchy explore --protocol {name} --start view-2 --states 200000\n  \
    pentarchy explore --liar 2 --lies 4 --alphabet commit,view-change,acknowledge \\\n    \
    --variant device.not-bound-to-views\n\n\
    Exit code 1 if a property is broken; the run that breaks it is printed. --variant needs a \
    build\nwith --features mutants.",
    name = DEFAULT.rules.name
))]
pub struct ExploreArgs {
    /// The protocol to explore
    #[arg(long, default_value = DEFAULT.rules.name, value_name = "NAME")]
    pub protocol: String,
    /// States after which to stop; a million take about a gigabyte
    #[arg(long, default_value_t = 1_000_000, value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub states: u32,
    /// Follow the newest state first: long runs at once, but what is found is not a shortest run
    #[arg(long)]
    pub deep: bool,
    /// Where to begin: a name that the protocol knows, or a file of steps
    #[arg(long, value_name = "FILE|NAME")]
    pub start: Option<String>,
    /// Seeded bug to switch on
    #[arg(long, value_name = "NAME")]
    pub variant: Option<String>,
    /// The replica that lies; none does if this is not given
    #[arg(long, value_name = "ID")]
    pub liar: Option<u16>,
    /// Lies that it may tell
    #[arg(long, default_value_t = 5, value_name = "N")]
    pub lies: u8,
    /// Kinds of lies that it may tell; by default all that can change what is decided
    #[arg(long, value_delimiter = ',', value_name = "KIND,...")]
    pub alphabet: Vec<String>,
    /// Clients, each with one request
    #[arg(long, default_value_t = 2, value_name = "N",
        value_parser = clap::value_parser!(u8).range(1..=4))]
    pub requests: u8,
    /// Timeouts of each correct replica
    #[arg(long, default_value_t = 2, value_name = "N")]
    pub timeouts: u8,
    /// Reports by which each correct replica repairs loss
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub resends: u8,
    /// Faults to tolerate
    #[arg(long, default_value_t = 1, value_name = "N",
        value_parser = clap::value_parser!(u8).range(1..=3))]
    pub f: u8,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
