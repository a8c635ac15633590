//! x
use super::args::StatusArgs;
use super::failure::Outcome;
/// Runs
pub fn run(_args: &StatusArgs) -> Outcome {
    Ok(())
}
