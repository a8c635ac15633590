//! Panics that are caught: those of correct replicas become violations, those of faulty ones do not
//! matter. Neither should fill the terminal with backtraces.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs something. If it panics, says with what, and nothing is printed.
///
/// # Errors
/// The text of the panic.
pub fn catch<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !QUIET.get() {
                before(panic);
            }
        }));
    });
    let outer = QUIET.replace(true);
    let outcome = catch_unwind(AssertUnwindSafe(run));
    QUIET.set(outer);
    outcome.map_err(|cause| {
        let text = cause.downcast_ref::<String>().cloned();
        text.or_else(|| cause.downcast_ref::<&str>().map(|text| (*text).to_owned()))
            .unwrap_or_default()
    })
}

#[cfg(test)]
mod tests {
    use super::catch;

    #[test]
    fn a_panic_becomes_its_text() {
        assert_eq!(catch(|| 5), Ok(5));
        let inner = || catch(|| panic!("{} {}", "inside", 1)).map(|()| 0);
        assert_eq!(catch(|| inner().unwrap_err()), Ok("inside 1".to_owned()));
        assert_eq!(catch(|| panic!("plain")).map(|()| 0), Err("plain".to_owned()));
    }
}
