//! A process's memory, as the kernel counts it.

use std::fs;

use anyhow::{Context, Result};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Memory {
    pub(crate) resident_bytes: u64,
    /// The most that was ever resident.
    pub(crate) peak_bytes: u64,
}

impl Memory {
    pub(crate) fn of(pid: u32) -> Result<Self> {
        let path = format!("/proc/{pid}/status");
        let text = fs::read_to_string(&path).with_context(|| format!("{path} cannot be read"))?;
        Self::read(&text).with_context(|| format!("{path} tells nothing about memory"))
    }

    /// From what was resident at an earlier reading to the peak of this one.
    pub(crate) fn growth_since(self, earlier: Self) -> u64 {
        self.peak_bytes.saturating_sub(earlier.resident_bytes)
    }

    fn read(status: &str) -> Option<Self> {
        let kib = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.strip_suffix("kB")?.trim().parse::<u64>().ok()
        };
        Some(Self {
            resident_bytes: kib("VmRSS:")? * 1024,
            peak_bytes: kib("VmHWM:")? * 1024,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_kernels_text() {
        let text = "Name:\tx\nVmPeak:\t  100 kB\nVmHWM:\t   12 kB\nVmRSS:\t    8 kB\n";
        let memory = Memory::read(text).unwrap();
        assert_eq!((memory.resident_bytes, memory.peak_bytes), (8192, 12288));
        assert_eq!(Memory::read("Name:\tx\n"), None);
    }

    #[test]
    fn what_this_process_allocates_is_growth() {
        let before = Memory::of(std::process::id()).unwrap();
        let block = vec![1_u8; 64 * 1024 * 1024];
        let after = Memory::of(std::process::id()).unwrap();
        assert!(after.growth_since(before) > 32 * 1024 * 1024, "{}", block.len());
    }
}
