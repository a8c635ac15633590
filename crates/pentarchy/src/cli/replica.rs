//! x
use super::args::ReplicaArgs;
use super::failure::Outcome;
/// Runs
pub fn run(_args: &ReplicaArgs) -> Outcome {
    Ok(())
}
