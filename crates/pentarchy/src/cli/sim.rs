//! x
use super::args::SimArgs;
use super::failure::Outcome;
/// Runs
pub fn run(_args: &SimArgs) -> Outcome {
    Ok(())
}
