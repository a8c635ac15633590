//! `clients`: who may be a client of a group that runs, as its administrators say.

use super::members::args::{Asked, Proposing, public_key};
use super::members::showing::{OPEN, clients_of};
use super::members::{administrators, prepare, propose, show};
use clap::{Args, Subcommand};
use pentarchy::administration::{Admitting, admit};
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_console::say;
use pentarchy_core::ids::ClientId;
use serde_json::json;
use std::path::PathBuf;

/// `clients`.
#[derive(Args)]
#[command(after_help = "Examples:\n  pentarchy clients prepare --out gateway-2.key\n  \
    pentarchy clients add KEY --config cluster.toml --admin-key a.key --admin-key b.key\n  \
    pentarchy clients list\n\n\
    Gateways are clients. KEY is a public key: `prepare` prints one, and `list` shows today's.\n\
    Each of these is a change of the group, as those of `members`: as many administrators have\n\
    to agree, `members approve` and `members withdraw` work for it, and other clients continue.\n\
    Members and administrators need not be listed.\n\
    Exit code 0 if the group has begun with the change, 1 if it has not yet or refuses.")]
pub struct ClientsArgs {
    #[command(subcommand)]
    pub command: ClientsCommand,
}

/// What to do.
#[derive(Subcommand)]
pub enum ClientsCommand {
    /// Show who may be a client
    #[command(after_help = "Example:\n  pentarchy clients list --json")]
    List(Asked),
    /// Make the key of a client or gateway, and print its public part
    #[command(after_help = "Example:\n  pentarchy clients prepare --out gateway-2.key")]
    Prepare {
        /// A new file for the key
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
    },
    /// Let others in, too
    #[command(after_help = "Example:\n  pentarchy clients add KEY --expires 30")]
    Add(Listing),
    /// Let some in no more: replicas hang up on them, and refuse what they ask
    #[command(after_help = "Example:\n  pentarchy clients remove KEY")]
    Remove(Listing),
    /// Let these in, and nobody else
    #[command(after_help = "Example:\n  pentarchy clients only KEY KEY")]
    Only(Listing),
    /// Let in anyone who has a key
    #[command(after_help = "Example:\n  pentarchy clients open")]
    Open(Proposing),
}

/// A change that names clients.
#[derive(Args)]
pub struct Listing {
    /// The public keys of the clients
    #[arg(value_name = "KEY", required = true, value_parser = client)]
    keys: Vec<ClientId>,
    #[command(flatten)]
    proposing: Proposing,
}

fn client(text: &str) -> Result<ClientId, String> {
    public_key(text).map(ClientId)
}

/// Runs the command.
pub fn run(args: &ClientsArgs) -> Outcome {
    match &args.command {
        ClientsCommand::List(asked) => list(asked),
        ClientsCommand::Prepare { out } => prepare::key(out),
        ClientsCommand::Add(Listing { keys, proposing }) => {
            change(proposing, Admitting::Altered { joins: keys, leaves: &[] })
        }
        ClientsCommand::Remove(Listing { keys, proposing }) => {
            change(proposing, Admitting::Altered { joins: &[], leaves: keys })
        }
        ClientsCommand::Only(Listing { keys, proposing }) => {
            change(proposing, Admitting::Only(keys))
        }
        ClientsCommand::Open(proposing) => change(proposing, Admitting::Everyone),
    }
}

fn change(proposing: &Proposing, wanted: Admitting<'_>) -> Outcome {
    propose(proposing, |shown, terms| {
        admit(shown, wanted, terms).map_err(|error| Failure::Usage(error.to_string()))
    })
}

fn list(asked: &Asked) -> Outcome {
    let access = show(&administrators(asked)?)?.configuration.access;
    if asked.json {
        say(&json!({ "clients": clients_of(&access) }).to_string());
        return Ok(());
    }
    say(&clients_of(&access).map_or_else(|| OPEN.to_owned(), |keys| keys.join("\n")));
    Ok(())
}
