//! A disk that remembers every access and can say what a power cut would have left of them.

use std::{
    collections::BTreeSet,
    io,
    sync::{Arc, Mutex},
};

use redb::StorageBackend;

const SECTOR_BYTES: usize = 512;
const BLOCK_BYTES: usize = 4096;

#[derive(Debug, Clone)]
pub(crate) enum Access {
    Write { offset: usize, data: Vec<u8> },
    SetLength(usize),
    Sync,
}

/// Shared with the engine that writes to it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Disk(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    image: Vec<u8>,
    log: Vec<Access>,
    /// Blocks that were ever written: writing them again needs no space.
    blocks: BTreeSet<usize>,
    blocks_left: Option<usize>,
}

impl Disk {
    pub(crate) fn with(image: Vec<u8>) -> Self {
        let disk = Self::default();
        disk.0.lock().unwrap().image = image;
        disk
    }

    /// Where the log is: everything before this has happened.
    pub(crate) fn position(&self) -> usize {
        self.0.lock().unwrap().log.len()
    }

    pub(crate) fn log(&self) -> Vec<Access> {
        self.0.lock().unwrap().log.clone()
    }

    /// After so many more blocks there is no space left; `None` frees some.
    pub(crate) fn full_after(&self, blocks: Option<usize>) {
        self.0.lock().unwrap().blocks_left = blocks;
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().image.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let offset = offset as usize;
        let state = self.0.lock().unwrap();
        let bytes = state.image.get(offset..offset + out.len());
        out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.access(Access::SetLength(len as usize))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.access(Access::Sync)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.access(Access::Write {
            offset: offset as usize,
            data: data.to_vec(),
        })
    }
}

impl Disk {
    fn access(&self, access: Access) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        if let Access::Write { offset, data } = &access {
            for block in offset / BLOCK_BYTES..=(offset + data.len().max(1) - 1) / BLOCK_BYTES {
                state.take(block)?;
            }
        }
        access.apply(&mut state.image);
        state.log.push(access);
        Ok(())
    }
}

impl Access {
    fn apply(&self, image: &mut Vec<u8>) {
        match self {
            Self::Write { offset, data } => write(image, *offset, data),
            Self::SetLength(length) => image.resize(*length, 0),
            Self::Sync => {}
        }
    }
}

impl Access {
    /// Some of its sectors.
    fn tear(&self, image: &mut Vec<u8>, random: &mut Random) {
        match self {
            Self::Write { offset, data } => {
                for (at, sector) in data.chunks(SECTOR_BYTES).enumerate() {
                    if random.below(2) == 0 {
                        write(image, offset + at * SECTOR_BYTES, sector);
                    }
                }
            }
            access => {
                if random.below(2) == 0 {
                    access.apply(image);
                }
            }
        }
    }
}

impl State {
    fn take(&mut self, block: usize) -> io::Result<()> {
        if !self.blocks.contains(&block) {
            if let Some(left) = &mut self.blocks_left {
                *left = left.checked_sub(1).ok_or(io::ErrorKind::StorageFull)?;
            }
            self.blocks.insert(block);
        }
        Ok(())
    }
}

/// How much of what was not synced has reached the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    /// All of it: a killed process.
    Nothing,
    /// None of it.
    Everything,
    /// Some of the writes, in part, in any order: a power cut.
    Torn,
}

/// What is on the disk after the first so many accesses of a log.
#[derive(Debug)]
pub(crate) struct Cuts<'a> {
    log: &'a [Access],
    durable: Vec<u8>,
    /// How much of the log is in `durable`.
    synced: usize,
}

impl<'a> Cuts<'a> {
    pub(crate) fn new(base: &[u8], log: &'a [Access]) -> Self {
        Self {
            log,
            durable: base.to_vec(),
            synced: 0,
        }
    }

    /// The image after `log[..cut]`. Cuts may not go back.
    pub(crate) fn at(&mut self, cut: usize, loss: Loss, random: &mut Random) -> Vec<u8> {
        let sync = |access: &Access| matches!(access, Access::Sync);
        if let Some(after) = self.log[self.synced..cut].iter().rposition(sync) {
            let synced = self.synced + after + 1;
            for access in &self.log[self.synced..synced] {
                access.apply(&mut self.durable);
            }
            self.synced = synced;
        }
        let mut image = self.durable.clone();
        for access in &self.log[self.synced..cut] {
            match loss {
                Loss::Nothing => access.apply(&mut image),
                Loss::Everything => {}
                Loss::Torn => access.tear(&mut image, random),
            }
        }
        image
    }
}

fn write(image: &mut Vec<u8>, offset: usize, data: &[u8]) {
    let end = offset + data.len();
    if image.len() < end {
        image.resize(end, 0);
    }
    image[offset..end].copy_from_slice(data);
}

/// Enough chance for a test, from a seed (splitmix64).
#[derive(Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}
