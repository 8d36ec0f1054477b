//! Values of several words that a reader gets whole or not at all: a version word stands before them, odd while they
//! are written. Two writers never write the same words at once: the second one drops its value and says so, which
//! keeps both wait-free. A writer that is killed in the middle leaves an odd version for ever, and the words unread.

use crate::atomic::{AtomicU64, Ordering, fence};

/// Replaces the words. False: somebody else is writing them.
#[inline]
pub(crate) fn replace(version: &AtomicU64, words: &[AtomicU64], values: &[u64]) -> bool {
    let before = version.load(Ordering::Relaxed);
    publish(version, before, before.wrapping_add(2), words, values)
}

/// Writes the record at `position` of a ring into its cell. False: somebody is still writing an older record there,
/// or a newer one was faster.
#[inline]
pub(crate) fn put(version: &AtomicU64, position: u64, words: &[AtomicU64], values: &[u64]) -> bool {
    let before = version.load(Ordering::Relaxed);
    let after = complete(position);
    before < after && publish(version, before, after, words, values)
}

/// The same where the cell holds the record of one lap before, as a rule: one step less then.
#[inline(always)]
pub(crate) fn put_in_turn(
    version: &AtomicU64,
    position: u64,
    lap: u64,
    words: &[AtomicU64],
    values: &[u64],
) -> bool {
    let before = if position < lap { 0 } else { complete(position - lap) };
    publish(version, before, complete(position), words, values) || put(version, position, words, values)
}

/// Changes one word of the record at `position`, if its cell still holds it and nobody is writing there.
pub(crate) fn amend(
    version: &AtomicU64,
    position: u64,
    word: &AtomicU64,
    change: impl Fn(u64) -> u64,
) -> bool {
    let whole = complete(position);
    if version.compare_exchange(whole, whole.wrapping_sub(1), Ordering::Acquire, Ordering::Relaxed).is_err() {
        return false;
    }
    // The version comes back: a reader may get the old word or the new one, and both belong to the record.
    word.store(change(word.load(Ordering::Relaxed)), Ordering::Relaxed);
    version.store(whole, Ordering::Release);
    true
}

/// The version of a cell that holds the whole record at `position`.
#[inline]
pub(crate) fn complete(position: u64) -> u64 {
    position.wrapping_mul(2).wrapping_add(2)
}

#[inline(always)]
fn publish(version: &AtomicU64, before: u64, after: u64, words: &[AtomicU64], values: &[u64]) -> bool {
    // Acquire: the stores of whoever wrote here last come before ours, in every eye.
    let claim =
        || version.compare_exchange(before, after.wrapping_sub(1), Ordering::Acquire, Ordering::Relaxed);
    if before & 1 == 1 || claim().is_err() {
        return false;
    }
    // Who sees one of the new words also sees that the version is odd, or later.
    fence(Ordering::Release);
    for (word, value) in words.iter().zip(values) {
        word.store(*value, Ordering::Relaxed);
    }
    version.store(after, Ordering::Release);
    true
}
