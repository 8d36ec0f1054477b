//! Compressed AllReduces in CUDA graphs, and communicators that end while they are used.

use airamp_tests::scenario::{Scenario, assert_compressed, assert_exact_without_a_plan};

#[test]
fn captured_calls_are_exact_without_a_plan() {
    for ranks in [2, 3] {
        assert_exact_without_a_plan(&Scenario::new("graphs", ranks), 10);
    }
}

#[test]
fn captured_calls_get_the_codecs_bits_at_every_replay() {
    for ranks in [2, 3] {
        assert_compressed(&Scenario::new("graphs", ranks), 10);
    }
}

#[test]
fn captured_calls_of_hip_get_them_too() {
    assert_compressed(&Scenario::new("graphs", 2).args(&["--hip"]), 9);
}

#[test]
fn communicators_end_well_without_a_plan() {
    for ranks in [2, 3] {
        assert_exact_without_a_plan(&Scenario::new("lifetimes", ranks), 7);
    }
}

#[test]
fn communicators_end_well_in_the_midst_of_compressed_work() {
    for ranks in [2, 3] {
        assert_compressed(&Scenario::new("lifetimes", ranks), 7);
    }
}
