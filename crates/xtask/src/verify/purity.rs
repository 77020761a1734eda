//! What a crate may reach for. A rule of clippy's `disallowed-methods` holds for a whole
//! workspace; this one knows crates.

use anyhow::Result;

use crate::{
    repo::{Finding, Repo},
    source::{self, Name},
};

/// Something outside of the program, and how source code names it.
struct Reach {
    what: &'static str,
    /// Paths by their beginning; a single word also matches anywhere in a path.
    names: &'static [&'static str],
}

const WALL_CLOCK: Reach = Reach {
    what: "the wall clock",
    names: &["SystemTime", "chrono", "jiff", "time::OffsetDateTime"],
};
const MONOTONIC_CLOCK: Reach = Reach {
    what: "a clock",
    names: &["Instant", "std::thread::sleep"],
};
const ENVIRONMENT: Reach = Reach {
    what: "the environment",
    names: &["std::env", "std::process"],
};
const FILES: Reach = Reach {
    what: "files",
    names: &["std::fs", "tokio::fs", "std::os::unix::fs"],
};
const RANDOMNESS: Reach = Reach {
    what: "randomness",
    names: &["getrandom", "rand", "fastrand", "RandomState"],
};
const NETWORK: Reach = Reach {
    what: "the network or a runtime",
    names: &[
        "tokio",
        "TcpStream",
        "TcpListener",
        "UdpSocket",
        "UnixStream",
        "UnixListener",
        "ToSocketAddrs",
    ],
};
const THREADS: Reach = Reach {
    what: "threads",
    names: &["std::thread"],
};

const NOTHING: &[Reach] = &[
    WALL_CLOCK,
    MONOTONIC_CLOCK,
    ENVIRONMENT,
    FILES,
    RANDOMNESS,
    NETWORK,
    THREADS,
];
/// Files and a thread of its own.
const DISK_ONLY: &[Reach] = &[WALL_CLOCK, MONOTONIC_CLOCK, ENVIRONMENT, RANDOMNESS, NETWORK];
const RUNTIME_ONLY: &[Reach] = &[WALL_CLOCK, ENVIRONMENT, FILES, RANDOMNESS];

/// What is out of reach, by crate. `agent` reaches for everything; `example`, `relay` and `xtask`
/// are programs beside the agent.
const OUT_OF_REACH: &[(&str, &[Reach])] = &[
    ("types", NOTHING),
    ("scope", NOTHING),
    ("glue", NOTHING),
    ("plan", NOTHING),
    ("replica", NOTHING),
    ("sim", NOTHING),
    ("linear", NOTHING),
    ("store", DISK_ONLY),
    ("net", RUNTIME_ONLY),
    ("mesh", RUNTIME_ONLY),
    ("proxy", RUNTIME_ONLY),
    ("node", RUNTIME_ONLY),
    ("strong", RUNTIME_ONLY),
];

pub(super) fn check(repo: &Repo) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for (crate_name, reaches) in OUT_OF_REACH {
        for (file, source) in source::read_crate(repo, crate_name)? {
            // A program around a pure crate has arguments and an end; what it plays stays pure.
            if file.file_name().is_some_and(|name| name == "main.rs") {
                continue;
            }
            for name in source.names {
                if let Some(reach) = reaches.iter().find(|reach| reach.matches(&name)) {
                    findings.push(Finding::new(
                        &file,
                        name.line,
                        format!(
                            "`{}` reaches for {}, which `{crate_name}` may not: let the caller hand it in",
                            name.segments.join("::"),
                            reach.what
                        ),
                    ));
                }
            }
        }
    }
    Ok(findings)
}

impl Reach {
    fn matches(&self, name: &Name) -> bool {
        self.names.iter().any(|forbidden| {
            let mut wanted = forbidden.split("::");
            if forbidden.starts_with(char::is_uppercase) {
                name.segments.iter().any(|segment| segment == forbidden)
            } else {
                let path: Vec<_> = name.segments.iter().map(String::as_str).collect();
                // A word in lower case on its own is a variable more often than a crate.
                let is_path = path.len() > 1;
                is_path && wanted.by_ref().zip(&path).all(|(a, b)| a == *b) && wanted.next().is_none()
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reached(path: &str) -> Option<&'static str> {
        let name = Name {
            line: 1,
            segments: path.split("::").map(str::to_owned).collect(),
            imported: false,
            depth: 0,
        };
        NOTHING
            .iter()
            .find(|reach| reach.matches(&name))
            .map(|reach| reach.what)
    }

    #[test]
    fn knows_what_is_outside() {
        assert_eq!(reached("std::time::SystemTime::now"), Some("the wall clock"));
        assert_eq!(reached("Instant::now"), Some("a clock"));
        assert_eq!(reached("std::env::var"), Some("the environment"));
        assert_eq!(reached("std::fs"), Some("files"));
        assert_eq!(reached("getrandom::fill"), Some("randomness"));
        assert_eq!(reached("tokio::spawn"), Some("the network or a runtime"));
        assert_eq!(reached("std::thread::spawn"), Some("threads"));
    }

    #[test]
    fn leaves_the_rest_alone() {
        for path in [
            "std::time::Duration",
            "std::fmt",
            "env",
            "rand",
            "std::collections::HashMap",
            "std",
        ] {
            assert_eq!(reached(path), None, "{path}");
        }
    }
}
