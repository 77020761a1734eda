//! Sessions over several tables, and what must be there after each of them.

use std::{collections::BTreeMap, ops::ControlFlow};

use cheops_store::{
    Incarnation, Options, Pending, Read, Span, Store,
    tables::{OperationKey, OperationRow, Operations, SetRow, Sets, Site},
};
use cheops_types::{Limits, ServiceName, SiteName, Stamp};

use crate::disk::Random;

const SETS: u64 = 40;

/// Everything that is in the tables.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Model {
    pub(crate) sessions: u64,
    sets: BTreeMap<String, SetRow<String>>,
    operations: BTreeMap<OperationKey, OperationRow<String>>,
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
            let row = (self.random.below(4) > 0).then(|| self.set(number));
            match &row {
                Some(row) => self.model.sets.insert(id.clone(), row.clone()),
                None => self.model.sets.remove(&id),
            };
            changed.push((id, row));
        }
        let key = OperationKey {
            clock: Stamp {
                millis: number,
                count: 0,
            },
            origin: SiteName::new("paris").unwrap(),
            sequence: number,
        };
        let operation = OperationRow {
            set: changed[0].0.clone(),
            state: if self.random.below(2) == 0 {
                "pending"
            } else {
                "done"
            }
            .to_owned(),
            record: "x".repeat(self.random.below(3000) as usize),
        };
        self.model.operations.insert(key.clone(), operation.clone());
        let pruned = (number > 20).then(|| self.model.operations.pop_first().unwrap().0);
        store
            .write(move |session| {
                session.put::<Site<u64>>(&(), &number)?;
                for (id, row) in &changed {
                    match row {
                        Some(row) => session.put::<Sets<String>>(id, row)?,
                        None => {
                            session.delete::<Sets<String>>(id)?;
                        }
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

    fn set(&mut self, number: u64) -> SetRow<String> {
        SetRow {
            service: ServiceName::new("image").unwrap(),
            kind: "images".into(),
            local_id: (self.random.below(3) > 0).then(|| format!("local {number}")),
            record: "y".repeat(self.random.below(500) as usize),
        }
    }
}

pub(crate) fn read(store: &Store) -> Model {
    let session = store.read().unwrap();
    let mut model = Model {
        sessions: session.get::<Site<u64>>(&()).unwrap().unwrap_or(0),
        ..Model::default()
    };
    session
        .for_each::<Sets<String>>(&Span::all(), |id, row| {
            model.sets.insert(id, row);
            ControlFlow::Continue(())
        })
        .unwrap();
    session
        .for_each::<Operations<String>>(&Span::all(), |key, row| {
            model.operations.insert(key, row);
            ControlFlow::Continue(())
        })
        .unwrap();
    model
}

pub(crate) fn check_indexes(store: &Store) {
    let session = store.read().unwrap();
    session.check_indexes::<Sets<String>>().unwrap();
    session.check_indexes::<Operations<String>>().unwrap();
}
