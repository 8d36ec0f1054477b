//! The alpha-beta model: what one call costs, from facts about the call and the place and from costs that `fit` found.
//! Pure. docs/plan.md has the formulas in words. How a compressed call is cut comes from the fast path itself.

use airamp_fast_path::{Algorithm, Plan, Ranks, Shape, Unsuitable};
use serde::{Deserialize, Serialize};

use crate::place::Place;

/// How sharply the slower of two things that overlap decides.
const SHARPNESS: i32 = 6;

/// Costs of the vendor's own AllReduce. Times are microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct VendorCosts {
    /// Whether the latency grows with the logarithm of the ranks (a tree) or with their number (a ring).
    pub(crate) is_tree: bool,
    pub(crate) call_us: f64,
    pub(crate) step_us: f64,
    pub(crate) us_per_byte: f64,
    /// Of the reduction.
    pub(crate) us_per_element: f64,
    /// Time on the wire over what the link's nominal rate would give.
    pub(crate) wire: f64,
    /// Ranks of one machine hinder each other: costs grow with this power of their number.
    pub(crate) crowding: f64,
    /// The part of a burst that a shaped link has gathered when a call begins.
    pub(crate) gathered: f64,
}

/// Costs of ours.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OurCosts {
    pub(crate) call_us: f64,
    pub(crate) exchange_us: f64,
    pub(crate) message_us: f64,
    /// Of what the vendor's AllGather sends, and of Send and Recv.
    pub(crate) gather_us_per_byte: f64,
    pub(crate) scatter_us_per_byte: f64,
    pub(crate) wire: f64,
    /// Of the kernels, per byte that they read or write.
    pub(crate) codec_us_per_byte: f64,
    /// Of the kernels, per element.
    pub(crate) codec_us_per_element: f64,
    pub(crate) crowding: f64,
    /// The same for kernels of ranks that share a device.
    pub(crate) codec_crowding: f64,
    /// Whether the kernels run on the processors that send, as in the emulator.
    pub(crate) codec_on_processors: bool,
}

/// The call and the place as the vendor's costs see them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VendorFacts {
    ring_steps: f64,
    tree_steps: f64,
    /// Out of the rank's node.
    sent_bytes: f64,
    reduced: f64,
    pub(crate) wire_us: f64,
    /// What the link may send at once after it had nothing to do, as time; only shaped links have this.
    burst_us: f64,
    ranks_per_host: f64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct OurFacts {
    chunks: f64,
    exchanges: f64,
    messages: f64,
    /// Out of the rank's node, both.
    gathered_bytes: f64,
    scattered_bytes: f64,
    pub(crate) wire_us: f64,
    /// What the link may send at once after it had nothing to do, as time; only shaped links have this.
    burst_us: f64,
    touched_bytes: f64,
    elements: f64,
    ranks_per_host: f64,
    ranks_per_device: f64,
}

/// The parts of a predicted time, in microseconds. Those of `work` and `wire` overlap.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Parts {
    pub total_us: f64,
    pub latency_us: f64,
    pub wire_us: f64,
    /// What processors or GPUs do for each byte sent.
    pub sending_us: f64,
    pub codec_us: f64,
}

impl VendorFacts {
    /// Of an AllReduce; of an AllGather, a ReduceScatter or a Broadcast with `halves` 1.
    pub(crate) fn new(bytes: f64, element_bytes: f64, halves: u32, place: &Place) -> Self {
        let ranks = place.ranks() as f64;
        let halves = f64::from(halves);
        let sent_bytes = halves * (ranks - 1.0) / ranks * bytes;
        Self {
            ring_steps: halves * (ranks - 1.0),
            tree_steps: halves * ranks.log2().ceil(),
            sent_bytes: sent_bytes * place.ring_outside(),
            reduced: sent_bytes / halves / element_bytes,
            wire_us: place.ring_us(sent_bytes),
            burst_us: place.burst_us,
            ranks_per_host: place.ranks_per_host as f64,
        }
    }
}

impl VendorCosts {
    /// `slowdown` is of what processors do, at this size.
    pub(crate) fn predict(&self, facts: &VendorFacts, slowdown: f64) -> Parts {
        let crowd = crowd(facts.ranks_per_host.max(1.0), self.crowding);
        let steps = if self.is_tree { facts.tree_steps } else { facts.ring_steps };
        let latency_us = (self.call_us + self.step_us * steps * crowd) * slowdown;
        let wire_us = self.wire * facts.wire_us;
        let sending_us = self.us_per_byte * facts.sent_bytes + self.us_per_element * facts.reduced;
        let sending_us = if facts.ranks_per_host > 0.0 { sending_us * crowd * slowdown } else { 0.0 };
        let saved_us = (self.gathered * facts.burst_us).min(wire_us / 2.0);
        let total_us = latency_us + overlapped(wire_us - saved_us, sending_us);
        Parts { total_us, latency_us, wire_us, sending_us, codec_us: 0.0 }
    }
}

/// What an algorithm does for each chunk, and with the call's packets in all.
struct PerChunk {
    exchanges: f64,
    messages: f64,
    gathered_bytes: f64,
    scattered_outside: f64,
    wire_us: f64,
    touched_bytes: f64,
}

impl PerChunk {
    fn of(algorithm: Algorithm, packed: f64, ranks: Ranks, place: &Place) -> Self {
        let (all, others) = (ranks.all() as f64, (ranks.all() - 1) as f64);
        let shared = others / all * packed;
        match algorithm {
            // Everything goes to everybody, and everybody reads all of it.
            Algorithm::OneShot => Self {
                exchanges: 1.0,
                messages: others,
                gathered_bytes: others * packed,
                scattered_outside: 0.0,
                wire_us: place.ring_us(others * packed),
                touched_bytes: (1.0 + all) * packed,
            },
            // Quantise, reduce a shard from each rank, dequantise.
            Algorithm::TwoShot => Self {
                exchanges: 2.0,
                messages: 2.0 * others,
                gathered_bytes: shared,
                scattered_outside: shared * place.scatter_outside(),
                wire_us: place.scatter_us(shared) + place.ring_us(shared),
                touched_bytes: (3.0 + 1.0 / all) * packed,
            },
            // Quantise, put the own packets beside the node's, reduce these for each node, reduce what comes from the
            // nodes, dequantise.
            Algorithm::ThreeShot => {
                let (nodes, per_node) = (ranks.nodes() as f64, ranks.per_node() as f64);
                let (within, across) = ((per_node - 1.0) / per_node * packed, (nodes - 1.0) / all * packed);
                let copied = ((nodes - 1.0) * per_node + 1.0) / all;
                Self {
                    exchanges: 3.0,
                    messages: (per_node - 1.0) * nodes + (nodes - 1.0) + others,
                    gathered_bytes: shared,
                    scattered_outside: across,
                    wire_us: place.within_node_us(within)
                        + place.across_nodes_us(across)
                        + place.ring_us(shared),
                    touched_bytes: (3.0 + 2.0 / per_node + 1.0 / all + 2.0 * copied) * packed,
                }
            }
        }
    }
}

impl OurFacts {
    pub(crate) fn new(
        elements: usize,
        element_bytes: usize,
        arena: usize,
        place: &Place,
    ) -> Result<Self, Unsuitable> {
        let ranks = Ranks::new(place.ranks(), place.per_node);
        let plan = Plan::new(elements, ranks, arena, Shape::usual(ranks))?;
        let tensor = (elements * element_bytes) as f64;
        let per_chunk = PerChunk::of(plan.shape.algorithm, plan.wire_bytes() as f64, ranks, place);
        Ok(Self {
            chunks: plan.overlapping_chunks().max(1) as f64,
            exchanges: per_chunk.exchanges * plan.steps as f64,
            messages: per_chunk.messages * plan.steps as f64,
            gathered_bytes: per_chunk.gathered_bytes * place.ring_outside(),
            scattered_bytes: per_chunk.scattered_outside,
            wire_us: per_chunk.wire_us,
            burst_us: place.burst_us,
            touched_bytes: 2.0 * tensor + per_chunk.touched_bytes,
            elements: elements as f64,
            ranks_per_host: place.ranks_per_host as f64,
            ranks_per_device: place.ranks_per_device as f64,
        })
    }
}

impl OurCosts {
    pub(crate) fn predict(&self, facts: &OurFacts, slowdown: f64) -> Parts {
        let host = crowd(facts.ranks_per_host.max(1.0), self.crowding);
        let latency_us =
            self.call_us + self.exchange_us * facts.exchanges + self.message_us * facts.messages * host;
        let latency_us = latency_us * slowdown;
        let wire_us = self.wire * facts.wire_us;
        let sending_us =
            self.gather_us_per_byte * facts.gathered_bytes + self.scatter_us_per_byte * facts.scattered_bytes;
        let sending_us = if facts.ranks_per_host > 0.0 { sending_us * host * slowdown } else { 0.0 };
        let codec = self.codec_us_per_byte * facts.touched_bytes + self.codec_us_per_element * facts.elements;
        let codec = if self.codec_on_processors { codec * slowdown } else { codec };
        let codec_us = codec * crowd(facts.ranks_per_device.max(1.0), self.codec_crowding);
        // While our kernels run, a shaped link gathers what it then sends at once.
        let saved_us = facts.burst_us.min(latency_us + codec_us / 2.0).min(wire_us / 2.0);
        let exchanging_us = overlapped(wire_us - saved_us, sending_us);
        // Two stages of a pipeline: the slower one, and one chunk of the other.
        let piped_us = exchanging_us.max(codec_us) + exchanging_us.min(codec_us) / facts.chunks;
        Parts { total_us: latency_us + piped_us, latency_us, wire_us, sending_us, codec_us }
    }
}

fn crowd(ranks: f64, power: f64) -> f64 {
    ranks.powf(power)
}

/// The larger of the two, and somewhat more where they are alike.
fn overlapped(one: f64, other: f64) -> f64 {
    let (large, small) = if one > other { (one, other) } else { (other, one) };
    if large <= 0.0 {
        return 0.0;
    }
    large * (1.0 + (small / large).powi(SHARPNESS)).powf(1.0 / f64::from(SHARPNESS))
}
