//! One event, one set.

mod accept;
mod adopt;
mod compare;
mod confirm;
mod decided;
mod install;
mod membership;
mod operator;
mod orphan;
mod outcome;
mod past;
mod payload;
mod prune;
mod receive;
mod record;
mod resume;
mod sane;
mod ship;
mod silence;
mod snapshot;
mod work;

use std::collections::BTreeSet;

use cheops_types::SiteName;

pub use adopt::adopt;
pub use decided::decided;
pub use receive::receive;

use crate::{
    Answer, Context, Draft, Effect, Event, MetaId, Presence, Reason, Set, Site, Standing, Token, Verb, Wait,
    set::are_alike,
};

/// Lets something happen to a set. The caller persists `site` and `set` before it releases any effect.
pub fn step(site: &mut Site, set: &mut Set, event: Event, context: &Context<'_>) -> Vec<Effect> {
    if set.fenced().is_some() {
        return beyond_the_fence(site, set, event, context);
    }
    let mut step = Step::new(site, set, context);
    step.handle(event);
    step.finish()
}

/// Of a set that is fenced off only an operator can make something again.
fn beyond_the_fence(site: &mut Site, set: &mut Set, event: Event, context: &Context<'_>) -> Vec<Effect> {
    match event {
        Event::Unfence => {
            set.fenced = None;
            // As after a start: what was under way when it broke may or may not have happened.
            step(site, set, Event::Resume, context)
        }
        Event::Drop => vec![Effect::Forget],
        Event::Request(draft) => vec![Effect::Answer {
            token: draft.token,
            answer: Answer::NotHere(Reason::Fenced),
        }],
        _ => Vec::new(),
    }
}

/// Begins a set with its create. `draft.verb` must be [`Verb::Create`], this site among its sites.
pub fn create(site: &mut Site, meta: &MetaId, draft: Draft, context: &Context<'_>) -> (Set, Vec<Effect>) {
    let Verb::Create(birth) = &draft.verb else {
        panic!("a set begins with a create");
    };
    let mut set = Set::born(meta, birth);
    if birth.name.is_none() {
        // Nobody has heard of it. A name may have had its set before, in what this store has forgotten.
        set.begun = site.start();
    }
    let step = Step::new(site, &mut set, context);
    step.set.queue.push_back(draft);
    let effects = step.finish();
    (set, effects)
}

/// A step under way.
struct Step<'s> {
    site: &'s mut Site,
    set: &'s mut Set,
    context: &'s Context<'s>,
    effects: Vec<Effect>,
    /// Who is to hear how far this site is.
    tell: BTreeSet<SiteName>,
    /// What operations waited for before.
    waits: Vec<Wait>,
    /// What the set was before, to operations of other sets that refer to it.
    presence: Presence,
    /// The clock of the site whose message this is about is not too far ahead.
    is_speaker_in_line: bool,
}

impl<'s> Step<'s> {
    fn new(site: &'s mut Site, set: &'s mut Set, context: &'s Context<'s>) -> Self {
        set.shorten_pauses(context.now_ms, context.tuning);
        if set.life == 0 {
            set.life = site.incarnation();
        }
        Self {
            waits: set.waits(),
            presence: set.presence(),
            site,
            set,
            context,
            effects: Vec::new(),
            tell: BTreeSet::new(),
            is_speaker_in_line: false,
        }
    }

    fn handle(&mut self, event: Event) {
        self.note_own_life();
        let Some(event) = self.confirmed(event) else {
            return;
        };
        match event {
            Event::Request(draft) => self.request(draft),
            Event::Message(message) => self.message(message),
            Event::Executed { ticket, attempt } => self.executed(ticket, attempt),
            Event::Broken { ticket, settle_ms } => self.broken(ticket, settle_ms),
            Event::Recast { ticket, recast } => self.recast(ticket, *recast),
            Event::Decided(decision) => self.decided(decision),
            Event::Looked { ticket, found } => self.looked(ticket, found),
            Event::Read { ticket, state } => self.read(ticket, state),
            Event::Missing { ticket } => self.vanished(ticket),
            // Nothing by itself; the last two are for sets that are fenced off.
            Event::Wake | Event::Unfence | Event::Drop => {}
            Event::Resume => self.resume(),
            Event::PeerUp(site) => self.peer_up(&site),
            Event::PeerMissed(site) => self.peer_missed(&site),
            Event::PeerUnsure(site) => self.peer_unsure(&site),
            Event::PeerReset { site, incarnation } => self.peer_reset(&site, incarnation),
            Event::Payload { hash, is_here } => self.payload(&hash, is_here),
            Event::Check => {
                // A digest that was read earlier says nothing about what somebody did since.
                self.set.digest = None;
                for peer in self.set.peers.values_mut() {
                    peer.digest = None;
                }
                self.set.check = false;
                self.set.want_comparison();
            }
            Event::Expire { before_ms } => self.expire(before_ms),
            Event::Settle { executed, local } => self.settle(executed, local),
            Event::Credential {
                operation,
                credential,
            } => self.credential(&operation, credential),
            Event::Retry => self.retry_now(),
            Event::Abandon { operation } => self.abandon(&operation),
            Event::Claim { local } => self.claim(local),
            Event::Reapply {
                loser,
                token,
                credential,
            } => self.reapply(&loser, token, credential),
            Event::Yield => {
                self.set.standing = Standing::Expelled;
                self.set.yielded = true;
            }
        }
    }

    /// What follows from any event: work that can begin, what is to be sent, what can be dropped.
    fn finish(mut self) -> Vec<Effect> {
        self.give_up_orphans();
        self.end_what_came_back();
        self.advance();
        self.pursue_comparison();
        for peer in self.set.peers.values_mut() {
            peer.settle(&self.set.done);
        }
        self.release_members();
        self.tell_presence();
        self.prune();
        if !are_alike(&self.waits, &self.set.waits()) {
            self.tell_all();
        }
        self.ship();
        self.effects
    }

    fn here(&self) -> &SiteName {
        self.site.name()
    }

    fn now_ms(&self) -> u64 {
        self.context.now_ms
    }

    fn answer(&mut self, token: Token, answer: Answer) {
        self.effects.push(Effect::Answer { token, answer });
    }

    /// All other members are to hear how far this site is.
    fn tell_all(&mut self) {
        let others = self.set.others(self.site.name());
        self.tell.extend(others);
    }
}
