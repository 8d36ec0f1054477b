//! The file, word for word. Everything is a little-endian 64-bit word at a fixed offset; a cell that threads share is
//! alone on its cache line. docs/telemetry.md says the same in prose: a change here is a new `VERSION`, but for a spare
//! word that comes into use and means 'nothing was told' while it is 0.

use std::mem::{offset_of, size_of};

use crate::atomic::AtomicU64;
use crate::sizes::{DURATION_BUCKETS, HOOK_BUCKETS, SIZE_CLASSES};
use crate::{Datatype, Deviation, Kind, Path};

pub(crate) const MAGIC: [u8; 8] = *b"AIRAMPT1";
pub(crate) const VERSION: u32 = 1;

pub(crate) const KINDS: usize = Kind::ALL.len();
pub(crate) const PATHS: usize = Path::ALL.len();
pub(crate) const SLOTS: usize = 32;
pub(crate) const CALLS: usize = 4096;
pub(crate) const EVENTS: usize = 512;
pub(crate) const DECISIONS: usize = 128;
pub(crate) const ARRIVALS: usize = 64;
/// Every so many sequences one arrival is kept longer than the others.
pub(crate) const MILESTONE: u64 = 256;
pub(crate) const REASONS: usize = 24;
pub(crate) const DEVIATIONS: usize = Deviation::ALL.len();
/// The last counts all results beyond the others.
pub(crate) const RESULTS: usize = 16;

pub(crate) const HEADER_BYTES: usize = 1024;
pub(crate) const VENDOR_WORDS: usize = 8;
pub(crate) const REASON_WORDS: usize = 8;
pub(crate) const EVENT_TEXT_WORDS: usize = 20;
pub(crate) const EVENT_WORDS: usize = 4 + EVENT_TEXT_WORDS + 2;
pub(crate) const DECISION_TEXT_WORDS: usize = 125;

/// # Safety
/// The type consists of `AtomicU64` alone, without padding: any bytes are a value of it.
pub(crate) unsafe trait Words {}

/// The whole file as it is mapped.
#[repr(C, align(64))]
pub(crate) struct Region {
    /// Written before the file gets its name, and never again.
    header: [AtomicU64; HEADER_BYTES / 8],
    pub(crate) process: Process,
    pub(crate) communicators: [Communicator; SLOTS],
    pub(crate) by_kind: [[ByPath; PATHS]; KINDS],
    pub(crate) calls: [CallCell; CALLS],
    pub(crate) events: [EventCell; EVENTS],
    pub(crate) decisions: [DecisionCell; DECISIONS],
}

#[repr(C, align(64))]
pub(crate) struct Process {
    pub(crate) state: AtomicU64,
    /// Ticks of the last call or event.
    pub(crate) active: AtomicU64,
    /// Bit `kind * PATHS + path`: that `ByPath` is not all zero.
    pub(crate) used: AtomicU64,
    /// Slots from 0 on that were ever in use.
    pub(crate) slots: AtomicU64,
    pub(crate) untracked: AtomicU64,
    /// Records of rings that were dropped: too long, or their cell was taken.
    pub(crate) dropped: AtomicU64,
    /// Nanoseconds of the first kernel after a gap without and with ghost kernels in it; 0: never measured.
    pub(crate) first_without_ghosts: AtomicU64,
    pub(crate) first_with_ghosts: AtomicU64,
    pub(crate) vendor: Vendor,
    pub(crate) hook: Hook,
    pub(crate) in_vendor: Spent,
    pub(crate) fallbacks: [AtomicU64; REASONS],
    pub(crate) errors: [AtomicU64; RESULTS],
    pub(crate) sums: Sums,
    pub(crate) calls: Head,
    pub(crate) events: Head,
    pub(crate) decisions: Head,
}

/// The vendor's name, guarded by `version`.
#[repr(C, align(64))]
pub(crate) struct Vendor {
    pub(crate) version: AtomicU64,
    /// Length, then the text.
    pub(crate) words: [AtomicU64; 1 + VENDOR_WORDS],
    pub(crate) _spare: [AtomicU64; 6],
}

#[repr(C, align(64))]
pub(crate) struct Hook {
    pub(crate) ticks: AtomicU64,
    pub(crate) _spare: [AtomicU64; 7],
    pub(crate) buckets: [AtomicU64; HOOK_BUCKETS],
}

#[repr(C, align(64))]
pub(crate) struct Spent {
    pub(crate) ticks: AtomicU64,
    pub(crate) calls: AtomicU64,
    pub(crate) _spare: [AtomicU64; 6],
}

#[repr(C, align(64))]
pub(crate) struct Sums {
    pub(crate) saturated: AtomicU64,
    pub(crate) nonfinite: AtomicU64,
    pub(crate) foreign: AtomicU64,
    pub(crate) blocks: AtomicU64,
    pub(crate) codec_ns: AtomicU64,
    pub(crate) codec_bytes: AtomicU64,
    pub(crate) compressed: AtomicU64,
    pub(crate) trials: AtomicU64,
    pub(crate) ghosts: AtomicU64,
    /// By `names::Deviation`.
    pub(crate) deviations: [AtomicU64; DEVIATIONS],
    pub(crate) pace_changes: AtomicU64,
    pub(crate) _spare: [AtomicU64; 2],
}

/// How many records a ring ever got.
#[repr(C, align(64))]
pub(crate) struct Head {
    pub(crate) written: AtomicU64,
    pub(crate) _spare: [AtomicU64; 7],
}

#[repr(C, align(64))]
pub(crate) struct Communicator {
    /// 0: never used; odd: being set up; even: in use, or ended. Guards `facts`.
    pub(crate) generation: AtomicU64,
    /// 0: in use; 1 + `Ended`.
    pub(crate) ended: AtomicU64,
    pub(crate) ended_at: AtomicU64,
    pub(crate) poisoned: AtomicU64,
    pub(crate) facts: [AtomicU64; FACT_WORDS],
    pub(crate) _spare: [AtomicU64; 3],
    pub(crate) issuing: Issuing,
    pub(crate) completing: Completing,
    pub(crate) sums: Sums,
    pub(crate) agreement: Agreement,
    pub(crate) plan: Plan,
    pub(crate) pattern: Pattern,
    pub(crate) arrivals: [Arrival; ARRIVALS],
    pub(crate) milestones: [Arrival; ARRIVALS],
}

pub(crate) const FACT_WORDS: usize = 9;

/// Stored by the threads that call collectives.
#[repr(C, align(64))]
pub struct Issuing {
    pub(crate) issued: AtomicU64,
    pub(crate) issued_at: AtomicU64,
    pub(crate) inside: AtomicU64,
    pub(crate) inside_since: AtomicU64,
    pub(crate) all_reduces: AtomicU64,
    pub(crate) arena: AtomicU64,
    /// Bits of an f64, inverted, so that zero means 'never'.
    pub(crate) vnmse: AtomicU64,
    /// 0: who is inside is so for a collective; 1: for messages or the communicator's end alone. Collectives, of which there
    /// are most, leave it alone: whoever sets it clears it.
    pub(crate) inside_other: AtomicU64,
}

/// Stored by the threads that poll events.
#[repr(C, align(64))]
pub(crate) struct Completing {
    pub(crate) completed: AtomicU64,
    pub(crate) completed_at: AtomicU64,
    pub(crate) pending: AtomicU64,
    pub(crate) pending_at: AtomicU64,
    pub(crate) polled_at: AtomicU64,
    pub(crate) _spare: [AtomicU64; 3],
}

#[repr(C, align(64))]
pub(crate) struct Agreement {
    pub(crate) version: AtomicU64,
    /// State, length, text.
    pub(crate) words: [AtomicU64; 2 + REASON_WORDS],
    pub(crate) _spare: [AtomicU64; 5],
}

#[repr(C, align(64))]
pub(crate) struct Plan {
    pub(crate) version: AtomicU64,
    /// The index from which on it holds, then its 64 bytes.
    pub(crate) words: [AtomicU64; 9],
    pub(crate) _spare: [AtomicU64; 6],
}

#[repr(C, align(64))]
pub(crate) struct Pattern {
    pub(crate) version: AtomicU64,
    /// State; confidence's bits and calls of a period in the upper half; its nanoseconds; the step.
    pub(crate) words: [AtomicU64; 4],
    pub(crate) _spare: [AtomicU64; 3],
}

/// `mixed` is the sequence, exclusive or with `at`: words of two different arrivals do not fit together.
#[repr(C)]
pub(crate) struct Arrival {
    pub(crate) mixed: AtomicU64,
    pub(crate) at: AtomicU64,
}

/// Everything that is counted by kind and path.
#[repr(C, align(64))]
pub(crate) struct ByPath {
    pub(crate) counts: [Count; Datatype::COUNT],
    pub(crate) sizes: [AtomicU64; SIZE_CLASSES],
    pub(crate) durations: [Duration; SIZE_CLASSES],
}

#[repr(C, align(64))]
pub(crate) struct Count {
    pub(crate) calls: AtomicU64,
    pub(crate) logical: AtomicU64,
    pub(crate) wire: AtomicU64,
    pub(crate) would_wire: AtomicU64,
    pub(crate) _spare: [AtomicU64; 4],
}

#[repr(C, align(64))]
pub(crate) struct Duration {
    pub(crate) sum_ns: AtomicU64,
    pub(crate) buckets: [AtomicU64; DURATION_BUCKETS],
    pub(crate) _spare: [AtomicU64; 3],
}

#[repr(C, align(64))]
pub(crate) struct CallCell {
    pub(crate) version: AtomicU64,
    pub(crate) words: [AtomicU64; 7],
}

#[repr(C, align(64))]
pub(crate) struct EventCell {
    pub(crate) version: AtomicU64,
    /// Kind, slot and length; when; a; b; text; step; about.
    pub(crate) words: [AtomicU64; EVENT_WORDS],
    pub(crate) _spare: [AtomicU64; 31 - EVENT_WORDS],
}

#[repr(C, align(64))]
pub(crate) struct DecisionCell {
    pub(crate) version: AtomicU64,
    /// When; length; text.
    pub(crate) words: [AtomicU64; 2 + DECISION_TEXT_WORDS],
}

// SAFETY: each is `repr(C)` of `AtomicU64` and of others in this list, and the sizes below leave no room for padding.
unsafe impl Words for Process {}
// SAFETY: as above.
unsafe impl Words for Communicator {}
// SAFETY: as above.
unsafe impl Words for ByPath {}
// SAFETY: as above.
unsafe impl Words for CallCell {}
// SAFETY: as above.
unsafe impl Words for EventCell {}
// SAFETY: as above.
unsafe impl Words for DecisionCell {}

/// A part of the file, as its header lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) offset: u64,
    /// Bytes of one item.
    pub(crate) size: u64,
    pub(crate) count: u64,
}

pub(crate) const PROCESS: Section = section::<Process>(offset_of!(Region, process), 1);
pub(crate) const COMMUNICATORS: Section = section::<Communicator>(offset_of!(Region, communicators), SLOTS);
pub(crate) const BY_KIND: Section = section::<ByPath>(offset_of!(Region, by_kind), KINDS * PATHS);
pub(crate) const CALL_RING: Section = section::<CallCell>(offset_of!(Region, calls), CALLS);
pub(crate) const EVENT_RING: Section = section::<EventCell>(offset_of!(Region, events), EVENTS);
pub(crate) const DECISION_RING: Section = section::<DecisionCell>(offset_of!(Region, decisions), DECISIONS);
pub(crate) const SECTIONS: [Section; 6] =
    [PROCESS, COMMUNICATORS, BY_KIND, CALL_RING, EVENT_RING, DECISION_RING];
pub(crate) const FILE_BYTES: usize = size_of::<Region>();

const fn section<T>(offset: usize, count: usize) -> Section {
    Section { offset: offset as u64, size: size_of::<T>() as u64, count: count as u64 }
}

const _: () = {
    assert!(cfg!(target_endian = "little"), "the file's words are little endian");
    assert!(size_of::<Process>() == 1216);
    assert!(size_of::<Communicator>() == 2752);
    assert!(size_of::<ByPath>() == 5056);
    assert!(size_of::<CallCell>() == 64);
    assert!(size_of::<EventCell>() == 256);
    assert!(size_of::<DecisionCell>() == 1024);
    assert!(offset_of!(Region, process) == HEADER_BYTES);
    assert!(KINDS * PATHS <= 64, "one word has a bit for each");
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EventKind, Grew, Reason};

    const PAGE: &str = include_str!("../../../docs/telemetry.md");

    #[test]
    fn the_page_describes_this_layout() {
        let sections = ["process", "communicators", "by kind and path", "calls", "events", "decisions"];
        for (name, section) in sections.iter().zip(SECTIONS) {
            let [offset, size, count] = [section.offset, section.size, section.count].map(grouped);
            let row = format!("| {name} | {offset} | {size} | {count} |");
            assert!(PAGE.contains(&row), "{row}");
        }
        assert!(PAGE.contains(&format!("bytes of the file: {}", grouped(FILE_BYTES as u64))));
        assert!(PAGE.contains(&format!("layout version: {VERSION}.")));
    }

    #[test]
    fn the_page_has_each_field_at_its_place() {
        let process = [
            (offset_of!(Process, vendor), "| 1+1+8 | version; length; the vendor's"),
            (offset_of!(Process, hook), "| 1 | ticks spent in the library's own code"),
            (offset_of!(Process, hook.buckets), "| 32 | histogram"),
            (offset_of!(Process, in_vendor), "| 1, 1 | ticks and calls inside"),
            (offset_of!(Process, fallbacks), "| 24 | calls that went to the vendor"),
            (offset_of!(Process, errors), "| 16 | calls that returned an error"),
            (offset_of!(Process, sums), "| 14 | sums over all communicators"),
            (offset_of!(Process, first_without_ghosts), "| 1, 1 | nanoseconds of the first kernel"),
            (offset_of!(Process, calls), "| 1 | head of the calls"),
            (offset_of!(Process, decisions), "| 1 | head of the decisions"),
        ];
        let communicator = [
            (offset_of!(Communicator, facts), "| 1, 1 | name, equal on all ranks"),
            (offset_of!(Communicator, issuing), "| 1, 1 | collectives issued"),
            (offset_of!(Communicator, issuing.vnmse), "| 1 | the last measured vNMSE"),
            (offset_of!(Communicator, issuing.inside_other), "| 1 | what the threads are inside of"),
            (offset_of!(Communicator, completing), "| 1, 1 | the highest sequence seen"),
            (offset_of!(Communicator, completing.polled_at), "| 1 | ticks of the last time such"),
            (offset_of!(Communicator, sums), "| 14 | sums as in the process"),
            (offset_of!(Communicator, agreement), "| 1+1+1+8 | version; agreement"),
            (offset_of!(Communicator, plan), "| 1+1+8 | version; the index"),
            (offset_of!(Communicator, pattern), "| 1+4 | version; pattern"),
            (offset_of!(Communicator, arrivals), "| 64 × 2 | arrivals"),
            (offset_of!(Communicator, milestones), "| 64 × 2 | the same"),
        ];
        let by_path = [
            (offset_of!(ByPath, sizes), "| 16 | calls by size class"),
            (offset_of!(ByPath, durations), "| 16 × 32 | device time"),
        ];
        for (offset, row) in process.into_iter().chain(communicator).chain(by_path) {
            let row = format!("| {} {row}", grouped(offset as u64));
            assert!(PAGE.contains(&row), "{row}");
        }
    }

    #[test]
    fn the_page_lists_all_names_in_the_order_of_their_numbers() {
        let lists = [
            Reason::ALL.iter().map(|one| one.name()).collect::<Vec<_>>(),
            Kind::ALL.iter().map(|one| one.name()).collect(),
            Path::ALL.iter().map(|one| one.name()).collect(),
            EventKind::ALL.iter().map(|one| one.name()).collect(),
            Deviation::ALL.iter().map(|one| one.name()).collect(),
            Grew::ALL.iter().map(|one| one.name()).collect(),
        ];
        for list in lists {
            assert!(PAGE.contains(&format!(": {}.", list.join(", "))), "{list:?}");
        }
    }

    fn grouped(number: u64) -> String {
        if number < 1000 {
            number.to_string()
        } else {
            format!("{},{:03}", grouped(number / 1000), number % 1000)
        }
    }
}
