//! One run of the load generator `wrk`, and what it says.

use std::{net::SocketAddr, path::Path, process::Command};

use anyhow::{Context, Result, bail};

/// What the clients do in one run.
#[derive(Clone, Copy)]
pub(super) struct Load<'a> {
    pub(super) core: usize,
    pub(super) connections: usize,
    pub(super) seconds: u64,
    /// A script of `wrk` that makes up the requests; without one, all are `GET /`.
    pub(super) script: Option<&'a Path>,
    /// A header of every request, as `Name: value`.
    pub(super) header: Option<&'a str>,
}

/// What the clients saw in one run.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Seen {
    pub(super) requests: u64,
    pub(super) requests_per_s: f64,
    pub(super) p50_us: f64,
    pub(super) p90_us: f64,
    pub(super) p99_us: f64,
}

impl Load<'_> {
    pub(super) fn run(self, target: SocketAddr) -> Result<Seen> {
        let mut command = Command::new("timeout");
        command
            .arg((self.seconds + 30).to_string())
            .args(["taskset", "--cpu-list", &self.core.to_string()])
            .args(["wrk", "--threads", "1", "--latency"])
            .args(["--connections", &self.connections.to_string()])
            .args(["--duration", &format!("{}s", self.seconds)]);
        if let Some(script) = self.script {
            command.arg("--script").arg(script);
        }
        if let Some(header) = self.header {
            command.arg("--header").arg(header);
        }
        let output = command
            .arg(format!("http://{target}/"))
            .output()
            .context("wrk cannot be started")?;
        let text = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            let error = String::from_utf8_lossy(&output.stderr);
            bail!("wrk ended with {}: {text}{error}", output.status);
        }
        Seen::read(&text)
    }
}

impl Seen {
    fn read(text: &str) -> Result<Self> {
        if let Some(line) = text
            .lines()
            .find(|l| l.contains("Socket errors") || l.contains("Non-2xx"))
        {
            bail!("requests failed, the numbers mean nothing: {}", line.trim());
        }
        let after = |label: &str| {
            let line = text.lines().find_map(|line| line.trim().strip_prefix(label));
            line.with_context(|| format!("wrk printed no `{label}`:\n{text}"))
        };
        let latency = |label: &str| {
            let value = after(label)?.trim();
            microseconds(value).with_context(|| format!("`{value}` is no latency"))
        };
        let requests = text
            .lines()
            .find_map(|line| line.trim().split_once(" requests in "));
        let (requests, _) = requests.with_context(|| format!("wrk counted nothing:\n{text}"))?;
        let requests: u64 = requests.parse()?;
        if requests == 0 {
            bail!("no request was answered");
        }
        Ok(Self {
            requests,
            requests_per_s: after("Requests/sec:")?.trim().parse()?,
            p50_us: latency("50%")?,
            p90_us: latency("90%")?,
            p99_us: latency("99%")?,
        })
    }
}

fn microseconds(text: &str) -> Option<f64> {
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at(unit_at);
    let factor = match unit {
        "us" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        "m" => 60e6,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Running 2s test @ http://127.0.0.1:1/
  1 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     2.51ms    1.00ms  20.00ms   90.00%
    Req/Sec    25.00k     1.00k   27.00k    70.00%
  Latency Distribution
     50%  950.00us
     75%    2.00ms
     90%    3.50ms
     99%    1.02s
  50123 requests in 2.00s, 12.00MB read
Requests/sec:  25061.50
Transfer/sec:      6.00MB
";

    #[test]
    fn reads_what_wrk_prints() {
        let seen = Seen::read(TEXT).unwrap();
        let expected = Seen {
            requests: 50_123,
            requests_per_s: 25_061.5,
            p50_us: 950.0,
            p90_us: 3500.0,
            p99_us: 1_020_000.0,
        };
        assert_eq!(seen, expected);
    }

    #[test]
    fn failures_are_not_measured() {
        let text = format!("{TEXT}  Non-2xx or 3xx responses: 3\n");
        assert!(
            Seen::read(&text)
                .unwrap_err()
                .to_string()
                .contains("3xx responses: 3")
        );
        assert!(Seen::read("").is_err());
    }
}
