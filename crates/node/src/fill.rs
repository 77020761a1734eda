//! Stores of any size, as a site's agent leaves them when all is done: for measurements.

use std::{
    collections::{BTreeSet, VecDeque},
    path::Path,
};

use cheops_replica::{
    Attempt, Birth, Context, Digest, Draft, Effect, Event, Footprint, LocalId, MetaId, PlainRules, Recognise,
    Request, Set, Site, Token, Tuning, Verb, create, receive, step,
};
use cheops_store::{Incarnation, Options, Pending, Store};
use cheops_types::{Consistency, KeptBody, Limits, ServiceName, SiteName};

use crate::{
    engine::LoadedSet,
    node::StartError,
    rows::{SiteRecord, SiteRow},
};

/// Sets that share a commit.
const GROUP: u32 = 20_000;
/// The first start of the agent; the one that opens the store is another.
const RUN: u64 = 1;
const STATE: &[u8] = br#"{"name":"bolt"}"#;

/// Settled replica sets of one kind, by number from 1. The number is the local id at both sites.
#[derive(Debug, Clone)]
pub struct Fill {
    pub here: SiteName,
    pub other: SiteName,
    pub service: ServiceName,
    pub kind: String,
    pub sets: u32,
    pub now_ms: u64,
}

/// One of the two sites while a set comes to rest.
struct Place {
    site: Site,
    set: Option<Set>,
}

impl Fill {
    /// The meta-id of a set. They ascend, so that a store is filled page by page, and lie apart like random
    /// ones.
    pub fn meta_id(&self, number: u32) -> String {
        let spread = u32::MAX / self.sets.max(1) * number;
        format!("{spread:08x}-0000-4000-8000-{number:012x}")
    }

    /// Fills an existing directory that no agent uses and that has no store yet. Each set goes through the
    /// engine at both sites: what is stored is what the engine made of it.
    pub fn write(&self, data: &Path) -> Result<(), StartError> {
        let options = Options::new(Incarnation(self.now_ms), &Limits::default());
        let store = Store::open(data, &options)?;
        let mut places = [&self.here, &self.other].map(|name| Place {
            site: Site::new(name.clone(), self.now_ms),
            set: None,
        });
        let mut next = 1;
        while next <= self.sets {
            let last = self.sets.min(next.saturating_add(GROUP - 1));
            let mut changes = Vec::new();
            for number in next..=last {
                let set = self.settled(&mut places, number);
                let mut held = LoadedSet::new(RUN, self.now_ms, set, true);
                changes.extend(held.change(&self.here)?);
            }
            let record = SiteRecord {
                site: places[0].site.clone(),
                run: RUN,
                commits: u64::from(last),
                probes: 0,
                lives: std::collections::BTreeMap::new(),
            };
            let written = store.write(move |session| {
                for change in changes {
                    change.apply(session)?;
                }
                session.put::<SiteRow>(&(), &record)
            });
            written.and_then(Pending::wait)?;
            next = last + 1;
        }
        Ok(())
    }

    /// A set as this site has it when both sites have executed its create and know so of each other.
    fn settled(&self, places: &mut [Place; 2], number: u32) -> Set {
        let (tuning, rules) = (Tuning::default(), PlainRules);
        let context = Context {
            now_ms: self.now_ms,
            tuning: &tuning,
            rules: &rules,
        };
        let meta = MetaId::new(&self.meta_id(number));
        let (set, effects) = create(&mut places[0].site, &meta, self.draft(number), &context);
        places[0].set = Some(set);
        let mut due: VecDeque<_> = effects.into_iter().map(|effect| (0, effect)).collect();
        while let Some((at, effect)) = due.pop_front() {
            let (at, event) = match effect {
                Effect::Send { message, .. } => (1 - at, Event::Message(message)),
                Effect::Execute(execution) => (at, executed(execution.ticket, number)),
                Effect::Read { ticket, .. } => {
                    let state = Some((STATE.to_vec(), Digest(vec![0; 32])));
                    (at, Event::Read { ticket, state })
                }
                _ => continue,
            };
            let place = &mut places[at];
            let effects = match (&mut place.set, event) {
                (Some(set), event) => step(&mut place.site, set, event, &context),
                (none, Event::Message(message)) => {
                    let (set, effects) = receive(&mut place.site, message, &context);
                    *none = set;
                    effects
                }
                (None, _) => Vec::new(),
            };
            due.extend(effects.into_iter().map(|effect| (at, effect)));
        }
        places[1].set = None;
        let [Place { set, .. }, _] = places;
        let set = set.take().expect("it was put there");
        assert!(set.is_settled(&self.here), "a set did not come to rest: {set:?}");
        set
    }

    fn draft(&self, number: u32) -> Draft {
        let birth = Birth {
            service: self.service.clone(),
            kind: self.kind.clone(),
            parents: Vec::new(),
            name: None,
            sites: BTreeSet::from([self.here.clone(), self.other.clone()]),
            span: None,
            generation: 0,
            consistency: Consistency::Eventual,
        };
        Draft {
            token: Token(u128::from(number)),
            verb: Verb::Create(Box::new(birth)),
            touches: Footprint::Whole,
            recognise: Recognise::Nothing,
            needs: Vec::new(),
            request: Request {
                method: "POST".into(),
                path: self.kind.clone(),
                headers: vec![("content-type".into(), "application/json".into())],
                body: KeptBody::Inline(STATE.into()),
                scope: format!("{} & {}", self.here, self.other),
                caller: None,
                shares: Vec::new(),
            },
            conditions: None,
            credential: None,
            promised: false,
            remakes: false,
        }
    }
}

fn executed(ticket: u64, number: u32) -> Event {
    let attempt = Attempt::Answered {
        status: 201,
        local: Some(LocalId::new(&number.to_string())),
        said: None,
    };
    Event::Executed { ticket, attempt }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cheops_glue::Profile;
    use cheops_plan::Presence;
    use cheops_ports::Coordinator as _;
    use cheops_store::SiteKey;

    use super::*;
    use crate::{
        lab::{NOW_MS, service, site},
        node::{Node, Options as NodeOptions},
        rows::{Operations, Sets, UnsettledRecords},
        surroundings::Surroundings,
    };

    struct Around;

    impl Surroundings for Around {
        fn now_ms(&self) -> u64 {
            NOW_MS + 1
        }

        fn fill(&self, buffer: &mut [u8]) {
            buffer.fill(7);
        }

        fn profile(&self) -> Arc<Profile> {
            Arc::new(Profile::plain())
        }

        fn limits(&self) -> Limits {
            Limits::default()
        }

        fn sites(&self) -> Vec<SiteName> {
            vec![site("bench"), site("other")]
        }
    }

    #[test]
    fn a_site_opens_what_was_filled_and_has_nothing_left_to_do() {
        let data = tempfile::tempdir().unwrap();
        let fill = Fill {
            here: site("bench"),
            other: site("other"),
            service: service("web"),
            kind: "/orders".into(),
            sets: 50,
            now_ms: NOW_MS,
        };
        fill.write(data.path()).unwrap();
        let entropy = |bytes: &mut [u8]| -> std::io::Result<()> {
            bytes.fill(1);
            Ok(())
        };
        let presence = Arc::new(Presence::default());
        let options = NodeOptions {
            site: site("bench"),
            data: data.path().to_owned(),
            restored: false,
            key: SiteKey::open(&data.path().join("site.key"), &entropy).unwrap(),
            surroundings: Arc::new(Around),
            presence: presence.clone(),
        };
        let (node, mut work) = Node::start(options).unwrap();
        for (id, is_there) in [("1", true), ("50", true), ("51", false), ("x1", false)] {
            assert_eq!(presence.has_id("web", "/orders", id), is_there, "{id}");
        }
        let known = node.find("web", "/orders", "17", "17").unwrap().unwrap();
        assert_eq!(*known.meta, *fill.meta_id(17));
        let read = node.core.store.read().unwrap();
        assert_eq!(read.count::<Sets>().unwrap(), 50);
        assert_eq!(read.count::<Operations>().unwrap(), 0);
        assert_eq!(read.count_by::<UnsettledRecords>().unwrap(), 0);
        drop(read);
        node.stop();
        assert!(work.tasks.try_recv().is_err(), "a settled set asks for nothing");
    }
}
