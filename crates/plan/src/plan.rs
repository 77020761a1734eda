//! Everything that will happen to one request, as a value.

use std::{fmt, sync::Arc};

use cheops_types::{Consistency, PlanKind, SiteName, Unreserved};
use serde::{Serialize, Serializer};

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
    /// This site accepts the write: recorded, executed here, then at the other sites.
    Accept(Target),
    /// Another site accepts the write: the first of these, and the next one only if it certainly did not.
    HandOver { to: Vec<SiteName>, target: Target },
    /// The one of these sites that has the resource answers or executes; where none has it, this site says so.
    Owner(Vec<SiteName>),
    /// Each of these sites shows its part of a divided resource; the answer is the whole.
    Whole(Vec<SiteName>),
    /// A replica answers, with everything that these sites have decided before the request came.
    Latest {
        sites: Vec<SiteName>,
        /// The first of these that can answers; none: this site does.
        via: Vec<SiteName>,
    },
    /// Something new in a container: its name is reserved at the prime site, then it is made.
    Make(Make),
}

/// What a write that replication accepts is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// A new set over these sites, the accepting one among them.
    New {
        sites: Vec<SiteName>,
        consistency: Consistency,
    },
    /// One resource that spans these sites, the accepting one among them.
    Cross(Cross),
    /// A set that is known.
    Set {
        #[serde(serialize_with = "text")]
        meta: Arc<str>,
        /// Whether it spans its sites.
        spans: bool,
    },
}

/// A resource that is to span sites.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cross {
    /// As the scope names them: the first is the prime site.
    pub sites: Vec<SiteName>,
    /// How much of what is divided each site gets; 1 where it is not listed.
    pub weights: Vec<(SiteName, u32)>,
    pub unreserved: Unreserved,
}

/// Something new in a container that spans sites.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Make {
    /// Gives the names in the container away.
    pub prime: SiteName,
    pub place: Place,
    /// If one of these sites has it already, that one executes the request instead. Empty: nobody is asked.
    pub unless_at: Vec<SiteName>,
}

/// Where something new is to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    Site(SiteName),
    /// At several sites: replicas, or parts of one resource.
    Sites(Target),
}

fn text<S: Serializer>(text: &Arc<str>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(text)
}

// === impl Plan ===

impl Plan {
    /// One site answers.
    pub fn at(site: SiteName, here: &SiteName) -> Self {
        if site == *here {
            Self::Local
        } else {
            Self::Forward(site)
        }
    }

    /// What the receipt calls it.
    pub fn kind(&self) -> PlanKind {
        match self {
            Self::Local => PlanKind::Local,
            Self::Forward(_) => PlanKind::Forward,
            Self::Fallback(_) => PlanKind::Fallback,
            Self::FirstOf(_) => PlanKind::FirstOf,
            Self::Gather(_) => PlanKind::Gather,
            Self::Accept(target) | Self::HandOver { target, .. } => target.kind(),
            Self::Latest { .. } => PlanKind::Latest,
            Self::Owner(_) | Self::Whole(_) | Self::Make(_) => PlanKind::Cross,
        }
    }

    /// Whether something holds for every other site that the plan may ask. The sites of a known set are not part of it.
    pub fn all_sites(&self, holds: &mut impl FnMut(&SiteName) -> bool) -> bool {
        match self {
            Self::Local => true,
            Self::Forward(site) => holds(site),
            Self::Fallback(members) | Self::FirstOf(members) => {
                members.iter().all(|member| member.all_sites(holds))
            }
            Self::Gather(sites)
            | Self::Owner(sites)
            | Self::Whole(sites)
            // Who else decides is asked for no answer.
            | Self::Latest { via: sites, .. }
            | Self::HandOver { to: sites, .. } => sites.iter().all(holds),
            Self::Accept(target) => target.sites().iter().all(holds),
            Self::Make(make) => {
                let sites = make.place.sites().iter().chain(&make.unless_at);
                sites.chain([&make.prime]).all(holds)
            }
        }
    }

    /// The sites of which the first that takes the request answers it; none where it takes several at once.
    pub fn in_turn<'p>(&'p self, here: &'p SiteName) -> Option<Vec<&'p SiteName>> {
        match self {
            Self::Local => Some(vec![here]),
            Self::Latest { via, .. } if via.is_empty() => Some(vec![here]),
            Self::Latest { via, .. } => Some(via.iter().collect()),
            Self::Forward(site) => Some(vec![site]),
            Self::Fallback(members) | Self::FirstOf(members) => {
                let each: Option<Vec<_>> = members.iter().map(|member| member.in_turn(here)).collect();
                each.map(|sites| sites.concat())
            }
            _ => None,
        }
    }

    /// What is left of it where several sites cannot give one answer; none: nothing.
    pub(crate) fn without_gathers(self) -> Option<Self> {
        let left = |members: Vec<Self>, make: fn(Vec<Self>) -> Self| {
            let mut members: Vec<_> = members.into_iter().filter_map(Self::without_gathers).collect();
            match members.len() {
                0 | 1 => members.pop(),
                _ => Some(make(members)),
            }
        };
        match self {
            Self::Gather(_) => None,
            Self::Fallback(members) => left(members, Self::Fallback),
            Self::FirstOf(members) => left(members, Self::FirstOf),
            plan => Some(plan),
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local => f.write_str("local"),
            Self::Forward(site) => write!(f, "forward({site})"),
            Self::Fallback(members) => list(f, "fallback", members),
            Self::FirstOf(members) => list(f, "first-of", members),
            Self::Gather(sites) => list(f, "gather", sites),
            Self::Accept(target) => target.fmt(f),
            Self::HandOver { to, target } => {
                list(f, "hand-over", to)?;
                write!(f, " of {target}")
            }
            Self::Owner(sites) => list(f, "owner", sites),
            Self::Whole(sites) => list(f, "whole", sites),
            Self::Latest { sites, via } => {
                list(f, "latest", sites)?;
                if via.is_empty() {
                    return Ok(());
                }
                f.write_str(" at ")?;
                f.write_str(&via.join(", "))
            }
            Self::Make(make) => {
                if !make.unless_at.is_empty() {
                    list(f, "owner", &make.unless_at)?;
                    f.write_str(" or ")?;
                }
                write!(f, "make {}, its name reserved at {}", make.place, make.prime)
            }
        }
    }
}

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

// === impl Target ===

impl Target {
    /// A new set over these sites, where every site accepts writes.
    pub fn new(sites: Vec<SiteName>) -> Self {
        let consistency = Consistency::Eventual;
        Self::New { sites, consistency }
    }

    /// A set that is known, with a replica at each of its sites.
    pub fn set(meta: Arc<str>) -> Self {
        let spans = false;
        Self::Set { meta, spans }
    }

    /// The sites of what is new; none where the set is known, which has its own.
    pub fn sites(&self) -> &[SiteName] {
        match self {
            Self::New { sites, .. } => sites,
            Self::Cross(cross) => &cross.sites,
            Self::Set { .. } => &[],
        }
    }

    fn kind(&self) -> PlanKind {
        match self {
            Self::New { .. } | Self::Set { spans: false, .. } => PlanKind::Replicate,
            Self::Cross(_) | Self::Set { spans: true, .. } => PlanKind::Cross,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::New {
                sites,
                consistency: Consistency::Eventual,
            } => list(f, "replicate", sites),
            Self::New {
                sites,
                consistency: Consistency::Strong,
            } => list(f, "replicate-strong", sites),
            Self::Cross(cross) => list(f, "cross", &cross.sites),
            Self::Set { meta, spans: false } => write!(f, "replicate({meta})"),
            Self::Set { meta, spans: true } => write!(f, "cross({meta})"),
        }
    }
}

// === impl Place ===

impl Place {
    pub fn sites(&self) -> &[SiteName] {
        match self {
            Self::Site(site) => std::slice::from_ref(site),
            Self::Sites(target) => target.sites(),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Site(site) => write!(f, "at {site}"),
            Self::Sites(target) => target.fmt(f),
        }
    }
}
