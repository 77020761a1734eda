//! Some sites, and what each step asked for.

use std::collections::{BTreeMap, BTreeSet};

use cheops_replica::{
    Answer, Attempt, Birth, Content, Context, Digest, Draft, Effect, Entry, Event, Execution, Footprint,
    Form, LocalId, Message, MetaId, PlainRules, Proposal, Recognise, Record, Request, Rules, Set, Site,
    Token, Tuning, Verb, adopt, create, decided, receive, step,
};
use cheops_types::{Consistency, KeptBody, ServiceName, SiteName};

pub(crate) struct Lab {
    pub(crate) sites: BTreeMap<&'static str, (Site, Option<Set>)>,
    pub(crate) now_ms: u64,
    pub(crate) tuning: Tuning,
    /// What each application's replica is when it is read.
    pub(crate) states: BTreeMap<String, Vec<u8>>,
    /// Everything that an application has answered.
    pub(crate) executed: Vec<Execution>,
    /// Sites where the name is taken: a create is refused.
    pub(crate) taken: BTreeSet<String>,
    /// What is another set's replica, at every site.
    pub(crate) anothers: Anothers,
    /// Sites that nothing reaches for now, and what waits for them.
    pub(crate) away: BTreeSet<&'static str>,
    pub(crate) mail: Vec<(String, Message)>,
    tokens: u128,
    pub(crate) consistency: Consistency,
}

/// The ordinary rules, at a site that has other sets.
#[derive(Default)]
pub(crate) struct Anothers(pub(crate) BTreeSet<LocalId>);

impl Rules for Anothers {
    fn is_anothers(&self, _: &Record, local: &LocalId) -> bool {
        self.0.contains(local)
    }
}

/// What one step asked for.
#[derive(Default)]
pub(crate) struct Asked {
    pub(crate) sent: Vec<(String, Message)>,
    pub(crate) execute: Vec<Execution>,
    pub(crate) read: Vec<u64>,
    pub(crate) answers: Vec<Answer>,
    /// Callers that are to hear how far their writes are.
    pub(crate) progress: Vec<Token>,
    /// The set is to be forgotten.
    pub(crate) forgets: bool,
    /// What waits in other sets for this one is to look again.
    pub(crate) moved: bool,
    /// What the group of a strong set is to note.
    pub(crate) proposed: Vec<(Token, Proposal)>,
}

pub(crate) fn name(text: &str) -> SiteName {
    SiteName::new(text).unwrap()
}

impl Asked {
    /// The same, where the replica is not read.
    pub(crate) fn without_reads(self) -> Self {
        Self {
            read: Vec::new(),
            ..self
        }
    }
}

fn asked(effects: Vec<Effect>) -> Asked {
    let mut asked = Asked::default();
    for effect in effects {
        match effect {
            Effect::Send { to, message } => asked.sent.push((to.to_string(), message)),
            Effect::Execute(execution) => asked.execute.push(execution),
            Effect::Read { ticket, .. } => asked.read.push(ticket),
            Effect::Answer { answer, .. } => asked.answers.push(answer),
            Effect::Progress { token, .. } => asked.progress.push(token),
            Effect::Forget => asked.forgets = true,
            Effect::Moved(_) => asked.moved = true,
            Effect::Propose { token, proposal } => asked.proposed.push((token, proposal)),
            Effect::Look { .. } => {}
        }
    }
    asked
}

impl Lab {
    pub(crate) fn new(sites: &[&'static str]) -> Self {
        let site = |at: &&'static str| (*at, (Site::new(name(at), 1), None));
        Self {
            sites: sites.iter().map(site).collect(),
            now_ms: 1_000,
            tuning: Tuning::default(),
            states: BTreeMap::new(),
            executed: Vec::new(),
            taken: BTreeSet::new(),
            anothers: Anothers::default(),
            away: BTreeSet::new(),
            mail: Vec::new(),
            tokens: 0,
            consistency: Consistency::Eventual,
        }
    }

    pub(crate) fn draft(&mut self, verb: Verb, touches: Footprint, recognise: Recognise) -> Draft {
        self.tokens += 1;
        Draft {
            token: Token(self.tokens),
            verb,
            touches,
            recognise,
            needs: Vec::new(),
            request: Request {
                method: "PUT".into(),
                path: "/things/{}".into(),
                headers: Vec::new(),
                body: KeptBody::EMPTY,
                scope: String::new(),
                caller: None,
                shares: Vec::new(),
            },
            conditions: None,
            credential: None,
            promised: false,
            remakes: false,
        }
    }

    pub(crate) fn replace(&mut self) -> Draft {
        self.draft(Verb::Replace, Footprint::Whole, Recognise::Nothing)
    }

    pub(crate) fn action(&mut self) -> Draft {
        let verb = Verb::Action {
            commutes: false,
            idempotent: false,
        };
        self.draft(verb, Footprint::Whole, Recognise::Nothing)
    }

    pub(crate) fn step(&mut self, at: &str, event: Event) -> Asked {
        let (site, set) = self.sites.get_mut(at).unwrap();
        let context = Context {
            now_ms: self.now_ms,
            tuning: &self.tuning,
            rules: &self.anothers,
        };
        let mut effects = match (set, event) {
            (Some(set), event) => step(site, set, event, &context),
            (set, Event::Message(message)) => {
                let (born, effects) = receive(site, message, &context);
                *set = born;
                effects
            }
            (set, Event::Decided(decision)) => {
                let (born, effects) = decided(site, &MetaId::new("m"), decision, &context);
                *set = born;
                effects
            }
            _ => panic!("{at} has no set"),
        };
        site.grow();
        for effect in &mut effects {
            if let Effect::Send { message, .. } = effect {
                message.stamp(site);
            }
        }
        asked(effects)
    }

    pub(crate) fn create(&mut self, at: &'static str, recognise: Recognise) -> Asked {
        self.create_with(at, recognise, false)
    }

    pub(crate) fn create_with(&mut self, at: &'static str, recognise: Recognise, promised: bool) -> Asked {
        let birth = self.birth(None);
        let draft = Draft {
            promised,
            ..self.draft(Verb::Create(Box::new(birth)), Footprint::Whole, recognise)
        };
        self.begin(at, draft)
    }

    /// The create of a name that the client chose.
    pub(crate) fn named(&mut self) -> Draft {
        let birth = self.birth(Some("web".to_owned()));
        self.draft(
            Verb::Create(Box::new(birth)),
            Footprint::Whole,
            Recognise::Nothing,
        )
    }

    fn birth(&self, chosen: Option<String>) -> Birth {
        Birth {
            service: ServiceName::new("things").unwrap(),
            kind: "thing".into(),
            parents: Vec::new(),
            name: chosen,
            sites: self.sites.keys().map(|site| name(site)).collect::<BTreeSet<_>>(),
            span: None,
            generation: 0,
            consistency: self.consistency,
        }
    }

    /// A set begins at a site.
    pub(crate) fn begin(&mut self, at: &'static str, draft: Draft) -> Asked {
        let (site, set) = self.sites.get_mut(at).unwrap();
        let context = Context {
            now_ms: self.now_ms,
            tuning: &self.tuning,
            rules: &PlainRules,
        };
        let (born, effects) = create(site, &MetaId::new("m"), draft, &context);
        site.grow();
        *set = Some(born);
        asked(effects)
    }

    /// A set of `at` alone, with a resource that was there before.
    pub(crate) fn adopt(&mut self, at: &'static str) -> Asked {
        let birth = Birth {
            service: ServiceName::new("things").unwrap(),
            kind: "thing".into(),
            parents: Vec::new(),
            name: None,
            sites: BTreeSet::new(),
            span: None,
            generation: 0,
            consistency: Consistency::Eventual,
        };
        self.tokens += 1;
        let token = Token(self.tokens);
        let (site, set) = self.sites.get_mut(at).unwrap();
        let context = Context {
            now_ms: self.now_ms,
            tuning: &self.tuning,
            rules: &PlainRules,
        };
        let (meta, local) = (MetaId::new("m"), LocalId::new("found"));
        let (born, effects) = adopt(site, &meta, birth, local, token, Recognise::Marker, &context);
        *set = Some(born);
        asked(effects)
    }

    /// A change of the set's record only.
    pub(crate) fn record(&mut self, verb: Verb) -> Draft {
        self.draft(verb, Footprint::parts([]), Recognise::Nothing)
    }

    pub(crate) fn set(&self, at: &str) -> &Set {
        self.sites[at].1.as_ref().unwrap()
    }

    /// The application answers what a site asked of it.
    pub(crate) fn answer(&mut self, at: &str, asked: &Asked, status: u16) -> Asked {
        let execution = &asked.execute[0];
        self.executed.push(execution.clone());
        let made = matches!(execution.form, Form::Create { .. } | Form::CreateFrom { .. }) && status == 201;
        if let (200..=299, Form::CreateFrom { state } | Form::Overwrite { state, .. }) =
            (status, &execution.form)
        {
            self.states.insert(at.to_owned(), state.clone());
        }
        let attempt = Attempt::Answered {
            status,
            local: made.then(|| LocalId::new(&format!("{at}-1"))),
            said: None,
        };
        let ticket = execution.ticket;
        self.step(at, Event::Executed { ticket, attempt })
    }

    /// Delivers everything, the applications answering 200, until there is nothing left.
    pub(crate) fn settle(&mut self, first: Asked) {
        self.settle_at("", first);
    }

    /// The same, where the site that was asked may have something to execute.
    pub(crate) fn settle_at(&mut self, at: &str, first: Asked) {
        let mut queue = vec![(at.to_owned(), first)];
        let mut from = Vec::new();
        while let Some((at, asked)) = queue.pop() {
            if !asked.execute.is_empty() {
                let makes = matches!(
                    asked.execute[0].form,
                    Form::Create { .. } | Form::CreateFrom { .. }
                );
                let status = match makes {
                    true if self.taken.contains(&at) => 409,
                    true => 201,
                    false => 200,
                };
                let next = self.answer(&at, &asked, status);
                queue.push((at.clone(), next));
            }
            for ticket in &asked.read {
                let state = self.states.get(&at).cloned().unwrap_or_default();
                let state = Some((state.clone(), Digest(state)));
                let next = self.step(
                    &at,
                    Event::Read {
                        ticket: *ticket,
                        state,
                    },
                );
                queue.push((at.clone(), next));
            }
            from.extend(asked.sent);
            while queue.is_empty() && !from.is_empty() {
                let (to, message) = from.remove(0);
                if self.away.contains(to.as_str()) {
                    self.mail.push((to, message));
                    continue;
                }
                let next = self.step(&to, Event::Message(message));
                queue.push((to, next));
            }
        }
    }

    /// A site can be reached again: what waited for it arrives.
    pub(crate) fn returns(&mut self, site: &str) {
        self.away.remove(site);
        let (sent, mail) = std::mem::take(&mut self.mail)
            .into_iter()
            .partition(|(to, _)| to == site);
        self.mail = mail;
        let arrived = Asked {
            sent,
            ..Asked::default()
        };
        self.settle(arrived);
    }

    /// Time passes, and everybody does what is due.
    pub(crate) fn wait(&mut self, rounds: u32) {
        for _ in 0..rounds {
            self.now_ms += 120_000;
            for at in self.sites.keys().copied().collect::<Vec<_>>() {
                if self.sites[at].1.is_some() {
                    let asked = self.step(at, Event::Wake);
                    self.settle_at(at, asked);
                }
            }
        }
    }

    /// All sites have the resource.
    pub(crate) fn created(sites: &[&'static str]) -> Self {
        let mut lab = Self::new(sites);
        let first = sites[0];
        let asked = lab.create(first, Recognise::Nothing);
        let asked = lab.answer(first, &asked, 201);
        lab.settle(asked);
        lab
    }

    pub(crate) fn write(&mut self, at: &'static str, draft: Draft) -> Asked {
        let asked = self.step(at, Event::Request(draft));
        self.answer(at, &asked, 200)
    }
}

/// A snapshot of a sender that no longer keeps its own operations: only a state helps whoever lacks them.
pub(crate) fn dropped(mut message: Message) -> Message {
    if let Content::Snapshot(snapshot) = &mut message.content {
        let (log, from) = (std::mem::take(&mut snapshot.log), &message.from);
        let (own, rest) = log
            .into_iter()
            .partition(|entry| entry.op.id.author.site == *from);
        snapshot.log = rest;
        let own: Vec<Entry> = own;
        for entry in &own {
            snapshot.pruned.raise(&entry.op.id);
        }
    }
    message
}
