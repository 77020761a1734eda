//! How a service reads the paths that it gets.

use crate::percent;

/// What an application may do with a path beyond splitting it and decoding the segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reads {
    /// It decodes the path before it splits it: an encoded slash separates.
    pub(crate) decoded: bool,
    /// It resolves `.` and `..`, and takes `\` for `/`.
    pub(crate) dots: bool,
    /// It cuts what follows a `;` off each segment.
    pub(crate) parameters: bool,
}

impl Default for Reads {
    fn default() -> Self {
        Self {
            decoded: true,
            dots: true,
            parameters: true,
        }
    }
}

impl Reads {
    /// Every way of reading that such an application may have: it may do all of this, or a part.
    pub(crate) fn parts(self) -> impl Iterator<Item = Self> {
        let all = (1..8u8).map(|bits| Self {
            decoded: bits & 1 != 0,
            dots: bits & 2 != 0,
            parameters: bits & 4 != 0,
        });
        all.filter(move |part| {
            (self.decoded || !part.decoded)
                && (self.dots || !part.dots)
                && (self.parameters || !part.parameters)
        })
    }

    /// The path as such an application reads it, written so that the agent reads it in the same way.
    pub(crate) fn rewrite(self, path: &str) -> String {
        let whole = if self.decoded {
            percent::decode(path)
        } else {
            path.as_bytes().into()
        };
        let is_slash = |byte: &u8| *byte == b'/' || self.dots && *byte == b'\\';
        let mut segments: Vec<Vec<u8>> = Vec::new();
        for segment in whole.split(is_slash) {
            let mut segment = if self.decoded {
                segment.to_vec()
            } else {
                percent::decode_bytes(segment).into_owned()
            };
            // Before the dots: `/..;/` is one of the ways to hide them.
            if self.parameters
                && let Some(end) = segment.iter().position(|byte| *byte == b';')
            {
                segment.truncate(end);
            }
            match &*segment {
                b"" => {}
                b"." if self.dots => {}
                b".." if self.dots => drop(segments.pop()),
                _ => segments.push(segment),
            }
        }
        let mut path = String::new();
        for segment in &segments {
            path.push('/');
            percent::encode_segment_bytes_into(&mut path, segment);
        }
        path
    }
}
