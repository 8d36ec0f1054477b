//! How much a process holds, from /proc: what must not grow in a long run. Asked for between rounds only.

use serde::Serialize;

#[derive(Clone, Debug, Serialize)]
pub(super) struct Vitals {
    round: usize,
    /// Memory that no file or shared memory stands behind, in KiB: the heaps and stacks of everybody in the process.
    anonymous_kib: u64,
    /// What of the heaps is allocated and not freed, of everybody in the process, in bytes. Unlike the memory behind it,
    /// it hardly depends on how the allocator keeps what was freed: threads keep a few small pieces, which count as allocated.
    live_heap: u64,
    /// Memory by file and shared memory, telemetry among it; without the emulator's devices, of whose freed memory the
    /// ends of pages stay.
    mapped_kib: u64,
    descriptors: u64,
    threads: u64,
    mappings: u64,
}

impl Vitals {
    pub(super) fn now(round: usize) -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
        };
        let mappings = std::fs::read("/proc/self/maps").unwrap_or_default();
        let descriptors = std::fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count() as u64);
        Self {
            round,
            anonymous_kib: number("RssAnon:"),
            live_heap: live_heap(),
            mapped_kib: (number("RssShmem:") + number("RssFile:")).saturating_sub(of_emulated_devices()),
            // One of them is the look at the folder itself.
            descriptors: descriptors.saturating_sub(1),
            threads: number("Threads:"),
            mappings: mappings.iter().filter(|byte| **byte == b'\n').count() as u64,
        }
    }
}

/// Of all arenas, and of what lies outside them. The numbers are 32 bits wide: the newer form of the call needs a newer glibc than
/// the packages do, and these processes hold megabytes.
fn live_heap() -> u64 {
    // SAFETY: reads the allocator's own counts, under its locks.
    let counts = unsafe { libc::mallinfo() };
    u64::from(counts.uordblks.cast_unsigned()) + u64::from(counts.hblkhd.cast_unsigned())
}

/// What of the emulator's device memory is there, in KiB.
fn of_emulated_devices() -> u64 {
    let all = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    let (mut inside, mut sum) = (false, 0);
    for line in all.lines() {
        // The first line of a mapping begins with its address, the others with a name.
        if line.starts_with(|first: char| first.is_ascii_digit() || first.is_ascii_lowercase()) {
            inside = line.contains("memfd:airamp-emulated");
        } else if let Some(rest) = line.strip_prefix("Rss:").filter(|_| inside) {
            sum += rest.split_whitespace().next().and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
        }
    }
    sum
}

/// Keeps a bounded number of looks, evenly spread over a run whose length nobody knows.
#[derive(Default)]
pub(super) struct Looks {
    kept: Vec<Vitals>,
    every: usize,
}

const MOST_LOOKS: usize = 128;

impl Looks {
    pub(super) fn take(&mut self, round: usize) {
        self.every = self.every.max(1);
        if !round.is_multiple_of(self.every) {
            return;
        }
        self.kept.push(Vitals::now(round));
        if self.kept.len() > MOST_LOOKS {
            self.every *= 2;
            let every = self.every;
            self.kept.retain(|look| look.round.is_multiple_of(every));
        }
    }

    pub(super) fn into_kept(self) -> Vec<Vitals> {
        self.kept
    }
}
