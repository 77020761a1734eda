//! Waiting for something that happens by itself.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

use super::Interrupt;

const POLL: Duration = Duration::from_millis(50);

/// Asks until there is an answer. An error of `ask` is no answer yet: after the deadline it is told, with
/// what was waited for.
pub(crate) fn until<T>(
    interrupt: &Interrupt,
    what: &str,
    deadline: Duration,
    mut ask: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let start = Instant::now();
    loop {
        let answer = ask();
        interrupt.check()?;
        match answer {
            Ok(Some(answer)) => return Ok(answer),
            Err(error) if start.elapsed() > deadline => {
                return Err(error).with_context(|| format!("{what}: not within {deadline:?}"));
            }
            Ok(None) if start.elapsed() > deadline => bail!("{what}: not within {deadline:?}"),
            _ => thread::sleep(POLL),
        }
    }
}
