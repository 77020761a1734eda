//! What is known of a resource, and what a scope asks for, become a plan: the table of decisions.

#[path = "support/mesh.rs"]
mod mesh;
#[path = "support/request.rs"]
mod request;

use cheops_glue::Effect;
use cheops_plan::{
    Concern, Container, Cross, Known, Party, Remainder, Request, Silent, Standing, Target, Wish, decide,
};
use cheops_scope::{ParseLimits, read};
use cheops_types::{Consistency, ServiceName, SiteName, Span, SpanForm, Unreserved, VerbClass};
use mesh::{Mesh, site};
use request::of_user;

const LIMITS: ParseLimits = ParseLimits {
    max_bytes: 4096,
    max_depth: 32,
};

fn sites(names: &[&str]) -> Vec<SiteName> {
    names.iter().map(|name| site(name)).collect()
}

/// A set of `a` and `b`; `local` is the id of this site's replica.
fn set(local: Option<&str>) -> Known {
    Known {
        meta: "m".into(),
        shown: "m".into(),
        local: local.map(Into::into),
        sites: sites(&["a", "b"]),
        standing: Standing::Member,
        consistency: Consistency::Eventual,
        span: None,
        shares: [].into(),
    }
}

/// The same, and both decide together.
fn strong() -> Known {
    Known {
        consistency: Consistency::Strong,
        ..set(Some("7"))
    }
}

fn spanning(form: SpanForm) -> Known {
    let span = Span {
        form,
        order: sites(&["b", "a"]),
        unreserved: Unreserved::Refuse,
    };
    Known {
        span: Some(span.into()),
        ..set(Some("7"))
    }
}

fn nothing() -> Concern {
    Concern {
        known: None,
        kind: Some("item".to_owned()),
        effect: Effect::Read,
        is_upsert: false,
        is_item: true,
        is_document: true,
        has_references: false,
        is_own: false,
        container: None,
        can_span: true,
        weights: Vec::new(),
        unreserved: Unreserved::Refuse,
    }
}

/// One request at site `a` of the sites `a`, `b` (1 ms away) and `c` (2 ms away).
struct Asking {
    scope: &'static str,
    /// What another agent has left of its plan.
    left: Option<Remainder>,
    concern: Concern,
    change: fn(&mut Request<'_>),
}

impl Asking {
    fn read(scope: &'static str) -> Self {
        Self {
            scope,
            left: None,
            concern: nothing(),
            change: |_| {},
        }
    }

    fn list(scope: &'static str) -> Self {
        Self::read(scope)
            .with(|concern| concern.is_item = false)
            .changed(|request| request.verb = VerbClass::ReadCollection)
    }

    fn create(scope: &'static str) -> Self {
        Self::read(scope)
            .with(|concern| (concern.effect, concern.is_item) = (Effect::Create, false))
            .changed(|request| request.verb = VerbClass::Create)
    }

    fn write(scope: &'static str) -> Self {
        Self::read(scope)
            .with(|concern| concern.effect = Effect::Replace)
            .changed(|request| request.verb = VerbClass::Change)
    }

    fn upsert(scope: &'static str) -> Self {
        Self::write(scope).with(|concern| concern.is_upsert = true)
    }

    fn with(mut self, change: impl FnOnce(&mut Concern)) -> Self {
        change(&mut self.concern);
        self
    }

    fn of(self, known: Known) -> Self {
        self.with(|concern| (concern.known, concern.is_own) = (Some(known), true))
    }

    /// Within a container that spans `b`, which gives the names away, and `a`.
    fn within(self) -> Self {
        let container = Container {
            known: spanning(SpanForm::Container),
            sites: sites(&["b", "a"]),
        };
        self.with(|concern| concern.container = Some(container))
    }

    fn changed(self, change: fn(&mut Request<'_>)) -> Self {
        Self { change, ..self }
    }

    fn by_peer(self, left: Remainder) -> Self {
        Self {
            left: Some(left),
            ..self
        }
    }

    fn is(self, expect: &str) {
        let mesh = Mesh::new("a", &["a", "b", "c"])
            .distance("a", "b", 1_000)
            .distance("a", "c", 2_000);
        let service = ServiceName::new("s").unwrap();
        let scope = (!self.scope.is_empty()).then(|| read(self.scope, &LIMITS, None).unwrap());
        let mut request = of_user(&service, VerbClass::ReadOne, scope.as_ref());
        (self.change)(&mut request);
        request.is_get = request.verb.is_read();
        if let Some(left) = &self.left {
            request.wish = Wish::Peer(left);
            request.caller = Party::Peer;
        }
        let decided = decide(&request, &mesh, |_| Ok(Some(Box::new(self.concern))), &mut Silent);
        let found = match decided.plan {
            Ok(plan) => plan.to_string(),
            Err(problem) => format!("{} {}", problem.code, problem.detail),
        };
        assert!(
            found == expect || found.starts_with(&format!("{expect} ")),
            "{:?}: {found}, not {expect}",
            self.scope
        );
    }
}

fn left(names: &[&str]) -> Remainder {
    Remainder::accept(&Target::new(sites(names)))
}

#[test]
fn a_read_goes_to_a_site_that_has_a_replica() {
    for scope in ["", "b & c"] {
        Asking::read(scope).of(set(Some("7"))).is("local");
        Asking::read(scope).of(set(None)).is("forward(b)");
    }
    Asking::read("")
        .of(set(None))
        .by_peer(Remainder::default())
        .is("replica_unavailable");
    Asking::read("b").of(set(Some("7"))).is("forward(b)");
    Asking::list("b & c").of(set(Some("7"))).is("gather[b, c]");
    Asking::read("b & c").is("gather[b, c]");
    let deleted = Known {
        standing: Standing::Deleted,
        ..set(None)
    };
    Asking::read("").of(deleted).is("local");
    // What changes nothing and is no read by its method.
    let free = |scope| Asking::write(scope).with(|concern| concern.effect = Effect::Free);
    free("b & c").is("first-of[forward(b), forward(c)]");
    free("b & a").is("local");
    free("b & c").of(set(Some("7"))).is("local");
}

#[test]
fn a_write_to_a_known_set_is_accepted_whatever_the_scope() {
    for scope in ["", "b", "b & c", "b ; c"] {
        Asking::write(scope).of(set(None)).is("replicate(m)");
        Asking::write(scope)
            .of(spanning(SpanForm::Divided))
            .is("cross(m)");
    }
    Asking::write("").is("local");
    Asking::write("").of(strong()).is("replicate(m)");
}

#[test]
fn what_is_strong_is_strong_for_all_of_its_sites() {
    Asking::create("strong(a & b)").is("replicate-strong[a, b]");
    Asking::create("strong(b & c)").is("hand-over[b, c] of replicate-strong[b, c]");
    Asking::write("strong(b & a)").of(strong()).is("replicate(m)");
    Asking::write("strong(a & b)")
        .of(set(Some("7")))
        .is("set_refused");
    Asking::write("strong(a & c)").of(strong()).is("set_refused");
    Asking::write("a & b").of(strong()).is("replicate(m)");
    Asking::read("strong(a & b)").of(strong()).is("latest[a, b]");
    Asking::read("strong(b & a)").is("latest[b, a]");
    Asking::read("strong(a & b)").of(set(Some("7"))).is("set_refused");
    Asking::read("strong(a & c)").of(strong()).is("set_refused");
    Asking::read("strong(c & b)").is("latest[c, b] at b, c");
    // A list is no resource.
    Asking::list("strong(a & b)").is("gather[a, b]");
    // Whoever does not ask for the latest gets what this site has.
    Asking::read("").of(strong()).is("local");
    let read = |asking: Asking| asking.changed(|request| request.verb = VerbClass::ReadOne);
    let both = Target::New {
        sites: sites(&["a", "b"]),
        consistency: Consistency::Strong,
    };
    read(Asking::read("").by_peer(Remainder::accept(&both))).is("latest[a, b]");
}

#[test]
fn inside_a_replicas_execution_each_site_writes_its_own() {
    let inside = |asking: Asking| {
        asking.changed(|request| (request.verb, request.is_inside_replica) = (VerbClass::Change, true))
    };
    inside(Asking::write("a").of(set(Some("7")))).is("local");
    inside(Asking::write("a").of(set(None))).is("replicate(m)");
}

#[test]
fn a_new_set_is_made_at_one_of_its_sites() {
    Asking::create("b & a").is("replicate[b, a]");
    Asking::create("b % a").is("cross[b, a]");
    Asking::create("c & b").is("hand-over[b, c] of replicate[c, b]");
    Asking::create("c % b").is("hand-over[b, c] of cross[c, b]");
    Asking::create("")
        .by_peer(left(&["b", "a"]))
        .is("replicate[b, a]");
    Asking::create("").by_peer(left(&["b", "c"])).is("bad_request");
    // What cannot be divided and contains nothing does not span.
    Asking::create("b % a")
        .with(|concern| concern.can_span = false)
        .is("set_refused");
    let strong = Target::New {
        sites: sites(&["a", "b"]),
        consistency: Consistency::Strong,
    };
    Asking::create("")
        .by_peer(Remainder::accept(&strong))
        .is("replicate-strong[a, b]");
}

/// It has planned already, and is not believed further than that.
#[test]
fn what_another_agent_leaves_is_for_this_site() {
    let span = |names: &[&str]| {
        Remainder::accept(&Target::Cross(Cross {
            sites: sites(names),
            weights: Vec::new(),
            unreserved: Unreserved::Refuse,
        }))
    };
    Asking::read("").by_peer(span(&["b", "c"])).is("local");
    Asking::list("").by_peer(left(&["b", "c"])).is("local");
    Asking::write("").by_peer(span(&["b", "c"])).is("bad_request");
    Asking::create("").by_peer(span(&["b", "a"])).is("cross[b, a]");
    for strange in [&["a", "a"][..], &["a", "z"], &["a", "b", "c", "a"]] {
        Asking::create("").by_peer(left(strange)).is("bad_request");
    }
}

#[test]
fn a_write_to_a_free_name_makes_a_set() {
    Asking::upsert("a & b").is("replicate[a, b]");
    Asking::upsert("a & b").of(set(Some("7"))).is("replicate(m)");
    Asking::upsert("").is("local");
}

#[test]
fn a_change_of_what_is_no_replica_is_for_sites_that_know_better() {
    Asking::write("b & c").is("hand-over[b, c] of replicate[b, c]");
    Asking::write("a & b").is("unknown_replica_set");
    Asking::write("")
        .by_peer(left(&["b", "c"]))
        .is("unknown_replica_set");
    Asking::write("b & c")
        .with(|concern| concern.is_item = false)
        .is("not_available");
    Asking::write("b & c")
        .with(|concern| concern.kind = None)
        .is("not_available");
    // At one of the sites of `%`: whoever has it changes it.
    Asking::write("b % c").is("owner[b, c]");
}

#[test]
fn a_divided_resource_is_read_as_a_whole_unless_one_site_is_named() {
    let read = |scope| Asking::read(scope).of(spanning(SpanForm::Divided));
    for scope in ["", "t: b", "a & b", "a % b"] {
        read(scope).is("whole[a, b]");
    }
    read("b").is("forward(b)");
    read("a").is("local");
    read("").by_peer(Remainder::default()).is("local");
}

#[test]
fn what_lies_in_a_container_is_read_at_all_its_sites() {
    Asking::list("").within().is("gather[b, a]");
    Asking::read("").within().is("gather[b, a]");
    Asking::read("")
        .within()
        .changed(|request| request.is_stream = true)
        .is("owner[b, a]");
    Asking::read("")
        .within()
        .changed(|request| request.switches = true)
        .is("owner[b, a]");
    // Whoever names a site wants what is there.
    Asking::list("b").within().is("forward(b)");
    Asking::list("a").within().is("local");
    Asking::list("a % b").within().is("gather[a, b]");
    let neither = |concern: &mut Concern| concern.is_item = false;
    Asking::read("").within().with(neither).is("local");
}

#[test]
fn what_lies_in_a_container_is_changed_where_it_is() {
    Asking::write("").within().is("owner[b, a]");
    Asking::write("b").within().is("forward(b)");
    Asking::write("")
        .within()
        .with(|concern| concern.is_item = false)
        .is("not_available");
}

#[test]
fn what_is_new_in_a_container_gets_its_name_first() {
    Asking::create("")
        .within()
        .is("make at a, its name reserved at b");
    Asking::create("b")
        .within()
        .is("make at b, its name reserved at b");
    Asking::create("c").within().is("set_refused");
    Asking::create("a & b")
        .within()
        .is("make replicate[a, b], its name reserved at b");
    Asking::create("a % b")
        .within()
        .is("make cross[a, b], its name reserved at b");
    Asking::create("a ; b").within().is("not_available");
    Asking::create("strong(a & b)").within().is("not_available");
    Asking::upsert("")
        .within()
        .is("owner[b, a] or make at a, its name reserved at b");
    Asking::upsert("b")
        .within()
        .is("owner[b] or make at b, its name reserved at b");
}

#[test]
fn a_connection_that_switches_protocols_goes_to_one_site() {
    let switches = |asking: Asking| asking.changed(|request| request.switches = true);
    switches(Asking::read("b & c")).is("upgrade_not_possible");
    switches(Asking::read("b & c").of(set(Some("7")))).is("local");
    switches(Asking::read("b ; c")).is("fallback[forward(b), forward(c)]");
}

#[test]
fn an_answer_without_an_end_is_gathered_only_if_it_can_be_watched() {
    let endless = |asking: Asking| {
        asking.changed(|request| (request.verb, request.is_stream) = (VerbClass::ReadCollection, true))
    };
    endless(Asking::list("b & c")).is("not_available");
    endless(Asking::list("a ; (b & c)")).is("local");
    let watched = |request: &mut Request<'_>| {
        (request.verb, request.is_stream, request.is_watchable) = (VerbClass::ReadCollection, true, true);
    };
    Asking::list("b & c").changed(watched).is("gather[b, c]");
}
