//! x
use super::args::GatewayArgs;
use super::failure::Outcome;
/// Runs
pub fn run(_args: &GatewayArgs) -> Outcome {
    Ok(())
}
