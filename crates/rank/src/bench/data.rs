//! What the ranks put into a measurement: numbers of a distribution, the same in every run, and
//! their exact sum. A sequence repeats after a prime number of elements, so that blocks and chunks
//! do not, and the sum is worked out once per period.

use airamp_vendor_abi::nccl::DataType;

use crate::numbers::{decode, encode};

/// Elements after which a rank's numbers repeat.
const PERIOD: usize = 262_147;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Distribution {
    /// N(0,1)
    Normal,
    /// N(0,1), and each number times 100 with a chance of 1%
    Spikes,
    /// Sign * 1e-4 * exp(N(0,1)), either sign with the same chance
    Lognormal,
    Zeros,
}

/// The numbers of all ranks before they are rounded to a datatype.
pub(crate) struct Samples(Vec<Vec<f64>>);

impl Samples {
    pub(crate) fn draw(from: Distribution, ranks: usize) -> Self {
        let of = |rank| (0..PERIOD).map(|index| sample(from, rank, index)).collect();
        Self((0..ranks).map(of).collect())
    }

    /// What the ranks hold in memory when their tensors are of `datatype`.
    pub(crate) fn rounded(&self, datatype: DataType) -> Inputs {
        let mut bytes = Vec::new();
        let mut round = |value: &f64| {
            bytes.clear();
            encode(datatype, *value, &mut bytes);
            decode(datatype, &bytes)
        };
        Inputs { values: self.0.iter().map(|rank| rank.iter().map(&mut round).collect()).collect() }
    }
}

/// The numbers of all ranks over one period.
pub(crate) struct Inputs {
    values: Vec<Vec<f64>>,
}

impl Inputs {
    /// The exact result over one period.
    pub(crate) fn reduced(&self, average: bool) -> Vec<f64> {
        let divisor = if average { self.values.len() as f64 } else { 1.0 };
        (0..PERIOD).map(|index| self.values.iter().map(|rank| rank[index]).sum::<f64>() / divisor).collect()
    }

    /// The largest magnitude on any rank.
    pub(crate) fn largest(&self) -> f64 {
        self.values.iter().flatten().fold(0.0, |largest, value| value.abs().max(largest))
    }

    /// A rank's tensor of `count` elements, each made by `write` from its number.
    pub(crate) fn tensor(&self, rank: usize, count: usize, write: impl Fn(f64, &mut Vec<u8>)) -> Vec<u8> {
        let mut period = Vec::new();
        let elements = PERIOD.min(count);
        self.values[rank][..elements].iter().for_each(|value| write(*value, &mut period));
        let total = period.len() / elements.max(1) * count;
        let mut bytes = Vec::with_capacity(total);
        while bytes.len() < total {
            let wanted = period.len().min(total - bytes.len());
            bytes.extend_from_slice(&period[..wanted]);
        }
        bytes
    }
}

fn sample(from: Distribution, rank: usize, index: usize) -> f64 {
    let chance = |salt: u64| uniform(rank, index, salt);
    let normal = || (-2.0 * chance(0).max(1e-300).ln()).sqrt() * (std::f64::consts::TAU * chance(1)).cos();
    match from {
        Distribution::Normal => normal(),
        Distribution::Spikes if chance(2) < 0.01 => 100.0 * normal(),
        Distribution::Spikes => normal(),
        Distribution::Lognormal => (if chance(2) < 0.5 { -1e-4 } else { 1e-4 }) * normal().exp(),
        Distribution::Zeros => 0.0,
    }
}

/// From 0 up to 1, another for each rank, index and salt.
fn uniform(rank: usize, index: usize, salt: u64) -> f64 {
    let mut word = (rank as u64) << 40 ^ (index as u64) << 2 ^ salt;
    for multiplier in [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb] {
        word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
        word = (word ^ (word >> 30)).wrapping_mul(multiplier);
    }
    ((word ^ (word >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(values: &[f64], of: impl Fn(f64) -> f64) -> f64 {
        values.iter().map(|value| of(*value)).sum::<f64>() / values.len() as f64
    }

    fn drawn(from: Distribution) -> Vec<f64> {
        Samples::draw(from, 1).0.remove(0)
    }

    #[test]
    fn normal_numbers_have_the_moments_of_the_normal_distribution() {
        let values = drawn(Distribution::Normal);
        assert!(mean(&values, |x| x).abs() < 0.01);
        assert!((mean(&values, |x| x * x) - 1.0).abs() < 0.02);
        assert!((mean(&values, |x| x.powi(4)) - 3.0).abs() < 0.1);
    }

    #[test]
    fn one_number_in_a_hundred_is_a_spike() {
        let power = mean(&drawn(Distribution::Spikes), |x| x * x);
        assert!((power - (0.99 + 0.01 * 1e4)).abs() < 5.0, "{power}");
        let beyond_normal = mean(&drawn(Distribution::Spikes), |x| f64::from(u8::from(x.abs() > 6.0)));
        assert!((beyond_normal - 0.0095).abs() < 0.001, "{beyond_normal}");
    }

    #[test]
    fn the_logarithms_of_lognormal_numbers_are_normal_about_one_in_ten_thousand() {
        let values = drawn(Distribution::Lognormal);
        let logarithm = |x: f64| (x.abs() / 1e-4).ln();
        assert!(mean(&values, logarithm).abs() < 0.01);
        assert!((mean(&values, |x| logarithm(x).powi(2)) - 1.0).abs() < 0.02);
        assert!(mean(&values, f64::signum).abs() < 0.01);
    }

    #[test]
    fn a_tensor_repeats_and_the_exact_sum_is_that_of_the_rounded_numbers() {
        let inputs = Samples::draw(Distribution::Normal, 2).rounded(DataType::BFLOAT16);
        let write = |value, out: &mut Vec<u8>| encode(DataType::BFLOAT16, value, out);
        let tensor = inputs.tensor(1, PERIOD + 3, write);
        assert_eq!(tensor.len(), 2 * (PERIOD + 3));
        assert_eq!(tensor[2 * PERIOD..], tensor[..6]);
        let held = |rank: usize| decode(DataType::BFLOAT16, &inputs.tensor(rank, 1, write));
        assert_eq!(inputs.reduced(false)[0], held(0) + held(1));
        assert_eq!(inputs.reduced(true)[0], (held(0) + held(1)) / 2.0);
    }
}
