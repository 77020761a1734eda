//! The agent under test: a process with one service.

use std::{
    fs,
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

const START_MAX: Duration = Duration::from_secs(30);

/// It ends with its handle, and with this process however that ends.
pub(super) struct Agent {
    process: Child,
    addr: SocketAddr,
    log: PathBuf,
    /// Its files, as long as it runs.
    _dir: tempfile::TempDir,
}

impl Agent {
    pub(super) fn start(program: &Path, upstream: SocketAddr) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        // Free a moment ago; another process may take it, and then the agent says so.
        let addr = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let config = format!(
            "site = \"site1\"\ndata_dir = \"{}\"\nworkers = 1\nglue = \"plain\"\n\n[services.A]\nlisten = \"{addr}\"\nupstream = \"http://{upstream}\"\n",
            dir.path().join("data").display(),
        );
        let (file, log) = (dir.path().join("cheops.toml"), dir.path().join("agent.log"));
        fs::write(&file, config)?;
        let process = Command::new(program)
            .args(["run", "--exit-with-stdin", "-c"])
            .arg(&file)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(fs::File::create(&log)?)
            .spawn()
            .with_context(|| format!("{} cannot be started", program.display()))?;
        let mut agent = Self {
            process,
            addr,
            log,
            _dir: dir,
        };
        let begin = Instant::now();
        while std::net::TcpStream::connect(addr).is_err() {
            if let Some(end) = agent.end() {
                bail!("the agent does not start: {end}");
            }
            if begin.elapsed() > START_MAX {
                bail!("the agent does not listen after {} s", START_MAX.as_secs());
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(agent)
    }

    pub(super) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Its last words, if it is gone.
    pub(super) fn end(&mut self) -> Option<String> {
        let status = self.process.try_wait().ok()??;
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        Some(format!(
            "{status}\n{}",
            lines[lines.len().saturating_sub(20)..].join("\n")
        ))
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
