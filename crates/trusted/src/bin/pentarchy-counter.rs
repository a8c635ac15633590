//! A trusted counter as a program of its own: `pentarchy-counter FILE`, with the file of the
//! group's secret. Started by a replica; see [`pentarchy_trusted::backend::process`].

#![forbid(unsafe_code)]

use pentarchy_trusted::backend::process::serve;
use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(secret) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("name the file of the group's secret");
        return ExitCode::from(2);
    };
    match serve::serve(&secret) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
