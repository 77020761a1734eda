//! A server process for the time of a benchmark: pinned to a core, ended when dropped, and ended by
//! the kernel when this program dies before it.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

/// Under callgrind, on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(60);
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(20);

pub(super) struct Server {
    child: Child,
}

impl Server {
    /// Starts a program on one core and waits until it accepts connections at `address`.
    pub(super) fn start(
        program: &Path,
        args: &[&str],
        core: usize,
        address: SocketAddr,
        dir: &Path,
    ) -> Result<Self> {
        let name = program
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let log_path = dir.join(format!("{name}.log"));
        let log = std::fs::File::create(&log_path)?;
        let child = Command::new("taskset")
            .args([
                "--cpu-list",
                &core.to_string(),
                "setpriv",
                "--pdeathsig",
                "TERM",
                "--",
            ])
            .arg(program)
            .args(args)
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("{name} cannot be started"))?;
        let mut server = Self { child };
        let deadline = Instant::now() + START_TIMEOUT;
        while TcpStream::connect(address).is_err() {
            let ended = server.child.try_wait()?;
            if ended.is_some() || Instant::now() > deadline {
                let log = std::fs::read_to_string(&log_path).unwrap_or_default();
                let how = ended.map_or("does not listen".to_owned(), |status| {
                    format!("ended with {status}")
                });
                bail!("{name} {how}; it said:\n{log}");
            }
            thread::sleep(POLL);
        }
        Ok(server)
    }

    /// `taskset` and `setpriv` become the program, so that this is the program's own id.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Server {
    /// Asks first, so that a master process ends its workers.
    fn drop(&mut self) {
        let _ = Command::new("sh")
            .args(["-c", &format!("kill -TERM {}", self.child.id())])
            .stderr(Stdio::null())
            .status();
        let deadline = Instant::now() + STOP_TIMEOUT;
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() > deadline {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            thread::sleep(POLL);
        }
    }
}

/// A loopback address that nobody listened on a moment ago.
pub(super) fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}
