//! How far the store had come, in a file beside it: a store that is behind it is an old copy.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::Path,
};

use ring::digest;

use crate::Incarnation;

const MAGIC: &[u8] = b"cheops store seen 1\n";
const CHECK_BYTES: usize = 8;
const BYTES: usize = MAGIC.len() + 8 + 8 + CHECK_BYTES;

/// A moment in the history of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) incarnation: Incarnation,
    /// The number of the last commit.
    pub(crate) commits: u64,
}

/// The file. It is written after each commit and not synced: a killed process leaves it exact, a power
/// cut leaves it older than the store, and only an old copy of the store leaves it newer.
#[derive(Debug)]
pub(crate) struct Seen {
    file: File,
    last: Option<Mark>,
}

impl Seen {
    pub(crate) fn open(data: &Path) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(data.join("store.seen"))?;
        let mut bytes = [0; BYTES];
        let last = match file.read_exact_at(&mut bytes, 0) {
            Ok(()) => decode(&bytes),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => None,
            Err(error) => return Err(error),
        };
        Ok(Self { file, last })
    }

    /// Whether a store with this mark may be the one that was seen last. Without a mark, because the
    /// file is missing or cannot be read, none may.
    pub(crate) fn fits(&self, store: Mark) -> bool {
        self.last
            .is_some_and(|last| last.incarnation == store.incarnation && last.commits <= store.commits)
    }

    /// The incarnation that was seen last.
    pub(crate) fn incarnation(&self) -> Option<Incarnation> {
        self.last.map(|last| last.incarnation)
    }

    pub(crate) fn note(&self, mark: Mark) -> io::Result<()> {
        // One write within one sector: it is never found by halves.
        self.file.write_all_at(&encode(mark), 0)
    }

    /// Makes the file itself durable, not every later mark.
    pub(crate) fn keep(&self, data: &Path, mark: Mark) -> io::Result<()> {
        self.note(mark)?;
        self.file.sync_all()?;
        File::open(data)?.sync_all()
    }
}

fn encode(mark: Mark) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(BYTES);
    bytes.extend(MAGIC);
    bytes.extend(mark.incarnation.0.to_be_bytes());
    bytes.extend(mark.commits.to_be_bytes());
    bytes.extend(check(&bytes));
    bytes
}

fn decode(bytes: &[u8; BYTES]) -> Option<Mark> {
    let (text, found) = bytes.split_last_chunk::<CHECK_BYTES>()?;
    let numbers = text.strip_prefix(MAGIC)?;
    let (incarnation, commits) = numbers.split_first_chunk()?;
    (*found == check(text)).then_some(Mark {
        incarnation: Incarnation(u64::from_be_bytes(*incarnation)),
        commits: u64::from_be_bytes(commits.try_into().ok()?),
    })
}

fn check(bytes: &[u8]) -> [u8; CHECK_BYTES] {
    let digest = digest::digest(&digest::SHA256, bytes);
    let mut check = [0; CHECK_BYTES];
    check.copy_from_slice(&digest.as_ref()[..CHECK_BYTES]);
    check
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARK: Mark = Mark {
        incarnation: Incarnation(7),
        commits: 40,
    };

    #[test]
    fn only_a_store_that_is_behind_does_not_fit() {
        let data = tempfile::tempdir().unwrap();
        Seen::open(data.path()).unwrap().keep(data.path(), MARK).unwrap();
        let seen = Seen::open(data.path()).unwrap();
        assert!(seen.fits(MARK));
        assert!(seen.fits(Mark { commits: 41, ..MARK }));
        assert!(!seen.fits(Mark { commits: 39, ..MARK }));
        for incarnation in [6, 8].map(Incarnation) {
            assert!(!seen.fits(Mark { incarnation, ..MARK }));
        }
    }

    #[test]
    fn a_damaged_mark_is_none() {
        let data = tempfile::tempdir().unwrap();
        let file = data.path().join("store.seen");
        for at in 0..BYTES {
            let mut bytes = encode(MARK);
            bytes[at] ^= 1;
            std::fs::write(&file, &bytes).unwrap();
            assert!(!Seen::open(data.path()).unwrap().fits(MARK), "byte {at}");
        }
        std::fs::write(&file, &encode(MARK)[..BYTES - 1]).unwrap();
        assert!(!Seen::open(data.path()).unwrap().fits(MARK));
    }
}
