//! Many texts under one signature, each of which can be passed on and checked without the others.
//!
//! ```text
//!             root             signed
//!           ╱      ╲
//!        n01        n23        node = SHA-256(01, left, right)
//!       ╱   ╲      ╱   ╲
//!      l0   l1    l2   l3      leaf = SHA-256(00, text)
//! ```
//!
//! What text 2 brings along is l3 and n01: with its own leaf they give the root. A leaf without a neighbour goes up as it is.

use ring::digest;

pub(super) type Hash = [u8; 32];

/// Levels of a bundle at most.
const LEVELS_MAX: usize = 16;

/// Texts that share a signature at most; so many do not need all levels.
pub(super) const TEXTS_MAX: usize = 1 << 10;

/// Begins what is signed: it is never taken for a text that is signed by itself.
const CONTEXT: &[u8] = b"cheops bundle 1";

/// On which side of the way up a neighbour stands.
const LEFT: u8 = 0;
const RIGHT: u8 = 1;

/// The hashes from the leaves to the root.
pub(super) struct Bundle(Vec<Vec<Hash>>);

impl Bundle {
    /// Of at least one text.
    pub(super) fn of<'t>(texts: impl Iterator<Item = &'t [u8]>) -> Self {
        let mut levels = vec![texts.map(leaf).collect::<Vec<_>>()];
        while let Some(below) = levels.last().filter(|level| level.len() > 1) {
            let above = below.chunks(2).map(|pair| match pair {
                [left, right] => node(left, right),
                // A leaf is no node, and a node no leaf: going up as it is stands for nothing else.
                alone => alone[0],
            });
            levels.push(above.collect());
        }
        Self(levels)
    }

    /// What is signed.
    pub(super) fn signed(&self) -> Vec<u8> {
        let root = self.0.last().and_then(|level| level.first());
        signed(root.unwrap_or(&[0; 32]))
    }

    /// What a text brings along to lead to the root: how many neighbours, and each with its side.
    pub(super) fn path(&self, mut at: usize) -> Vec<u8> {
        let mut path = vec![0];
        for level in &self.0 {
            let side = if at.is_multiple_of(2) { RIGHT } else { LEFT };
            if let Some(neighbour) = level.get(at ^ 1) {
                path[0] += 1;
                path.push(side);
                path.extend(neighbour);
            }
            at /= 2;
        }
        path
    }
}

/// What was signed if a text with this path is of the bundle, and what follows the path.
pub(super) fn follow<'p>(text: &[u8], path: &'p [u8]) -> Option<(Vec<u8>, &'p [u8])> {
    let (steps, mut rest) = path.split_first()?;
    if usize::from(*steps) > LEVELS_MAX {
        return None;
    }
    let mut hash = leaf(text);
    for _ in 0..*steps {
        let (side, tail) = rest.split_first()?;
        let (neighbour, tail) = tail.split_first_chunk::<32>()?;
        hash = match *side {
            LEFT => node(neighbour, &hash),
            RIGHT => node(&hash, neighbour),
            _ => return None,
        };
        rest = tail;
    }
    Some((signed(&hash), rest))
}

fn signed(root: &Hash) -> Vec<u8> {
    [CONTEXT, root].concat()
}

fn leaf(text: &[u8]) -> Hash {
    hash(&[&[0], text])
}

fn node(left: &Hash, right: &Hash) -> Hash {
    hash(&[&[1], left, right])
}

pub(super) fn hash(parts: &[&[u8]]) -> Hash {
    let mut context = digest::Context::new(&digest::SHA256);
    for part in parts {
        context.update(part);
    }
    let mut hash = [0; 32];
    hash.copy_from_slice(context.finish().as_ref());
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_leads_to_the_root_and_no_other_does() {
        for count in 1..20_u8 {
            let texts: Vec<_> = (0..count).map(|n| vec![n; 3]).collect();
            let bundle = Bundle::of(texts.iter().map(Vec::as_slice));
            for (at, text) in texts.iter().enumerate() {
                let path = [bundle.path(at), b"rest".to_vec()].concat();
                let (signed, rest) = follow(text, &path).unwrap();
                assert_eq!((signed, rest), (bundle.signed(), &b"rest"[..]), "{at} of {count}");
                let (other, _) = follow(b"other", &path).unwrap();
                assert_ne!(other, bundle.signed());
            }
        }
    }

    #[test]
    fn a_path_with_any_byte_wrong_or_missing_leads_elsewhere() {
        let texts = [b"a", b"b", b"c", b"d", b"e"];
        let bundle = Bundle::of(texts.iter().map(|text| &text[..]));
        let path = bundle.path(2);
        for at in 0..path.len() {
            assert_eq!(follow(b"c", &path[..at]), None);
            let mut wrong = path.clone();
            wrong[at] ^= 1;
            assert!(
                follow(b"c", &wrong)
                    .is_none_or(|(signed, rest)| signed != bundle.signed() || !rest.is_empty())
            );
        }
        assert_eq!(follow(b"c", &[255; 9000]), None);
    }
}
