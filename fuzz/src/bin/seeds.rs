//! Writes each target's seeds to `FOLDER/target/seed-NNN`. `cargo xtask fuzz --renew` calls it.

#![forbid(unsafe_code)]

use pentarchy_fuzz::targets;
use std::path::PathBuf;
use std::process::ExitCode;
use std::{env, fs, io};

fn main() -> ExitCode {
    let Some(folder) = env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: seeds FOLDER");
        return ExitCode::FAILURE;
    };
    match write(&folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error}", folder.display());
            ExitCode::FAILURE
        }
    }
}

fn write(folder: &std::path::Path) -> io::Result<()> {
    for target in targets::ALL {
        let folder = folder.join(target.name);
        fs::create_dir_all(&folder)?;
        for (number, seed) in (target.seeds)().iter().enumerate() {
            fs::write(folder.join(format!("seed-{number:03}")), seed)?;
        }
    }
    Ok(())
}
