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

/// The tables and the two logs.
pub(crate) const FILES: usize = 3;

/// What is in the files.
pub(crate) type Images = [Vec<u8>; FILES];

/// Shared with the engine that writes to it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Disk(Arc<Mutex<State>>);

/// One of its files.
#[derive(Debug)]
pub(crate) struct OneFile {
    disk: Disk,
    number: usize,
}

#[derive(Debug, Default)]
struct State {
    images: Images,
    /// Each with its file.
    log: Vec<(usize, Access)>,
    /// Blocks of files that were ever written: writing them again needs no space.
    blocks: BTreeSet<(usize, usize)>,
    blocks_left: Option<usize>,
}

impl Disk {
    pub(crate) fn with(images: Images) -> Self {
        let disk = Self::default();
        disk.0.lock().unwrap().images = images;
        disk
    }

    pub(crate) fn file(&self, number: usize) -> OneFile {
        OneFile {
            disk: self.clone(),
            number,
        }
    }

    /// Where the log is: everything before this has happened.
    pub(crate) fn position(&self) -> usize {
        self.0.lock().unwrap().log.len()
    }

    pub(crate) fn log(&self) -> Vec<(usize, Access)> {
        self.0.lock().unwrap().log.clone()
    }

    /// After so many more blocks there is no space left; `None` frees some.
    pub(crate) fn full_after(&self, blocks: Option<usize>) {
        self.0.lock().unwrap().blocks_left = blocks;
    }
}

impl StorageBackend for OneFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.0.lock().unwrap().images[self.number].len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let offset = offset as usize;
        let state = self.disk.0.lock().unwrap();
        let bytes = state.images[self.number].get(offset..offset + out.len());
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

impl OneFile {
    fn access(&self, access: Access) -> io::Result<()> {
        let mut state = self.disk.0.lock().unwrap();
        if let Access::Write { offset, data } = &access {
            for block in offset / BLOCK_BYTES..=(offset + data.len().max(1) - 1) / BLOCK_BYTES {
                state.take((self.number, block))?;
            }
        }
        access.apply(&mut state.images[self.number]);
        state.log.push((self.number, access));
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
    fn take(&mut self, block: (usize, usize)) -> io::Result<()> {
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

/// What is on the disk after the first so many accesses of a log. A sync makes only its own file durable.
#[derive(Debug)]
pub(crate) struct Cuts<'a> {
    log: &'a [(usize, Access)],
    durable: Images,
    /// How much of the log is in `durable`, for each file.
    synced: [usize; FILES],
}

impl<'a> Cuts<'a> {
    pub(crate) fn new(base: &Images, log: &'a [(usize, Access)]) -> Self {
        Self {
            log,
            durable: base.clone(),
            synced: [0; FILES],
        }
    }

    /// The files after `log[..cut]`. Cuts may not go back.
    pub(crate) fn at(&mut self, cut: usize, loss: Loss, random: &mut Random) -> Images {
        let mut images = Images::default();
        for (file, image) in images.iter_mut().enumerate() {
            *image = self.file_at(file, cut, loss, random);
        }
        images
    }

    fn file_at(&mut self, file: usize, cut: usize, loss: Loss, random: &mut Random) -> Vec<u8> {
        let log = self.log;
        let own = |from: usize, to: usize| {
            let accesses = log[from..to].iter().filter(move |(of, _)| *of == file);
            accesses.map(|(_, access)| access)
        };
        let sync = |(of, access): &(usize, Access)| *of == file && matches!(access, Access::Sync);
        if let Some(after) = log[self.synced[file]..cut].iter().rposition(sync) {
            let synced = self.synced[file] + after + 1;
            own(self.synced[file], synced).for_each(|access| access.apply(&mut self.durable[file]));
            self.synced[file] = synced;
        }
        let mut image = self.durable[file].clone();
        for access in own(self.synced[file], cut) {
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
