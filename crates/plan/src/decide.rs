//! Facts × scope → plan: the one decision about a request.
//!
//! ```text
//! scope      what its caller asks for        `site1 & site2` on a POST: replicas at both
//! concern    what is known of the resource   it is a set of site1 and site3 already
//! plan       what happens                    this site accepts the write for that set
//! ```
//!
//! Whatever is refused is refused here, before anything runs.

mod container;
mod replica;
mod strong;

pub use replica::{cannot_span, unavailable};

use cheops_types::{Code, Problem, SiteName};

use crate::{Concern, Plan, Request, Tell, View, asked::Asked, nearest_first, planner::asked};

/// What was decided, and what it was decided by.
#[derive(Debug)]
pub struct Decided {
    pub plan: Result<Plan, Problem>,
    /// Whether the answer may be merged with those of other sites, or the caller asked for that.
    pub is_merged: bool,
    /// Boxed, because most requests have none.
    pub concern: Option<Box<Concern>>,
}

/// Decides what happens to a request, and tells why. `look` says what replication has to do with it; it is told whether
/// the request asks for replicas.
pub fn decide<V: View + ?Sized, T: Tell>(
    request: &Request<'_>,
    view: &V,
    look: impl FnOnce(bool) -> Result<Option<Box<Concern>>, Problem>,
    tell: &mut T,
) -> Decided {
    let refused = |problem| Decided {
        plan: Err(problem),
        is_merged: false,
        concern: None,
    };
    let asked = match asked(request, view, tell) {
        Ok(asked) => asked,
        Err(problem) => return refused(problem),
    };
    let concern = match look(asked.wants_sites()) {
        Ok(concern) => concern,
        Err(problem) => return refused(problem),
    };
    let is_merged = matches!(&asked, Asked::Plan(Plan::Gather(_)) | Asked::Span(_));
    let mut case = Case {
        request,
        view,
        tell,
        asked,
    };
    let plan = match &concern {
        None => case.without_replication(),
        Some(concern) => case.with(concern),
    };
    let plan = plan.and_then(|plan| case.check(plan));
    Decided {
        plan,
        is_merged,
        concern,
    }
}

/// One decision under way.
struct Case<'a, V: ?Sized, T> {
    request: &'a Request<'a>,
    view: &'a V,
    tell: &'a mut T,
    /// What the scope, or another agent, asks for.
    asked: Asked,
}

impl<V: View + ?Sized, T: Tell> Case<'_, V, T> {
    fn without_replication(&mut self) -> Result<Plan, Problem> {
        let detail = match &mut self.asked {
            Asked::Plan(plan) => return Ok(std::mem::replace(plan, Plan::Local)),
            Asked::Replicas { .. } | Asked::Latest(_) => "replication (`&` on a write, `strong`)",
            Asked::Span(_) => "spanning sites (`%`)",
        };
        Err(not_available(format!(
            "{detail} needs a store, and this site has none; nothing executed"
        )))
    }

    fn with(&mut self, concern: &Concern) -> Result<Plan, Problem> {
        if let Some(container) = self.container_of(concern)
            && let Some(plan) = self.within(container, concern)?
        {
            return Ok(plan);
        }
        if let Some(plan) = self.whole(concern) {
            return Ok(plan);
        }
        // A connection that switches protocols is for one replica, whatever its method.
        if concern.is_write() && !self.request.switches {
            self.write(concern)
        } else {
            self.read(concern)
        }
    }

    /// What no plan may be.
    fn check(&mut self, plan: Plan) -> Result<Plan, Problem> {
        let Request {
            switches,
            is_stream,
            is_watchable,
            ..
        } = *self.request;
        let is_for_one = matches!(plan, Plan::Owner(_)) || plan.in_turn(self.view.here()).is_some();
        if switches && !is_for_one {
            return Err(Problem::new(
                Code::UpgradeNotPossible,
                "a connection that switches protocols goes to one site; name one, or several with `;` or `|`",
            ));
        }
        if !is_stream || is_watchable {
            return Ok(plan);
        }
        plan.without_gathers().ok_or_else(|| {
            not_available(
                "an answer that does not end cannot be gathered from several sites yet: name one site in the scope, and ask once for each; nothing executed",
            )
        })
    }

    fn here(&self) -> &SiteName {
        self.view.here()
    }

    fn is_from_peer(&self) -> bool {
        self.request.caller == crate::Party::Peer
    }

    /// Each of these sites once, nearest first; late answers are hedged.
    fn first_of(&self, mut sites: Vec<SiteName>) -> Plan {
        nearest_first(&mut sites, self.view);
        let mut members: Vec<_> = sites
            .into_iter()
            .map(|site| Plan::at(site, self.here()))
            .collect();
        match members.len() {
            1 => members.remove(0),
            _ => Plan::FirstOf(members),
        }
    }
}

fn not_available(detail: impl Into<String>) -> Problem {
    Problem::new(Code::NotAvailable, detail)
}
