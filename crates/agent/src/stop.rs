//! When to stop: an interrupt, a request to terminate, the terminal's or the parent's end.

use std::{io, thread};

use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::oneshot,
};

/// Waits for the next reason to stop.
#[derive(Debug)]
pub(crate) struct Stop {
    interrupt: Signal,
    terminate: Signal,
    /// None where a hang-up means something else.
    hang_up: Option<Signal>,
    stdin: Option<oneshot::Receiver<()>>,
}

impl Stop {
    /// From now on signals no longer end the process by themselves. `with_stdin`: the end of
    /// standard input is a reason too. A parent that holds the other end of that pipe takes its
    /// children with it, however it ends.
    pub(crate) fn listen(with_stdin: bool) -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: Some(signal(SignalKind::hangup())?),
            stdin: if with_stdin { Some(stdin_end()?) } else { None },
        })
    }

    /// A hang-up is no reason.
    pub(crate) fn except_hang_up(mut self) -> Self {
        self.hang_up = None;
        self
    }

    /// Waits for a reason that was not reported yet.
    pub(crate) async fn asked(&mut self) {
        let stdin = async {
            match &mut self.stdin {
                // The sender says nothing, it only goes away.
                Some(end) => drop(end.await),
                None => std::future::pending().await,
            }
        };
        let hang_up = async {
            match &mut self.hang_up {
                Some(signal) => drop(signal.recv().await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            () = hang_up => {}
            () = stdin => self.stdin = None,
        }
    }
}

/// A thread, because a read of standard input cannot be given up; it does not keep the process.
fn stdin_end() -> io::Result<oneshot::Receiver<()>> {
    let (open, end) = oneshot::channel();
    thread::Builder::new().name("stdin".to_owned()).spawn(move || {
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        drop(open);
    })?;
    Ok(end)
}
