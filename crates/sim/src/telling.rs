//! A failing schedule as a story: what happened, in the order of time, to the set concerned.

use cheops_replica::{Attempt, Effect, Event, Message, MetaId, Set};

use crate::{
    Errand, Happening, World,
    story::{Line, Seen, words},
    world::EPOCH_MS,
};

/// A story is read, not searched: of a longer one the middle is left out.
const LINES_MAX: usize = 160;
const WORDS_MAX_CHARS: usize = 400;

impl World {
    pub(crate) fn tell(&mut self, set: Option<&MetaId>, text: String) {
        let at_ms = self.now_ms - EPOCH_MS;
        if let Some(story) = &mut self.story {
            let set = set.cloned();
            story.lines.push(Line { at_ms, set, text });
        }
    }

    pub(crate) fn tell_site(&mut self, at: usize, what: &str) {
        self.tell(None, format!("{} {what}", self.nodes[at].name));
    }

    fn tell_of(&mut self, at: usize, set: &MetaId, what: &str) {
        let down = if self.nodes[at].up {
            ""
        } else {
            " (the site is down)"
        };
        self.tell(Some(set), format!("{} {what}{down}", self.nodes[at].name));
    }

    pub(crate) fn tell_happening(&mut self, happening: &Happening) {
        let Some(story) = &mut self.story else {
            return;
        };
        match happening {
            Happening::Write { node, set, draft } | Happening::Create { node, set, draft } => {
                story.tokens.insert(draft.token, set.clone());
                self.tell_of(*node, set, &format!("is asked to {}", words::draft(draft)));
            }
            Happening::Adopt { node, set, whole } => {
                let what = words::resource(whole);
                self.tell_of(*node, set, &format!("makes a set of what is there: {what}"));
            }
            Happening::Errand { node, set, errand } => {
                let what = match errand {
                    Errand::Dismiss => "has an operator who dismisses a conflict, if there is one",
                    Errand::Reapply => "has an operator who does again what lost, if anything did",
                    Errand::Retry => "has an operator who does not want to wait",
                    Errand::Settle => "has an operator who settles what is in doubt, if anything is",
                    Errand::Abandon => "has an operator who gives up what is stuck, if anything is",
                };
                self.tell_of(*node, set, what);
            }
            Happening::Deliver { to, message } => {
                let known = self.nodes[*to].set(&message.set).map(Set::held);
                if let Some(content) = words::content(message, known) {
                    let from = &message.from;
                    self.tell_of(*to, &message.set, &format!("hears from {from}: {content}"));
                }
            }
            Happening::Effect {
                node,
                set,
                instead: Some(instead),
                ..
            } => {
                let what = words::attempt(instead);
                self.tell_of(
                    *node,
                    set,
                    &format!("has an application that does it, and answers {what}"),
                );
            }
            Happening::Answer {
                node,
                life,
                set,
                event,
                ..
            } => {
                if let Event::Executed { attempt, .. } = &**event {
                    self.tell_answer(*node, *life, set, attempt);
                }
            }
            Happening::Cut { from, to, is } => {
                let (from, to) = (&self.nodes[*from].name, &self.nodes[*to].name);
                let what = if *is { "is cut" } else { "works again" };
                self.tell(None, format!("the way from {from} to {to} {what}"));
            }
            Happening::LoseStore(node) => self.tell_site(*node, "loses its store"),
            Happening::Effect { .. }
            | Happening::Meddle { .. }
            | Happening::Payload { .. }
            | Happening::Look { .. }
            | Happening::Wake { .. }
            | Happening::Check { .. }
            | Happening::Hello { .. }
            | Happening::Welcome { .. }
            | Happening::SetClock { .. }
            | Happening::Copy(_)
            | Happening::PutBack(_)
            | Happening::Crash(_)
            | Happening::Start(_) => {}
        }
    }

    /// An answer of the application, where it is not simply a success.
    fn tell_answer(&mut self, at: usize, life: u32, set: &MetaId, attempt: &Attempt) {
        let node = &self.nodes[at];
        if !node.up || node.life != life {
            self.tell(
                Some(set),
                format!("{} no longer hears its application's answer", node.name),
            );
        } else if !matches!(
            attempt,
            Attempt::Answered {
                status: 200..=399,
                ..
            }
        ) {
            let what = words::attempt(attempt);
            self.tell_of(at, set, &format!("hears from its application: {what}"));
        }
    }

    /// What an operator does; the rest is told where it happens.
    pub(crate) fn tell_event(&mut self, at: usize, set: &MetaId, event: &Event) {
        if self.story.is_none() {
            return;
        }
        let what = match event {
            Event::Settle { executed: true, .. } => {
                "is told by an operator that the execution in doubt happened".to_owned()
            }
            Event::Settle { executed: false, .. } => {
                "is told by an operator that the execution in doubt did not happen".to_owned()
            }
            Event::Credential { operation, .. } => {
                format!("is given a credential for {}", words::id(operation))
            }
            Event::Retry => "is told to try again".to_owned(),
            Event::Abandon { operation } => {
                format!("is told to give up {}", words::id(operation))
            }
            Event::Check if !self.healed => "is told to compare its replica".to_owned(),
            Event::Reapply { loser, token, .. } => {
                let what = format!("is asked to do {} again", words::id(loser));
                if let Some(story) = &mut self.story {
                    story.tokens.insert(*token, set.clone());
                }
                what
            }
            Event::Yield => "is told to give in".to_owned(),
            Event::Request(draft) if self.healed => {
                format!("is asked by an operator to {}", words::draft(draft))
            }
            _ => return,
        };
        self.tell_of(at, set, &what);
    }

    pub(crate) fn tell_effect(&mut self, at: usize, set: &MetaId, effect: &Effect) {
        if self.story.is_none() {
            return;
        }
        match effect {
            Effect::Execute(execution) => {
                let what = words::form(&execution.form);
                self.tell_of(at, set, &format!("asks its application: {what}"));
            }
            Effect::Answer { answer, .. } => {
                let what = words::answer(answer);
                self.tell_of(at, set, &format!("answers its client: {what}"));
            }
            _ => {}
        }
    }

    pub(crate) fn tell_lost(&mut self, from: usize, to: usize, message: &Message, how: &str) {
        if self.story.is_none() {
            return;
        }
        let known = self.nodes[to].set(&message.set).map(Set::held);
        if let Some(content) = words::content(message, known) {
            let (from, to) = (&self.nodes[from].name, &self.nodes[to].name);
            let text = format!("{how} on the way from {from} to {to}: {content}");
            self.tell(Some(&message.set), text);
        }
    }

    /// What a step has changed on the disk.
    pub(crate) fn tell_commit(&mut self, at: usize, meta: &MetaId) {
        let Some(story) = &mut self.story else {
            return;
        };
        let Some(set) = self.nodes[at].disk.sets.get(meta) else {
            return;
        };
        let now = Seen::of(set);
        let before = story.seen.remove(&(at, meta.clone())).unwrap_or_default();
        let changes = before.changes(&now, set);
        story.seen.insert((at, meta.clone()), now);
        for change in changes {
            self.tell_of(at, meta, &change);
        }
    }

    /// The whole story of the set that the first violation is about, or of all.
    pub(crate) fn tell_story(&self) -> Vec<String> {
        let first = self.oracle.violations.first().map_or("", String::as_str);
        let set = self.set_concerned(first);
        let lines = self.story.iter().flat_map(|story| &story.lines);
        let lines = lines.filter(|line| set.is_none() || line.set.is_none() || line.set == set);
        // What was dropped explains nothing, unless that is what went wrong.
        let is_about_pruning = first.starts_with("pruned:");
        let lines = lines.filter(|line| is_about_pruning || !line.text.contains(" keeps "));
        let shown = |line: &Line| {
            let of = match &line.set {
                Some(of) if set.is_none() => format!("{of}: "),
                _ => String::new(),
            };
            let at_s = line.at_ms as f64 / 1000.0;
            format!("{at_s:8.3} s  {of}{}", bounded(&line.text))
        };
        let mut story = shorten(lines.map(shown).collect());
        story.push("in the end:".to_owned());
        let sets = set.map_or_else(|| self.sets(), |set| vec![set]);
        story.extend(sets.iter().flat_map(|set| self.tell_ending(set)));
        if let Some(invariant) = first.split(':').next().filter(|name| !name.is_empty()) {
            story.push(format!("wanted ({invariant}): {}", words::wanted(invariant)));
            story.push(format!("found: {}", bounded(first)));
        }
        story
    }

    /// The set that a violation names, or whose request or replica it names.
    fn set_concerned(&self, violation: &str) -> Option<MetaId> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let words: Vec<_> = violation.split(|c| !is_part(c)).collect();
        let sets = self.sets();
        // The first that is named: others may be in what the operations refer to.
        let of = |word: &&str| sets.iter().find(|set| set.as_str() == *word);
        let named = words.iter().find_map(of);
        let subject = words.iter().filter(|word| !word.is_empty()).nth(1)?;
        let tokens = || self.story.iter().flat_map(|story| &story.tokens);
        let asked = || tokens().find(|(token, _)| format!("{token:?}") == *subject);
        let made = || {
            let mut made = self.nodes.iter().flat_map(|node| &node.app.made);
            let (token, _) = made.find(|(_, local)| local.as_str() == *subject)?;
            tokens().find(|(of, _)| *of == token)
        };
        let about = named.or_else(|| asked().or_else(made).map(|(_, set)| set));
        about.cloned()
    }

    /// What each site has of a set in the end.
    fn tell_ending(&self, meta: &MetaId) -> Vec<String> {
        let mut lines = Vec::new();
        for node in &self.nodes {
            let Some(set) = node.set(meta) else {
                continue;
            };
            let replica = set.local().map_or("no replica".to_owned(), |local| {
                let resource = node.app.resources.get(local);
                let state = resource.map_or("which is not there".to_owned(), words::resource);
                format!("the replica {local}: {state}")
            });
            lines.push(format!("  {} {meta} has {replica}", node.name));
            lines.push(format!("     {}", bounded(&standing(set))));
        }
        lines
    }
}

fn standing(set: &Set) -> String {
    let members: Vec<_> = set.members().keys().map(ToString::to_string).collect();
    let mut parts = vec![format!(
        "{:?} of {}, has executed {}",
        set.standing(),
        members.join(" "),
        words::vector(set.done())
    )];
    if set.held() != set.done() {
        parts.push(format!("holds {}", words::vector(set.held())));
    }
    if set.is_deleted() {
        parts.push("deleted".to_owned());
    }
    if let Some(degraded) = set.degraded() {
        parts.push(format!("degraded: {}", degraded.status));
    }
    let conflicts: Vec<_> = set
        .conflicts()
        .map(|conflict| words::id(&conflict.loser.id))
        .collect();
    if !conflicts.is_empty() {
        parts.push(format!("conflicts: {}", conflicts.join(" ")));
    }
    parts.join("; ")
}

/// The beginning of what is too long, up to the end of its line.
fn bounded(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let cut: String = line.chars().take(WORDS_MAX_CHARS).collect();
    if cut.len() < text.len() { cut + " ..." } else { cut }
}

/// Leaves the middle out of what is too long: a failure has its cause at the beginning and shows at the end.
fn shorten(mut lines: Vec<String>) -> Vec<String> {
    let excess = lines.len().saturating_sub(LINES_MAX);
    if excess > 0 {
        let begin = LINES_MAX * 2 / 3;
        let note = format!("            ... {excess} lines left out ...");
        lines.splice(begin..begin + excess, [note]);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_story_keeps_its_ends() {
        let lines: Vec<_> = (0..LINES_MAX + 40).map(|n| n.to_string()).collect();
        let short = shorten(lines);
        assert_eq!(short.len(), LINES_MAX + 1);
        assert_eq!(short.first().map(String::as_str), Some("0"));
        assert_eq!(short.last(), Some(&(LINES_MAX + 39).to_string()));
    }

    #[test]
    fn a_dump_is_cut() {
        assert_eq!(bounded("short"), "short");
        assert_eq!(bounded("one line\nand another"), "one line ...");
        assert!(bounded(&"x".repeat(9999)).len() < WORDS_MAX_CHARS + 10);
    }
}
