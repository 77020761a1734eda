//! Lies that only work together: each is put so that it would be believed.

use cheops_replica::{
    Carried, Content, Digest, Message, MetaId, OpId, Operation, Snapshot, Token, Vector, Verb,
};
use cheops_types::Stamp;

use super::{Arena, HOSTILE, application::answered, name};

/// Answers of an application in a row, at most.
const ANSWERS_MAX: usize = 40;

impl Arena {
    /// Some lies to one site, its application doing what it is asked in between; then somebody writes there.
    pub(super) fn campaign(&mut self) -> Result<(), String> {
        let to = self.rng.between(1, self.players.len() as u64) as usize;
        let meta = MetaId::new("shared");
        let stay = self.players[to].sets.get(&meta).map_or(0, |set| {
            let me = set.members().get(&name(to));
            me.map_or(0, |me| me.stay)
        });
        let stay = stay.saturating_add(self.rng.index(3) as u32);
        for _ in 0..=self.rng.index(3) {
            self.calm(to)?;
            let Some(message) = self.lie(to, &meta, stay) else {
                return Ok(());
            };
            self.deliver(to, message)?;
        }
        self.calm(to)?;
        self.write_to(to, &meta, Verb::Replace)?;
        self.calm(to)
    }

    /// The application of a site answers all that it was asked.
    fn calm(&mut self, at: usize) -> Result<(), String> {
        for _ in 0..ANSWERS_MAX {
            if self.players[at].open.is_empty() {
                break;
            }
            let (meta, effect) = self.players[at].open.remove(0);
            if let Some(event) = answered(&effect, 0, at) {
                self.step(at, &meta, event)?;
            }
        }
        Ok(())
    }

    fn lie(&mut self, to: usize, meta: &MetaId, stay: u32) -> Option<Message> {
        let mut message = self.credible(to, meta)?;
        match self.rng.index(6) {
            0 | 1 => {
                let snapshot = self.credible_snapshot(to, meta, stay)?;
                message.report.held.join(&snapshot.at);
                message.report.done = message.report.held.clone();
                message.content = Content::Snapshot(Box::new(snapshot));
            }
            2 | 3 => {
                let mut op = self.credible_op(to, meta)?;
                let site = name(to);
                op.verb = match self.rng.index(4) {
                    0 | 1 => Verb::Join { site, stay },
                    2 if self.removes => Verb::Expel { site },
                    _ => self.verb(to, Verb::Replace),
                };
                let credential = None;
                message.content = Content::Operations(vec![Carried { op, credential }]);
            }
            4 => {
                // What the victim itself wrote, and may have forgotten.
                let of = |(set, op): &&(MetaId, Operation)| set == meta && op.id.author.site == name(to);
                let ops = self.ops.iter().filter(of).map(|(_, op)| Carried {
                    op: op.clone(),
                    credential: None,
                });
                message.content = Content::Operations(ops.collect());
            }
            _ => {
                let at = self.players[to].sets.get(meta)?.done().clone();
                let digest = Digest(b"another".to_vec());
                let state = b"what a stranger wants".to_vec();
                message.content = if self.rng.chance(500) {
                    Content::State { at, state, digest }
                } else {
                    Content::Digest {
                        at,
                        digest,
                        mended: false,
                    }
                };
            }
        }
        self.only_signed(&mut message);
        Some(message)
    }

    /// A message that the victim has no reason to doubt.
    pub(super) fn credible(&mut self, to: usize, meta: &MetaId) -> Option<Message> {
        let mut message = self.blank(to);
        let set = self.players[to].sets.get(meta)?;
        message.set = meta.clone();
        message.epoch = set.epoch();
        let peer = set.peer_view(&name(HOSTILE));
        let report = &mut message.report;
        report.incarnation = peer.map_or(1, |peer| peer.incarnation.max(1));
        report.stay = set.members().get(&name(HOSTILE)).map_or(0, |it| it.stay);
        report.age.steps += 1_000_000 + self.steps;
        report.held = set.held().clone();
        report.done = set.done().clone();
        report.local = Some(cheops_replica::LocalId::new("s0-1"));
        Some(message)
    }

    /// The way back into a set that the hostile site is no member of.
    pub(super) fn return_of(&mut self, to: usize) -> Option<Message> {
        let meta = super::theirs();
        let mut message = self.credible(to, &meta)?;
        let stay = self.players[to].sets.get(&meta)?.members().get(&name(to))?.stay;
        let mut snapshot = self.credible_snapshot(to, &meta, stay)?;
        snapshot.at = self.players[to].sets.get(&meta)?.held().clone();
        snapshot.pruned = snapshot.at.clone();
        snapshot.members.get_mut(&name(to))?.stay = stay + 1;
        message.report.held = snapshot.at.clone();
        message.report.done = snapshot.at.clone();
        message.content = Content::Snapshot(Box::new(snapshot));
        Some(message)
    }

    fn credible_op(&mut self, to: usize, meta: &MetaId) -> Option<Operation> {
        let (_, op) = self.some_op()?;
        let mut op = self.own_op(to, meta, op);
        let set = self.players[to].sets.get(meta)?;
        op.id.author.incarnation = 1;
        op.id.author.stay = 0;
        op.id.seq = set.held().last(&op.id.author) + 1;
        op.after = set.done().clone();
        op.epoch = set.epoch();
        op.births.clear();
        op.needs.clear();
        op.time = Stamp {
            millis: self.now_ms,
            count: 0,
        };
        Some(op)
    }

    /// A state of all that the victim has, and of numbers that it may give one day.
    fn credible_snapshot(&mut self, to: usize, meta: &MetaId, stay: u32) -> Option<Snapshot> {
        let number = self.number();
        let mut author = self.author(to);
        (author.site, author.stay) = (name(to), stay);
        let mine = cheops_replica::Author {
            site: name(HOSTILE),
            incarnation: 1,
            stay: 0,
        };
        let set = self.players[to].sets.get(meta)?;
        let mut at = set.held().clone();
        let seq = at.last(&mine) + 1;
        at.raise(&OpId { author: mine, seq });
        at.raise(&OpId { author, seq: number });
        let members = set.members().clone();
        let record = set.record().clone();
        Some(Snapshot {
            record,
            members,
            expelled: [].into(),
            passages: [].into(),
            token: Token(self.rng.roll().into()),
            birth: Token(1),
            born: None,
            recognise: cheops_replica::Recognise::Nothing,
            pruned: if self.rng.chance(800) {
                at.clone()
            } else {
                Vector::new()
            },
            pruned_writes: Vector::new(),
            state: self.rng.chance(700).then(|| b"what a stranger wants".to_vec()),
            deleted: None,
            creates: [].into(),
            buried: Vec::new(),
            degraded: None,
            last: None,
            division: None,
            time: Stamp {
                millis: self.now_ms,
                count: 0,
            },
            log: Vec::new(),
            conflicts: Vec::new(),
            dismissed: [].into(),
            forgone: [].into(),
            credential: None,
            yours: None,
            at,
        })
    }
}
