//! One path, read in several ways.
//!
//! The agent splits a path at its slashes and decodes each segment. Applications may do more: decode before they
//! split, resolve dots, cut parameters off. Where the two differ, a write evades replication:
//!
//! ```text
//! PATCH /items%2F7         the agent: something called `items/7`       the application: item 7
//! PATCH /items/7/../8      the agent: something below item 7           the application: item 8
//! PATCH /items/7;v=1       the agent: an item called `7;v=1`           the application: item 7
//! ```
//!
//! Nobody knows which reading an application takes unless its glue says so. So a path that means one thing in one
//! reading and another thing in another one is found here, and refused by whoever asked.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use crate::{Effect, Profile};

/// What a request means to the agent if its path is read in one way.
#[derive(Debug, PartialEq, Eq)]
pub struct Reading {
    /// The addressed kind, and its resource's key; none for a collection.
    address: Option<(String, Option<String>)>,
    effect: Option<Effect>,
    /// The resources that the path is or lies within: kinds and keys.
    within: Vec<(String, String)>,
    is_context_free: bool,
    is_effect_free: bool,
    is_described: bool,
}

/// What a request does, apart from its path.
#[derive(Debug, Clone, Copy)]
pub struct Doing<'r> {
    pub method: &'r str,
    pub content_type: Option<&'r str>,
}

/// Whether every application reads a path in the same way. Every request is looked at: one pass over its path.
pub fn has_one_reading(path: &str) -> bool {
    let mut before = 0;
    path.bytes().all(|byte| {
        let is_dot = before == b'/' && byte == b'.';
        before = byte;
        !is_dot && !matches!(byte, b'%' | b';' | b'\\')
    })
}

impl Profile {
    /// The other ways in which the service may read a path, each as the path that means the same to the agent.
    pub fn other_readings(&self, service: &str, path: &str) -> BTreeSet<String> {
        if has_one_reading(path) {
            return BTreeSet::new();
        }
        let reads = self.reads(service);
        let parts = reads.parts();
        parts.map(|reads| reads.rewrite(path)).collect()
    }

    /// What a request means if its path is read as the agent reads it.
    pub fn reading(&self, service: &str, path: &str, doing: Doing<'_>) -> Reading {
        let address = self.address(service, path);
        let resource = |address: &crate::Address<'_>| {
            let key = address.key.as_deref().unwrap_or_default();
            (address.kind.to_string(), key.to_owned())
        };
        let is_context_free = self.context_free(service, doing.method, path).is_some();
        let is_effect_free = self.is_effect_free(service, doing.method, path);
        Reading {
            effect: address
                .as_ref()
                .map(|address| address.effect(doing.method, doing.content_type)),
            address: address.as_ref().map(|address| {
                let key = address.key.as_deref().map(str::to_owned);
                (address.kind.to_string(), key)
            }),
            within: self.within(service, path).iter().map(resource).collect(),
            is_context_free,
            is_effect_free,
            is_described: is_context_free || is_effect_free || self.find(service, path).is_some(),
        }
    }
}

impl Reading {
    /// Whether the glue says what it is, and not a convention.
    pub fn is_described(&self) -> bool {
        self.is_described
    }
}
