//! What a hostile site sends.

use cheops_replica::{
    Author, Carried, Cause, Conflict, Content, Degraded, Digest, Entry, Footprint, Member, Message, MetaId,
    Need, OpId, Operation, Outcome, Passage, Rank, Recognise, Report, Snapshot, Standing, State, Token,
    Vector, Verb, Wait, Why,
};
use cheops_types::{SiteName, Stamp};

use super::{Arena, HOSTILE, SEEN_MAX, name, theirs};

impl Arena {
    /// The hostile site keeps what it can use later.
    pub(super) fn remember(&mut self, message: &Message) {
        let ops: Vec<_> = match &message.content {
            Content::Operations(carried) => carried.iter().map(|carried| carried.op.clone()).collect(),
            Content::Snapshot(snapshot) => snapshot.log.iter().map(|entry| entry.op.clone()).collect(),
            _ => Vec::new(),
        };
        for op in ops {
            let known = (message.set.clone(), op);
            if !self.ops.contains(&known) {
                self.ops.push(known);
            }
        }
        let surplus = self.ops.len().saturating_sub(SEEN_MAX);
        self.ops.drain(..surplus);
        if self.seen.len() >= SEEN_MAX {
            let which = self.rng.index(SEEN_MAX);
            self.seen.swap_remove(which);
        }
        self.seen.push(message.clone());
    }

    /// A number that somebody might not have thought of.
    pub(super) fn number(&mut self) -> u64 {
        let near = self.rng.roll() % 12;
        *self.rng.pick(&[
            near,
            near,
            near,
            1 << 24,
            1 << 48,
            (1 << 48) - 1,
            (1 << 48) + 1,
            1 << 52,
            1 << 53,
            u64::MAX - 1,
            u64::MAX,
        ])
    }

    fn stay(&mut self) -> u32 {
        let near = (self.rng.roll() % 4) as u32;
        *self.rng.pick(&[near, near, near, near, 1 << 24, u32::MAX])
    }

    fn somebody(&mut self) -> SiteName {
        name(self.rng.index(self.players.len()))
    }

    /// Who might write, or have written: above all the victim.
    pub(super) fn author(&mut self, to: usize) -> Author {
        let site = if self.rng.chance(500) {
            name(to)
        } else {
            self.somebody()
        };
        let victim = &self.players[to].site;
        let (incarnation, start) = (victim.incarnation(), victim.start());
        let number = self.number();
        Author {
            site,
            incarnation: *self
                .rng
                .pick(&[incarnation, incarnation, start, 1, incarnation + 1, number]),
            stay: self.stay(),
        }
    }

    fn id(&mut self, to: usize) -> OpId {
        if let Some((_, op)) = self.some_op().filter(|_| self.steps.is_multiple_of(2)) {
            return op.id;
        }
        OpId {
            author: self.author(to),
            seq: self.number(),
        }
    }

    fn rank(&mut self, to: usize) -> Rank {
        Rank {
            time: self.stamp(),
            id: self.id(to),
        }
    }

    fn stamp(&mut self) -> Stamp {
        let near = self.now_ms + self.rng.roll() % 100;
        let number = self.number();
        Stamp {
            millis: *self.rng.pick(&[near, near, near, number]),
            count: *self.rng.pick(&[0, 1, u32::MAX]),
        }
    }

    pub(super) fn some_op(&mut self) -> Option<(MetaId, Operation)> {
        (!self.ops.is_empty()).then(|| self.rng.pick(&self.ops).clone())
    }

    /// A vector that begins with what the victim has, most of the time.
    fn vector(&mut self, to: usize, meta: &MetaId) -> Vector {
        let set = self.players[to].sets.get(meta);
        let mut vector = match (self.rng.index(4), set) {
            (0, Some(set)) => set.held().clone(),
            (1 | 2, Some(set)) => set.done().clone(),
            _ => Vector::new(),
        };
        for _ in 0..self.rng.index(3) {
            let (author, seq) = (self.author(to), self.number());
            vector.raise(&OpId { author, seq });
        }
        if self.rng.chance(20) {
            for incarnation in 0..self.rng.roll() % 2_000 {
                let author = Author {
                    site: name(HOSTILE),
                    incarnation,
                    stay: 0,
                };
                vector.raise(&OpId { author, seq: 1 });
            }
        }
        vector
    }

    /// A message for `to`, as far from the truth as it may be.
    pub(super) fn forge(&mut self, to: usize) -> Message {
        // A stranger that knows the set well, and says that it lets the victim in again.
        let theirs = self.players[to].sets.get(&theirs());
        let is_out = theirs.is_some_and(|set| set.standing() != Standing::Member);
        if self.rng.chance(if is_out { 500 } else { 30 })
            && let Some(message) = self.return_of(to)
        {
            return message;
        }
        let mut message = if self.seen.is_empty() || self.rng.chance(100) {
            self.blank(to)
        } else {
            self.rng.pick(&self.seen).clone()
        };
        message.from = name(HOSTILE);
        if self.rng.chance(150) {
            message.set = super::theirs();
        }
        let meta = message.set.clone();
        if let Some(set) = self.players[to].sets.get(&meta)
            && self.rng.chance(700)
        {
            // Up to date, so that it is listened to.
            message.incarnation = self.players[to].site.incarnation();
            message.epoch = set.epoch();
            let known = set.peer_view(&name(HOSTILE));
            message.report.incarnation = known.map_or(1, |peer| peer.incarnation.max(1));
            message.report.stay = set.members().get(&name(HOSTILE)).map_or(0, |it| it.stay);
            message.report.age.steps += 1_000;
        }
        for _ in 0..self.rng.index(3) {
            self.spoil_report(to, &meta, &mut message);
        }
        match self.rng.index(10) {
            0..3 => {}
            3..6 => message.content = self.operations(to, &meta),
            6..8 => {
                let snapshot = self.snapshot(to, &meta, &mut message.report);
                message.content = snapshot.map_or(Content::Report, |it| Content::Snapshot(Box::new(it)));
            }
            _ => message.content = self.words(to, &meta),
        }
        self.only_signed(&mut message);
        message
    }

    pub(super) fn blank(&mut self, to: usize) -> Message {
        Message {
            set: MetaId::new("shared"),
            from: name(HOSTILE),
            incarnation: self.players[to].site.incarnation(),
            epoch: 0,
            now_ms: self.now_ms,
            report: Report {
                incarnation: 1,
                age: self.players[HOSTILE].site.age(),
                stay: 0,
                held: Vector::new(),
                done: Vector::new(),
                local: None,
                degraded: None,
                left: false,
                ask: false,
                waits: Vec::new(),
                bare: Vec::new(),
            },
            content: Content::Report,
        }
    }

    fn spoil_report(&mut self, to: usize, meta: &MetaId, message: &mut Message) {
        let number = self.number();
        let report = &mut message.report;
        match self.rng.index(18) {
            0 => message.epoch = number,
            1 => message.now_ms = number,
            2 => message.incarnation = number,
            3 => report.incarnation = number,
            4 => report.age.incarnation = number,
            5 => report.age.steps = number,
            6 => report.stay = self.stay(),
            7 => report.left = !report.left,
            8 => report.ask = !report.ask,
            9 => report.local = None,
            10 => {
                report.degraded = Some(Degraded {
                    operation: None,
                    status: 500,
                    said: Some("x".repeat(3_000)),
                });
            }
            11 => report.done = report.held.clone(),
            12 => {
                let wait = Wait {
                    operation: self.id(to),
                    why: Why::InDoubt,
                    said: Some("x".repeat(2_000)),
                };
                message.report.waits = vec![wait; self.rng.index(40)];
            }
            13 => message.report.bare = vec![self.id(to); self.rng.index(200)],
            _ => {
                let held = self.vector(to, meta);
                let report = &mut message.report;
                report.held.join(&held);
                if self.rng.chance(700) {
                    report.done = report.held.clone();
                }
            }
        }
    }

    /// Operations of the hostile site itself, and of others as they are.
    fn operations(&mut self, to: usize, meta: &MetaId) -> Content {
        let mut carried = Vec::new();
        for _ in 0..=self.rng.index(4) {
            let op = match self.some_op() {
                Some((_, op)) if self.rng.chance(250) => op,
                Some((_, op)) => self.own_op(to, meta, op),
                None => continue,
            };
            carried.push(Carried { op, credential: None });
        }
        Content::Operations(carried)
    }

    /// An operation that the hostile site's own key signs.
    pub(super) fn own_op(&mut self, to: usize, meta: &MetaId, mut op: Operation) -> Operation {
        let author = Author {
            site: name(HOSTILE),
            incarnation: *self.rng.pick(&[1, 1, 1, 2]),
            stay: if self.rng.chance(900) { 0 } else { self.stay() },
        };
        let set = self.players[to].sets.get(meta);
        let held = set.map_or(0, |set| set.held().last(&author));
        let done = set.map(|set| set.done().clone());
        let number = self.number();
        let seq = *self
            .rng
            .pick(&[held + 1, held + 1, held + 1, held + 1, held + 2, number]);
        op.id = OpId { author, seq };
        op.time = self.stamp();
        op.after = match done.filter(|_| self.rng.chance(700)) {
            Some(done) => done,
            None => self.vector(to, meta),
        };
        if !self.rng.chance(300) {
            self.tokens += 1;
            op.token = Token(self.tokens);
        }
        for _ in 0..self.rng.index(2) {
            let birth = self.id(to);
            op.births.insert(birth);
        }
        if self.rng.chance(100) {
            op.epoch = self.number();
        }
        if self.rng.chance(100) {
            op.needs = vec![Need {
                set: theirs(),
                gone: self.rng.chance(500),
            }];
        }
        if self.rng.chance(100) {
            op.touches = Footprint::parts([]);
        }
        op.recognise = *self.rng.pick(&[
            Recognise::Nothing,
            Recognise::Key,
            Recognise::Marker,
            Recognise::ChosenId,
        ]);
        if self.rng.chance(700) {
            op.verb = self.verb(to, op.verb);
        }
        op
    }

    pub(super) fn verb(&mut self, to: usize, verb: Verb) -> Verb {
        let site = if self.rng.chance(500) {
            name(to)
        } else {
            self.somebody()
        };
        match self.rng.index(10) {
            0 | 1 => Verb::Join {
                site,
                stay: self.stay(),
            },
            2 if self.removes => Verb::Leave { site },
            3 if self.removes => Verb::Expel { site },
            4 => Verb::Dismiss { loser: self.id(to) },
            5 | 6 => {
                let lost: Vec<_> = (0..self.rng.index(3)).filter_map(|_| self.some_op()).collect();
                let mut verb = Verb::Forgo {
                    lost: lost.into_iter().map(|(_, op)| op).collect(),
                };
                let own = self.ops.iter().find(|(_, op)| op.id.author.site == name(HOSTILE));
                if let Some((_, op)) = own.cloned() {
                    for _ in 0..self.rng.index(9) {
                        let op = Operation { verb, ..op.clone() };
                        verb = Verb::Forgo { lost: vec![op] };
                    }
                }
                verb
            }
            7 if self.removes => Verb::Delete,
            8 => Verb::Replace,
            _ => verb,
        }
    }

    fn words(&mut self, to: usize, meta: &MetaId) -> Content {
        let at = self.vector(to, meta);
        let word = *self.rng.pick(&[&b"as it is"[..], b"another"]);
        let digest = Digest(word.to_vec());
        match self.rng.index(5) {
            0 if self.removes => Content::Expelled,
            0 | 1 => Content::Report,
            2 => Content::Digest {
                at,
                digest,
                mended: self.rng.chance(500),
            },
            _ => Content::State {
                at,
                state: b"what a stranger wants".to_vec(),
                digest,
            },
        }
    }

    /// A state that the victim might take, with claims of all kinds.
    fn snapshot(&mut self, to: usize, meta: &MetaId, report: &mut Report) -> Option<Snapshot> {
        let set = self.players[to].sets.get(meta)?.clone();
        let mut at = if self.rng.chance(800) {
            set.held().clone()
        } else {
            self.vector(to, meta)
        };
        for _ in 0..self.rng.index(3) {
            let (author, seq) = (self.author(to), self.number());
            at.raise(&OpId { author, seq });
        }
        if self.rng.chance(800) {
            report.held.join(&at);
            report.done = report.held.clone();
        }
        let mut members = set.members().clone();
        let me = Member {
            stay: self.stay(),
            joined: None,
            leaving: None,
        };
        match self.rng.index(6) {
            0 => drop(members.remove(&name(to))),
            1 => drop(members.insert(self.somebody(), me)),
            2 => {
                if let Some(member) = members.get_mut(&name(to)) {
                    member.stay = member.stay.saturating_add(1);
                }
            }
            _ => {}
        }
        let mut log = Vec::new();
        for _ in 0..self.rng.index(5) {
            let Some((_, op)) = self.some_op() else { break };
            let op = if self.rng.chance(500) {
                op
            } else {
                self.own_op(to, meta, op)
            };
            log.push(entry(op, self.rng.chance(300)));
        }
        let pruned = match self.rng.index(4) {
            0 => self.vector(to, meta),
            1 => Vector::new(),
            _ => at.clone(),
        };
        if self.rng.chance(700) {
            log.retain(|entry| !pruned.includes(&entry.op.id));
        }
        let conflict = self.some_op().map(|(_, op)| Conflict {
            loser: op.clone(),
            cause: if self.rng.chance(500) {
                Cause::TooLate
            } else {
                Cause::Winner(Box::new(op))
            },
        });
        let passage = Passage {
            rank: self.rank(to),
            stay: self.stay(),
            entered: None,
        };
        let deleted = self.rng.chance(200).then(|| self.id(to));
        let creates = (0..self.rng.index(3)).map(|_| (self.id(to), Token(1))).collect();
        Some(Snapshot {
            record: set.record().clone(),
            members,
            expelled: (0..self.rng.index(2))
                .map(|_| (self.somebody(), self.number()))
                .collect(),
            passages: (0..self.rng.index(2))
                .map(|_| (self.somebody(), passage.clone()))
                .collect(),
            token: Token(self.rng.roll().into()),
            birth: Token(1),
            born: self.rng.chance(300).then(|| self.id(to)),
            recognise: *self
                .rng
                .pick(&[Recognise::Nothing, Recognise::Key, Recognise::Marker]),
            pruned_writes: if self.rng.chance(500) {
                pruned.clone()
            } else {
                Vector::new()
            },
            pruned,
            state: self.rng.chance(700).then(|| b"what a stranger wants".to_vec()),
            deleted,
            creates,
            buried: vec![Token(1)],
            degraded: None,
            last: self.rng.chance(300).then(|| self.rank(to)),
            division: None,
            time: self.stamp(),
            log,
            conflicts: conflict.into_iter().collect(),
            dismissed: (0..self.rng.index(2)).map(|_| self.id(to)).collect(),
            forgone: (0..self.rng.index(2)).map(|_| self.id(to)).collect(),
            credential: None,
            yours: None,
            at,
        })
    }

    /// What others have not signed like that never gets as far as the engine.
    pub(super) fn only_signed(&self, message: &mut Message) {
        let meta = message.set.clone();
        let is_good = |op: &Operation| self.is_signed(&meta, op);
        match &mut message.content {
            Content::Operations(carried) => carried.retain(|carried| is_good(&carried.op)),
            Content::Snapshot(snapshot) => {
                snapshot.log.retain(|entry| is_good(&entry.op));
                snapshot.conflicts.retain(|conflict| {
                    let winner = match &conflict.cause {
                        Cause::Winner(winner) => Some(&**winner),
                        _ => None,
                    };
                    is_good(&conflict.loser) && winner.is_none_or(is_good)
                });
            }
            _ => {}
        }
    }

    fn is_signed(&self, meta: &MetaId, op: &Operation) -> bool {
        let is_known = || self.ops.iter().any(|(of, known)| of == meta && known == op);
        let is_whole = match &op.verb {
            Verb::Forgo { lost } => lost.iter().all(|op| self.is_signed(meta, op)),
            _ => true,
        };
        is_whole && (op.id.author.site == name(HOSTILE) || is_known())
    }
}

fn entry(op: Operation, has_failed: bool) -> Entry {
    let state = if has_failed {
        State::Done(Outcome::Refused { status: 400 })
    } else {
        State::Waiting(Why::Turn)
    };
    Entry {
        op,
        state,
        credential: None,
        redo: has_failed,
        until_ms: u64::MAX,
        tries: u32::MAX,
        said: None,
        bare: true,
        doubted: true,
        silent: u32::MAX,
    }
}
