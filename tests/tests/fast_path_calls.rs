//! Compressed AllReduces through the library, one after the other: every type and reduction, any count
//! and alignment, among calls that are not compressed. The program that calls knows nothing of it.

use airamp_tests::comparison::Presence;
use airamp_tests::scenario::{Scenario, assert_compressed, assert_exact_without_a_plan, assert_right};

const CASES: usize = 10;

#[test]
fn without_a_plan_every_call_is_exact() {
    for ranks in [2, 3] {
        assert_exact_without_a_plan(&Scenario::new("calls", ranks), CASES);
    }
}

#[test]
fn two_ranks_get_the_bits_of_the_one_shot() {
    assert_compressed(&Scenario::new("calls", 2), CASES);
}

#[test]
fn three_and_five_ranks_get_the_bits_of_the_two_shot() {
    for ranks in [3, 5] {
        assert_compressed(&Scenario::new("calls", ranks), CASES);
    }
}

/// And nobody needs a Reduce who was not asked for it.
#[test]
fn a_reduce_beside_the_messages_changes_no_bit() {
    let lean = "AIRAMP_LEAN_MESSAGES";
    for (ranks, per_node) in [(2, "1"), (3, "1"), (4, "2")] {
        let scenario = Scenario::new("calls", ranks).env("AIRAMP_RANKS_PER_NODE", per_node);
        assert_compressed(&scenario.clone().env(lean, "1"), CASES);
        assert_compressed(&scenario.env("AIRAMP_EMU_HIDE_SYMBOLS", "ncclReduce,pncclReduce"), CASES);
    }
}

#[test]
fn every_wire_format_gives_its_own_bits() {
    for format in ["e4m3", "e5m2", "int8"] {
        for ranks in [2, 3] {
            let scenario = Scenario::new("calls/float16", ranks).args(&["--format", format]);
            assert_compressed(&scenario.env("AIRAMP_WIRE_FORMAT", format), 2);
        }
    }
}

#[test]
fn runs_repeat_bit_for_bit() {
    let scenario = Scenario::new("calls/bfloat16", 3);
    assert_eq!(assert_right(&scenario.compressed(), 2), assert_right(&scenario.compressed(), 2));
}

#[test]
fn a_call_that_is_long_goes_one_chunk_at_a_time_and_one_of_too_many_steps_passes_through() {
    let smallest = "140000";
    for ranks in [2, 3] {
        let scenario = Scenario::new("long", ranks).env("AIRAMP_ARENA_BYTES", smallest);
        assert_exact_without_a_plan(&scenario, 2);
        let outcomes = scenario.compressed_but(|_, run| run.env("AIRAMP_ARENA_BYTES", smallest));
        for lines in assert_right(&outcomes, 2) {
            let compressed: Vec<u64> = lines.iter().map(|line| line.compressed).collect();
            assert_eq!(compressed, [4, 2], "{lines:?}");
        }
    }
}

#[test]
fn the_newest_nccls_calls_with_a_configuration_are_compressed_too() {
    let scenario = Scenario::new("calls/with_a_configuration", 2).env("AIRAMP_EMU_NCCL_VERSION", "23203");
    assert_exact_without_a_plan(&scenario, 1);
    assert_compressed(&scenario, 1);
}

#[test]
fn hip_and_rccl_get_the_same_bits() {
    for ranks in [2, 3] {
        let scenario = Scenario::new("calls", ranks).args(&["--hip"]);
        assert_compressed(&scenario, CASES);
    }
}

#[test]
fn in_the_place_of_nccl_the_library_compresses_as_when_preloaded() {
    let scenario = Scenario::new("calls/float32", 2).presence(Presence::NamedAsNccl);
    assert_compressed(&scenario, 2);
}
