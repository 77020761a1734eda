//! A model application: one per site, alive while agents come and go.

use std::collections::{BTreeMap, BTreeSet};

use cheops_replica::{Attempt, Digest, Execution, Form, Found, LocalId, Recognise, Token};
use cheops_types::KeptBody;
use serde::{Deserialize, Serialize};

/// What a resource is: some fields and a counter.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Resource {
    pub fields: BTreeMap<String, u64>,
    pub count: u64,
    /// This site's part of a count that is divided.
    pub part: u64,
}

/// What a request's body says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    Whole(Resource),
    Fields(BTreeMap<String, u64>),
    /// Commutes.
    Add(u64),
    /// Does not.
    Double(u64),
}

impl Change {
    pub fn of(body: &KeptBody) -> Self {
        let bytes = match body {
            KeptBody::Inline(bytes) => &bytes[..],
            // What is spooled here is so short that its hash says it all.
            KeptBody::Spooled { hash, bytes } => &hash[..(*bytes as usize).min(hash.len())],
        };
        serde_json::from_slice(bytes).expect("the simulator wrote it")
    }

    pub fn body(&self) -> KeptBody {
        KeptBody::Inline(serde_json::to_vec(self).expect("a plain value").into())
    }

    pub fn apply(&self, resource: &mut Resource) {
        match self {
            Self::Whole(whole) => {
                *resource = Resource {
                    part: resource.part,
                    ..whole.clone()
                }
            }
            Self::Fields(fields) => resource.fields.extend(fields.clone()),
            Self::Add(n) => resource.count = resource.count.wrapping_add(*n),
            Self::Double(n) => resource.count = resource.count.wrapping_mul(2).wrapping_add(*n),
        }
    }

    pub fn is_idempotent(&self) -> bool {
        matches!(self, Self::Whole(_) | Self::Fields(_))
    }
}

/// The name that a create brings along.
#[derive(Debug, Clone, Copy)]
pub struct Chosen<'n> {
    pub name: &'n str,
    /// A client chose it.
    pub is_named: bool,
    /// The application does not tell ids that it was given, and has no word for one that is taken.
    pub is_odd: bool,
}

fn status(status: u16) -> Attempt {
    Attempt::Answered {
        status,
        local: None,
        said: None,
    }
}

#[derive(Debug, Clone, Default)]
pub struct App {
    pub resources: BTreeMap<LocalId, Resource>,
    /// What each create made, for the operator who looks into the application.
    pub made: BTreeMap<Token, LocalId>,
    markers: BTreeMap<Token, LocalId>,
    /// With what makes another key of a token.
    keys: BTreeMap<(Token, Option<Token>), Attempt>,
    next: u64,
    /// How often each request took effect, idempotent ones aside.
    pub effects: BTreeMap<Token, u32>,
    /// All requests that took effect.
    pub seen: BTreeSet<Token>,
}

impl App {
    /// Takes effect and answers. `part` is what the agent puts in place of a count that is divided.
    pub fn execute(
        &mut self,
        site: usize,
        chosen: Chosen<'_>,
        execution: &Execution,
        part: Option<u64>,
    ) -> Attempt {
        if !self.meets(execution) {
            return status(412);
        }
        let key = (execution.token, execution.renewal);
        if execution.recognise == Recognise::Key
            && let Some(answer) = self.keys.get(&key)
        {
            return answer.clone();
        }
        let answer = self.carry_out(site, chosen, execution, part);
        if execution.recognise == Recognise::Key {
            self.keys.insert(key, answer.clone());
        }
        answer
    }

    /// Whether the resource is what the caller demands: its field `a` is even.
    fn meets(&self, execution: &Execution) -> bool {
        let (Some(_), Form::Repeat { local, .. }) = (&execution.conditions, &execution.form) else {
            return true;
        };
        let resource = self.resources.get(local);
        resource.is_none_or(|resource| resource.fields.get("a").is_none_or(|a| a.is_multiple_of(2)))
    }

    fn carry_out(
        &mut self,
        site: usize,
        chosen: Chosen<'_>,
        execution: &Execution,
        part: Option<u64>,
    ) -> Attempt {
        let answered = status;
        match &execution.form {
            Form::Create { request } => {
                let Change::Whole(mut whole) = Change::of(&request.body) else {
                    return answered(400);
                };
                whole.part = part.unwrap_or_default();
                self.create(site, chosen, execution, whole)
            }
            Form::CreateFrom { state } => {
                let mut whole: Resource = serde_json::from_slice(state).expect("read from a replica");
                whole.part = part.unwrap_or_default();
                self.create(site, chosen, execution, whole)
            }
            Form::Repeat { request, local } => {
                let change = Change::of(&request.body);
                let Some(resource) = self.resources.get_mut(local) else {
                    return answered(404);
                };
                change.apply(resource);
                resource.part = part.unwrap_or(resource.part);
                self.seen.insert(execution.token);
                if !change.is_idempotent() {
                    *self.effects.entry(execution.token).or_default() += 1;
                }
                answered(200)
            }
            Form::Remake { request, local } => {
                let Change::Whole(whole) = Change::of(&request.body) else {
                    return answered(400);
                };
                match self.resources.get_mut(local) {
                    Some(resource) => {
                        *resource = whole;
                        resource.part = part.unwrap_or(resource.part);
                        self.seen.insert(execution.token);
                        answered(200)
                    }
                    None => answered(404),
                }
            }
            Form::Overwrite { state, local } => {
                let mut whole: Resource = serde_json::from_slice(state).expect("read from a replica");
                match self.resources.get_mut(local) {
                    Some(resource) => {
                        whole.part = part.unwrap_or(resource.part);
                        *resource = whole;
                        answered(200)
                    }
                    None => answered(404),
                }
            }
            Form::Delete { local, .. } => {
                self.markers.retain(|_, marked| marked != local);
                self.seen.insert(execution.token);
                answered(if self.resources.remove(local).is_some() {
                    204
                } else {
                    404
                })
            }
        }
    }

    fn create(&mut self, site: usize, chosen: Chosen<'_>, execution: &Execution, whole: Resource) -> Attempt {
        let is_chosen = chosen.is_named || execution.recognise == Recognise::ChosenId;
        let local = if is_chosen {
            LocalId::new(chosen.name)
        } else {
            self.next += 1;
            LocalId::new(&format!("{site}-{}", self.next))
        };
        if self.resources.contains_key(&local) {
            let is_own = self.made.get(&execution.token) == Some(&local);
            return status(if chosen.is_odd && is_own { 500 } else { 409 });
        }
        self.resources.insert(local.clone(), whole);
        self.seen.insert(execution.token);
        *self.effects.entry(execution.token).or_default() += 1;
        self.made.insert(execution.token, local.clone());
        if execution.recognise == Recognise::Marker {
            self.markers.insert(execution.token, local.clone());
        }
        Attempt::Answered {
            status: 201,
            local: Some(local).filter(|_| !(is_chosen && chosen.is_odd)),
            said: None,
        }
    }

    pub fn look(&self, token: Token) -> Found {
        self.markers
            .get(&token)
            .map_or(Found::Nowhere, |local| Found::Here(local.clone()))
    }

    /// The state that makes another replica like this one, and what is compared. A part that is wrong is set right: nobody
    /// else could.
    pub fn read(&mut self, local: &LocalId, part: Option<u64>) -> Option<(Vec<u8>, Digest)> {
        let resource = self.resources.get_mut(local)?;
        resource.part = part.unwrap_or(resource.part);
        let whole = Resource {
            part: 0,
            ..resource.clone()
        };
        let state = serde_json::to_vec(&whole).expect("a plain value");
        Some((state.clone(), Digest(state)))
    }
}
