//! The targets: one for each thing that a client, a service, a peer, a file or a disk may send.

mod glue;
mod headers;
pub(crate) mod http1;
mod lists;
mod paths;
mod receipt;
mod replication;
mod rewriting;
mod scope;
mod versions;
mod yaml;

use std::{str, sync::LazyLock};

use cheops_glue::Profile;
use cheops_types::SiteName;

/// A function from bytes that must never break a promise.
#[derive(Clone, Copy)]
pub struct Target {
    pub name: &'static str,
    /// What it reads and what must hold.
    pub about: &'static str,
    /// Whether the input could be read. Panics where a promise is broken.
    pub run: fn(&[u8]) -> bool,
    /// Words of what it reads.
    pub tokens: &'static [&'static [u8]],
}

impl Target {
    pub const ALL: &'static [Self] = ALL;

    pub fn named(name: &str) -> Option<&'static Self> {
        Self::ALL.iter().find(|target| target.name == name)
    }
}

/// Separates the parts of an input that has several. JSON, headers and paths do not have it.
const PART: u8 = 0x1e;

/// Words of JSON.
const JSON: &[&[u8]] = &[
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\"",
    b"null",
    b"true",
    b"\"items\":",
    b"\"id\":",
    b"\"next\":",
    b"\"\\u0000\"",
    b"\\ud800",
    b"\\\"",
    b"1e400",
    b"-0",
    b"{\"a\":",
    b"[[[[",
    b" ",
    b"\xef\xbb\xbf",
    b"\"metadata\":",
    b"\x1e",
    b"\"links\":",
    b"\"href\":",
    b"\"rel\":\"next\"",
];

const ALL: &[Target] = &[
    Target {
        name: "scope",
        about: "scopes as text and JSON: printed and read again the same; a diagnostic points into the text",
        run: scope::run,
        tokens: scope::TOKENS,
    },
    Target {
        name: "receipt",
        about: "receipts: printed and read again the same",
        run: receipt::run,
        tokens: receipt::TOKENS,
    },
    Target {
        name: "messages",
        about: "messages of peers: written and read again the same",
        run: replication::messages,
        tokens: replication::TOKENS,
    },
    Target {
        name: "asks",
        about: "what peers ask beside messages, and answer: hellos, names, what they hold, callers, heartbeats",
        run: replication::asks,
        tokens: JSON,
    },
    Target {
        name: "rows",
        about: "rows and keys of the store: written and read again the same",
        run: replication::rows,
        tokens: replication::TOKENS,
    },
    Target {
        name: "page_token",
        about: "page tokens: refused, or a page with a token that is accepted",
        run: lists::token,
        tokens: JSON,
    },
    Target {
        name: "lists",
        about: "pages of several sites: merged to a list that can be read, with as many items as were taken",
        run: lists::merge,
        tokens: JSON,
    },
    Target {
        name: "versions",
        about: "version tokens and events of watches: written and read again the same",
        run: versions::run,
        tokens: JSON,
    },
    Target {
        name: "rewriting",
        about: "ids in bodies, lists and paths: nothing changes without a translation, and JSON stays JSON",
        run: rewriting::run,
        tokens: JSON,
    },
    Target {
        name: "yaml",
        about: "YAML: becomes JSON that can be read, or nothing",
        run: yaml::run,
        tokens: yaml::TOKENS,
    },
    Target {
        name: "glue",
        about: "glue files: every mistake has a place in the file, and what has none can be used",
        run: glue::run,
        tokens: glue::TOKENS,
    },
    Target {
        name: "paths",
        about: "paths: one reading has no other; what is addressed is the innermost of what it lies within",
        run: paths::run,
        tokens: paths::TOKENS,
    },
    Target {
        name: "headers",
        about: "Prefer, replicas of a list, carriers and saved workflows: written and read again the same",
        run: headers::run,
        tokens: headers::TOKENS,
    },
    Target {
        name: "http1",
        about: "HTTP/1.1: what hyper refuses is refused, and what both take is the same to both",
        run: http1::run,
        tokens: http1::TOKENS,
    },
];

/// The descriptions that come with the agent, and the conventions.
static PROFILES: LazyLock<Vec<Profile>> = LazyLock::new(|| {
    let built_in = [
        include_str!("../../../glue/example.toml"),
        include_str!("../../../glue/kubernetes.toml"),
        include_str!("../../../glue/openstack.toml"),
    ];
    let read = |text: &&str| Profile::parse("built-in", text).expect("a test of the agent compiles it");
    let mut profiles: Vec<_> = built_in.iter().map(read).collect();
    profiles.push(Profile::plain());
    profiles
});

/// Every service of every profile, and one that no profile describes.
static SERVICES: LazyLock<Vec<(&'static Profile, String)>> = LazyLock::new(|| {
    let all = PROFILES.iter().flat_map(|profile| {
        let names = profile.services().map(ToString::to_string);
        names.chain(["other".to_owned()]).map(move |name| (profile, name))
    });
    all.collect()
});

/// A profile and a service of it, by a number.
fn service(number: u8) -> (&'static Profile, &'static str) {
    let (profile, service) = &SERVICES[usize::from(number) % SERVICES.len()];
    (profile, service)
}

fn site(name: &str) -> SiteName {
    SiteName::new(name).expect("a name")
}

/// The parts of an input as texts; those that are none are empty.
fn parts(input: &[u8]) -> impl Iterator<Item = &str> {
    let parts = input.split(|byte| *byte == PART);
    parts.map(|part| str::from_utf8(part).unwrap_or_default())
}
