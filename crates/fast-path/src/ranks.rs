//! How many ranks a communicator has, and how they lie on nodes: as many on each, one node's after the other's,
//! or each on a node of its own. Pure; who asks has seen to it that all ranks have the same answer.

/// More nodes leave a call of three exchanges too few steps: it reduces once for each.
const MOST_NODES: usize = 128;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ranks {
    all: u32,
    per_node: u32,
}

impl Ranks {
    /// What comes to less than two nodes of at least two ranks, or does not come out even, counts as one rank on each.
    pub fn new(all: usize, per_node: usize) -> Self {
        let all = u32::try_from(all).unwrap_or(u32::MAX);
        let regular = |per_node: &u32| *per_node >= 2 && all.is_multiple_of(*per_node);
        let nodes = |per_node: u32| (all / per_node) as usize;
        let per_node = u32::try_from(per_node).ok().filter(regular);
        let per_node = per_node.filter(|per_node| (2..=MOST_NODES).contains(&nodes(*per_node))).unwrap_or(1);
        Self { all, per_node }
    }

    pub fn all(self) -> usize {
        self.all as usize
    }

    pub fn per_node(self) -> usize {
        self.per_node as usize
    }

    pub fn nodes(self) -> usize {
        (self.all / self.per_node) as usize
    }

    pub(crate) fn node_of(self, rank: usize) -> usize {
        rank / self.per_node()
    }

    pub(crate) fn place_of(self, rank: usize) -> usize {
        rank % self.per_node()
    }

    pub(crate) fn at(self, node: usize, place: usize) -> usize {
        node * self.per_node() + place
    }
}

/// Each on a node of its own, or nobody knows.
impl From<usize> for Ranks {
    fn from(all: usize) -> Self {
        Self::new(all, 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_several_nodes_of_several_ranks_each_count_as_nodes() {
        let regular =
            |all, per_node| (Ranks::new(all, per_node).per_node(), Ranks::new(all, per_node).nodes());
        assert_eq!(regular(4, 2), (2, 2));
        assert_eq!(regular(6, 3), (3, 2));
        assert_eq!(regular(2 * MOST_NODES, 2), (2, MOST_NODES));
        for (all, per_node) in
            [(4, 0), (4, 1), (4, 3), (4, 4), (4, 8), (2, 2), (7, 2), (2 * MOST_NODES + 2, 2)]
        {
            assert_eq!(regular(all, per_node), (1, all), "{all} as {per_node}");
        }
    }

    #[test]
    fn every_rank_has_one_place_on_one_node() {
        let ranks = Ranks::new(12, 4);
        for rank in 0..12 {
            assert_eq!(ranks.at(ranks.node_of(rank), ranks.place_of(rank)), rank);
            assert!(ranks.node_of(rank) < 3 && ranks.place_of(rank) < 4);
        }
        assert_eq!((ranks.node_of(3), ranks.node_of(4)), (0, 1));
    }
}
