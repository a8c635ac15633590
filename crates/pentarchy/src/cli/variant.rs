//! `--variant`: the seeded bug that a simulated protocol has.

use pentarchy_console::failure::{Failure, Outcome};

/// Switches the bug of this name on, or none.
#[cfg(feature = "mutants")]
pub fn choose(variant: Option<&str>) -> Outcome {
    if pentarchy_core::mutant::choose(variant) {
        return Ok(());
    }
    let names: Vec<&str> = pentarchy_core::mutant::MUTANTS.iter().map(|it| it.name).collect();
    let (name, names) = (variant.unwrap_or_default(), names.join(", "));
    Err(Failure::Usage(format!("no variant {name:?}; there are: {names}")))
}

/// There is none to be switched on.
#[cfg(not(feature = "mutants"))]
pub fn choose(variant: Option<&str>) -> Outcome {
    match variant {
        None => Ok(()),
        Some(_) => Err(Failure::Usage(
            "this binary has no variants; use cargo run --release -p pentarchy --features mutants"
                .to_owned(),
        )),
    }
}
