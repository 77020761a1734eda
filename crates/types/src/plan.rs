//! What a scope becomes for one request, before anything runs.

use std::fmt;

use serde::Serialize;

use crate::{PlanKind, SiteName};

/// The consistency asked for a replica set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Default)]
#[serde(rename_all = "kebab-case")]
pub enum Consistency {
    #[default]
    Eventual,
    Strong,
}

/// One request's plan. Sites are in the order in which they are to be tried or merged; every plan
/// with members has at least one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Plan {
    /// The service of this site.
    Local,
    /// The service of another site.
    Forward(SiteName),
    /// The first member that does not fail; a write moves on only if it certainly did not execute.
    Fallback(Vec<Plan>),
    /// Nearest healthy first; reads are hedged, writes go to one member only.
    FirstOf(Vec<Plan>),
    /// All sites are asked. A collection is merged in this order; one resource is answered by the
    /// first site that has it.
    Gather(Vec<SiteName>),
    /// One resource, a replica at each site.
    Replicate {
        sites: Vec<SiteName>,
        consistency: Consistency,
    },
    /// One resource that spans the sites.
    Cross(Vec<SiteName>),
}

impl Plan {
    pub fn kind(&self) -> PlanKind {
        match self {
            Self::Local => PlanKind::Local,
            Self::Forward(_) => PlanKind::Forward,
            Self::Fallback(_) => PlanKind::Fallback,
            Self::FirstOf(_) => PlanKind::FirstOf,
            Self::Gather(_) => PlanKind::Gather,
            Self::Replicate { .. } => PlanKind::Replicate,
            Self::Cross(_) => PlanKind::Cross,
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn list<T: fmt::Display>(f: &mut fmt::Formatter<'_>, name: &str, members: &[T]) -> fmt::Result {
            write!(f, "{name}[")?;
            for (i, member) in members.iter().enumerate() {
                if i > 0 {
                    f.write_str(", ")?;
                }
                write!(f, "{member}")?;
            }
            f.write_str("]")
        }
        match self {
            Self::Local => f.write_str("local"),
            Self::Forward(site) => write!(f, "forward({site})"),
            Self::Fallback(members) => list(f, "fallback", members),
            Self::FirstOf(members) => list(f, "first-of", members),
            Self::Gather(sites) => list(f, "gather", sites),
            Self::Replicate {
                sites,
                consistency: Consistency::Eventual,
            } => list(f, "replicate", sites),
            Self::Replicate {
                sites,
                consistency: Consistency::Strong,
            } => list(f, "replicate-strong", sites),
            Self::Cross(sites) => list(f, "cross", sites),
        }
    }
}
