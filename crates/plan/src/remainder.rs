//! What is left of a plan for the agent that it is handed to.
//!
//! ```text
//! 1;replicas=rome,paris;named         make a set of both; the name is reserved
//! 1;span=rome,paris                   make one resource that spans both
//! 1;replicas=rome,paris;!strong       the same set, by majority
//! ```
//!
//! The first number is the version. A key that an agent does not know is read over, unless it begins with `!`: then the
//! request would become something else without it, and is refused.

use std::fmt;

use cheops_types::{Code, Consistency, Problem, SiteName};

use crate::{Plan, Target, asked::Asked};

const VERSION: &str = "1";

/// What another agent is still to do for a request that was handed to it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Remainder {
    /// What it is to accept; none: the service of that site answers.
    sites: Option<Sites>,
    /// Whether the name of what it makes is reserved in the container that it lies in.
    pub is_named: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Sites {
    Replicas(Vec<SiteName>, Consistency),
    Span(Vec<SiteName>),
}

impl Remainder {
    /// The write is to be accepted for this.
    pub fn accept(target: &Target) -> Self {
        let sites = match target {
            Target::New { sites, consistency } => Some(Sites::Replicas(sites.clone(), *consistency)),
            Target::Cross(cross) => Some(Sites::Span(cross.sites.clone())),
            Target::Set { .. } => None,
        };
        Self {
            sites,
            is_named: false,
        }
    }

    /// The same for a set that the other agent finds by itself; these are its sites.
    pub fn accept_known(sites: Vec<SiteName>) -> Self {
        Self::accept(&Target::new(sites))
    }

    /// The replica is to show what these sites have decided.
    pub fn latest(sites: &[SiteName]) -> Self {
        Self {
            sites: Some(Sites::Replicas(sites.to_vec(), Consistency::Strong)),
            is_named: false,
        }
    }

    /// The same, its name being reserved.
    pub fn named(self) -> Self {
        Self {
            is_named: true,
            ..self
        }
    }

    pub(crate) fn asked(&self) -> Asked {
        match &self.sites {
            None => Asked::Plan(Plan::Local),
            Some(Sites::Replicas(sites, consistency)) => Asked::Replicas {
                sites: sites.clone(),
                consistency: *consistency,
            },
            Some(Sites::Span(sites)) => Asked::Span(sites.clone()),
        }
    }

    /// Reads what another agent has written.
    pub fn parse(text: &str) -> Result<Self, Problem> {
        let wrong = |what: &str| {
            let detail = format!("the plan of another agent cannot be read: {what}; nothing executed");
            Problem::new(Code::BadRequest, detail)
        };
        let mut parts = text.split(';');
        if parts.next() != Some(VERSION) {
            return Err(wrong("it is of another version"));
        }
        let (mut remainder, mut is_strong) = (Self::default(), false);
        for part in parts {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let sites = || {
                let sites: Result<Vec<_>, _> = value.split(',').map(SiteName::new).collect();
                sites.map_err(|_| wrong("a site has no name"))
            };
            match key {
                "replicas" | "span" if remainder.sites.is_some() => {
                    return Err(wrong("it is for two things"));
                }
                "replicas" => remainder.sites = Some(Sites::Replicas(sites()?, Consistency::Eventual)),
                "span" => remainder.sites = Some(Sites::Span(sites()?)),
                "!strong" => is_strong = true,
                "named" => remainder.is_named = true,
                _ if key.starts_with('!') => return Err(wrong("it asks for what this agent does not know")),
                _ => {}
            }
        }
        match &mut remainder.sites {
            Some(Sites::Replicas(_, consistency)) if is_strong => *consistency = Consistency::Strong,
            _ if is_strong => return Err(wrong("only replicas can be strong")),
            _ => {}
        }
        Ok(remainder)
    }
}

impl fmt::Display for Remainder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(VERSION)?;
        match &self.sites {
            None => {}
            Some(Sites::Replicas(sites, consistency)) => {
                write!(f, ";replicas={}", sites.join(","))?;
                if *consistency == Consistency::Strong {
                    f.write_str(";!strong")?;
                }
            }
            Some(Sites::Span(sites)) => write!(f, ";span={}", sites.join(","))?,
        }
        if self.is_named {
            f.write_str(";named")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cross;

    fn sites(names: &[&str]) -> Vec<SiteName> {
        names.iter().map(|name| SiteName::new(name).unwrap()).collect()
    }

    fn check(remainder: &Remainder, text: &str) {
        assert_eq!(remainder.to_string(), text);
        assert_eq!(Remainder::parse(text).as_ref(), Ok(remainder));
    }

    #[test]
    fn written_and_read_back() {
        check(&Remainder::default(), "1");
        check(&Remainder::default().named(), "1;named");
        let both = Target::new(sites(&["rome", "paris"]));
        check(&Remainder::accept(&both), "1;replicas=rome,paris");
        let strong = Target::New {
            sites: sites(&["a", "b"]),
            consistency: Consistency::Strong,
        };
        check(
            &Remainder::accept(&strong).named(),
            "1;replicas=a,b;!strong;named",
        );
        let span = Target::Cross(Cross {
            sites: sites(&["b", "a"]),
            weights: Vec::new(),
            unreserved: cheops_types::Unreserved::Refuse,
        });
        check(&Remainder::accept(&span), "1;span=b,a");
    }

    #[test]
    fn what_is_new_is_read_over_where_that_is_safe() {
        let known = Remainder::parse("1;replicas=a,b").unwrap();
        assert_eq!(Remainder::parse("1;hint=3;replicas=a,b;x"), Ok(known));
        for text in [
            "",
            "2",
            "2;replicas=a",
            "1;!quorum=2;replicas=a,b",
            "1;replicas=",
            "1;span=a b",
            "1;span=a,b;!strong",
            "1;!strong",
            "1;span=a,b;replicas=a,b",
        ] {
            assert_eq!(
                Remainder::parse(text).unwrap_err().code,
                Code::BadRequest,
                "{text}"
            );
        }
    }
}
