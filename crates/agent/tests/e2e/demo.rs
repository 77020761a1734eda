//! `cheops demo` and what it leaves behind: nothing.

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead as _, BufReader},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::PathBuf,
    process::{Child, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::{
    harness::{cheops, get, post, until},
    wire::{self, ask},
};

/// The first port that a demo tries.
const PREFERRED_PORT: u16 = 18_101;

struct Demo {
    process: Child,
    map: Value,
}

impl Demo {
    /// Starts a demo of two sites and reads what it prints.
    fn start() -> Self {
        let mut process = cheops()
            .args([
                "demo",
                "--json",
                "--sites",
                "2",
                "--rtt-ms",
                "0",
                "--exit-with-stdin",
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let output = process.stdout.take().unwrap();
        BufReader::new(output).read_line(&mut line).unwrap();
        let map = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
        Self { process, map }
    }

    fn address(&self, site: usize, service: &str, listener: &str) -> SocketAddr {
        let text = &self.map["sites"][site - 1]["services"][service][listener];
        text.as_str().unwrap().parse().unwrap()
    }

    fn dir(&self) -> PathBuf {
        let config = PathBuf::from(self.map["sites"][0]["config"].as_str().unwrap());
        config.parent().unwrap().parent().unwrap().to_owned()
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.process.id().cast_signed()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Two services and an agent per site.
    fn children(&self) -> BTreeSet<u32> {
        let children: BTreeSet<_> = processes()
            .filter(|(_, parent, _)| *parent == self.process.id())
            .map(|(pid, ..)| pid)
            .collect();
        assert_eq!(children.len(), 6, "{children:?}");
        children
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Every process with its parent and its state.
fn processes() -> impl Iterator<Item = (u32, u32, char)> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        let (_, rest) = stat.rsplit_once(") ")?;
        let mut words = rest.split(' ');
        let state = words.next()?.chars().next()?;
        Some((pid, words.next()?.parse().ok()?, state))
    })
}

/// Waits until none of the processes runs; one that nobody waited for yet has ended too.
async fn all_end(pids: &BTreeSet<u32>) {
    until("the demo's processes end", || async {
        !processes().any(|(pid, _, state)| pids.contains(&pid) && state != 'Z')
    })
    .await;
}

#[tokio::test]
async fn a_demo_works_and_leaves_nothing_behind() {
    // Held by this test, or by a demo of somebody else.
    let _held = TcpListener::bind((Ipv4Addr::LOCALHOST, PREFERRED_PORT));
    let mut demo = Demo::start();
    let mut addresses = BTreeSet::new();
    for site in [1, 2] {
        for service in ["A", "B"] {
            for listener in ["public", "internal", "upstream"] {
                addresses.insert(demo.address(site, service, listener));
            }
        }
        let told = &demo.map["sites"][site - 1];
        addresses.insert(told["peer"].as_str().unwrap().parse().unwrap());
        for file in ["admin", "config", "log"] {
            assert!(PathBuf::from(told[file].as_str().unwrap()).exists(), "{file}");
        }
    }
    assert_eq!(addresses.len(), 14, "{}", demo.map);
    assert!(addresses.iter().all(|address| address.port() != PREFERRED_PORT));

    let (a, b) = (demo.address(1, "A", "public"), demo.address(1, "B", "public"));
    let here = ask(a, wire::get("/hello", ""));
    assert_eq!(here.text(), "A says hello, B answers: from site 1");
    let there = get(a, "/hello").scope("B: site2").await.is(200);
    assert_eq!(there.text(), "A says hello, B answers: from site 2");
    post(b, "/items", r#"{"name":"bolt"}"#)
        .scope("site2")
        .await
        .is(201);
    let all = get(b, "/items").scope("all()").await.is(200);
    assert!(all.text().contains("bolt"), "{}", all.text());

    let (children, dir) = (demo.children(), demo.dir());
    assert!(dir.exists());
    demo.signal(Signal::TERM);
    let status = demo.process.wait().unwrap();
    assert_eq!(status.code(), Some(0));
    all_end(&children).await;
    assert!(!dir.exists(), "{} stays", dir.display());
}

#[tokio::test]
async fn a_killed_demo_takes_its_processes_along() {
    let mut demo = Demo::start();
    let (children, dir) = (demo.children(), demo.dir());
    demo.signal(Signal::KILL);
    demo.process.wait().unwrap();
    all_end(&children).await;
    // Nobody was left to remove it.
    let _ = fs::remove_dir_all(dir);
}
