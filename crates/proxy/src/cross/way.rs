//! What becomes of a request in a container that spans sites: a decision without effects.

use cheops_types::{Code, Plan, Problem, SiteName};

/// What a decision depends on.
#[derive(Debug, Clone, Copy)]
#[allow(clippy::struct_excessive_bools)] // each is one fact about the request
pub(crate) struct Case<'a> {
    pub(crate) here: &'a SiteName,
    /// The container's, the prime site first.
    pub(crate) extents: &'a [SiteName],
    pub(crate) plan: &'a Plan,
    /// Whether the scope says where the service is.
    pub(crate) is_placed: bool,
    pub(crate) is_write: bool,
    pub(crate) is_create: bool,
    pub(crate) is_upsert: bool,
    /// Whether the request addresses one resource, or something below one.
    pub(crate) is_item: bool,
    pub(crate) is_list: bool,
    /// Whether its answer does not end.
    pub(crate) is_stream: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Way {
    /// All of these answer: a list is merged, one resource is shown by the site that has it.
    Gather(Vec<SiteName>),
    /// The site that has the resource executes it.
    Owner(Vec<SiteName>),
    /// The same; where nobody has it, it is made.
    Upsert {
        place: Place,
        sites: Vec<SiteName>,
    },
    Create(Place),
    Refuse(Problem),
}

/// Where something new is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    Site(SiteName),
    /// A replica at each.
    Replicas(Vec<SiteName>),
    /// Divided among them.
    Spans(Vec<SiteName>),
}

impl Case<'_> {
    /// None: as the scope says.
    pub(crate) fn decide(self) -> Option<Way> {
        if self.is_write { self.write() } else { self.read() }
    }

    /// The sites that the request is about; none where the scope names others than several together.
    fn sites(self) -> Option<Vec<SiteName>> {
        match self.plan {
            Plan::Cross(sites) => Some(sites.clone()),
            _ if !self.is_placed => Some(self.extents.to_vec()),
            _ => None,
        }
    }

    fn read(self) -> Option<Way> {
        let sites = self.sites()?;
        match (self.is_list, self.is_item) {
            (false, true) if self.is_stream => Some(Way::Owner(sites)),
            (true, _) | (false, true) => Some(Way::Gather(sites)),
            (false, false) => None,
        }
    }

    fn write(self) -> Option<Way> {
        if !self.is_create && !self.is_item {
            // A whole collection: of one site, where the scope names one.
            return self.sites().map(|_| {
                refuse(
                    Code::NotAvailable,
                    "a whole collection of a container that spans sites cannot be changed at once: name one site in the scope, and ask once for each; nothing executed",
                )
            });
        }
        if self.is_item && !self.is_upsert {
            return self.sites().map(Way::Owner);
        }
        let place = match self.place() {
            Ok(place) => place,
            Err(problem) => return Some(Way::Refuse(problem)),
        };
        Some(match (self.is_item, &place) {
            (false, _) => Way::Create(place),
            (true, Place::Site(site)) => Way::Upsert {
                sites: self.sites().unwrap_or_else(|| vec![site.clone()]),
                place,
            },
            (true, Place::Replicas(sites) | Place::Spans(sites)) => Way::Upsert {
                sites: sites.clone(),
                place,
            },
        })
    }

    fn place(self) -> Result<Place, Problem> {
        let place = match self.plan {
            Plan::Local => Place::Site(self.here.clone()),
            Plan::Forward(site) => Place::Site(site.clone()),
            Plan::Replicate { sites, .. } => Place::Replicas(sites.clone()),
            Plan::Cross(sites) => Place::Spans(sites.clone()),
            Plan::Fallback(_) | Plan::FirstOf(_) | Plan::Gather(_) => {
                return Err(Problem::new(
                    Code::NotAvailable,
                    "a name is reserved for one place: name one site, or several joined by `&` or `%`; nothing executed",
                ));
            }
        };
        let outside = place.sites().iter().find(|site| !self.extents.contains(site));
        match outside {
            None => Ok(place),
            Some(site) => {
                let extents: Vec<String> = self.extents.iter().map(|site| format!("`{site}`")).collect();
                let detail = format!(
                    "the container does not reach site `{site}`: it spans {}; add the site with `cheops cross add-site`; nothing executed",
                    extents.join(", ")
                );
                Err(Problem::new(Code::SetRefused, detail))
            }
        }
    }
}

impl Place {
    fn sites(&self) -> &[SiteName] {
        match self {
            Self::Site(site) => std::slice::from_ref(site),
            Self::Replicas(sites) | Self::Spans(sites) => sites,
        }
    }
}

fn refuse(code: Code, detail: &str) -> Way {
    Way::Refuse(Problem::new(code, detail))
}

#[cfg(test)]
mod tests {
    use cheops_types::Consistency;

    use super::*;

    fn sites(names: &[&str]) -> Vec<SiteName> {
        names.iter().map(|name| SiteName::new(name).unwrap()).collect()
    }

    /// At site `a`, in a container that spans `b` and `a`.
    fn check(plan: &Plan, change: impl FnOnce(&mut Case<'_>), expect: &str) {
        let (here, extents) = (SiteName::new("a").unwrap(), sites(&["b", "a"]));
        let mut case = Case {
            here: &here,
            extents: &extents,
            plan,
            is_placed: !matches!(plan, Plan::Local),
            is_write: false,
            is_create: false,
            is_upsert: false,
            is_item: false,
            is_list: false,
            is_stream: false,
        };
        change(&mut case);
        let found = match case.decide() {
            Some(Way::Refuse(problem)) => format!("{} {}", problem.code, problem.detail),
            Some(way) => format!("{way:?}"),
            None => "as planned".to_owned(),
        };
        assert!(found.starts_with(expect), "{plan}: {found}");
    }

    fn list(case: &mut Case<'_>) {
        case.is_list = true;
    }

    fn item(case: &mut Case<'_>) {
        case.is_item = true;
    }

    fn create(case: &mut Case<'_>) {
        (case.is_write, case.is_create) = (true, true);
    }

    fn change(case: &mut Case<'_>) {
        (case.is_write, case.is_item) = (true, true);
    }

    fn upsert(case: &mut Case<'_>) {
        (case.is_write, case.is_item, case.is_upsert) = (true, true, true);
    }

    #[test]
    fn reads() {
        check(&Plan::Local, list, "Gather([b, a])");
        check(&Plan::Local, item, "Gather([b, a])");
        check(&Plan::Local, |_| {}, "as planned");
        let stream = |case: &mut Case<'_>| (case.is_item, case.is_stream) = (true, true);
        check(&Plan::Local, stream, "Owner([b, a])");
        // Whoever names a site wants what is there.
        check(&Plan::Forward(sites(&["b"])[0].clone()), list, "as planned");
        let here = |case: &mut Case<'_>| (case.is_list, case.is_placed) = (true, true);
        check(&Plan::Local, here, "as planned");
        check(&Plan::Cross(sites(&["a", "b"])), list, "Gather([a, b])");
    }

    #[test]
    fn writes() {
        check(&Plan::Local, create, "Create(Site(a))");
        check(
            &Plan::Forward(sites(&["b"])[0].clone()),
            create,
            "Create(Site(b))",
        );
        check(
            &Plan::Forward(sites(&["c"])[0].clone()),
            create,
            "set_refused the container does not reach site `c`",
        );
        let both = Plan::Replicate {
            sites: sites(&["a", "b"]),
            consistency: Consistency::Eventual,
        };
        check(&both, create, "Create(Replicas([a, b]))");
        check(&Plan::Cross(sites(&["a", "b"])), create, "Create(Spans([a, b]))");
        check(&Plan::FirstOf(vec![Plan::Local]), create, "not_available");
        check(&Plan::Local, change, "Owner([b, a])");
        check(&Plan::Forward(sites(&["b"])[0].clone()), change, "as planned");
        check(&Plan::Local, upsert, "Upsert { place: Site(a), sites: [b, a] }");
        check(
            &Plan::Forward(sites(&["b"])[0].clone()),
            upsert,
            "Upsert { place: Site(b), sites: [b] }",
        );
        check(&Plan::Local, |case| case.is_write = true, "not_available");
    }
}
