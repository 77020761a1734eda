//! One site with a good certificate and bad intentions.
//!
//! Two to four sites, of which the first is hostile. It runs the engine like the others, so that it knows what they
//! know, and beside that sends what it likes: what it has seen, changed, replayed, cut, contradicted; operations of its
//! own with any content, as its key would sign them; operations of others only as they are, because those are signed.
//!
//! What has to hold: the engine does not panic; a set that the hostile site is no member of is as if nothing had
//! come; nobody but a site itself gives the numbers of its operations; a set is not larger than a factor of what was sent; one event has few effects, and the honest sites come
//! to rest among themselves.

mod application;
mod campaign;
mod check;
mod forge;

use std::{
    collections::BTreeMap,
    panic::{self, AssertUnwindSafe},
};

use cheops_replica::{
    Age, Birth, Content, Context, Draft, Effect, Event, Footprint, Message, MetaId, Operation, PlainRules,
    Recognise, Request, Set, Site, Token, Tuning, Verb, Welcome, create, receive, step,
};
use cheops_types::{KeptBody, ServiceName, SiteName};

use application::answered;
use check::{claims_numbers, summary};

use crate::Rng;

/// The hostile one.
const HOSTILE: usize = 0;
/// Events of one schedule.
pub const STEPS: u64 = 100;
/// Effects of one event: some per member, operation and answer.
const EFFECTS_MAX: usize = 2_000;
/// Messages that honest sites may exchange until they are at rest, no time passing.
const REST_MAX: usize = 20_000;
/// What a set may take, in bytes of JSON: a beginning, and so much for each byte that was sent.
const BYTES_MIN: usize = 200_000;
const BYTES_FACTOR: usize = 16;
/// What waits on the way, and what the hostile site remembers.
const MAIL_MAX: usize = 200;
const SEEN_MAX: usize = 60;

/// The set that the hostile site is no member of.
fn theirs() -> MetaId {
    MetaId::new("theirs")
}

struct Player {
    site: Site,
    sets: BTreeMap<MetaId, Set>,
    /// What it waits for from its application.
    open: Vec<(MetaId, Effect)>,
    /// Bytes that came for each set.
    came: BTreeMap<MetaId, usize>,
    /// The disk as it was, for an accident.
    copy: Option<(Site, BTreeMap<MetaId, Set>)>,
}

struct Arena {
    rng: Rng,
    now_ms: u64,
    tuning: Tuning,
    players: Vec<Player>,
    mail: Vec<(usize, Message)>,
    /// What the hostile site was sent, or sent itself as it should.
    seen: Vec<Message>,
    /// Operations of others that it holds, with their sets.
    ops: Vec<(MetaId, Operation)>,
    tokens: u128,
    steps: u64,
    /// The hostile site is heard of no more.
    is_over: bool,
    /// It does what ends the game soon, too: a site that was removed listens to nobody.
    removes: bool,
}

/// Plays the schedule of a seed; how many events it had, or what did not hold.
pub fn run(seed: u64) -> Result<u64, String> {
    let mut arena = Arena::new(seed);
    let played = panic::catch_unwind(AssertUnwindSafe(|| arena.play()));
    match played {
        Ok(Ok(())) => Ok(arena.steps),
        Ok(Err(what)) => Err(format!("{what} (step {})", arena.steps)),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            let text = text.unwrap_or("no words");
            Err(format!("panic: {text} (step {})", arena.steps))
        }
    }
}

fn name(at: usize) -> SiteName {
    SiteName::new(&format!("s{at}")).expect("a name")
}

impl Arena {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x0BAD_5EED);
        let sites = rng.between(2, 5) as usize;
        let players = (0..sites)
            .map(|at| Player {
                site: Site::new(name(at), 1).started(1_000 + at as u64),
                sets: BTreeMap::new(),
                open: Vec::new(),
                came: BTreeMap::new(),
                copy: None,
            })
            .collect();
        let tuning = Tuning {
            settle_ms: 50,
            retry_min_ms: 5,
            retry_max_ms: 50,
            blocked_retry_ms: 50,
            resend_min_ms: 20,
            resend_max_ms: 200,
            batch_max_ops: rng.between(1, 6) as usize,
            log_max_bytes: if rng.chance(300) { 1_500 } else { 1 << 20 },
            conflicts_max: 16,
            ..Tuning::default()
        };
        Self {
            rng,
            now_ms: 1_000_000,
            tuning,
            players,
            mail: Vec::new(),
            seen: Vec::new(),
            ops: Vec::new(),
            tokens: 0,
            steps: 0,
            is_over: false,
            removes: seed.is_multiple_of(4),
        }
    }

    fn play(&mut self) -> Result<(), String> {
        self.begin("shared", 0)?;
        self.begin("theirs", 1)?;
        while self.steps < STEPS {
            self.turn()?;
        }
        self.check_size()?;
        self.is_over = true;
        self.players[HOSTILE].open.clear();
        self.rest("endless")
    }

    /// A set of all sites from `first` on, known to all of them.
    fn begin(&mut self, meta: &str, first: usize) -> Result<(), String> {
        let sites = (first..self.players.len()).map(name).collect();
        let named = self.rng.chance(400);
        let birth = Birth {
            consistency: cheops_types::Consistency::Eventual,
            service: ServiceName::new("things").expect("a name"),
            kind: "thing".to_owned(),
            parents: Vec::new(),
            name: named.then(|| meta.to_owned()),
            sites,
            span: None,
            generation: 0,
        };
        let recognise = *self.rng.pick(&[
            Recognise::Nothing,
            Recognise::Key,
            Recognise::Marker,
            Recognise::ChosenId,
        ]);
        let draft = Draft {
            recognise,
            ..self.draft(Verb::Create(Box::new(birth)))
        };
        let at = self.rng.between(first as u64, self.players.len() as u64) as usize;
        let meta = MetaId::new(meta);
        let player = &mut self.players[at];
        let context = Context {
            now_ms: self.now_ms,
            tuning: &self.tuning,
            rules: &PlainRules,
        };
        let (set, effects) = create(&mut player.site, &meta, draft, &context);
        player.sets.insert(meta.clone(), set);
        self.release(at, &meta, effects)?;
        self.rest("beginning")
    }

    fn turn(&mut self) -> Result<(), String> {
        self.steps += 1;
        if self.steps.is_multiple_of(50) {
            self.check_size()?;
        }
        let at = self.rng.index(self.players.len());
        match self.rng.roll() % 100 {
            0..24 if !self.mail.is_empty() => {
                let which = self.rng.index(self.mail.len());
                let (to, message) = if self.rng.chance(100) {
                    self.mail[which].clone()
                } else {
                    self.mail.swap_remove(which)
                };
                self.deliver(to, message)
            }
            0..44 => self.answer_one(at),
            44..55 => self.write(at),
            55..59 => self.operate(at),
            59..64 => {
                self.now_ms += self.rng.between(1, 300);
                self.each_set(at, &Event::Wake)
            }
            64..66 => {
                let start = self.rng.roll() >> 12;
                let player = &mut self.players[at];
                player.site = player.site.clone().started(start);
                player.open.clear();
                self.each_set(at, &Event::Resume)
            }
            66..69 => {
                self.hello(at);
                Ok(())
            }
            69..71 => self.disk(at),
            71 if self.removes => self.put_out(),
            71..85 => self.campaign(),
            _ => {
                let to = self.rng.between(1, self.players.len() as u64) as usize;
                let message = self.forge(to);
                self.deliver(to, message)
            }
        }
    }

    fn draft(&mut self, verb: Verb) -> Draft {
        self.tokens += 1;
        let touches = match self.rng.index(3) {
            0 => Footprint::Whole,
            1 => Footprint::parts(["/x"]),
            _ => Footprint::parts(["/x", "/y/z"]),
        };
        Draft {
            token: Token(self.tokens),
            verb,
            touches,
            recognise: Recognise::Nothing,
            needs: Vec::new(),
            request: Request {
                method: "PUT".to_owned(),
                path: "/things/{id}".to_owned(),
                headers: Vec::new(),
                body: KeptBody::Inline(vec![b'x'; self.rng.index(200)].into()),
                scope: String::new(),
                caller: None,
                shares: Vec::new(),
            },
            conditions: None,
            credential: None,
            promised: self.rng.chance(100),
            remakes: false,
        }
    }

    /// Somebody writes at a site.
    fn write(&mut self, at: usize) -> Result<(), String> {
        let verb = match self.rng.index(8) {
            0..3 => Verb::Replace,
            5 => Verb::Action {
                commutes: self.rng.chance(500),
                idempotent: self.rng.chance(500),
            },
            6 if self.rng.chance(300) => Verb::Delete,
            _ => Verb::Merge,
        };
        let Some(meta) = self.some_set(at) else {
            return Ok(());
        };
        self.write_to(at, &meta, verb)
    }

    fn write_to(&mut self, at: usize, meta: &MetaId, verb: Verb) -> Result<(), String> {
        let draft = self.draft(verb);
        self.step(at, meta, Event::Request(draft))
    }

    /// An operator does something at a site. None lets the hostile one into a set that it is no member of.
    fn operate(&mut self, at: usize) -> Result<(), String> {
        let Some(meta) = self.some_set(at) else {
            return Ok(());
        };
        let first = usize::from(meta == theirs());
        let other = name(self.rng.between(first as u64, self.players.len() as u64) as usize);
        let set = &self.players[at].sets[&meta];
        let loser = set.conflicts().next().map(|conflict| conflict.loser.id.clone());
        let waiting = set.log().last().map(|entry| entry.op.id.clone());
        let event = match (self.rng.index(9), loser, waiting) {
            (0, _, _) => Event::Request(self.draft(Verb::Join { site: other, stay: 0 })),
            (1, _, _) => Event::Request(self.draft(Verb::Leave { site: other })),
            (2, _, _) if self.removes => Event::Request(self.draft(Verb::Expel { site: other })),
            (3, Some(loser), _) => Event::Request(self.draft(Verb::Dismiss { loser })),
            (4, Some(loser), _) => {
                self.tokens += 1;
                let (token, credential) = (Token(self.tokens), None);
                Event::Reapply {
                    loser,
                    token,
                    credential,
                }
            }
            (5, _, Some(operation)) => Event::Abandon { operation },
            (6, ..) => Event::Settle {
                executed: self.rng.chance(500),
                local: None,
            },
            (7, ..) => Event::Retry,
            _ => Event::Check,
        };
        self.step(at, &meta, event)
    }

    /// An honest site tells another one that the set goes on without it.
    fn put_out(&mut self) -> Result<(), String> {
        let to = self.rng.between(1, self.players.len() as u64) as usize;
        let by = self.rng.between(1, self.players.len() as u64) as usize;
        match self.credible(to, &theirs()).filter(|_| by != to) {
            Some(message) => {
                let message = Message {
                    from: name(by),
                    epoch: message.epoch + 1,
                    content: Content::Expelled,
                    ..message
                };
                self.deliver(to, message)
            }
            None => Ok(()),
        }
    }

    /// The disk of a site is copied, or put back.
    fn disk(&mut self, at: usize) -> Result<(), String> {
        let start = self.rng.roll() >> 12;
        let player = &mut self.players[at];
        let Some((site, sets)) = player.copy.take() else {
            player.copy = Some((player.site.clone(), player.sets.clone()));
            return Ok(());
        };
        (player.site, player.sets) = (site.started(start), sets);
        player.open.clear();
        self.each_set(at, &Event::Resume)
    }

    /// A site asks another one how old its store was. The hostile one says what it likes.
    fn hello(&mut self, at: usize) {
        let by = self.rng.index(self.players.len());
        if by == at {
            return;
        }
        let hello = self.players[at].site.hello();
        let here = name(at);
        let mut welcome = self.players[by].site.welcome(&here, &hello);
        if by == HOSTILE && self.rng.chance(300) {
            let age = Age {
                incarnation: self.number(),
                steps: self.number(),
                start: self.number(),
            };
            welcome = Welcome {
                start: welcome.start,
                known: vec![age; self.rng.index(3)],
            };
        }
        let now_ms = self.now_ms;
        self.players[at].site.welcomed(&name(by), welcome, now_ms);
    }

    fn some_set(&mut self, at: usize) -> Option<MetaId> {
        let sets: Vec<_> = self.players[at].sets.keys().cloned().collect();
        (!sets.is_empty()).then(|| self.rng.pick(&sets).clone())
    }

    fn each_set(&mut self, at: usize, event: &Event) -> Result<(), String> {
        for meta in self.players[at].sets.keys().cloned().collect::<Vec<_>>() {
            self.step(at, &meta, event.clone())?;
        }
        Ok(())
    }

    fn step(&mut self, at: usize, meta: &MetaId, event: Event) -> Result<(), String> {
        let context = Context {
            now_ms: self.now_ms,
            tuning: &self.tuning,
            rules: &PlainRules,
        };
        let player = &mut self.players[at];
        let Some(set) = player.sets.get_mut(meta) else {
            return Ok(());
        };
        let effects = step(&mut player.site, set, event, &context);
        self.release(at, meta, effects)
    }

    fn deliver(&mut self, to: usize, message: Message) -> Result<(), String> {
        let meta = message.set.clone();
        let is_stranger = message.from == name(HOSTILE) && meta == theirs();
        let bytes = serde_json::to_vec(&message).map_or(0, |bytes| bytes.len());
        let context = Context {
            now_ms: self.now_ms,
            tuning: &self.tuning,
            rules: &PlainRules,
        };
        let player = &mut self.players[to];
        *player.came.entry(meta.clone()).or_default() += bytes;
        let Some(set) = player.sets.get_mut(&meta) else {
            // Its own sets do not begin by the word of a stranger here: which ids exist, it cannot know.
            if is_stranger {
                return Ok(());
            }
            let (set, effects) = receive(&mut player.site, message, &context);
            player.sets.extend(set.map(|set| (meta.clone(), set)));
            return self.release(to, &meta, effects);
        };
        let is_hostile = message.from == name(HOSTILE);
        let claims = is_hostile && claims_numbers(&player.site, set, &message);
        // What the same moment would have made of the set without the message.
        let untouched = (is_stranger || claims).then(|| {
            let (mut site, mut set) = (player.site.clone(), set.clone());
            step(&mut site, &mut set, Event::Wake, &context);
            set
        });
        let content = format!("{:.60}", format!("{:?}", message.content));
        let effects = step(&mut player.site, set, Event::Message(message), &context);
        if untouched.is_some_and(|untouched| untouched != *set) {
            let what = if is_stranger {
                "untouched: a stranger has changed"
            } else {
                "numbers: claims of its own numbers have changed"
            };
            return Err(format!("{what} a set of s{to}: {content}"));
        }
        self.release(to, &meta, effects)
    }

    fn release(&mut self, at: usize, meta: &MetaId, effects: Vec<Effect>) -> Result<(), String> {
        self.players[at].site.grow();
        if effects.len() > EFFECTS_MAX {
            return Err(format!("effects: one event has {} of them", effects.len()));
        }
        for effect in effects {
            match effect {
                Effect::Send { to, mut message } => {
                    message.stamp(&self.players[at].site);
                    let to = (0..self.players.len()).find(|at| name(*at) == to);
                    self.send(at, to, message);
                }
                Effect::Execute(_) | Effect::Look { .. } | Effect::Read { .. } => {
                    let open = &mut self.players[at].open;
                    open.push((meta.clone(), effect));
                    // What nobody waits for any more is answered by nobody.
                    if open.len() > MAIL_MAX {
                        open.remove(0);
                    }
                }
                Effect::Forget => {
                    self.players[at].sets.remove(meta);
                }
                Effect::Answer { .. }
                | Effect::Progress { .. }
                | Effect::Moved(_)
                | Effect::Propose { .. } => {}
            }
        }
        Ok(())
    }

    fn send(&mut self, from: usize, to: Option<usize>, message: Message) {
        if from == HOSTILE || to == Some(HOSTILE) {
            self.remember(&message);
        }
        if self.mail.len() >= MAIL_MAX {
            let which = self.rng.index(self.mail.len());
            self.mail.swap_remove(which);
        }
        self.mail.extend(to.map(|to| (to, message)));
    }

    /// Everything arrives and every application answers, no time passing, until there is nothing left.
    fn rest(&mut self, what: &str) -> Result<(), String> {
        let mut last = Vec::new();
        for _ in 0..REST_MAX {
            let busy = (0..self.players.len()).find(|at| !self.players[*at].open.is_empty());
            if let Some(at) = busy {
                let (meta, effect) = self.players[at].open.remove(0);
                if let Some(event) = answered(&effect, 0, at) {
                    self.step(at, &meta, event)?;
                }
            } else if self.mail.is_empty() {
                return Ok(());
            } else {
                let (to, message) = self.mail.remove(0);
                let is_heard = to != HOSTILE && message.from != name(HOSTILE);
                if is_heard || !self.is_over {
                    last.push(summary(to, &message));
                    self.deliver(to, message)?;
                }
            }
        }
        let first = last.len().saturating_sub(8);
        let last = last[first..].join("; ");
        Err(format!(
            "{what}: no rest after {REST_MAX} messages and answers: {last}"
        ))
    }
}
