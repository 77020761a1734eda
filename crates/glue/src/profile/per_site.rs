//! What the application makes by itself at each site.

use crate::{pattern::Segments, percent, wildcard::Wildcard};

/// The path of something that the application makes by itself at each site.
#[derive(Debug, Clone)]
pub(super) struct PerSite(Vec<Wildcard>);

impl PerSite {
    /// Segments in which `*` stands for any characters and `?` for one; `{x}` is a whole segment.
    pub(super) fn new(path: &str) -> Self {
        let segment = |segment: &str| {
            if segment.starts_with('{') && segment.ends_with('}') {
                Wildcard::new("*")
            } else {
                Wildcard::new(segment)
            }
        };
        Self(Segments::of(path).map(segment).collect())
    }

    /// Also for what stands below it.
    pub(super) fn matches(&self, path: &str) -> bool {
        let mut segments = Segments::of(path);
        self.0.iter().all(|wanted| {
            segments
                .next()
                .is_some_and(|found| wanted.matches(&percent::decode_text(found)))
        })
    }
}
