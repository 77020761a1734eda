//! What applications say to what they are asked.

use cheops_replica::{Attempt, Digest, Effect, Event, Form, Found, LocalId};

use super::Arena;

impl Arena {
    /// The application of a site does something about what it was asked.
    pub(super) fn answer_one(&mut self, at: usize) -> Result<(), String> {
        if self.players[at].open.is_empty() {
            return Ok(());
        }
        let which = self.rng.index(self.players[at].open.len());
        let (meta, effect) = self.players[at].open.swap_remove(which);
        let event = match self.rng.index(12) {
            0..6 => answered(&effect, 0, at),
            6 => answered(&effect, 409, at),
            7 => answered(&effect, 404, at),
            8 => answered(&effect, 422, at),
            9 => answered(&effect, 503, at),
            10 => unanswered(&effect),
            _ => match effect {
                Effect::Read { ticket, .. } => Some(Event::Missing { ticket }),
                Effect::Execute(execution) => Some(Event::Broken {
                    ticket: execution.ticket,
                    settle_ms: 10,
                }),
                _ => None,
            },
        };
        event.map_or(Ok(()), |event| self.step(at, &meta, event))
    }
}

/// What the application says; 0 is what it should.
pub(super) fn answered(effect: &Effect, status: u16, at: usize) -> Option<Event> {
    Some(match effect {
        Effect::Execute(execution) => {
            let makes = matches!(execution.form, Form::Create { .. } | Form::CreateFrom { .. });
            let good = if makes { 201 } else { 200 };
            let status = if status == 0 { good } else { status };
            Event::Executed {
                ticket: execution.ticket,
                attempt: Attempt::Answered {
                    status,
                    local: (makes && status == 201).then(|| LocalId::new(&format!("s{at}-1"))),
                    said: None,
                },
            }
        }
        Effect::Look { ticket, .. } => Event::Looked {
            ticket: *ticket,
            found: Found::Nowhere,
        },
        Effect::Read { ticket, .. } => {
            let state = b"as it is".to_vec();
            Event::Read {
                ticket: *ticket,
                state: Some((state.clone(), Digest(state))),
            }
        }
        _ => return None,
    })
}

fn unanswered(effect: &Effect) -> Option<Event> {
    Some(match effect {
        Effect::Execute(execution) => Event::Executed {
            ticket: execution.ticket,
            attempt: Attempt::Unknown,
        },
        Effect::Look { ticket, .. } => Event::Looked {
            ticket: *ticket,
            found: Found::Unknown,
        },
        Effect::Read { ticket, .. } => Event::Read {
            ticket: *ticket,
            state: None,
        },
        _ => return None,
    })
}
