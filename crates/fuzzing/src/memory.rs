//! How much memory this process has had resident, as the kernel tells.
//!
//! A counting allocator would know every byte, and would be `unsafe`. The peak of what is resident is what counts for
//! a machine; it is read once for many inputs, and for each of them only if it has grown.

use std::fs;

const STATUS: &str = "/proc/self/status";
const CLEAR: &str = "/proc/self/clear_refs";

/// The peak so far, in bytes; none where the kernel does not tell.
pub(crate) fn peak() -> Option<u64> {
    field("VmHWM:")
}

/// Begins a new peak at what is resident now. False where the kernel does not allow that.
pub(crate) fn reset() -> bool {
    fs::write(CLEAR, "5").is_ok()
}

/// By how much `work` raises what is resident.
pub(crate) fn peak_of(work: impl FnOnce()) -> Option<u64> {
    if !reset() {
        return None;
    }
    let before = field("VmRSS:")?;
    work();
    Some(peak()?.saturating_sub(before))
}

fn field(name: &str) -> Option<u64> {
    let status = fs::read_to_string(STATUS).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
