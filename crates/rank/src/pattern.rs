//! Inputs whose exact results are known: each rank's values come from a small set per
//! datatype and reduction, chosen so that no intermediate sum of up to eight ranks
//! needs rounding. The sequence repeats after a prime number of elements, so that data
//! shifted by any chunk size is seen, and a result is worked out once per period.

use airamp_vendor_abi::nccl::DataType;

use crate::numbers::{decode, encode, epsilon, is_unsigned};

const PERIOD: usize = 251;

/// What the values of the ranks are combined by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reduction {
    Sum,
    Prod,
    Max,
    Min,
    Avg,
    /// Each rank's values times its own [`premultiplier`], summed.
    PreMulSum,
}

/// The scalar of a rank in a PreMulSum. It is local to the rank, by NCCL's contract.
pub(crate) fn premultiplier(rank: usize) -> f64 {
    if rank.is_multiple_of(2) { 2.0 } else { -1.0 }
}

/// A rank's input: elements `start..start + count` of its sequence.
pub(crate) fn input(
    datatype: DataType,
    reduction: Reduction,
    ranks: usize,
    rank: usize,
    start: usize,
    count: usize,
) -> Vec<u8> {
    let set = values(datatype, reduction, ranks);
    tile(datatype, start, count, |index| set[pick(rank, index, set.len())])
}

/// The result of reducing the inputs of ranks `0..ranks` at the same elements.
pub(crate) fn reduced(
    datatype: DataType,
    reduction: Reduction,
    ranks: usize,
    start: usize,
    count: usize,
) -> Vec<u8> {
    let set = values(datatype, reduction, ranks);
    tile(datatype, start, count, |index| {
        let value = |rank: usize| set[pick(rank, index, set.len())];
        combine(reduction, ranks, value)
    })
}

fn combine(reduction: Reduction, ranks: usize, value: impl Fn(usize) -> f64) -> f64 {
    let all = (0..ranks).map(&value);
    match reduction {
        Reduction::Sum => all.sum(),
        Reduction::Prod => all.product(),
        Reduction::Max => all.fold(f64::NEG_INFINITY, f64::max),
        Reduction::Min => all.fold(f64::INFINITY, f64::min),
        Reduction::Avg => all.sum::<f64>() / ranks as f64,
        Reduction::PreMulSum => (0..ranks).map(|rank| premultiplier(rank) * value(rank)).sum(),
    }
}

/// Whether `actual` is the result that was worked out. Only an average over a number of
/// ranks that is no power of two may differ, by what the premultiplied inputs round.
pub(crate) fn agrees(
    datatype: DataType,
    reduction: Reduction,
    ranks: usize,
    actual: &[u8],
    expected: &[u8],
) -> bool {
    if actual == expected {
        return true;
    }
    let size = datatype.size().unwrap_or(1);
    let rounding = match epsilon(datatype) {
        Some(epsilon) if reduction == Reduction::Avg && !ranks.is_power_of_two() => {
            2.0 * ranks as f64 * epsilon
        }
        _ => 0.0,
    };
    actual.len() == expected.len()
        && actual.chunks(size).zip(expected.chunks(size)).all(|(actual, expected)| {
            let (actual, expected) = (decode(datatype, actual), decode(datatype, expected));
            (actual - expected).abs() <= rounding * expected.abs().max(1.0)
        })
}

fn tile(datatype: DataType, start: usize, count: usize, value: impl Fn(usize) -> f64) -> Vec<u8> {
    let size = datatype.size().unwrap_or(1);
    let mut period = Vec::with_capacity(PERIOD * size);
    (0..PERIOD).for_each(|index| encode(datatype, value((start + index) % PERIOD), &mut period));
    let mut bytes = Vec::with_capacity(count * size);
    while bytes.len() < count * size {
        let wanted = (count * size - bytes.len()).min(period.len());
        bytes.extend_from_slice(&period[..wanted]);
    }
    bytes
}

/// Which of `choices` values stands at `index` in a rank's sequence.
fn pick(rank: usize, index: usize, choices: usize) -> usize {
    let mut state = ((rank as u64) << 32 | index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    state = (state ^ (state >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    ((state >> 33) as usize) % choices
}

fn values(datatype: DataType, reduction: Reduction, ranks: usize) -> Vec<f64> {
    let unsigned = is_unsigned(datatype);
    match (datatype, reduction) {
        // Multiples of the number of ranks: their average is whole.
        (DataType::FLOAT8_E4M3 | DataType::FLOAT8_E5M2, Reduction::Avg) => vec![0.0, ranks as f64],
        (_, Reduction::Avg) if unsigned => vec![0.0, ranks as f64],
        (_, Reduction::Avg) => vec![-(ranks as f64), 0.0, ranks as f64],
        (_, Reduction::Prod) if unsigned => vec![1.0, 2.0, 3.0],
        (_, Reduction::Prod) => vec![1.0, 2.0, -1.0],
        (DataType::FLOAT8_E5M2, Reduction::Sum | Reduction::PreMulSum) => vec![0.0, 1.0],
        (DataType::FLOAT8_E4M3, Reduction::Sum | Reduction::PreMulSum) => vec![0.0, 1.0, 2.0],
        // The top bit tells a signed comparison from an unsigned one.
        (DataType::UINT8, Reduction::Max | Reduction::Min) => vec![1.0, 100.0, 127.0, 128.0, 255.0],
        (DataType::UINT32, Reduction::Max | Reduction::Min) => vec![1.0, 5e8, 3e9, 4e9],
        (DataType::UINT64, Reduction::Max | Reduction::Min) => vec![1.0, 2f64.powi(62), 2f64.powi(63)],
        (_, Reduction::Max | Reduction::Min) => vec![-6.0, -2.0, -1.0, 1.0, 3.0, 4.0],
        _ if unsigned => (0..=15).map(f64::from).collect(),
        (DataType::INT8 | DataType::INT32 | DataType::INT64, _) => {
            (-7..=7).chain([100]).map(f64::from).collect()
        }
        _ => vec![-7.0, -4.5, -3.0, -1.0, 0.0, 0.5, 1.0, 2.0, 6.5],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REDUCTIONS: [Reduction; 6] = [
        Reduction::Sum,
        Reduction::Prod,
        Reduction::Max,
        Reduction::Min,
        Reduction::Avg,
        Reduction::PreMulSum,
    ];

    #[test]
    fn every_result_of_two_to_eight_ranks_is_exact_in_its_type() {
        for (datatype, name) in DataType::ALL {
            for reduction in REDUCTIONS {
                for ranks in 2..=8 {
                    assert_exact(datatype, name, reduction, ranks);
                }
            }
        }
    }

    fn assert_exact(datatype: DataType, name: &str, reduction: Reduction, ranks: usize) {
        let (set, size) = (values(datatype, reduction, ranks), datatype.size().unwrap());
        let held = reduced(datatype, reduction, ranks, 0, PERIOD);
        for (index, bytes) in held.chunks(size).enumerate() {
            let exact = combine(reduction, ranks, |rank| set[pick(rank, index, set.len())]);
            let held = decode(datatype, bytes);
            let same = held == exact || epsilon(datatype).is_none() && (held - exact) % 256.0 == 0.0;
            assert!(same, "{name} {reduction:?} over {ranks}: {exact} became {held}");
        }
    }

    #[test]
    fn a_sequence_begins_where_it_is_asked_to() {
        let whole = input(DataType::UINT8, Reduction::Sum, 2, 1, 0, 600);
        assert_eq!(whole[300..400], input(DataType::UINT8, Reduction::Sum, 2, 1, 300, 100));
        assert_ne!(whole[..100], whole[128..228]);
    }

    #[test]
    fn ranks_have_different_inputs() {
        let of = |rank| input(DataType::FLOAT32, Reduction::Sum, 4, rank, 0, 64);
        assert_ne!(of(0), of(1));
        assert_ne!(of(1), of(2));
    }

    #[test]
    fn only_an_average_over_three_may_be_inexact() {
        let off = |value: f64| value.to_le_bytes();
        let near = 1.0 + f64::EPSILON;
        assert!(agrees(DataType::FLOAT64, Reduction::Avg, 3, &off(near), &off(1.0)));
        assert!(!agrees(DataType::FLOAT64, Reduction::Avg, 4, &off(near), &off(1.0)));
        assert!(!agrees(DataType::FLOAT64, Reduction::Sum, 3, &off(near), &off(1.0)));
        assert!(!agrees(DataType::FLOAT64, Reduction::Avg, 3, &off(1.001), &off(1.0)));
        assert!(!agrees(DataType::FLOAT64, Reduction::Avg, 3, &off(f64::NAN), &off(1.0)));
    }
}
