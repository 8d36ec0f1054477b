//! A set of ranks, and how a few of them are named in a reason.

/// A reason names no more ranks than this.
const NAMED: usize = 8;

#[derive(Clone, Debug, Default)]
pub(super) struct RankSet {
    words: Vec<u64>,
    len: u32,
}

impl RankSet {
    /// Whether it was not in it before.
    pub(super) fn insert(&mut self, rank: u32) -> bool {
        let (word, bit) = (rank as usize / 64, 1_u64 << (rank % 64));
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        let fresh = self.words[word] & bit == 0;
        self.words[word] |= bit;
        self.len += u32::from(fresh);
        fresh
    }

    pub(super) fn contains(&self, rank: u32) -> bool {
        self.words.get(rank as usize / 64).is_some_and(|word| word & (1 << (rank % 64)) != 0)
    }

    pub(super) fn holds_all(&self, ranks: u32) -> bool {
        self.len >= ranks
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }
}

pub(super) fn few(ranks: impl Iterator<Item = u32>) -> Vec<u32> {
    ranks.take(NAMED).collect()
}
