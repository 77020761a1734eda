//! One execution: does it panic, take too long, or take too much memory.

use std::{
    cell::RefCell,
    fmt, fs,
    panic::{self, AssertUnwindSafe},
    sync::Once,
    time::{Duration, Instant},
};

use crate::memory;

/// What a short input may take, also in a build that is not optimised.
const TIME_MAX: Duration = Duration::from_millis(200);
/// What each of its bytes may take beside that: with 64 KiB, what grows with the square takes far more.
const TIME_PER_BYTE: Duration = Duration::from_micros(20);
/// What an input may have resident at its peak, beside what it is itself.
const MEMORY_FACTOR: u64 = 64;
/// Resident memory comes in pages and arenas; less than this is noise.
const MEMORY_SLACK_BYTES: u64 = 4 * 1024 * 1024;

/// What is wrong with an input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    Panic {
        message: String,
        place: String,
    },
    Slow {
        took: Duration,
    },
    Hungry {
        bytes: u64,
    },
    /// Something that only the caller can see.
    Broken(String),
}

impl Finding {
    /// Whether two findings are of the same kind at the same place, so that one input may stand for the other.
    pub fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Panic { place, .. }, Self::Panic { place: other, .. }) => place == other,
            (Self::Broken(what), Self::Broken(other)) => unquoted(what) == unquoted(other),
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Panic { message, place } => write!(f, "panics at {place}: {message}"),
            Self::Slow { took } => write!(f, "takes {} ms", took.as_millis()),
            Self::Hungry { bytes } => write!(f, "takes {bytes} bytes of memory"),
            Self::Broken(what) => f.write_str(what),
        }
    }
}

/// What a text says apart from what it quotes.
fn unquoted(text: &str) -> String {
    let parts = text.split(['`', '"']).step_by(2);
    parts.collect()
}

thread_local! {
    /// What the last panic of this thread said, and where.
    static LAST: RefCell<(String, String)> = RefCell::default();
}

/// Runs inputs of one target.
#[derive(Clone, Copy)]
pub struct Judge {
    run: fn(&[u8]) -> bool,
}

impl Judge {
    /// From here on panics of this process are silent.
    pub fn new(run: fn(&[u8]) -> bool) -> Self {
        static SILENCE: Once = Once::new();
        SILENCE.call_once(|| {
            panic::set_hook(Box::new(|info| {
                let payload = info.payload();
                let text = payload.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
                let message = text.unwrap_or("no text").to_owned();
                let place = info.location().map(ToString::to_string).unwrap_or_default();
                LAST.with(|last| last.replace((message, place)));
            }));
        });
        Self { run }
    }

    /// Whether the input can be read, or what is wrong with it. Memory is not looked at.
    pub fn look(self, input: &[u8]) -> Result<bool, Finding> {
        let max = TIME_MAX + TIME_PER_BYTE * u32::try_from(input.len()).unwrap_or(u32::MAX);
        let (is_read, took) = self.time(input)?;
        if took <= max {
            return Ok(is_read);
        }
        // The clock also runs while others have the core: what counts is the time that the thread had.
        let before = processor_time();
        let (_, again) = self.time(input)?;
        let took = match before.zip(processor_time()) {
            Some((before, after)) => after.saturating_sub(before),
            None => took.min(again),
        };
        if took <= max {
            return Ok(is_read);
        }
        Err(Finding::Slow { took })
    }

    /// The same, and how much memory it takes.
    pub fn look_closely(self, input: &[u8]) -> Result<bool, Finding> {
        let is_read = self.look(input)?;
        let bytes = memory::peak_of(|| drop(self.time(input))).unwrap_or(0);
        if bytes > memory_max(input.len()) {
            return Err(Finding::Hungry { bytes });
        }
        Ok(is_read)
    }

    fn time(self, input: &[u8]) -> Result<(bool, Duration), Finding> {
        let begin = Instant::now();
        let done = panic::catch_unwind(AssertUnwindSafe(|| (self.run)(input)));
        let took = begin.elapsed();
        done.map(|is_read| (is_read, took)).map_err(|_| {
            let (message, place) = LAST.with(RefCell::take);
            Finding::Panic { message, place }
        })
    }
}

/// How long this thread had a core; none where the kernel does not tell.
fn processor_time() -> Option<Duration> {
    let told = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanoseconds = told.split(' ').next()?.parse().ok()?;
    Some(Duration::from_nanos(nanoseconds))
}

/// What an input of this length may take.
pub(crate) fn memory_max(length: usize) -> u64 {
    MEMORY_SLACK_BYTES + MEMORY_FACTOR * length as u64
}

#[cfg(test)]
mod tests {
    use std::{hint, thread};

    use super::*;

    #[test]
    fn sees_panics_and_what_takes_too_long_or_too_much() {
        let judge = Judge::new(|input| match input {
            b"panic" => panic!("on purpose"),
            // The core is with others meanwhile.
            b"held up" => {
                thread::sleep(TIME_MAX * 2);
                true
            }
            b"slow" => {
                let begin = processor_time();
                while processor_time()
                    .zip(begin)
                    .is_some_and(|(now, begin)| now.saturating_sub(begin) < TIME_MAX * 2)
                {}
                true
            }
            b"hungry" => hint::black_box(vec![1u8; 64 * 1024 * 1024]).len() > 1,
            other => !other.is_empty(),
        });
        assert_eq!(judge.look_closely(b"x"), Ok(true));
        assert_eq!(judge.look_closely(b""), Ok(false));
        let Err(Finding::Panic { message, place }) = judge.look(b"panic") else {
            panic!("not seen");
        };
        assert_eq!(message, "on purpose");
        assert!(place.contains("judge.rs"), "{place}");
        assert_eq!(judge.look(b"held up"), Ok(true));
        assert!(matches!(judge.look(b"slow"), Err(Finding::Slow { .. })));
        assert!(matches!(
            judge.look_closely(b"hungry"),
            Err(Finding::Hungry { .. })
        ));
    }
}
