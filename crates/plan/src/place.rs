//! Where ranks stand and what lies between them, as far as the model knows it: who shares which link and which
//! machine. A benchmark and a cluster file both become a `Place`; the model asks it how long the wires need.

/// Bytes per microsecond of one Gbit/s.
pub(crate) const GBPS: f64 = 125.0;

/// The ranks of one communicator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Place {
    pub(crate) nodes: usize,
    pub(crate) per_node: usize,
    /// Communicators like this one that use a node's NICs at the same time.
    pub(crate) side_by_side: usize,
    /// Egress of a node, all NICs together, in bytes per microsecond; None: not a limit.
    pub(crate) nics: Option<f64>,
    /// Egress of a GPU towards the others of its node.
    pub(crate) gpu_link: Option<f64>,
    /// One wire that all ranks share, as a shaped loopback is.
    pub(crate) one_wire: Option<f64>,
    /// What a shaped link sends at once after a pause, in microseconds at its rate. Real links: 0.
    pub(crate) burst_us: f64,
    /// Ranks whose messages the same processors serve; 0: none has to (RDMA).
    pub(crate) ranks_per_host: usize,
    /// Ranks whose kernels run on the same device.
    pub(crate) ranks_per_device: usize,
}

impl Place {
    pub(crate) fn ranks(&self) -> usize {
        self.nodes * self.per_node
    }

    /// Microseconds that the slowest link needs for a ring in which each rank sends `bytes` to its neighbour: it
    /// leaves each node once, whatever number of ranks is inside.
    pub(crate) fn ring_us(&self, bytes: f64) -> f64 {
        let outside = if self.nodes > 1 { bytes * self.side_by_side as f64 } else { 0.0 };
        let inside = if self.per_node > 1 { bytes } else { 0.0 };
        self.slowest(outside, inside, bytes)
    }

    /// The same for messages from each rank to every other, `bytes` from each in all.
    pub(crate) fn scatter_us(&self, bytes: f64) -> f64 {
        let leaves = if self.nodes > 1 { bytes * self.scatter_outside() } else { 0.0 };
        let outside = leaves * (self.per_node * self.side_by_side) as f64;
        self.slowest(outside, bytes - leaves, bytes)
    }

    /// The same where each rank sends `bytes` to the others of its node alone.
    pub(crate) fn within_node_us(&self, bytes: f64) -> f64 {
        self.slowest(0.0, bytes, bytes)
    }

    /// The same where each rank sends `bytes` to other nodes alone.
    pub(crate) fn across_nodes_us(&self, bytes: f64) -> f64 {
        self.slowest(bytes * (self.per_node * self.side_by_side) as f64, 0.0, bytes)
    }

    /// The part of a ring's bytes that a rank sends out of its node: its ranks take turns at that.
    pub(crate) fn ring_outside(&self) -> f64 {
        if self.nodes > 1 { 1.0 / self.per_node as f64 } else { 1.0 }
    }

    /// The part of a scatter's bytes that a rank sends out of its node.
    pub(crate) fn scatter_outside(&self) -> f64 {
        let (ranks, per_node) = (self.ranks() as f64, self.per_node as f64);
        if self.nodes > 1 { (ranks - per_node) / (ranks - 1.0) } else { 1.0 }
    }

    fn slowest(&self, outside: f64, inside: f64, sent: f64) -> f64 {
        let over = |bytes: f64, rate: Option<f64>| rate.map_or(0.0, |rate| bytes / rate);
        let shared = over(sent * self.ranks() as f64, self.one_wire);
        over(outside, self.nics).max(over(inside, self.gpu_link)).max(shared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(nodes: usize, per_node: usize) -> Place {
        Place {
            nodes,
            per_node,
            side_by_side: 1,
            nics: Some(100.0),
            gpu_link: Some(1000.0),
            one_wire: None,
            burst_us: 0.0,
            ranks_per_host: per_node,
            ranks_per_device: 1,
        }
    }

    #[test]
    fn a_ring_leaves_a_node_once_but_a_scatter_once_for_each_of_its_ranks() {
        let one_each = place(4, 1);
        assert_eq!(one_each.ring_us(3000.0), one_each.scatter_us(3000.0));
        let eight_each = place(2, 8);
        assert_eq!(eight_each.ring_us(1500.0), 15.0);
        // Eight of fifteen parts of what each of the eight ranks sends.
        assert!((eight_each.scatter_us(1500.0) - 64.0).abs() < 1e-9);
        assert_eq!((eight_each.ring_outside(), eight_each.scatter_outside()), (1.0 / 8.0, 8.0 / 15.0));
        assert_eq!((one_each.ring_outside(), one_each.scatter_outside()), (1.0, 1.0));
    }

    #[test]
    fn what_a_node_has_summed_up_leaves_it_once() {
        let place = place(2, 8);
        // Of 1600 bytes each of 16 ranks owns 100. Seven eighths of them go to the node's other ranks.
        assert_eq!(place.within_node_us(1400.0), 1.4);
        // Each rank sends the other node 100: 800 leave, half of the 1600.
        assert_eq!(place.across_nodes_us(100.0), 8.0);
        assert!(place.across_nodes_us(100.0) < place.ring_us(1500.0));
    }

    #[test]
    fn inside_one_node_only_the_gpus_links_count() {
        assert_eq!(place(1, 4).ring_us(1000.0), 1.0);
        assert_eq!(place(1, 4).scatter_us(1000.0), 1.0);
    }

    #[test]
    fn communicators_side_by_side_share_the_nics() {
        let shared = Place { side_by_side: 8, ..place(4, 1) };
        assert_eq!(shared.ring_us(100.0), 8.0);
    }

    #[test]
    fn on_one_wire_all_ranks_add_up() {
        let place = Place { nics: None, one_wire: Some(100.0), ..place(4, 1) };
        assert_eq!(place.ring_us(100.0), 4.0);
    }
}
