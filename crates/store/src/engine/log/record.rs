//! The bytes of a log: a head, then records, each of which says that it follows the one before.

use ring::digest;

use crate::engine::EngineError;

/// Where records begin: the head has a sector of its own, so that no write of a record can damage it.
pub(super) const START: usize = 512;

const MAGIC: &[u8] = b"cheops store log 1\n";
const CHECK_BYTES: usize = 8;
const HEAD_BYTES: usize = MAGIC.len() + 8 + 8 + CHECK_BYTES;
const LENGTH_BYTES: usize = 4;

pub(super) type Check = [u8; CHECK_BYTES];

/// Whose log it is, and which of those that were written to its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) store: u64,
    pub(super) generation: u64,
}

impl Head {
    pub(super) fn encode(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(START);
        bytes.extend(MAGIC);
        bytes.extend(self.store.to_be_bytes());
        bytes.extend(self.generation.to_be_bytes());
        bytes.extend(check(&[&bytes]));
        bytes.resize(START, 0);
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let head = bytes.get(..HEAD_BYTES)?;
        let (text, found) = head.split_last_chunk::<CHECK_BYTES>()?;
        let (store, generation) = text.strip_prefix(MAGIC)?.split_first_chunk()?;
        (*found == check(&[text])).then_some(Self {
            store: u64::from_be_bytes(*store),
            generation: u64::from_be_bytes(generation.try_into().ok()?),
        })
    }

    /// What the first record follows. It differs from log to log, so that what an older log has left in the same file is
    /// never taken for a record of this one.
    pub(super) fn check(self) -> Check {
        check(&[&self.encode()])
    }
}

/// A record under way: a commit with its number and its changes.
pub(super) struct Record(Vec<u8>);

impl Record {
    pub(super) fn new(number: u64) -> Self {
        let mut bytes = vec![0; LENGTH_BYTES + CHECK_BYTES];
        bytes.extend(number.to_be_bytes());
        Self(bytes)
    }

    pub(super) fn add(&mut self, table: &str, key: &[u8], value: Option<&[u8]>) -> Result<(), EngineError> {
        self.part(table.as_bytes())?;
        self.part(key)?;
        self.0.push(u8::from(value.is_some()));
        value.map_or(Ok(()), |value| self.part(value))
    }

    fn part(&mut self, bytes: &[u8]) -> Result<(), EngineError> {
        self.0.extend(length(bytes.len())?);
        self.0.extend(bytes);
        Ok(())
    }

    /// As it follows another one; with what the next one follows.
    pub(super) fn end(mut self, after: Check) -> Result<(Vec<u8>, Check), EngineError> {
        let body = self.0.get(LENGTH_BYTES + CHECK_BYTES..).unwrap_or_default();
        let (length, own) = (length(body.len())?, check(&[&after, body]));
        let head = self.0.iter_mut().zip(length.into_iter().chain(own));
        head.for_each(|(byte, new)| *byte = new);
        Ok((self.0, own))
    }
}

fn length(bytes: usize) -> Result<[u8; LENGTH_BYTES], EngineError> {
    let length = u32::try_from(bytes);
    let length = length.map_err(|_| EngineError::Io("a commit is too long for the log".into()))?;
    Ok(length.to_be_bytes())
}

/// One change of a commit: the table, the key, and the value unless the row is deleted.
pub(super) type Changed<'a> = (&'a str, &'a [u8], Option<&'a [u8]>);

/// Reads record after record, up to the first that is torn or of another log.
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    pub(super) position: usize,
    pub(super) check: Check,
}

impl<'a> Reader<'a> {
    /// Of a whole file with this head.
    pub(super) fn new(head: Head, bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            position: START,
            check: head.check(),
        }
    }

    /// The number and the changes of the next commit.
    pub(super) fn next(&mut self) -> Option<(u64, Vec<Changed<'a>>)> {
        let rest = self.bytes.get(self.position..)?;
        let (length, rest) = rest.split_first_chunk::<LENGTH_BYTES>()?;
        let (own, rest) = rest.split_first_chunk::<CHECK_BYTES>()?;
        let body = rest.get(..u32::from_be_bytes(*length) as usize)?;
        if *own != check(&[&self.check, body]) {
            return None;
        }
        let (number, mut changes) = body.split_first_chunk()?;
        let mut decoded = Vec::new();
        while !changes.is_empty() {
            decoded.push(changed(&mut changes)?);
        }
        self.position += LENGTH_BYTES + CHECK_BYTES + body.len();
        self.check = *own;
        Some((u64::from_be_bytes(*number), decoded))
    }
}

fn changed<'a>(bytes: &mut &'a [u8]) -> Option<Changed<'a>> {
    let table = std::str::from_utf8(part(bytes)?).ok()?;
    let key = part(bytes)?;
    let (is_put, rest) = bytes.split_first()?;
    *bytes = rest;
    let value = match is_put {
        0 => None,
        _ => Some(part(bytes)?),
    };
    Some((table, key, value))
}

fn part<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, rest) = bytes.split_first_chunk::<LENGTH_BYTES>()?;
    let (part, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    *bytes = rest;
    Some(part)
}

fn check(parts: &[&[u8]]) -> Check {
    let mut context = digest::Context::new(&digest::SHA256);
    for part in parts {
        context.update(part);
    }
    let mut check = [0; CHECK_BYTES];
    check.copy_from_slice(&context.finish().as_ref()[..CHECK_BYTES]);
    check
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: Head = Head {
        store: 7,
        generation: 3,
    };

    /// Three commits, and where each of them ends.
    fn log() -> (Vec<u8>, Vec<usize>) {
        let (mut bytes, mut ends, mut after) = (HEAD.encode(), Vec::new(), HEAD.check());
        for number in 1..=3_u8 {
            let mut record = Record::new(u64::from(number));
            record.add("t", &[number], Some(b"value")).unwrap();
            record.add("u", b"key", None).unwrap();
            let (record, check) = record.end(after).unwrap();
            after = check;
            bytes.extend(record);
            ends.push(bytes.len());
        }
        (bytes, ends)
    }

    fn numbers(bytes: &[u8]) -> Vec<u64> {
        let Some(head) = Head::decode(bytes) else {
            return Vec::new();
        };
        let mut reader = Reader::new(head, bytes);
        std::iter::from_fn(|| reader.next())
            .map(|(number, _)| number)
            .collect()
    }

    #[test]
    fn commits_come_back() {
        let (bytes, ends) = log();
        let mut reader = Reader::new(HEAD, &bytes);
        let (number, changes) = reader.next().unwrap();
        assert_eq!(number, 1);
        let expected: [Changed<'_>; 2] = [("t", &[1], Some(b"value")), ("u", b"key", None)];
        assert_eq!(changes, expected);
        assert_eq!(reader.position, ends[0]);
        assert_eq!(numbers(&bytes), [1, 2, 3]);
    }

    #[test]
    fn a_log_that_is_cut_at_any_byte_has_all_whole_commits() {
        let (bytes, ends) = log();
        for cut in 0..=bytes.len() {
            let whole = ends.iter().filter(|end| **end <= cut).count();
            assert_eq!(numbers(&bytes[..cut]).len(), whole, "cut at {cut}");
        }
    }

    #[test]
    fn a_log_with_any_byte_wrong_ends_before_it() {
        let (bytes, ends) = log();
        for at in (0..HEAD_BYTES).chain(START..bytes.len()) {
            let mut wrong = bytes.clone();
            wrong[at] ^= 1;
            let whole = if at < START {
                0
            } else {
                ends.iter().filter(|end| **end <= at).count()
            };
            assert_eq!(numbers(&wrong).len(), whole, "byte {at}");
        }
    }

    #[test]
    fn what_an_older_log_left_is_no_part_of_a_newer_one() {
        let (mut bytes, _) = log();
        let newer = Head {
            generation: 4,
            ..HEAD
        };
        bytes[..START].copy_from_slice(&newer.encode());
        assert_eq!(numbers(&bytes), [0_u64; 0]);
    }
}
