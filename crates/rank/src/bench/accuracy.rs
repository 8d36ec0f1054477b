//! How far a result is from the exact one.

use airamp_vendor_abi::nccl::DataType;

use crate::numbers::decode;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Accuracy {
    /// The sum of the squared errors over the sum of the squared exact results.
    pub(crate) vnmse: f64,
    /// The largest magnitude of an error over the root of the mean squared exact result.
    pub(crate) worst: f64,
}

/// Compares every element of `output` with `exact`, which repeats, times `scale`.
pub(crate) fn accuracy(datatype: DataType, output: &[u8], exact: &[f64], scale: f64) -> Accuracy {
    let size = datatype.size().unwrap_or(1);
    let (mut errors, mut signal, mut largest) = (0.0, 0.0, 0.0_f64);
    for period in output.chunks(exact.len() * size) {
        for (bytes, exact) in period.chunks_exact(size).zip(exact) {
            let error = (decode(datatype, bytes) / scale - exact).abs();
            errors += error * error;
            signal += exact * exact;
            // Unlike `max`, this keeps what is not a number.
            largest = if error > largest || error.is_nan() { error } else { largest };
        }
    }
    let elements = (output.len() / size) as f64;
    Accuracy { vnmse: over(errors, signal), worst: over(largest, (signal / elements).sqrt()) }
}

/// Nothing wrong with nothing is no error.
fn over(error: f64, signal: f64) -> f64 {
    if error == 0.0 { 0.0 } else { error / signal }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[f32], exact: &[f64], scale: f64) -> Accuracy {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        accuracy(DataType::FLOAT32, &bytes, exact, scale)
    }

    #[test]
    fn the_errors_are_taken_relative_to_the_exact_result() {
        let found = of(&[3.0, 4.0, 3.0, 5.0], &[3.0, 4.0], 1.0);
        assert_eq!(found.vnmse, 1.0 / 50.0);
        assert_eq!(found.worst, 1.0 / 12.5f64.sqrt());
    }

    #[test]
    fn a_scaled_result_is_scaled_back() {
        assert_eq!(of(&[6.0, -8.0], &[3.0, -4.0], 2.0), Accuracy { vnmse: 0.0, worst: 0.0 });
    }

    #[test]
    fn zeros_are_exact_and_anything_else_is_infinitely_wrong() {
        assert_eq!(of(&[0.0; 3], &[0.0], 1.0), Accuracy { vnmse: 0.0, worst: 0.0 });
        assert_eq!(of(&[0.0, 1e-9], &[0.0], 1.0).vnmse, f64::INFINITY);
    }

    #[test]
    fn a_result_that_is_no_number_is_not_overlooked() {
        let found = of(&[1.0, f32::NAN, 1.0], &[1.0], 1.0);
        assert!(found.vnmse.is_nan() && found.worst.is_nan());
    }
}
