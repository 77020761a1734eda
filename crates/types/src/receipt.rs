//! What an answer says about execution, and its header form.
//!
//! The header is a Structured Field dictionary (RFC 9651); `docs/receipt.md` has the grammar.

mod codec;

use std::fmt;

use serde::{Serialize, Serializer};

pub use codec::InvalidReceipt;

use crate::{ServiceName, SiteName};

macro_rules! tokens {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant,)* }

        impl $name {
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            fn from_token(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|token| token.as_str() == text)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }
    };
}

tokens! {
    /// The kind of a plan, without its sites.
    PlanKind {
        Local = "local",
        Forward = "forward",
        Fallback = "fallback",
        FirstOf = "first-of",
        Gather = "gather",
        Replicate = "replicate",
        Latest = "latest",
        Cross = "cross",
    }
}

tokens! {
    /// What is known about one site's execution.
    Outcome {
        /// The service of the site answered.
        Executed = "executed",
        /// The service of the site certainly did not see the request.
        NotExecuted = "not-executed",
        /// The answer was lost: the service may or may not have executed.
        Unknown = "unknown",
        /// The operation is recorded and will execute at the site; `error` says what it waits for.
        Pending = "pending",
    }
}

/// One site that took part, or should have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Visit {
    pub site: SiteName,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceName>,
    pub outcome: Outcome,
    /// The status that the site's service answered with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The code of what went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How many items of a merged list are the site's; in scope order unless the glue names a sort key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items: Option<u32>,
}

impl Visit {
    pub fn executed(site: &SiteName, status: u16) -> Self {
        Self {
            site: site.clone(),
            service: None,
            outcome: Outcome::Executed,
            status: Some(status),
            error: None,
            items: None,
        }
    }

    pub fn failed(site: &SiteName, outcome: Outcome, error: impl Into<String>) -> Self {
        Self {
            site: site.clone(),
            service: None,
            outcome,
            status: None,
            error: Some(error.into()),
            items: None,
        }
    }
}

/// The receipt of one answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Receipt {
    pub plan: PlanKind,
    /// False when a part of the answer is missing.
    pub complete: bool,
    /// The sites of this request, in plan order.
    pub sites: Vec<Visit>,
    /// The sites that later calls of the same workflow reached, in order of their answers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub workflow: Vec<Visit>,
    /// Services that the scope names and that no call of the workflow had reached when the answer left.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unused: Vec<ServiceName>,
    /// The recorded operation, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// The replica set that the request concerned, by its meta-id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set: Option<String>,
    /// How many sites' disks hold the operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<u32>,
}

impl Receipt {
    pub fn new(plan: PlanKind, sites: Vec<Visit>) -> Self {
        Self {
            plan,
            complete: true,
            sites,
            workflow: Vec::new(),
            unused: Vec::new(),
            operation: None,
            set: None,
            held: None,
        }
    }

    /// Whether every named site certainly left the request alone.
    pub fn certainly_not_executed(&self) -> bool {
        self.sites
            .iter()
            .all(|visit| visit.outcome == Outcome::NotExecuted)
    }

    pub fn to_header(&self) -> String {
        codec::print(self)
    }

    pub fn parse(text: &str) -> Result<Self, InvalidReceipt> {
        codec::parse(text)
    }
}
