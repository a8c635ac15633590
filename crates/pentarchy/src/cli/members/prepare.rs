//! `members prepare`: the keys of a machine that is to become a member, and its card.

use pentarchy::card::Card;
use pentarchy::generate::NewMember;
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_console::say;
use std::path::Path;

/// Runs the command.
pub fn run(address: &str, out: &Path) -> Outcome {
    let new = NewMember::generate(address).map_err(|error| Failure::Usage(error.to_string()))?;
    new.write(out)?;
    say(&new.card().to_string());
    Ok(())
}

/// Reads a card.
pub fn read(path: &Path) -> Outcome<Card> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::Usage(format!("cannot read the card {shown}: {error}")))?;
    text.parse().map_err(|error| Failure::Usage(format!("{shown}: {error}")))
}
