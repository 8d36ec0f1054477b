//! How many bytes a call is about, and how many of them this rank sends to its peers where the vendor carries it
//! out as a ring (a collective), as a chain (one root) or as a message. Pure; docs/telemetry.md has the table.

use airamp_telemetry::Kind;

/// A call as its rank sees it. `bytes` are those of its count; `rank` and `peer` are negative where there is none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) kind: Kind,
    pub(super) bytes: u64,
    pub(super) rank: i32,
    pub(super) ranks: i32,
    pub(super) peer: i32,
}

impl Size {
    fn ranks(&self) -> u64 {
        self.ranks.max(1) as u64
    }

    fn is_root(&self) -> bool {
        self.rank == self.peer
    }

    /// Of the larger of the call's two buffers on this rank.
    #[inline(always)]
    pub(super) fn logical(&self) -> u64 {
        match self.kind {
            Kind::AllGather | Kind::ReduceScatter | Kind::AllToAll => self.bytes.wrapping_mul(self.ranks()),
            Kind::Gather | Kind::Scatter if self.is_root() => self.bytes.wrapping_mul(self.ranks()),
            _ => self.bytes,
        }
    }

    /// That this rank sends.
    #[inline(always)]
    pub(super) fn sent(&self) -> u64 {
        let others = self.ranks() - 1;
        match self.kind {
            Kind::AllReduce | Kind::AllReduceWithBias => self.bytes.wrapping_mul(2 * others) / self.ranks(),
            Kind::AllGather | Kind::ReduceScatter | Kind::AllToAll => self.bytes.wrapping_mul(others),
            Kind::Scatter if self.is_root() => self.bytes.wrapping_mul(others),
            Kind::Scatter | Kind::Recv => 0,
            // Each rank gets another number of bytes, of which this knows nothing.
            Kind::AllToAllV => 0,
            Kind::Send | Kind::Reduce | Kind::Gather if self.is_root() => 0,
            Kind::Broadcast if self.is_last_of_chain() => 0,
            Kind::Send | Kind::Reduce | Kind::Gather | Kind::Broadcast if others == 0 => 0,
            Kind::Send | Kind::Reduce | Kind::Gather | Kind::Broadcast => self.bytes,
        }
    }

    fn is_last_of_chain(&self) -> bool {
        self.peer >= 0
            && i64::from(self.rank) == (i64::from(self.peer) + others(self.ranks)) % ranks(self.ranks)
    }
}

fn ranks(ranks: i32) -> i64 {
    i64::from(ranks.max(1))
}

fn others(ranks: i32) -> i64 {
    i64::from(ranks.max(1)) - 1
}

/// Elements of a call that gives each rank another number of them: all, and those that it sends to others.
pub(super) fn uneven(counts: &[usize], rank: i32) -> (u64, u64) {
    let all = counts.iter().fold(0u64, |sum, count| sum.saturating_add(*count as u64));
    let own = usize::try_from(rank).ok().and_then(|rank| counts.get(rank)).map_or(0, |count| *count as u64);
    (all, all - own)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_ranks(kind: Kind, peer: i32) -> [(u64, u64); 4] {
        std::array::from_fn(|rank| {
            let size = Size { kind, bytes: 100, rank: rank as i32, ranks: 4, peer };
            (size.logical(), size.sent())
        })
    }

    #[test]
    fn what_all_ranks_send_is_what_the_ring_or_the_chain_carries() {
        assert_eq!(all_ranks(Kind::AllReduce, -1), [(100, 150); 4]);
        assert_eq!(all_ranks(Kind::AllReduceWithBias, -1), [(100, 150); 4]);
        assert_eq!(all_ranks(Kind::AllGather, -1), [(400, 300); 4]);
        assert_eq!(all_ranks(Kind::ReduceScatter, -1), [(400, 300); 4]);
        assert_eq!(all_ranks(Kind::AllToAll, -1), [(400, 300); 4]);
        assert_eq!(all_ranks(Kind::Broadcast, 1), [(100, 0), (100, 100), (100, 100), (100, 100)]);
        assert_eq!(all_ranks(Kind::Broadcast, 0), [(100, 100), (100, 100), (100, 100), (100, 0)]);
        assert_eq!(all_ranks(Kind::Reduce, 2), [(100, 100), (100, 100), (100, 0), (100, 100)]);
        assert_eq!(all_ranks(Kind::Gather, 2), [(100, 100), (100, 100), (400, 0), (100, 100)]);
        assert_eq!(all_ranks(Kind::Scatter, 2), [(100, 0), (100, 0), (400, 300), (100, 0)]);
        assert_eq!(all_ranks(Kind::Send, 3), [(100, 100), (100, 100), (100, 100), (100, 0)]);
        assert_eq!(all_ranks(Kind::Recv, 3), [(100, 0); 4]);
    }

    #[test]
    fn what_a_rank_keeps_of_an_uneven_exchange_is_not_sent() {
        assert_eq!(uneven(&[1, 2, 4, 8], 2), (15, 11));
        assert_eq!(uneven(&[1, 2, 4, 8], -1), (15, 15));
        assert_eq!(uneven(&[], 0), (0, 0));
        assert_eq!(uneven(&[usize::MAX, 5], 0), (u64::MAX, 0));
    }

    #[test]
    fn a_rank_that_is_alone_or_does_not_know_its_peers_sends_nothing() {
        for kind in Kind::ALL {
            for ranks in [1, -1] {
                let size = Size { kind: *kind, bytes: 100, rank: ranks.min(0), ranks, peer: 0 };
                assert_eq!(size.sent(), 0, "{kind:?} with {ranks} ranks");
            }
        }
    }
}
