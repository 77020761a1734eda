//! What becomes of a request that concerns replica sets: a decision without effects.

use cheops_plan::{Cross, Known, Standing, Target};
use cheops_types::{Code, Consistency, Plan, Problem, SiteName, Unreserved};

use super::unavailable;

/// What a decision depends on.
#[derive(Debug, Clone, Copy)]
#[allow(clippy::struct_excessive_bools)] // each is one fact about the request
pub(super) struct Case<'a> {
    pub(super) here: &'a SiteName,
    pub(super) plan: &'a Plan,
    /// The set that the request is about, where this site is, or was until it was deleted, part of it.
    pub(super) known: Option<&'a Known>,
    pub(super) is_write: bool,
    pub(super) is_create: bool,
    /// Whether it makes the resource that it addresses where there is none.
    pub(super) is_upsert: bool,
    /// Whether the request addresses one resource, or something below one.
    pub(super) is_item: bool,
    pub(super) is_list: bool,
    pub(super) can_be_replicated: bool,
    /// Another agent has planned already: nothing is forwarded any more.
    pub(super) is_from_peer: bool,
    /// A replica's own execution makes the request, under a scope that names the service: the other sites'
    /// executions make it too.
    pub(super) is_inside_replica: bool,
}

#[derive(Debug, PartialEq)]
pub(super) enum Course {
    /// As the scope says; ids are rewritten on the way.
    Planned,
    /// One of these sites answers.
    OneOf(Vec<SiteName>),
    /// This site accepts the write.
    Accept(Target),
    /// One of `sites` accepts the write to the set of the sites `set`.
    HandOver {
        set: Vec<SiteName>,
        sites: Vec<SiteName>,
    },
    /// The one of these sites that has the resource executes it.
    Owner(Vec<SiteName>),
    /// Nothing executes.
    Refuse(Problem),
}

impl Case<'_> {
    pub(super) fn decide(self) -> Course {
        if self.is_write { self.write() } else { self.read() }
    }

    /// The nearest replica answers, unless the scope asks for certain sites.
    fn read(self) -> Course {
        let asks_for_one = match self.plan {
            Plan::Local | Plan::Replicate { .. } => true,
            Plan::Gather(_) => !self.is_list,
            _ => false,
        };
        let known = self.known.filter(|known| known.standing == Standing::Member);
        match (known, self.plan) {
            (Some(known), _) if asks_for_one => self.read_known(known),
            (None, Plan::Replicate { sites, .. }) => {
                let stays = self.is_from_peer || sites.contains(self.here);
                Course::OneOf(if stays {
                    vec![self.here.clone()]
                } else {
                    sites.clone()
                })
            }
            _ => Course::Planned,
        }
    }

    fn read_known(self, known: &Known) -> Course {
        if known.local.is_some() {
            return Course::OneOf(vec![self.here.clone()]);
        }
        let others: Vec<_> = known
            .sites
            .iter()
            .filter(|site| *site != self.here)
            .cloned()
            .collect();
        match others.is_empty() {
            // The application says that there is nothing any more.
            true => Course::Planned,
            false if self.is_from_peer => Course::Refuse(unavailable(self.here)),
            false => Course::OneOf(others),
        }
    }

    fn write(self) -> Course {
        let replicate = match self.plan {
            Plan::Replicate {
                consistency: Consistency::Strong,
                ..
            } => {
                return refuse(
                    Code::NotAvailable,
                    "a write through `strong` is not part of this version; nothing executed",
                );
            }
            Plan::Replicate { sites, .. } | Plan::Cross(sites) => Some(sites),
            _ => None,
        };
        match (self.known, replicate) {
            (Some(known), _) if self.is_inside_replica && known.local.is_some() => Course::Planned,
            (Some(known), _) => Course::Accept(Target::Set(known.meta.clone())),
            (None, Some(sites)) => self.write_replicas(sites),
            (None, None) => Course::Planned,
        }
    }

    /// A write under `&` to something that is no replica here.
    fn write_replicas(self, sites: &[SiteName]) -> Course {
        let is_listed = sites.contains(self.here);
        if !self.can_be_replicated || !(self.is_create || self.is_item) {
            return refuse(
                Code::NotAvailable,
                "`&` on a write is for one resource, and the path names a whole collection or a document that is no resource; nothing executed",
            );
        }
        if matches!(self.plan, Plan::Cross(_)) && !self.is_create && !self.is_upsert {
            // It is at one of the sites: whoever has it changes it.
            return Course::Owner(sites.to_vec());
        }
        if !is_listed && !self.is_from_peer {
            return Course::HandOver {
                set: sites.to_vec(),
                sites: sites.to_vec(),
            };
        }
        if !self.is_create && !self.is_upsert {
            let here = self.here;
            let detail = format!(
                "site `{here}` has no replica of that resource: drop `&` from the scope to change the resource of one site, or make it a replica with `cheops replicas adopt`; nothing executed"
            );
            return Course::Refuse(Problem::new(Code::UnknownReplicaSet, detail).at(here));
        }
        if !is_listed {
            return refuse(
                Code::BadRequest,
                "a site of the replica set must accept its create; nothing executed",
            );
        }
        Course::Accept(match self.plan {
            Plan::Cross(_) => Target::Cross(Cross {
                sites: sites.to_vec(),
                weights: Vec::new(),
                unreserved: Unreserved::default(),
            }),
            _ => Target::New(sites.to_vec()),
        })
    }
}

fn refuse(code: Code, detail: &str) -> Course {
    Course::Refuse(Problem::new(code, detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sites(names: &[&str]) -> Vec<SiteName> {
        names.iter().map(|name| SiteName::new(name).unwrap()).collect()
    }

    fn known(local: Option<&str>) -> Known {
        Known {
            meta: "m".into(),
            shown: "m".into(),
            local: local.map(Into::into),
            sites: sites(&["a", "b"]),
            standing: Standing::Member,
            span: None,
            shares: [].into(),
        }
    }

    fn replicate(names: &[&str]) -> Plan {
        Plan::Replicate {
            sites: sites(names),
            consistency: Consistency::Eventual,
        }
    }

    /// At site `a`.
    fn check(plan: &Plan, known: Option<&Known>, change: impl FnOnce(&mut Case<'_>), expect: &Course) {
        let here = SiteName::new("a").unwrap();
        let mut case = Case {
            here: &here,
            plan,
            known,
            is_write: false,
            is_create: false,
            is_upsert: false,
            is_item: true,
            is_list: false,
            can_be_replicated: true,
            is_from_peer: false,
            is_inside_replica: false,
        };
        change(&mut case);
        assert_eq!(case.decide(), *expect, "{case:?}");
    }

    fn refused(plan: &Plan, known: Option<&Known>, change: impl FnOnce(&mut Case<'_>), expect: Code) {
        let here = SiteName::new("a").unwrap();
        let mut case = Case {
            here: &here,
            plan,
            known,
            is_write: true,
            is_create: false,
            is_upsert: false,
            is_item: true,
            is_list: false,
            can_be_replicated: true,
            is_from_peer: false,
            is_inside_replica: false,
        };
        change(&mut case);
        let Course::Refuse(problem) = case.decide() else {
            panic!("{case:?}");
        };
        assert_eq!(problem.code, expect, "{case:?}");
    }

    #[test]
    fn a_read_goes_to_a_site_that_has_a_replica() {
        let (with, without) = (known(Some("7")), known(None));
        let gather = Plan::Gather(sites(&["b", "c"]));
        for plan in [&Plan::Local, &gather, &replicate(&["b", "c"])] {
            check(plan, Some(&with), |_| {}, &Course::OneOf(sites(&["a"])));
            check(plan, Some(&without), |_| {}, &Course::OneOf(sites(&["b"])));
        }
        refused(
            &Plan::Local,
            Some(&without),
            |case| (case.is_write, case.is_from_peer) = (false, true),
            Code::ReplicaUnavailable,
        );
        let forward = Plan::Forward(SiteName::new("b").unwrap());
        check(&forward, Some(&with), |_| {}, &Course::Planned);
        check(&gather, Some(&with), |case| case.is_list = true, &Course::Planned);
        check(&gather, None, |_| {}, &Course::Planned);
        let deleted = Known {
            standing: Standing::Deleted,
            ..known(None)
        };
        check(&Plan::Local, Some(&deleted), |_| {}, &Course::Planned);
    }

    #[test]
    fn a_write_to_a_known_set_is_accepted_whatever_the_scope() {
        let known = known(None);
        let accept = Course::Accept(Target::Set("m".into()));
        let forward = Plan::Forward(SiteName::new("b").unwrap());
        for plan in [&Plan::Local, &forward, &replicate(&["b", "c"])] {
            check(plan, Some(&known), |case| case.is_write = true, &accept);
        }
        check(&Plan::Local, None, |case| case.is_write = true, &Course::Planned);
    }

    #[test]
    fn inside_a_replicas_execution_each_site_writes_its_own() {
        let inside = |case: &mut Case<'_>| (case.is_write, case.is_inside_replica) = (true, true);
        check(&Plan::Local, Some(&known(Some("7"))), inside, &Course::Planned);
        let accept = Course::Accept(Target::Set("m".into()));
        check(&Plan::Local, Some(&known(None)), inside, &accept);
    }

    #[test]
    fn a_new_set_is_made_at_one_of_its_sites() {
        let create = |case: &mut Case<'_>| {
            (case.is_write, case.is_create, case.is_item) = (true, true, false);
        };
        let here = replicate(&["b", "a"]);
        check(
            &here,
            None,
            create,
            &Course::Accept(Target::New(sites(&["b", "a"]))),
        );
        let elsewhere = replicate(&["b", "c"]);
        let hand_over = Course::HandOver {
            set: sites(&["b", "c"]),
            sites: sites(&["b", "c"]),
        };
        check(&elsewhere, None, create, &hand_over);
        refused(
            &elsewhere,
            None,
            |case| (case.is_create, case.is_from_peer) = (true, true),
            Code::BadRequest,
        );
    }

    #[test]
    fn a_write_to_a_free_name_makes_a_set() {
        let upsert = |case: &mut Case<'_>| (case.is_write, case.is_upsert) = (true, true);
        check(
            &replicate(&["a", "b"]),
            None,
            upsert,
            &Course::Accept(Target::New(sites(&["a", "b"]))),
        );
        let accept = Course::Accept(Target::Set("m".into()));
        check(&replicate(&["a", "b"]), Some(&known(Some("7"))), upsert, &accept);
        check(&Plan::Local, None, upsert, &Course::Planned);
    }

    #[test]
    fn a_change_of_what_is_no_replica_is_for_sites_that_know_better() {
        let elsewhere = replicate(&["b", "c"]);
        let hand_over = Course::HandOver {
            set: sites(&["b", "c"]),
            sites: sites(&["b", "c"]),
        };
        check(&elsewhere, None, |case| case.is_write = true, &hand_over);
        refused(&replicate(&["a", "b"]), None, |_| {}, Code::UnknownReplicaSet);
        refused(
            &elsewhere,
            None,
            |case| case.is_from_peer = true,
            Code::UnknownReplicaSet,
        );
        refused(&elsewhere, None, |case| case.is_item = false, Code::NotAvailable);
        let strong = Plan::Replicate {
            sites: sites(&["a", "b"]),
            consistency: Consistency::Strong,
        };
        refused(&strong, Some(&known(Some("7"))), |_| {}, Code::NotAvailable);
    }
}
