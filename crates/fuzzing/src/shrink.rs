//! A small input that fails in the same way.

use std::time::{Duration, Instant};

/// Takes away what is not needed: halves, then smaller and smaller pieces, then makes what is left plain. `fails` says
/// whether an input still fails in the same way.
pub fn shrink(input: &[u8], at_most: Duration, mut fails: impl FnMut(&[u8]) -> bool) -> Vec<u8> {
    let begin = Instant::now();
    let mut best = input.to_vec();
    let mut piece = best.len().div_ceil(2);
    while piece > 0 && begin.elapsed() < at_most {
        let mut start = 0;
        let mut has_shrunk = false;
        while start < best.len() && begin.elapsed() < at_most {
            let mut less = best.clone();
            less.drain(start..(start + piece).min(best.len()));
            if fails(&less) {
                best = less;
                has_shrunk = true;
            } else {
                start += piece;
            }
        }
        if !has_shrunk || piece > 1 {
            piece /= 2;
        }
    }
    for at in 0..best.len() {
        if begin.elapsed() >= at_most {
            break;
        }
        let mut plain = best.clone();
        plain[at] = b'0';
        if best[at] != b'0' && fails(&plain) {
            best = plain;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_needed_is_left() {
        let input = b"a long text with a needle and some hay behind it";
        let has = |text: &[u8]| text.windows(6).any(|part| part == b"needle");
        assert_eq!(shrink(input, Duration::from_secs(5), has), b"needle");
    }
}
