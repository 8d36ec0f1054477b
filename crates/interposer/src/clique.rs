//! A name for a communicator that is the same on all its ranks: from the id that the application
//! distributed, or from the parent and which of its children this is.

use crate::calls::Derivation;
use airamp_vendor_abi::nccl::UniqueId;
use std::sync::atomic::{AtomicU32, Ordering};

/// The communicators of one process with the same clique are ranks of one communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Clique(pub(crate) u64);

impl Clique {
    /// Of a communicator whose creation was not seen.
    pub(crate) const UNKNOWN: Self = Self(0);

    pub(crate) fn of_id(id: &UniqueId) -> Self {
        Self(hash(&id.internal))
    }

    /// All ranks of `ncclCommInitAll` are in this process; no other process has the name. Numbers of processes are not
    /// enough for that: each container has its own, and a machine has those of others.
    pub(crate) fn of_this_process() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        Self::of_process(random(), std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
    }

    fn of_process(random: u64, process: u32, number: u32) -> Self {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&random.to_le_bytes());
        bytes[8..12].copy_from_slice(&process.to_le_bytes());
        bytes[12..].copy_from_slice(&number.to_le_bytes());
        Self(hash(&bytes))
    }

    /// The `number`th child of that kind `without` those ranks; the ranks of one split differ in `colour`.
    pub(crate) fn of_child(self, how: Derivation, number: u32, colour: i32, without: u64) -> Self {
        if self == Self::UNKNOWN {
            return self;
        }
        let mut bytes = [0; 25];
        bytes[..8].copy_from_slice(&self.0.to_le_bytes());
        bytes[8] = how as u8;
        bytes[9..13].copy_from_slice(&number.to_le_bytes());
        bytes[13..17].copy_from_slice(&colour.to_le_bytes());
        bytes[17..].copy_from_slice(&without.to_le_bytes());
        Self(hash(&bytes))
    }
}

/// Another number at each call. Where the kernel gives none, the time has to do.
fn random() -> u64 {
    let mut number = 0_u64;
    // SAFETY: as many bytes as the number has, which any will do for.
    let got = unsafe { libc::getrandom((&raw mut number).cast(), size_of::<u64>(), libc::GRND_NONBLOCK) };
    if got == size_of::<u64>() as isize {
        return number;
    }
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}

/// A name for a set of ranks, in whatever order they are listed; never 0.
pub(crate) fn set_of_ranks(ranks: &[i32]) -> u64 {
    let mut sorted = ranks.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    hash(&sorted.iter().flat_map(|rank| rank.to_le_bytes()).collect::<Vec<u8>>())
}

/// FNV-1a, never 0.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_differ_by_kind_number_colour_and_who_is_left_out() {
        let parent = Clique::of_id(&UniqueId { internal: [7; 128] });
        let names = [
            parent,
            parent.of_child(Derivation::Split, 0, 0, 0),
            parent.of_child(Derivation::Split, 0, 1, 0),
            parent.of_child(Derivation::Split, 1, 0, 0),
            parent.of_child(Derivation::Shrink, 0, 0, 0),
            parent.of_child(Derivation::Shrink, 0, 0, set_of_ranks(&[2])),
        ];
        for (at, name) in names.iter().enumerate() {
            assert!(!names[..at].contains(name));
        }
        assert_eq!(Clique::UNKNOWN.of_child(Derivation::Split, 0, 0, 0), Clique::UNKNOWN);
    }

    #[test]
    fn processes_with_the_same_number_have_other_names_and_so_has_each_call() {
        assert_ne!(Clique::of_process(random(), 1, 0), Clique::of_process(random(), 1, 0));
        assert_ne!(Clique::of_process(7, 1, 0), Clique::of_process(7, 2, 0), "a forked child's");
        assert_ne!(Clique::of_process(7, 1, 0), Clique::of_process(7, 1, 1));
        assert_ne!(Clique::of_this_process(), Clique::of_this_process());
    }

    #[test]
    fn ranks_that_list_others_in_another_order_leave_out_the_same() {
        assert_eq!(set_of_ranks(&[3, 1, 3]), set_of_ranks(&[1, 3]));
        assert_ne!(set_of_ranks(&[1]), set_of_ranks(&[3]));
        assert_ne!(set_of_ranks(&[]), set_of_ranks(&[0]));
    }
}
