//! Counts the bytes of answers from their making until the last client has taken them, so that clients who ask
//! for much and read slowly cannot make the daemon hold one copy after the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use hyper::body::Bytes;

const MOST_BYTES: usize = 64 << 20;

#[derive(Clone, Default)]
pub(crate) struct Budget {
    kept: Arc<AtomicUsize>,
}

impl Budget {
    /// Whether nothing new should be made until somebody has taken what is there.
    pub(crate) fn is_spent(&self) -> bool {
        self.kept.load(Relaxed) > MOST_BYTES
    }

    pub(crate) fn keep(&self, bytes: Vec<u8>) -> Bytes {
        self.kept.fetch_add(bytes.len(), Relaxed);
        Bytes::from_owner(Counted { bytes, kept: Arc::clone(&self.kept) })
    }
}

struct Counted {
    bytes: Vec<u8>,
    kept: Arc<AtomicUsize>,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.kept.fetch_sub(self.bytes.len(), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_somebody_still_reads_counts_and_what_was_taken_does_not() {
        let budget = Budget::default();
        let first = budget.keep(vec![0; MOST_BYTES]);
        let copy = first.clone();
        assert!(!budget.is_spent());
        let second = budget.keep(vec![0; 1]);
        assert!(budget.is_spent());
        drop(first);
        assert!(budget.is_spent(), "a client still reads the copy");
        drop(copy);
        assert!(!budget.is_spent());
        drop(second);
        assert_eq!(budget.kept.load(Relaxed), 0);
    }
}
