//! How many files the process may have open, and how many of them are not for clients.
//!
//! A process that has all its files open can accept nobody: not its operator, not its peers, not its store's
//! next file. So clients, and what is dialled for them, leave a reserve. Linux gives a new file the lowest
//! free number, so that a number at the bound means that so many are open, without counting them.

use std::{
    os::fd::{AsFd, AsRawFd as _},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

static MAX: AtomicU64 = AtomicU64::new(u64::MAX);
static RESERVED: AtomicU64 = AtomicU64::new(0);

/// Tells how many files the process may have open, and how many of these clients leave for others. Of few
/// files less is kept, so that clients are served at all.
pub fn set_files(max: u64, reserved: u64) {
    MAX.store(max, Relaxed);
    RESERVED.store(reserved.min(max / 4), Relaxed);
}

/// What clients leave free: room for what is dialled for them, and the reserve.
pub(crate) fn is_for_clients(file: &impl AsFd) -> bool {
    is_below(file, 2)
}

/// What is dialled for clients leaves the reserve.
pub(crate) fn is_for_dials(file: &impl AsFd) -> bool {
    is_below(file, 1)
}

fn is_below(file: &impl AsFd, reserves: u64) -> bool {
    let bound = MAX.load(Relaxed) - reserves * RESERVED.load(Relaxed);
    // File numbers are not negative.
    file.as_fd().as_raw_fd().cast_unsigned() < u32::try_from(bound).unwrap_or(u32::MAX)
}
