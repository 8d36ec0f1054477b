//! More than 2^31 elements in one compressed call, as an application makes it: an index of 32 bits anywhere, in the
//! plan, in offsets or in what a kernel is given, would meet other numbers. For 9 and 13 GB of free memory, and by hand:
//! `./x build && cargo test -p airamp-tests --test fast_path_beyond -- --ignored --nocapture --test-threads 1`

use std::time::{Duration, Instant};

use airamp_tests::scenario::{Scenario, assert_right};

const TIME_LIMIT: Duration = Duration::from_secs(900);

fn assert_codecs_bits(ranks: u32) {
    let began = Instant::now();
    let job =
        Scenario::new("beyond", ranks).env("AIRAMP_EMU_MEMORY_BYTES", "4500000000").time_limit(TIME_LIMIT);
    let outcomes = job.compressed_but(|_, run| run.env("AIRAMP_ARENA_BYTES", "16777216"));
    for lines in assert_right(&outcomes, 1) {
        println!("{:?} after {:?}", lines[0], began.elapsed());
        assert_eq!(lines[0].compressed, 1);
    }
}

#[test]
#[ignore = "takes 4.3 GB for each of two ranks"]
fn more_than_two_to_the_31_elements_get_the_codecs_bits_in_the_one_shot() {
    assert_codecs_bits(2);
}

#[test]
#[ignore = "takes 4.3 GB for each of three ranks"]
fn more_than_two_to_the_31_elements_get_the_codecs_bits_in_the_two_shot() {
    assert_codecs_bits(3);
}
