//! Texts with gaps.

/// A text in which `*` stands for any characters, or none, and `?` for one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wildcard(String);

impl Wildcard {
    pub(crate) fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// Whether the whole of `text` looks like this. Takes at most the product of both lengths.
    pub(crate) fn matches(&self, text: &str) -> bool {
        let (mut pattern, mut rest) = (self.0.chars(), text.chars());
        // What follows the last `*`, and where the text went on after what that stands for so far.
        let mut again = None;
        loop {
            match (pattern.next(), rest.clone().next()) {
                (Some('*'), _) => again = Some((pattern.clone(), rest.clone())),
                (Some(wanted), Some(found)) if wanted == '?' || wanted == found => {
                    rest.next();
                }
                (None, None) => return true,
                _ => {
                    // Only the last `*` has to stand for more: what is before it fits as early as it can.
                    let Some((after, from)) = &mut again else {
                        return false;
                    };
                    if from.next().is_none() {
                        return false;
                    }
                    (pattern, rest) = (after.clone(), from.clone());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_stand_for_characters() {
        for (pattern, fits, fits_not) in [
            ("", &[""][..], &["a"][..]),
            ("abc", &["abc"], &["ab", "abcd", ""]),
            ("*", &["", "a", "ab/c"], &[]),
            ("a-*", &["a-", "a-b", "a-*"], &["a", "ba-"]),
            (
                "*-token-?????",
                &["default-token-x7k2p", "-token-12345", "a-token-b-token-éàüöß"],
                &["default-token-x7k2", "default-token-x7k2pq"],
            ),
            (
                "a*b*c",
                &["abc", "axxbyyc", "abbcc", "abcbc"],
                &["ab", "acb", "abcd"],
            ),
            ("?*", &["a", "ab"], &[""]),
        ] {
            let wildcard = Wildcard::new(pattern);
            for text in fits {
                assert!(wildcard.matches(text), "{pattern} {text}");
            }
            for text in fits_not {
                assert!(!wildcard.matches(text), "{pattern} {text}");
            }
        }
    }
}
