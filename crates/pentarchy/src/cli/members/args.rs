//! The command line of `members`.

use super::DIGITS;
use clap::{Args, Subcommand};
use pentarchy_console::folder::DATA_DEFAULT;
use std::path::PathBuf;

/// `members`.
#[derive(Args)]
#[command(after_help = "Examples:\n  pentarchy members list\n  \
    pentarchy members replace 2 new.card\n  \
    pentarchy members refresh --config cluster.toml --admin-key a.key --admin-key b.key\n\n\
    A change needs as many administrators as `list` says, at first more than half. One proposes\n\
    it and others approve it, or one command gets several keys. Then the members get ready, while\n\
    clients go on. Once the group has begun with the change, the command waits up to 10 s more\n\
    until the members have erased the keys by which they signed before, and names those that may\n\
    still have some.\n\
    Exit code 0 if the group has begun with the change, 1 if it has not yet or refuses.")]
pub struct MembersArgs {
    #[command(subcommand)]
    pub command: MembersCommand,
}

/// What to do.
#[derive(Subcommand)]
pub enum MembersCommand {
    /// Show the members, who still has former keys, what is pending, and what waits for other
    /// administrators
    #[command(after_help = "Example:\n  pentarchy members list --json")]
    List(Asked),
    /// Make the keys of a machine that is to become a member, or the key of an administrator
    #[command(after_help = "Examples:\n  \
        pentarchy members prepare --address 10.0.0.4:7000 --config cluster.toml --out keys\n  \
        pentarchy members prepare --administrator --out admin-4.key\n\n\
        Run it where the key is to be used. Bring what it prints, a card or a public key, to the\n\
        administrators, who compare it. Start the machine: \
        pentarchy replica --join --config cluster.toml --keys keys")]
    Prepare {
        /// Where the other members and the clients are to reach the machine
        #[arg(long, value_name = "HOST:PORT", required_unless_present = "administrator")]
        address: Option<String>,
        /// The public configuration of the cluster that the machine is to join: its card names that
        #[arg(
            long,
            value_name = "FILE",
            required_unless_present = "administrator",
            conflicts_with = "administrator"
        )]
        config: Option<PathBuf>,
        /// Make the key of somebody who is to become an administrator
        #[arg(long, conflicts_with = "address")]
        administrator: bool,
        /// A new folder for the machine's keys, or a new file for the administrator's
        #[arg(long, value_name = "PATH")]
        out: PathBuf,
    },
    /// Have machines join the group
    #[command(after_help = "Examples:\n  pentarchy members add\n  \
        pentarchy members add 5.card --config cluster.toml --admin-key a.key\n\n\
        Until a machine has fetched the state it counts as faulty: add one at a time, and raise \
        --f with\nthe last one.")]
    Add {
        /// The files of their cards. If left out, `up` starts another machine, which joins
        #[arg(value_name = "CARD")]
        cards: Vec<PathBuf>,
        #[command(flatten)]
        altering: Altering,
    },
    /// Have members leave the group
    #[command(after_help = "Example:\n  pentarchy members remove 5 6 --f 1")]
    Remove {
        /// Their numbers
        #[arg(required = true, value_name = "MEMBER")]
        members: Vec<u32>,
        #[command(flatten)]
        altering: Altering,
    },
    /// Have a machine take the place of a member, which may be dead, or get other keys
    #[command(
        visible_alias = "rotate",
        after_help = "Examples:\n  pentarchy members replace 2\n  \
        pentarchy members replace 2 new.card --config cluster.toml --admin-key a.key\n  \
        pentarchy members rotate 2 new.card --config cluster.toml --admin-key a.key\n\n\
        `rotate` is the same: if somebody may have read the disk of a member, prepare other keys \
        on its\nmachine, with another port, and start a replica there with `replica --join`. The \
        member that\nit replaces ends once the others have its state."
    )]
    Replace {
        /// The number of the member that leaves
        member: u32,
        /// The file of the card of the machine that joins. If left out, `up` starts one
        card: Option<PathBuf>,
        #[command(flatten)]
        proposing: Proposing,
    },
    /// Have each member sign by a new key, and erase the one before
    #[command(after_help = "Example:\n  pentarchy members refresh --expires 30")]
    Refresh(Proposing),
    /// Have the members find one of them at another address, and sign by new keys
    #[command(after_help = "Example:\n  pentarchy members move 2 10.0.0.9:7000\n\n\
        Stop the replica, move the folder with its keys and data, propose the change, and start \
        it\nwith --listen on its new host. Clients and gateways follow.")]
    Move {
        /// The number of the member
        member: u32,
        /// Where it is from then on
        #[arg(value_name = "HOST:PORT")]
        address: String,
        #[command(flatten)]
        proposing: Proposing,
    },
    /// Have others be administrators
    #[command(after_help = "Example:\n  \
        pentarchy members appoint --add KEY --remove KEY --config cluster.toml \
        --admin-key a.key --admin-key b.key\n\n\
        KEY is a public key: `prepare --administrator` prints one, and `list` shows today's.\n\
        The members sign by new keys from then on, too.")]
    Appoint {
        /// Public key of somebody who is to be an administrator; several may be given
        #[arg(long, value_name = "KEY", value_parser = public_key)]
        add: Vec<[u8; 32]>,
        /// Public key of somebody who is to be none any more; several may be given
        #[arg(long, value_name = "KEY", value_parser = public_key,
            required_unless_present_any = ["add", "agree"])]
        remove: Vec<[u8; 32]>,
        /// How many of them have to agree on a change from then on. If left out: more than half
        /// where that was so before, otherwise as many as before
        #[arg(long, value_name = "N")]
        agree: Option<u8>,
        #[command(flatten)]
        proposing: Proposing,
    },
    /// Propose what another administrator has proposed
    #[command(after_help = "Example:\n  \
        pentarchy members approve 4f1a6e0b97c2d8354f1a6e0b97c2d835 --config cluster.toml \
        --admin-key b.key\n\n\
        `list` shows each proposal, with its digest and what it alters.")]
    Approve {
        /// The digest of the proposed change, or how it begins
        #[arg(value_name = "CHANGE", value_parser = digest)]
        change: String,
        #[command(flatten)]
        asked: Asked,
    },
    /// Have a group that is lost go on, on other machines, from a state that was saved
    #[command(after_help = "Examples:\n  \
        pentarchy members rescue saved.backup --card a.card --card b.card --card c.card \
        --config cluster.toml --admin-key a.key\n  \
        pentarchy members rescue --sign cluster.rescue saved.backup --config cluster.toml \
        --admin-key b.key\n\n\
        For a group of which more than f members lost their memory, so that it never goes on by\n\
        itself. Have each survivor save what it has while it runs (SIGUSR1), and take the file\n\
        with the highest slot. The group loses what replicas acknowledged behind it. Prepare new\n\
        keys for all machines, also for those that survived. The command refuses while a replica\n\
        of the group runs. It cannot see whether stopped replicas could go on if you started\n\
        them: look first.\n\
        Exit code 1 if a replica runs.")]
    Rescue(Rescuing),
    /// Take back whatever is proposed or pending
    #[command(after_help = "Example:\n  pentarchy members withdraw")]
    Withdraw(Asked),
}

/// `members rescue`.
#[derive(Args)]
pub struct Rescuing {
    /// The saved state: a backup, or the data folder of a stopped replica. With --sign, it is
    /// compared
    #[arg(value_name = "STATE", required_unless_present = "sign")]
    pub state: Option<PathBuf>,
    /// The file of the card of a machine that is to be a member; as many as there are to be
    #[arg(long, value_name = "CARD", required_unless_present = "sign", conflicts_with = "sign")]
    pub card: Vec<PathBuf>,
    /// How many of them may be faulty; as many as before, if left out
    #[arg(long, value_name = "N", conflicts_with = "sign")]
    pub f: Option<u16>,
    /// Sign what another administrator's `rescue` has written; without a key, show it
    #[arg(long, value_name = "FILE")]
    pub sign: Option<PathBuf>,
    /// The cluster's public configuration; cluster.chain beside it tells what has become of it
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// The key of an administrator; several may be given
    #[arg(long, value_name = "FILE", required_unless_present = "sign")]
    pub admin_key: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `reconfigure`.
#[derive(Args)]
#[command(after_help = "Examples:\n  pentarchy reconfigure --protocol NAME\n  \
    pentarchy reconfigure --protocol NAME --add 4.card --config cluster.toml --admin-key a.key\n\n\
    Clients and gateways follow, and nothing that was acknowledged is lost. All members have to\n\
    be ready if the next protocol needs trusted devices of another kind, otherwise all but f.\n\
    `members` shows the group, and has other administrators approve.\n\
    Exit code 0 if the group has begun with the change, 1 if it has not yet or refuses.")]
pub struct ReconfigureArgs {
    /// The protocol by which the group is to order
    #[arg(long, value_name = "NAME", required_unless_present = "f")]
    pub protocol: Option<String>,
    /// The file of the card of a machine that is to join; several may be given
    #[arg(long, value_name = "CARD")]
    pub add: Vec<PathBuf>,
    /// The number of a member that is to leave; several may be given
    #[arg(long, value_name = "MEMBER")]
    pub remove: Vec<u32>,
    /// Have clients sign what they ask, also where trusted devices could check sessions
    #[arg(long, requires = "protocol")]
    pub without_sessions: bool,
    #[command(flatten)]
    pub altering: Altering,
}

/// A change that is proposed.
#[derive(Args)]
pub struct Proposing {
    #[command(flatten)]
    pub asked: Asked,
    /// Minutes after which the change is void, if too few members are ready by then
    #[arg(long, default_value_t = 10, value_name = "MINUTES",
        value_parser = clap::value_parser!(u64).range(1..=1440))]
    pub expires: u64,
}

/// A change of the number of members.
#[derive(Args)]
pub struct Altering {
    /// How many members may be faulty from then on; as many as before, if left out
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub f: Option<u16>,
    #[command(flatten)]
    pub proposing: Proposing,
}

/// The beginning of a digest: so much of it that no administrator finds two changes that share it.
fn digest(text: &str) -> Result<String, String> {
    let is_hex =
        text.len() >= DIGITS && text.len() <= 64 && text.chars().all(|it| it.is_ascii_hexdigit());
    if is_hex {
        Ok(text.to_ascii_lowercase())
    } else {
        Err(format!("{DIGITS} to 64 hexadecimal digits"))
    }
}

/// A public key, in hexadecimal digits.
pub fn public_key(text: &str) -> Result<[u8; 32], String> {
    let mut key = [0; 32];
    let decoded = hex::decode_to_slice(text, &mut key);
    decoded.map(|()| key).map_err(|_| "a public key is 64 hexadecimal digits".to_owned())
}

/// Whom to ask, as whom.
#[derive(Args)]
pub struct Asked {
    /// Folder that was given to `up`, where the administrators' keys are too
    #[arg(long, default_value = DATA_DEFAULT, value_name = "DIR")]
    pub data: PathBuf,
    /// The cluster's public configuration, for a cluster that `up` did not start
    #[arg(long, value_name = "FILE", conflicts_with = "data", requires = "admin_key")]
    pub config: Option<PathBuf>,
    /// The key of an administrator; several may be given
    #[arg(long, value_name = "FILE")]
    pub admin_key: Vec<PathBuf>,
    /// Seconds to wait until the group has begun with a change; it goes on all the same
    #[arg(long, default_value_t = 60, value_name = "SECONDS",
        value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub wait: u64,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
