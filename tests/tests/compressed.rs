//! The compressed AllReduce on the emulator, called directly: real kernels' code objects, real
//! queues and real messages between processes. The emulator's race check is on, so a missing
//! dependency between streams is an error here.

use airamp_tests::{Run, emulator_dir, rank_program};
use serde::Deserialize;
use std::time::Duration;

#[derive(Clone, Debug, Deserialize, PartialEq)]
struct Line {
    datatype: String,
    format: String,
    bytes: usize,
    steps: usize,
    wire_bytes_per_element: f64,
    vnmse: f64,
    digest: String,
}

/// Every rank's lines of a job.
fn job(ranks: u32, arguments: &[&str]) -> Vec<Vec<Line>> {
    let run = Run::new(rank_program())
        .arg("compressed")
        .args(["--iterations", "2"])
        .args(arguments)
        .library_dir(emulator_dir())
        .time_limit(Duration::from_secs(120));
    let lines = |text: String| text.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    run.run_ranks(ranks).iter().map(|outcome| lines(outcome.assert_success().stdout_text())).collect()
}

#[test]
fn all_ranks_end_with_the_same_bits_close_to_the_sum() {
    for ranks in [2, 3, 4, 5, 8] {
        let results = job(ranks, &["--sizes", "12,400000,1000004"]);
        assert_eq!(results[0].len(), 9);
        for line in results.iter().flatten() {
            assert!(results[0].contains(line), "{ranks} ranks differ: {line:?}");
            // A handful of elements can be far off its own mean; tensors cannot.
            let most = if line.bytes < 1000 { 1e-2 } else { 1.0e-4 };
            assert!(line.vnmse <= most, "{ranks} ranks: {line:?}");
        }
    }
}

#[test]
fn every_format_keeps_its_error() {
    let results =
        job(4, &["--sizes", "1000004", "--datatypes", "bfloat16", "--formats", "e4m3,e5m2,int8,auto"]);
    let worst = [1.6e-3, 6e-3, 1.0e-4, 1.0e-4];
    for (line, most) in results[0].iter().zip(worst) {
        assert!(line.vnmse > 0.0 && line.vnmse <= most, "{line:?}");
        assert!(line.wire_bytes_per_element < 1.017, "{line:?}");
    }
}

#[test]
fn a_small_arena_means_more_steps_and_still_the_same_bits_everywhere() {
    let large = job(4, &["--sizes", "4000004", "--datatypes", "float16"]);
    let small = job(4, &["--sizes", "4000004", "--datatypes", "float16", "--arena-bytes", "1048576"]);
    assert!(small[0][0].steps > 4 && large[0][0].steps == 1, "{small:?} {large:?}");
    assert_eq!(small[1], small[0]);
    assert!(small[0][0].vnmse <= 1.0e-4, "{small:?}");
}

#[test]
fn the_average_is_exact_within_the_format() {
    let results = job(3, &["--sizes", "400000", "--average"]);
    assert!(results.iter().flatten().all(|line| line.vnmse <= 1.0e-4), "{results:?}");
    assert_eq!(results[0], results[2]);
}

#[test]
fn runs_repeat_bit_for_bit() {
    let arguments = ["--sizes", "1000004", "--datatypes", "float32"];
    assert_eq!(job(4, &arguments), job(4, &arguments));
}
