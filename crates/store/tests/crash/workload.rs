//! Sessions over several tables, and what must be there after each of them.

use std::{collections::BTreeMap, ops::ControlFlow};

use cheops_store::{
    Error, Incarnation, Options, Pending, Read, ReadSession, Span, Store,
    tables::{
        OPERATION_DONE, OperationKey, OperationRow, Operations, RecordRow, Records, SetRow, Sets, Site,
    },
};
use cheops_types::{Limits, ServiceName, SiteName, Stamp};

use crate::disk::Random;

const SETS: u64 = 40;
/// Enough for the file to grow in the course of a test.
const RECORD_MAX_BYTES: u64 = 10_000;

/// Everything that is in the tables.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Model {
    pub(crate) sessions: u64,
    sets: BTreeMap<String, SetRow<u64>>,
    records: BTreeMap<String, RecordRow<String>>,
    operations: BTreeMap<(OperationKey, String), OperationRow<String>>,
}

pub(crate) struct Workload {
    random: Random,
    model: Model,
}

pub(crate) fn options() -> Options {
    Options::new(Incarnation(1), &Limits::default())
}

impl Workload {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            random: Random(seed),
            model: Model::default(),
        }
    }

    /// Goes on from what is in the store.
    pub(crate) fn continued(seed: u64, store: &Store) -> Self {
        Self {
            random: Random(seed),
            model: read(store),
        }
    }

    pub(crate) fn model(&self) -> &Model {
        &self.model
    }

    /// One session: its number, an operation, sets that come, change and go.
    pub(crate) fn session(&mut self, store: &Store) -> Pending<()> {
        self.model.sessions += 1;
        let number = self.model.sessions;
        let mut changed = Vec::new();
        for _ in 0..=self.random.below(6) {
            let id = format!("set {}", self.random.below(SETS));
            let rows = (self.random.below(4) > 0).then(|| (self.set(number), self.record()));
            if let Some((set, record)) = &rows {
                self.model.sets.insert(id.clone(), set.clone());
                self.model.records.insert(id.clone(), record.clone());
            } else {
                self.model.sets.remove(&id);
                self.model.records.remove(&id);
            }
            changed.push((id, rows));
        }
        let key = OperationKey {
            clock: Stamp {
                millis: number,
                count: 0,
            },
            origin: SiteName::new("paris").unwrap(),
            incarnation: Incarnation(1),
            stay: 0,
            sequence: number,
        };
        let key = (key, changed[0].0.clone());
        let state = if self.random.below(2) == 0 {
            "blocked"
        } else {
            OPERATION_DONE
        };
        let operation = OperationRow {
            state: state.to_owned(),
            record: "x".repeat(self.random.below(RECORD_MAX_BYTES) as usize),
        };
        self.model.operations.insert(key.clone(), operation.clone());
        let pruned = (number > 20).then(|| self.model.operations.pop_first().unwrap().0);
        store
            .write(move |session| {
                session.put::<Site<u64>>(&(), &number)?;
                for (id, rows) in &changed {
                    if let Some((set, record)) = rows {
                        session.put::<Sets<u64>>(id, set)?;
                        session.put::<Records<String>>(id, record)?;
                    } else {
                        session.delete::<Sets<u64>>(id)?;
                        session.delete::<Records<String>>(id)?;
                    }
                }
                session.put::<Operations<String>>(&key, &operation)?;
                if let Some(pruned) = pruned {
                    session.delete::<Operations<String>>(&pruned)?;
                }
                Ok(())
            })
            .unwrap()
    }

    fn set(&mut self, number: u64) -> SetRow<u64> {
        let local_key = (self.random.below(3) > 0).then(|| format!("local {number}"));
        SetRow {
            service: ServiceName::new("image").unwrap(),
            kind: "images".into(),
            name: local_key.clone().filter(|_| self.random.below(2) == 0),
            local_key,
            head: number,
        }
    }

    fn record(&mut self) -> RecordRow<String> {
        RecordRow {
            unsettled: self.random.below(2) == 0,
            record: "y".repeat(self.random.below(500) as usize),
        }
    }
}

/// A session that needs space which was never written to.
pub(crate) fn too_large(store: &Store) -> Pending<()> {
    let record = "z".repeat(2 << 20);
    store
        .write(move |session| session.put::<Site<String>>(&(), &record))
        .unwrap()
}

/// Reads as the data plane does.
pub(crate) fn read(store: &Store) -> Model {
    store.read_with(read_model).unwrap()
}

fn read_model(session: &ReadSession) -> Result<Model, Error> {
    let mut model = Model {
        sessions: session.get::<Site<u64>>(&())?.unwrap_or(0),
        ..Model::default()
    };
    session.for_each::<Sets<u64>>(&Span::all(), |id, row| {
        model.sets.insert(id, row);
        ControlFlow::Continue(())
    })?;
    session.for_each::<Records<String>>(&Span::all(), |id, row| {
        model.records.insert(id, row);
        ControlFlow::Continue(())
    })?;
    session.for_each::<Operations<String>>(&Span::all(), |key, row| {
        model.operations.insert(key, row);
        ControlFlow::Continue(())
    })?;
    Ok(model)
}

pub(crate) fn check_indexes(store: &Store) {
    let session = store.read().unwrap();
    session.check_indexes::<Sets<u64>>().unwrap();
    session.check_indexes::<Records<String>>().unwrap();
    session.check_indexes::<Operations<String>>().unwrap();
}
