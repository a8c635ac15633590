//! `members prepare`: the keys of a machine that is to become a member, and its card; or the key of
//! an administrator. `clients prepare`: that of a client.

use pentarchy::KeyPair;
use pentarchy::config::ClusterConfig;
use pentarchy::generate::NewMember;
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_console::say;
use std::path::Path;

/// Makes the key of somebody who is to become an administrator or a client, and prints the public
/// part.
pub fn key(out: &Path) -> Outcome {
    let key = KeyPair::generate();
    key.save(out).map_err(|error| Failure::Usage(error.to_string()))?;
    say(&hex::encode(key.public()));
    Ok(())
}

/// Makes the keys of a machine that is to join the group of a configuration, and prints its card.
pub fn machine(config: &Path, address: &str, out: &Path) -> Outcome {
    let group = ClusterConfig::load(config)?.group;
    let new = NewMember::generate(group, address);
    let new = new.map_err(|error| Failure::Usage(error.to_string()))?;
    new.write(out)?;
    say(&new.card().to_string());
    Ok(())
}
