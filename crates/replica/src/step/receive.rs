//! What other sites send.

use std::collections::BTreeSet;

use cheops_types::{SiteName, Stamp};

use super::{Step, sane};
use crate::{
    Carried, Content, Context, Decision, Degraded, Effect, Event, Message, Report, Set, Site, Standing,
    State, Vector, Verb, Why, set::bounded, step,
};

/// Takes a message about a set that this site does not know: the beginning of one, or nothing.
pub fn receive(site: &mut Site, message: Message, context: &Context<'_>) -> (Option<Set>, Vec<Effect>) {
    if is_nonsense(site, None, &message) || site.is_before_hello(&message.from, message.report.age) {
        return (None, Vec::new());
    }
    if is_for_earlier_life(site, &message) {
        return (None, vec![introduce(site, &message, context)]);
    }
    let here = site.name();
    let set = match &message.content {
        Content::Operations(carried) => carried.iter().find_map(|carried| match &carried.op.verb {
            // It was accepted at one of its own sites; nobody else begins a set among others.
            Verb::Create(birth)
                if birth.sites.contains(here) && birth.sites.contains(&carried.op.id.author.site) =>
            {
                Some(Set::born(&message.set, birth))
            }
            _ => None,
        }),
        Content::Snapshot(snapshot) => Some(Set::new(snapshot.record.clone(), snapshot.members.clone())),
        _ => None,
    };
    let Some(mut set) = set else {
        // One that knows of this life by a hello may wait for a word of this site, if only about its clock, before it can
        // bring the set.
        let is_asked = message.incarnation != 0 && message.report.ask;
        let word = is_asked.then(|| introduce(site, &message, context));
        return (None, word.into_iter().collect());
    };
    let effects = step(site, &mut set, Event::Message(message), context);
    // A beginning that could not be taken, because its time is too far ahead, comes again.
    let has_begun = !set.held.is_empty();
    (has_begun.then_some(set), effects)
}

/// Whether a message says what cannot be: then nothing of it counts.
fn is_nonsense(site: &Site, set: Option<&Set>, message: &Message) -> bool {
    message.objection().is_some() || sane::does_not_fit(site, set, message)
}

/// Whether the sender means a store that this site has lost.
fn is_for_earlier_life(site: &Site, message: &Message) -> bool {
    message.incarnation != 0 && message.incarnation != site.incarnation()
}

/// Tells a sender that this site's store has begun a new life.
fn introduce(site: &Site, message: &Message, context: &Context<'_>) -> Effect {
    let report = Report {
        incarnation: site.incarnation(),
        age: site.age(),
        stay: 0,
        held: Vector::new(),
        done: Vector::new(),
        local: None,
        degraded: None,
        left: false,
        ask: false,
        waits: Vec::new(),
        bare: Vec::new(),
    };
    Effect::Send {
        to: message.from.clone(),
        message: Message {
            set: message.set.clone(),
            from: site.name().clone(),
            incarnation: message.report.incarnation,
            epoch: 0,
            now_ms: context.now_ms,
            report,
            content: Content::Report,
        },
    }
}

impl Step<'_> {
    pub(super) fn message(&mut self, message: Message) {
        if is_nonsense(self.site, Some(&*self.set), &message) {
            return;
        }
        let Message {
            from,
            epoch,
            report,
            content,
            incarnation,
            now_ms,
            ..
        } = message;
        if self.site.is_before_hello(&from, report.age) {
            return;
        }
        if self.set.members.contains_key(&from) {
            self.note_ended(&report.held);
        }
        if incarnation != 0 && incarnation != self.site.incarnation() {
            // Two whose stores have both begun a new life would tell each other for ever, each in words that the other
            // takes for somebody else's.
            if self
                .set
                .peers
                .get(&from)
                .is_some_and(|peer| peer.incarnation != 0)
            {
                self.peer_reset(&from, report.incarnation);
            }
            self.note_earlier_life(&from, incarnation);
            // A report says what the set is and how it is: that is nobody's business who was never in it.
            if self.set.knows(&from) {
                self.tell.insert(from);
            }
            return;
        }
        let age = report.age;
        self.site.hear_of(&from, age);
        let is_stranger = !self.set.members.contains_key(&from);
        let ahead_max_ms = self.context.tuning.ahead_max_ms;
        let is_in_line = now_ms <= self.now_ms().saturating_add(ahead_max_ms);
        self.is_speaker_in_line = is_in_line;
        if !is_stranger {
            let peer = self.set.peer(&from);
            peer.in_line = Some(is_in_line);
            peer.speaks_to = incarnation;
        }
        if let Content::Expelled = content {
            // Only who is asked says so, and only members are.
            if is_stranger {
                return;
            }
            self.learn_leaving(&from, &report);
            return self.told_expelled(epoch, &report);
        }
        if is_stranger
            && self.set.held.is_empty()
            && let Content::Operations(carried) = content
        {
            // The beginning of the set, from any holder: one that joined later is no member yet here.
            let carried = self.of_members(carried);
            self.take(carried);
            if !self.set.held.is_empty() {
                self.tell.insert(from);
            }
            return;
        }
        if is_stranger || self.set.standing != Standing::Member {
            return self.stranger(&from, epoch, &report, content);
        }
        let known = self.set.peer(&from).incarnation;
        let is_stale = report.incarnation < known || !self.is_current_stay(&from, &report);
        if is_stale {
            // Unless it is this site that is behind: one of the two was removed, and is back, without this one
            // having heard.
            let is_back = self
                .set
                .members
                .get(&from)
                .is_some_and(|it| it.stay < report.stay);
            match content {
                Content::Snapshot(snapshot) if is_back => self.take_snapshot(&from, epoch, *snapshot),
                Content::Snapshot(snapshot) => self.return_with(&from, epoch, *snapshot),
                _ => {}
            }
            return;
        }
        if known != 0 && report.incarnation > known {
            return self.peer_reset(&from, report.incarnation);
        }
        // What was overtaken by a later message tells of a replica that may be another one by now: a digest of when it was bad, with
        // the later word that it is good, would make every replica pass for good that is as bad. The sender tells again.
        let is_overtaken = report.age < self.set.peer(&from).age;
        // It asks for a digest, not for what it lacks.
        let is_digest = matches!(content, Content::Digest { .. });
        let behind = self.learn(&from, &report) && !is_digest;
        match content {
            Content::Operations(carried) => {
                self.take(carried);
                self.tell.insert(from.clone());
            }
            Content::Snapshot(snapshot) => {
                self.take_snapshot(&from, epoch, *snapshot);
                self.tell.insert(from.clone());
            }
            Content::Digest { .. } | Content::State { .. } if is_overtaken => {}
            Content::Digest { at, digest, mended } => {
                self.take_digest(&from, at, digest, mended, report.ask);
            }
            Content::State { at, state, digest } => self.take_state(&from, &at, state, &digest),
            Content::Report | Content::Expelled => {}
        }
        if report.ask && !is_digest {
            self.tell.insert(from.clone());
        }
        if behind {
            // It is there and lacks something: no need to wait for the next try.
            self.peer_up_soon(&from);
        }
    }

    /// Of the beginning of a set, as a stranger has brought it, what was written by those that it began with and those that
    /// they have let in. The stranger is one of these, or has no say.
    fn of_members(&self, mut carried: Vec<Carried>) -> Vec<Carried> {
        let mut members: BTreeSet<_> = self.set.members.keys().cloned().collect();
        carried.retain(|Carried { op, .. }| {
            let is_member = members.contains(&op.id.author.site);
            if let Verb::Join { site, .. } = &op.verb
                && is_member
            {
                members.insert(site.clone());
            }
            is_member
        });
        carried
    }

    /// Learns how far a member is. True when it does not have what was thought to be on its way.
    fn learn(&mut self, from: &SiteName, report: &Report) -> bool {
        let (done, incarnation) = (self.set.done.clone(), report.incarnation);
        let now_ms = self.set.orphaned_ms.map(|_| self.now_ms());
        let peer = self.set.peer(from);
        peer.heard_ms = now_ms.unwrap_or(peer.heard_ms);
        let before = (peer.held.clone(), peer.done.clone());
        let mut has_news = false;
        peer.incarnation = incarnation;
        // A site that knows nothing of the set still needs to be brought in.
        if !(peer.needs_snapshot && report.held.is_empty()) {
            peer.learn(&report.held, &report.done, &done);
            // A report that was overtaken by a later one says what was, not what is.
            if report.age >= peer.age {
                peer.age = report.age;
                has_news = peer.learn_waits(report) | peer.learn_bare(report);
                // Of one that has lost its store, this is what tells it about its own replica.
                peer.local.clone_from(&report.local);
                let degraded = report.degraded.clone().map(|degraded| Degraded {
                    said: bounded(degraded.said),
                    ..degraded
                });
                if peer.degraded.is_some() != degraded.is_some() {
                    // What it told of its replica before was of another state: taken together with this, a bad replica
                    // would pass for a good one.
                    peer.digest = None;
                }
                peer.degraded = degraded;
            }
        }
        peer.left |= report.left;
        let moved = before != (peer.held.clone(), peer.done.clone());
        if moved {
            peer.tries = 0;
        }
        if moved || has_news {
            self.progress(from);
        }
        report.ask
    }

    /// Messages of an earlier stay are about operations that the site has given up since.
    fn is_current_stay(&self, from: &SiteName, report: &Report) -> bool {
        let is_new_life = self
            .set
            .peers
            .get(from)
            .is_some_and(|peer| peer.incarnation != 0 && peer.incarnation < report.incarnation);
        is_new_life
            || self
                .set
                .members
                .get(from)
                .is_some_and(|member| member.stay == report.stay)
    }

    /// A site that has left may not know this one any more, but says how far it was.
    fn learn_leaving(&mut self, from: &SiteName, report: &Report) {
        let leaving = self
            .set
            .members
            .get(from)
            .is_some_and(|member| member.leaving.is_some());
        if leaving && self.is_current_stay(from, report) {
            self.learn(from, report);
        }
    }

    fn progress(&mut self, from: &SiteName) {
        let here = self.here().clone();
        let Some(peer) = self.set.peers.get(from) else {
            return;
        };
        let mine = self.set.log.values().map(|entry| &entry.op);
        let moved = mine.filter(|op| op.id.author.site == here && peer.held.includes(&op.id));
        self.effects.extend(moved.map(|op| Effect::Progress {
            operation: op.id.clone(),
            token: op.token,
        }));
    }

    /// Takes note of a time. False when it is too far ahead, and so is the clock of the site that it comes from, as
    /// far as this one knows: then it has to wait. What a clock that was wrong once has stamped does not.
    pub(super) fn witness(&mut self, time: Stamp, of: &SiteName) -> bool {
        let (now_ms, ahead_max_ms) = (self.now_ms(), self.context.tuning.ahead_max_ms);
        let is_near = self.site.clock.witness(time, now_ms, ahead_max_ms).is_ok();
        is_near || self.is_in_line(of)
    }

    /// Whether the clock of a site is known not to be too far ahead.
    pub(super) fn is_in_line(&self, site: &SiteName) -> bool {
        let peer = self.set.peers.get(site);
        // Of one that has left nothing more comes, and no word about its clock either.
        let has_left = !self.set.members.contains_key(site);
        has_left || site == self.here() || peer.is_some_and(|peer| peer.in_line == Some(true))
    }

    /// Puts operations into the log: those that are new, each after its author's earlier ones.
    fn take(&mut self, carried: Vec<Carried>) {
        let mine = self.set.author(self.site);
        for Carried { op, credential } in carried {
            if self.set.held.includes(&op.id) {
                if let Some(entry) = self.set.entry_mut(&op.id)
                    && entry.credential.is_none()
                {
                    entry.credential = credential;
                }
                continue;
            }
            // What this site writes now comes from nowhere else. What it wrote before its store was set back does.
            if !self.set.held.precedes(&op.id) || op.id.author == mine {
                continue;
            }
            // What a group has decided is in order by that, whatever the clocks of its sites say.
            let is_in_time = self.is_for_group(&op.verb) || self.witness(op.time, &op.id.author.site);
            self.site.hear_of(&op.id.author.site, op.age);
            if self.is_for_group(&op.verb) && self.accepts(op.token) {
                // What this site was to decide was decided elsewhere, and it was not told: no member has what is undecided.
                self.decided(Decision::Executed(Box::new(Carried { op, credential })));
                continue;
            }
            let id = op.id.clone();
            if id.author.site == *self.here() {
                // This store has forgotten it, and its replica may have it: what is executed now would come on top.
                self.note_past();
            }
            self.insert(op, credential);
            if !is_in_time && let Some(entry) = self.set.entry_mut(&id) {
                entry.state = State::Waiting(Why::Quarantined);
            }
        }
    }

    /// A message from a site that is not a member as far as this one knows.
    fn stranger(&mut self, from: &SiteName, epoch: u64, report: &Report, content: Content) {
        if let Content::Snapshot(snapshot) = content {
            let is_believed = self.set.yielded || self.set.knows(from) || self.is_sponsored(&snapshot);
            if self.set.standing != Standing::Member && is_believed {
                self.return_with(from, epoch, *snapshot);
            }
            return;
        }
        let is_known = self.set.members.contains_key(from);
        let has_left = self.set.standing == Standing::Left;
        // Two sites that answer each other's answers would never stop.
        let wants_answer = report.ask || !matches!(content, Content::Report);
        // A site that is not known here may have joined just now; it is not told that it is out.
        let is_out = self
            .set
            .passages
            .get(from)
            .is_some_and(|passage| report.stay <= passage.stay);
        if self.set.standing != Standing::Expelled && wants_answer && (has_left || is_known || is_out) {
            // A site that has left still says how far it was to those that have not heard.
            let content = if is_known || has_left {
                Content::Report
            } else {
                Content::Expelled
            };
            let message = self.compose(from, content, false);
            let message = Message {
                incarnation: report.incarnation,
                ..message
            };
            self.effects.push(Effect::Send {
                to: from.clone(),
                message,
            });
        }
    }
}
