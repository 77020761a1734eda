//! What the engine takes for impossible ends the step, not the agent.

use std::{
    any::Any,
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind},
};

thread_local! {
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is inside a step whose failure is caught. Everywhere else a panic means that the agent itself is
/// broken: whoever installs a panic hook ends the process then.
pub fn is_guarded() -> bool {
    IS_GUARDED.get()
}

/// Runs a step; the error is what the engine said when it broke.
///
/// What the step was given may be half changed then. The set is put back to what is stored. The site's clock and tickets
/// only ever grow, so what a broken step took of them is lost and nothing else.
pub(super) fn guarded<T>(step: impl FnOnce() -> T) -> Result<T, String> {
    let before = IS_GUARDED.replace(true);
    let result = catch_unwind(AssertUnwindSafe(step));
    IS_GUARDED.set(before);
    result.map_err(|panic| said(&*panic))
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a broken invariant").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_step_says_what_broke() {
        assert_eq!(guarded(|| 7), Ok(7));
        let number = 3;
        let broken: Result<(), _> = guarded(|| panic!("{number} does not follow"));
        assert_eq!(broken, Err("3 does not follow".to_owned()));
        assert!(guarded(is_guarded).unwrap());
        assert!(!is_guarded());
    }
}
