//! Ctrl-C and requests to terminate.

use std::{
    process,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use anyhow::{Result, bail};
use tokio::{
    runtime,
    signal::unix::{SignalKind, signal},
};

/// What a shell reports of a program that Ctrl-C ended.
const EXIT_CODE: i32 = 130;

/// Whether somebody asked this program to end. Everything that waits looks at it, so that the suite
/// ends through its own clean-up; who asks twice does not want to wait for that.
#[derive(Debug, Clone)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From now on signals do not end the program by themselves.
    pub(crate) fn listen() -> Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        let seen = asked.clone();
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let (mut interrupt, mut terminate) = {
            let _entered = runtime.enter();
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
        };
        thread::Builder::new().name("signals".to_owned()).spawn(move || {
            runtime.block_on(async {
                loop {
                    tokio::select! {
                        _ = interrupt.recv() => {}
                        _ = terminate.recv() => {}
                    }
                    if seen.swap(true, Ordering::Relaxed) {
                        process::exit(EXIT_CODE);
                    }
                    eprintln!("\nstopping; once more to stop at once");
                }
            });
        })?;
        Ok(Self(asked))
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// An error once somebody asked.
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_asked() {
            bail!("interrupted");
        }
        Ok(())
    }
}
