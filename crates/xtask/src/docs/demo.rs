//! The demo that `console demo` blocks speak to.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result};
use serde::Deserialize;

/// A running demo. It ends with its standard input, so that it never outlives this program.
pub(super) struct Demo {
    child: Child,
    pub(super) map: Map,
}

/// Where things are, as `cheops demo --json` tells it.
#[derive(Deserialize)]
pub(super) struct Map {
    sites: Vec<Site>,
}

#[derive(Deserialize)]
struct Site {
    services: BTreeMap<String, Service>,
    admin: PathBuf,
}

#[derive(Deserialize)]
struct Service {
    public: String,
}

impl Demo {
    pub(super) fn start(program: &Path) -> Result<Self> {
        let mut child = Command::new(program)
            .args(["demo", "--json", "--exit-with-stdin"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("{} cannot be started", program.display()))?;
        let mut line = String::new();
        if let Some(output) = child.stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        let map = serde_json::from_str(&line)
            .with_context(|| format!("the demo did not print where its sites are, but `{line}`"))?;
        Ok(Self { child, map })
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // The demo cleans up when its input closes; waiting keeps its directory from being left behind.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

impl Map {
    /// The admin socket of the first site.
    pub(super) fn admin(&self) -> &Path {
        self.sites.first().map_or(Path::new(""), |site| &site.admin)
    }

    /// A command of a page, which names the usual ports, for the ports of this demo.
    pub(super) fn to_demo(&self, command: &str) -> String {
        self.addresses()
            .fold(command.to_owned(), |text, (usual, actual)| {
                text.replace(&usual, actual)
            })
    }

    /// What a command printed, as if the demo had the usual ports.
    pub(super) fn to_page(&self, output: &str) -> String {
        self.addresses().fold(output.to_owned(), |text, (usual, actual)| {
            text.replace(actual, &usual)
        })
    }

    /// Each address for users: the usual one, which the pages show, and this demo's.
    fn addresses(&self) -> impl Iterator<Item = (String, &str)> {
        self.sites.iter().zip(1_u16..).flat_map(|(site, number)| {
            site.services.values().zip(1_u16..).map(move |(service, last)| {
                let usual = format!("127.0.0.1:{}", 18_000 + 100 * number + last);
                (usual, service.public.as_str())
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_the_pages_become_those_of_the_demo_and_back() {
        let site = |port: u16| {
            let service = |port| format!(r#"{{"public":"127.0.0.1:{port}","internal":"-"}}"#);
            let (a, b) = (service(port), service(port + 1));
            format!(r#"{{"services":{{"A":{a},"B":{b}}},"admin":"/s{port}"}}"#)
        };
        let text = format!(r#"{{"sites":[{},{}]}}"#, site(19_101), site(19_201));
        let map: Map = serde_json::from_str(&text).unwrap();
        let page = "curl http://127.0.0.1:18101/ http://127.0.0.1:18202/";
        let demo = "curl http://127.0.0.1:19101/ http://127.0.0.1:19202/";
        assert_eq!(map.to_demo(page), demo);
        assert_eq!(map.to_page(demo), page);
        assert_eq!(map.admin(), Path::new("/s19101"));
    }
}
