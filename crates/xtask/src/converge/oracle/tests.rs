//! Made-up histories: the judge counts only if it can fail.

use serde_json::Value;

use super::{
    super::history::{Acknowledged, Fate, body},
    *,
};
use crate::trouble::{Fault, Planned};

/// The resource of all these histories is made by w1, acknowledged at 10.
const BORN: WriteId = 1;

struct Story {
    history: History,
    finals: [Vec<Document>; SITES],
    conflicts: BTreeSet<String>,
    log: Log,
    excused: BTreeSet<WriteId>,
}

/// A document after these writes, one after the other.
fn document(writes: &[(WriteId, Kind)]) -> Document {
    let mut text = Value::Null;
    for (id, kind) in writes {
        let Value::Object(members) = body(*id, BORN, *kind) else {
            panic!("w{id} has no body");
        };
        if kind.is_whole() {
            text = Value::Object(members);
        } else {
            text.as_object_mut().unwrap().extend(members);
        }
    }
    Document::read(&text).unwrap()
}

const MADE: (WriteId, Kind) = (BORN, Kind::Create);

/// A resource of all sites, which all have as it was made.
fn story() -> Story {
    let sites = (0..SITES).collect();
    let resource = Resource {
        born: BORN,
        collection: "items",
        id: Some("72".to_owned()),
        set: Some("72".to_owned()),
        sites,
    };
    let history = History {
        resources: BTreeMap::from([(BORN, resource)]),
        writes: Vec::new(),
    };
    let story = Story {
        history,
        finals: Default::default(),
        conflicts: BTreeSet::new(),
        log: Log::default(),
        excused: BTreeSet::new(),
    };
    story
        .write(MADE, 0, (5, 10), Some(document(&[MADE])))
        .ends(&[MADE])
}

impl Story {
    /// An acknowledged write, accepted by a site, with the document of that site right after it.
    fn write(
        mut self,
        (id, kind): (WriteId, Kind),
        origin: Site,
        (sent_ms, at_ms): (u64, u64),
        seen: Option<Document>,
    ) -> Self {
        let operation = format!("op{id}");
        let fate = Fate::Acknowledged(Acknowledged {
            at_ms,
            operation,
            origin,
            seen,
        });
        self.history.writes.push(Write {
            id,
            born: BORN,
            kind,
            through: origin,
            sent_ms,
            fate,
        });
        self
    }

    fn unanswered(mut self, (id, kind): (WriteId, Kind), sent_ms: u64) -> Self {
        self.history.writes.push(Write {
            id,
            born: BORN,
            kind,
            through: 0,
            sent_ms,
            fate: Fate::Doubt {
                at_ms: sent_ms + 1,
                why: "no answer".to_owned(),
            },
        });
        self
    }

    fn refused(mut self, (id, kind): (WriteId, Kind), sent_ms: u64) -> Self {
        self = self.unanswered((id, kind), sent_ms);
        if let Some(write) = self.history.writes.last_mut() {
            write.fate = Fate::Refused {
                at_ms: sent_ms + 1,
                why: "404".to_owned(),
            };
        }
        self
    }

    /// All sites have a document after these writes; none after no writes.
    fn ends(mut self, writes: &[(WriteId, Kind)]) -> Self {
        for site in &mut self.finals {
            *site = if writes.is_empty() {
                Vec::new()
            } else {
                vec![document(writes)]
            };
        }
        self
    }

    fn ends_at(mut self, site: Site, documents: Vec<Document>) -> Self {
        self.finals[site] = documents;
        self
    }

    fn conflict(mut self, write: WriteId) -> Self {
        self.conflicts.insert(format!("op{write}"));
        self
    }

    fn fault(mut self, fault: Fault, at_ms: u64, until_ms: u64) -> Self {
        self.log.0.push(Planned {
            at_ms,
            until_ms,
            fault,
        });
        self
    }

    #[track_caller]
    fn check(&self, expected: &[What]) -> Counts {
        let finals = Finals::from([(BORN, self.finals.clone())]);
        let (found, counts) = judge(&Case {
            history: &self.history,
            finals: &finals,
            conflicts: &self.conflicts,
            log: &self.log,
            excused: &self.excused,
        });
        let found: Vec<_> = found.into_iter().map(|violation| violation.what).collect();
        assert_eq!(found, expected);
        let acknowledged = |write: &&Write| write.acknowledged().is_some();
        let all = self.history.writes.iter().filter(acknowledged).count();
        let Counts {
            present,
            superseded,
            conflicts,
            deleted,
            excused,
            lost,
        } = counts;
        if expected.is_empty() {
            assert_eq!(present + superseded + conflicts + deleted + excused + lost, all);
        }
        counts
    }
}

fn lost(write: WriteId, field: usize) -> What {
    What::Lost {
        write,
        field: Some(field),
    }
}

const P2: (WriteId, Kind) = (2, Kind::Patch(0));
const P3: (WriteId, Kind) = (3, Kind::Patch(0));
const R2: (WriteId, Kind) = (2, Kind::Replace);
const R3: (WriteId, Kind) = (3, Kind::Replace);
const D4: (WriteId, Kind) = (4, Kind::Delete);

#[test]
fn what_was_made_is_there() {
    assert_eq!(story().check(&[]).present, 1);
}

#[test]
fn a_write_that_is_nowhere_is_lost() {
    let patched = document(&[MADE, P2]);
    story().write(P2, 0, (20, 21), Some(patched)).check(&[lost(2, 0)]);
    story()
        .write(R2, 0, (20, 21), Some(document(&[R2])))
        .check(&[lost(2, 0)]);
    // What was before it does not explain it.
    story()
        .write(P2, 0, (20, 21), Some(document(&[MADE, P2])))
        .write(P3, 0, (30, 31), Some(document(&[MADE, P2, P3])))
        .ends(&[MADE, P3, P2])
        .check(&[lost(3, 0)]);
    // Nor does a write to another field.
    story()
        .write(P2, 0, (20, 21), Some(document(&[MADE, P2])))
        .write((3, Kind::Patch(1)), 0, (30, 31), None)
        .ends(&[MADE, (3, Kind::Patch(1))])
        .check(&[lost(2, 0)]);
}

#[test]
fn an_ordinary_overwrite_is_none() {
    let counts = story()
        .write(P2, 0, (20, 21), Some(document(&[MADE, P2])))
        .write(P3, 1, (30, 31), Some(document(&[MADE, P2, P3])))
        .ends(&[MADE, P2, P3])
        .check(&[]);
    assert_eq!((counts.present, counts.superseded), (1, 2));
    story()
        .write(P2, 0, (20, 21), Some(document(&[MADE, P2])))
        .write(R3, 1, (30, 31), Some(document(&[R3])))
        .ends(&[R3])
        .check(&[]);
}

#[test]
fn unequal_replicas_are_told() {
    let after = document(&[MADE, P2]);
    let story = |finals: Vec<Document>| {
        story()
            .write(P2, 0, (20, 21), Some(document(&[MADE, P2])))
            .ends(&[MADE, P2])
            .ends_at(1, finals)
    };
    story(vec![after.clone()]).check(&[]);
    story(vec![document(&[MADE])]).check(&[What::Unequal]);
    story(Vec::new()).check(&[What::Unequal]);
    story(vec![after.clone(), after]).check(&[What::Unequal, What::Twice(1)]);
}

#[test]
fn a_site_outside_the_set_has_nothing() {
    let mut story = story();
    story.history.resources.get_mut(&BORN).unwrap().sites = vec![0, 1];
    story.check(&[What::Unequal, What::Elsewhere(2)]);
    story.ends_at(2, Vec::new()).check(&[]);
}

#[test]
fn a_loser_that_the_winner_did_not_know_must_be_a_conflict() {
    // Both know the create only: neither answer shows the other's mark.
    let story = || {
        story()
            .write(P2, 0, (20, 22), Some(document(&[MADE, P2])))
            .write(P3, 1, (21, 23), Some(document(&[MADE, P3])))
            .ends(&[MADE, P2, P3])
    };
    story().check(&[lost(2, 0)]);
    let counts = story().conflict(2).check(&[]);
    assert_eq!((counts.present, counts.conflicts), (1, 1));
}

#[test]
fn a_replace_from_the_other_side_of_a_cut_knew_nothing() {
    let story = || {
        story()
            .write(P2, 0, (20, 22), Some(document(&[MADE, P2])))
            .write(R3, 1, (30, 31), Some(document(&[R3])))
            .ends(&[R3])
    };
    story().check(&[]);
    story().fault(Fault::Isolate(0), 15, 40).check(&[lost(2, 0)]);
    story().fault(Fault::Isolate(0), 15, 40).conflict(2).check(&[]);
    story().fault(Fault::Isolate(0), 15, 30).check(&[]);
    story().fault(Fault::Pause(0), 15, 40).check(&[]);
}

#[test]
fn a_patch_of_an_older_document_does_not_replace_a_new_one() {
    // w3 came after w2, and its site had still what w1 made.
    let story = || {
        story().write(R2, 0, (20, 22), Some(document(&[R2]))).write(
            P3,
            1,
            (30, 31),
            Some(document(&[MADE, P3])),
        )
    };
    story().ends(&[R2, P3]).check(&[lost(2, 0)]);
    story().ends(&[R2, P3]).conflict(2).check(&[]);
    story().ends(&[MADE, P3]).check(&[lost(2, 0)]);
}

#[test]
fn a_write_without_an_answer_may_be_there_or_not() {
    let story = || {
        story()
            .write(P2, 0, (20, 21), Some(document(&[MADE, P2])))
            .unanswered(P3, 15)
    };
    story().ends(&[MADE, P2]).check(&[]);
    story().ends(&[MADE, P2, P3]).check(&[]);
    story().ends(&[MADE]).check(&[]);
}

#[test]
fn a_refused_write_is_not_there() {
    let story = story().refused(P2, 20);
    story.check(&[]);
    story
        .ends(&[MADE, P2])
        .check(&[lost(1, 0), What::Refused { write: 2 }]);
}

#[test]
fn deletes_explain_what_is_gone_and_hold() {
    story().ends(&[]).check(&[What::Gone]);
    let deleted = story().write(D4, 1, (40, 41), None);
    deleted.check(&[What::Undeleted { delete: 4 }]);
    assert_eq!(deleted.ends(&[]).check(&[]).deleted, 2);
    story().unanswered(D4, 40).check(&[]);
    story().unanswered(D4, 40).ends(&[]).check(&[]);
    story().refused(D4, 40).ends(&[]).check(&[What::Gone]);
}

#[test]
fn what_nobody_wrote_is_told() {
    story()
        .ends(&[MADE, P2])
        .check(&[lost(1, 0), What::Invented { field: 0 }]);
    let mut empty = story();
    empty.history.resources.clear();
    empty.history.writes.clear();
    empty.check(&[What::Stranger]);
}

#[test]
fn an_excused_resource_may_differ_and_is_counted() {
    let mut story = story()
        .write(P2, 0, (20, 21), Some(document(&[MADE, P2])))
        .ends_at(0, vec![document(&[MADE, P2])]);
    story.check(&[What::Unequal]);
    story.excused.insert(BORN);
    assert_eq!(story.check(&[]).excused, 2);
}
