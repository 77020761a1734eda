//! How slowly a client may take an answer.
//!
//! Only the time counts in which something lies ready for the client and it does not take it. An
//! application that is silent for hours costs its client nothing.

use cheops_types::{Limit, Limits};

/// The bounds of a client's slowness.
#[derive(Debug, Clone, Copy)]
pub struct PaceOptions {
    /// Longest time in which it takes nothing, and the time over which its rate is judged.
    pub stall_ms: u64,
    pub min_bytes_per_s: u64,
}

impl From<&Limits> for PaceOptions {
    fn from(limits: &Limits) -> Self {
        Self {
            stall_ms: limits.answer_stall_ms,
            min_bytes_per_s: limits.answer_rate_min_bytes_per_s,
        }
    }
}

impl PaceOptions {
    /// How often one who waits for a client looks at it: four times in the time that it has.
    pub(crate) fn look_every_ms(&self) -> u64 {
        self.stall_ms / 4
    }
}

/// What a client of HTTP/2 may have let in at once and go on reading before it lets in more. Clients say that they
/// have room again when half of their window is empty, and their windows have megabytes: at 16 KB/s there are
/// minutes between two such signs of a client that never stopped reading.
const LET_IN_MAX_BYTES: u64 = 256 * 1024;

/// How one client has taken what it was sent.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Whether something lay ready when this was looked at last, and when that was.
    is_owed: bool,
    looked_at_ms: u64,
    /// Since when nothing was taken of what lies ready.
    still_since_ms: u64,
    taken_bytes: u64,
    /// The time in which something lay ready, and what was taken, since the rate was judged last.
    waited_ms: u64,
    judged_bytes: u64,
    /// How much of what it let in at once a client may still be reading; 0 where it is seen to read.
    let_in_max_bytes: u64,
    let_in_bytes: u64,
    was_still: bool,
}

impl Pace {
    /// Of one answer over HTTP/2, of which only the window is seen.
    pub(crate) fn by_window() -> Self {
        Self {
            let_in_max_bytes: LET_IN_MAX_BYTES,
            ..Self::default()
        }
    }

    /// Takes note of what a client took in all, and whether more lies ready for it; the limit that it hits,
    /// if it is too slow.
    pub(crate) fn look(
        &mut self,
        now_ms: u64,
        is_owed: bool,
        taken_bytes: u64,
        options: &PaceOptions,
    ) -> Option<Limit> {
        let moved_bytes = taken_bytes - self.taken_bytes;
        let has_moved = moved_bytes > 0;
        if self.is_owed {
            self.waited_ms += now_ms.saturating_sub(self.looked_at_ms);
        }
        // What was just let in says nothing about how long the client took for what it had before.
        let limit = if has_moved || self.let_in_max_bytes == 0 {
            self.judge(options)
        } else {
            None
        };
        if has_moved {
            let before_bytes = if self.was_still { 0 } else { self.let_in_bytes };
            self.let_in_bytes = (before_bytes + moved_bytes).min(self.let_in_max_bytes);
        }
        if !self.is_owed || has_moved {
            self.still_since_ms = now_ms;
        }
        self.was_still = is_owed && !has_moved;
        self.looked_at_ms = now_ms;
        self.is_owed = is_owed;
        self.taken_bytes = taken_bytes;
        if is_owed && now_ms - self.still_since_ms >= self.may_be_still_ms(options) {
            return Some(Limit::AnswerStall);
        }
        limit
    }

    fn may_be_still_ms(&self, options: &PaceOptions) -> u64 {
        let reading_ms = self.let_in_bytes * 1000 / options.min_bytes_per_s.max(1);
        options.stall_ms + reading_ms
    }

    /// The rate is judged once the client has kept us waiting for a whole window, so that it has that long
    /// to begin with.
    fn judge(&mut self, options: &PaceOptions) -> Option<Limit> {
        if self.waited_ms < options.stall_ms {
            return None;
        }
        let taken_bytes = self.taken_bytes - self.judged_bytes;
        let enough_bytes = options.min_bytes_per_s.saturating_mul(self.waited_ms) / 1000;
        self.judged_bytes = self.taken_bytes;
        self.waited_ms = 0;
        (taken_bytes < enough_bytes).then_some(Limit::AnswerRate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: PaceOptions = PaceOptions {
        stall_ms: 60_000,
        min_bytes_per_s: 1024,
    };

    /// Looks once a second at a client that owes all the time, while `taken` says how much more it took by
    /// then; when the client was found too slow, and why.
    fn watch(mut pace: Pace, seconds: u64, taken: impl Fn(u64) -> u64) -> Option<(u64, Limit)> {
        let mut total = 0;
        (0..seconds).find_map(|second| {
            total += taken(second);
            let limit = pace.look(second * 1000, true, total, &OPTIONS)?;
            Some((second, limit))
        })
    }

    #[test]
    fn a_client_that_takes_nothing_has_the_stall_time() {
        assert_eq!(
            watch(Pace::default(), 1000, |_| 0),
            Some((60, Limit::AnswerStall))
        );
        assert_eq!(
            watch(Pace::by_window(), 1000, |_| 0),
            Some((60, Limit::AnswerStall))
        );
        let once = |second| if second == 30 { 1_000_000 } else { 0 };
        assert_eq!(watch(Pace::default(), 1000, once), Some((90, Limit::AnswerStall)));
    }

    #[test]
    fn a_client_that_takes_too_little_has_one_window() {
        let (second, limit) = watch(Pace::default(), 1000, |_| 1000).unwrap();
        assert!(
            (60..62).contains(&second) && limit == Limit::AnswerRate,
            "{second}"
        );
        // What it took quickly is of no help in the windows after that.
        let slows_down = |second| if second < 10 { 1 << 30 } else { 500 };
        let (second, limit) = watch(Pace::default(), 1000, slows_down).unwrap();
        assert!(
            (120..125).contains(&second) && limit == Limit::AnswerRate,
            "{second}"
        );
    }

    #[test]
    fn a_client_that_is_quick_enough_goes_on() {
        assert_eq!(watch(Pace::default(), 10_000, |_| 1100), None);
        let in_bursts = |second| if second % 50 == 49 { 64 * 1024 } else { 0 };
        assert_eq!(watch(Pace::default(), 10_000, in_bursts), None);
    }

    #[test]
    fn a_client_with_a_large_window_is_still_while_it_reads() {
        // 5 MiB at 20 KiB/s: a sign every 256 s.
        let steps = |second| if second % 256 == 0 { 5 << 20 } else { 0 };
        assert_eq!(watch(Pace::by_window(), 10_000, steps), None);
        let stops = |second| if second == 0 { 5 << 20 } else { 0 };
        assert_eq!(
            watch(Pace::by_window(), 10_000, stops),
            Some((60 + 256, Limit::AnswerStall))
        );
        // One who lets in little by little has no more than others.
        let drops = |second| if second % 50 == 0 { 1024 } else { 0 };
        let (second, limit) = watch(Pace::by_window(), 10_000, drops).unwrap();
        assert!(second <= 150 && limit == Limit::AnswerRate, "{second}");
    }

    #[test]
    fn silence_of_the_application_is_nobodys_fault() {
        for mut pace in [Pace::default(), Pace::by_window()] {
            for hour in 0..100 {
                let now_ms = hour * 3_600_000;
                assert_eq!(pace.look(now_ms, true, hour, &OPTIONS), None);
                assert_eq!(pace.look(now_ms + 10, false, hour + 1, &OPTIONS), None);
            }
        }
    }
}
