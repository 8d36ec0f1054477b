//! What an AllReduce of a scenario must give. Inputs are numbers of five bits, of which the 8-bit formats
//! keep four: their sums over eight ranks are exact in every type, and compressed ones differ from them.
//! They vary in size from block to block, so that a misplaced scale shows. The compressed result is the
//! codec's over blocks of the whole tensor; how the library cuts a tensor never shows, since all its
//! cuts lie between blocks.

use airamp_codec::{self as codec, Element, Format, Tag, packet_bytes};
use airamp_fast_path::Ranks;
use airamp_vendor_abi::nccl::{DataType, RedOp};

use crate::collective::Form;
use crate::lane;
use crate::numbers::{decode, encode, epsilon};
use crate::pattern::{self, Reduction};

/// Elements after which the inputs change their size; no divisor of a block.
const STRETCH: usize = 48;
/// The largest input before it is stretched.
const LARGEST: i64 = 31;

/// One AllReduce: its facts, and which numbers go into it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spec {
    pub(super) datatype: DataType,
    pub(super) reduction: Reduction,
    pub(super) count: usize,
    pub(super) in_place: bool,
    /// Elements by which the buffers are shifted, so that alignment varies.
    pub(super) shift: usize,
    pub(super) seed: usize,
    pub(super) form: Form,
    /// Never compressed, for a reason that the other facts do not show.
    pub(super) passes_through: bool,
}

/// Ranks on each node: what the settings say, unless the job's hosts do and its test knows what.
fn expected_per_node() -> usize {
    let told = std::env::var("AIRAMP_TEST_RANKS_PER_NODE").ok().and_then(|number| number.parse().ok());
    told.unwrap_or_else(lane::ranks_per_node)
}

/// How often a compressed result is rounded.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::enum_variant_names, reason = "as the fast path calls them")]
enum Way {
    OneShot,
    TwoShot,
    /// On nodes of so many ranks.
    ThreeShot(usize),
}

/// What the run is about: the vendor's own results, or compressed ones.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expectation {
    pub(super) format: Option<Format>,
    pub(super) min_bytes: usize,
}

impl Spec {
    pub(super) fn sum(datatype: DataType, count: usize) -> Self {
        Self {
            datatype,
            reduction: Reduction::Sum,
            count,
            in_place: false,
            shift: 0,
            seed: 0,
            form: Form::Plain,
            passes_through: false,
        }
    }

    pub(super) fn seeded(self, seed: usize) -> Self {
        Self { seed, ..self }
    }

    pub(super) fn element_size(&self) -> usize {
        self.datatype.size().unwrap_or(1)
    }

    pub(super) fn bytes(&self) -> usize {
        self.count * self.element_size()
    }

    /// The reduction's number; a PreMulSum has one of its own.
    pub(super) fn built_in(&self) -> RedOp {
        match self.reduction {
            Reduction::Prod => RedOp::PROD,
            Reduction::Max => RedOp::MAX,
            Reduction::Min => RedOp::MIN,
            Reduction::Avg => RedOp::AVG,
            Reduction::Sum | Reduction::PreMulSum => RedOp::SUM,
        }
    }

    pub(super) fn element(&self) -> Option<Element> {
        match self.datatype {
            DataType::FLOAT16 => Some(Element::F16),
            DataType::BFLOAT16 => Some(Element::Bf16),
            DataType::FLOAT32 => Some(Element::F32),
            _ => None,
        }
    }

    fn compressible(&self) -> Option<Element> {
        let adds = matches!(self.reduction, Reduction::Sum | Reduction::Avg);
        self.element().filter(|_| adds && !self.passes_through && self.count > 0)
    }

    pub(super) fn input(&self, ranks: usize, rank: usize) -> Vec<u8> {
        match self.compressible() {
            Some(_) => self.encoded(|index| self.value(rank, index)),
            None => pattern::input(self.datatype, self.reduction, ranks, rank, self.start(), self.count),
        }
    }

    /// The exact result.
    pub(super) fn exact(&self, ranks: usize) -> Vec<u8> {
        let parts = if self.reduction == Reduction::Avg { ranks as f64 } else { 1.0 };
        match self.compressible() {
            Some(_) => {
                self.encoded(|index| (0..ranks).map(|rank| self.value(rank, index)).sum::<f64>() / parts)
            }
            None => pattern::reduced(self.datatype, self.reduction, ranks, self.start(), self.count),
        }
    }

    /// The result by the codec; `None` for a call that is never compressed.
    pub(super) fn compressed(&self, ranks: usize, format: Format) -> Option<Vec<u8>> {
        let inputs: Vec<Vec<u8>> = (0..ranks).map(|rank| self.input(ranks, rank)).collect();
        self.compressed_from(&inputs, format)
    }

    /// The results that the codec can give, one for each algorithm and for nodes of each size; none for a call that is
    /// never compressed.
    pub(super) fn compressed_by_any(&self, ranks: usize, format: Format) -> Vec<Vec<u8>> {
        let inputs: Vec<Vec<u8>> = (0..ranks).map(|rank| self.input(ranks, rank)).collect();
        let on_nodes = (2..ranks).filter(|per_node| Ranks::new(ranks, *per_node).per_node() > 1);
        let ways = [Way::OneShot, Way::TwoShot].into_iter().chain(on_nodes.map(Way::ThreeShot));
        ways.filter_map(|way| self.compressed_by(&inputs, format, way)).collect()
    }

    fn compressed_from(&self, inputs: &[Vec<u8>], format: Format) -> Option<Vec<u8>> {
        let per_node = Ranks::new(inputs.len(), expected_per_node()).per_node();
        let way = match inputs.len() {
            2 => Way::OneShot,
            _ if per_node > 1 => Way::ThreeShot(per_node),
            _ => Way::TwoShot,
        };
        self.compressed_by(inputs, format, way)
    }

    fn compressed_by(&self, inputs: &[Vec<u8>], format: Format, way: Way) -> Option<Vec<u8>> {
        let element = self.compressible()?;
        let average = self.reduction == Reduction::Avg;
        let tag = Tag::default();
        let quantised = |(rank, input): (usize, &Vec<u8>)| {
            let mut packet = vec![0; packet_bytes(self.count)];
            codec::quantise(element, input, format, tag.of_rank(rank), &mut packet);
            packet
        };
        let packets: Vec<Vec<u8>> = inputs.iter().enumerate().map(quantised).collect();
        let summed = |packets: &[Vec<u8>], first: usize, number: usize| {
            let packets: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
            let (mut sum, tags) =
                (vec![0; packet_bytes(self.count)], (tag.of_rank(first), tag.of_rank(number)));
            codec::reduce(element, &packets, self.count, format, average, tags.0, tags.1, &mut sum);
            sum
        };
        let mut output = vec![0; self.bytes()];
        let sum = match way {
            Way::OneShot => {
                let packets: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
                codec::dequantise_sum(element, &packets, self.count, format, average, tag, &mut output);
                return Some(output);
            }
            Way::TwoShot => summed(&packets, 0, 0),
            Way::ThreeShot(per_node) => {
                let of_node = |(node, packets)| summed(packets, node * per_node, node);
                let nodes: Vec<Vec<u8>> = packets.chunks(per_node).enumerate().map(of_node).collect();
                summed(&nodes, 0, 0)
            }
        };
        codec::dequantise(element, &sum, self.count, format, tag, &mut output);
        Some(output)
    }

    fn start(&self) -> usize {
        self.seed * 17
    }

    /// Element `index` of a rank's input.
    fn value(&self, rank: usize, index: usize) -> f64 {
        let word = ((rank as u64) << 40 | (index + self.start()) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let word = (word ^ (word >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33;
        let small = (word % (2 * LARGEST as u64 + 1)) as i64 - LARGEST;
        small as f64 * self.size_at(index)
    }

    fn size_at(&self, index: usize) -> f64 {
        f64::from(1u32 << ((index / STRETCH + self.seed) % 5))
    }

    fn encoded(&self, value: impl Fn(usize) -> f64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.bytes());
        (0..self.count).for_each(|index| encode(self.datatype, value(index), &mut bytes));
        bytes
    }

    /// Whether it is the vendor's result. Only an average over a number of ranks that is no power
    /// of two may differ, by what the inputs round when each is divided.
    fn is_exact(&self, ranks: usize, output: &[u8]) -> bool {
        let exact = self.exact(ranks);
        if self.reduction != Reduction::Avg || ranks.is_power_of_two() || self.compressible().is_none() {
            return pattern::agrees(self.datatype, self.reduction, ranks, output, &exact);
        }
        let size = self.element_size();
        let mut pairs = output.chunks_exact(size).zip(exact.chunks_exact(size)).enumerate();
        output.len() == exact.len()
            && pairs.all(|(index, (output, exact))| {
                let (output, exact) = (decode(self.datatype, output), decode(self.datatype, exact));
                let rounding = LARGEST as f64 * self.size_at(index) * epsilon(self.datatype).unwrap_or(0.0);
                (output - exact).abs() <= rounding
            })
    }
}

impl Expectation {
    /// Whether the library is to compress such a call, as all ranks know alike.
    pub(super) fn compresses(&self, spec: &Spec, ranks: usize) -> bool {
        let wanted = self.format.is_some() && ranks > 1 && spec.bytes() >= self.min_bytes;
        wanted && spec.compressible().is_some()
    }

    /// The sum where every rank puts in the same numbers, which are exact when multiplied.
    pub(super) fn repeated(&self, spec: &Spec, ranks: usize, input: &[u8]) -> Vec<u8> {
        let format = self.format.filter(|_| self.compresses(spec, ranks));
        let compressed = format.and_then(|format| spec.compressed_from(&vec![input.to_vec(); ranks], format));
        compressed.unwrap_or_else(|| {
            let mut sum = Vec::with_capacity(input.len());
            for value in input.chunks_exact(spec.element_size()) {
                encode(spec.datatype, decode(spec.datatype, value) * ranks as f64, &mut sum);
            }
            sum
        })
    }

    /// Whether every element is the compressed one or no number.
    pub(super) fn is_marked(&self, spec: &Spec, ranks: usize, output: &[u8]) -> bool {
        let compressed = self.format.and_then(|format| spec.compressed(ranks, format)).unwrap_or_default();
        let size = spec.element_size();
        let mut pairs = output.chunks_exact(size).zip(compressed.chunks_exact(size));
        output.len() == compressed.len()
            && pairs.all(|(got, wanted)| got == wanted || decode(spec.datatype, got).is_nan())
    }

    /// What is wrong with a result, if anything.
    pub(super) fn fault(&self, spec: &Spec, ranks: usize, output: &[u8]) -> Option<String> {
        let format = self.format.filter(|_| self.compresses(spec, ranks));
        let compressed = format.and_then(|format| spec.compressed(ranks, format));
        let exact = || spec.exact(ranks);
        let right = match &compressed {
            Some(bits) => output == bits,
            None => spec.is_exact(ranks, output),
        };
        if right {
            return None;
        }
        let expected = compressed.unwrap_or_else(exact);
        let at = output.iter().zip(&expected).position(|(got, wanted)| got != wanted).unwrap_or(0);
        let kind = if format.is_some() { "compressed" } else { "exact" };
        let vendor = if output == exact() { ", it is the vendor's result" } else { "" };
        let element = at / spec.element_size();
        Some(format!("element {element} is not the {kind} one{vendor}: {spec:?} over {ranks} ranks"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMPRESSED: Expectation = Expectation { format: Some(Format::Auto), min_bytes: 4096 };

    #[test]
    fn a_compressed_result_is_never_taken_for_the_vendors_nor_the_reverse() {
        let vendor = Expectation { format: None, ..COMPRESSED };
        let types = [DataType::FLOAT16, DataType::BFLOAT16, DataType::FLOAT32];
        for (datatype, ranks) in
            types.into_iter().flat_map(|datatype| (2..=8).map(move |ranks| (datatype, ranks)))
        {
            let spec = Spec::sum(datatype, 2048);
            let (exact, lossy) = (spec.exact(ranks), spec.compressed(ranks, Format::Auto).unwrap());
            assert!(vendor.fault(&spec, ranks, &exact).is_none());
            assert!(vendor.fault(&spec, ranks, &lossy).is_some());
            assert!(COMPRESSED.fault(&spec, ranks, &lossy).is_none());
            assert!(COMPRESSED.fault(&spec, ranks, &exact).is_some());
            let block = 128 * spec.element_size();
            assert!(
                exact.chunks_exact(block).zip(lossy.chunks_exact(block)).all(|(exact, lossy)| exact != lossy)
            );
        }
    }

    #[test]
    fn results_of_different_seeds_and_positions_differ() {
        let spec = Spec::sum(DataType::FLOAT16, 4096);
        let result = |seed: usize| spec.seeded(seed).compressed(2, Format::Auto).unwrap();
        assert_ne!(result(0), result(1));
        let whole = result(0);
        assert!(whole.chunks_exact(256).skip(1).all(|block| block != &whole[..256]));
    }

    #[test]
    fn only_sums_and_averages_of_sixteen_and_32_bit_floats_are_compressed() {
        let takes = |spec: Spec| COMPRESSED.compresses(&spec, 2);
        let float = Spec::sum(DataType::FLOAT32, 1024);
        assert!(takes(float) && takes(Spec { reduction: Reduction::Avg, ..float }));
        assert!(!takes(Spec { count: 1023, ..float }));
        assert!(!takes(Spec { reduction: Reduction::Max, ..float }));
        assert!(!takes(Spec::sum(DataType::INT32, 4096)));
        assert!(!COMPRESSED.compresses(&float, 1));
    }
}
