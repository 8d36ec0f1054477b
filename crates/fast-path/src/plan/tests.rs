//! Plans over many counts, ranks and arenas.

use super::*;

const ARENA: usize = 16 << 20;

fn counts() -> impl Iterator<Item = usize> {
    let small = (1..1200).step_by(37);
    small.chain([65_537, 1 << 20, (1 << 22) + 1, 33_554_432, 100_000_007])
}

fn plans() -> impl Iterator<Item = Plan> {
    let arenas = [1 << 20, 4 << 20, ARENA, 64 << 20];
    let shapes = counts().flat_map(|count| (2..=64).map(move |ranks| (count, ranks)));
    shapes.flat_map(move |(count, ranks)| {
        arenas.into_iter().filter_map(move |arena| Plan::new(count, ranks, arena).ok())
    })
}

#[test]
fn every_element_is_in_one_chunk_and_one_shard() {
    for plan in plans() {
        let mut next = 0;
        for chunk in (0..plan.steps).map(|step| plan.chunk(step)) {
            assert_eq!(chunk.start, next, "{plan:?}");
            assert!(chunk.elements > 0, "{plan:?}");
            next += chunk.elements;
            let packets = packets_per_chunk(plan.algorithm, plan.ranks);
            let shards: usize = (0..packets).map(|rank| chunk.shard_elements(rank)).sum();
            assert_eq!(shards, chunk.elements, "{plan:?}");
        }
        assert_eq!(next, plan.count);
    }
}

#[test]
fn the_scratch_never_exceeds_the_arena() {
    for (count, ranks) in counts().flat_map(|count| (2..=64).map(move |ranks| (count, ranks))) {
        for arena in [1 << 20, 4 << 20, ARENA, 64 << 20] {
            if let Ok(plan) = Plan::new(count, ranks, arena) {
                assert!(SLOTS * plan.slot_bytes() + STATS_ROOM <= arena, "{plan:?}");
            }
        }
    }
}

#[test]
fn what_is_received_fits_into_the_output_or_into_its_place_in_the_arena() {
    for plan in plans().filter(|plan| plan.algorithm == Algorithm::TwoShot) {
        for (chunk, size) in (0..plan.steps).flat_map(|step| [2, 4].map(|size| (plan.chunk(step), size))) {
            let bytes = plan.ranks * chunk.stride();
            let fits = chunk.receives_in_output(size, plan.ranks);
            assert!(
                fits || bytes <= plan.ranks * small_packet_bytes(plan.algorithm),
                "{plan:?} {chunk:?} {size}"
            );
            assert!(!fits || bytes + PACKET_ALIGNMENT <= chunk.elements * size, "{plan:?}");
        }
    }
}

#[test]
fn what_cannot_be_done_says_why() {
    assert_eq!(Plan::new(100, 1, ARENA), Err(Unsuitable::SingleRank));
    assert_eq!(Plan::new(0, 4, ARENA), Err(Unsuitable::Empty));
    assert_eq!(Plan::new(100, 4, 1 << 10), Err(Unsuitable::ArenaTooSmall));
    assert_eq!(Plan::new(100, 4, 0), Err(Unsuitable::ArenaTooSmall));
    assert_eq!(Plan::new(1 << 40, 4, ARENA), Err(Unsuitable::TooLong));
}

#[test]
fn the_longest_call_depends_on_count_ranks_and_arena_alone() {
    for ranks in [2, 3, 8] {
        let chunk = Plan::new(usize::MAX >> 20, ranks, 1 << 50).unwrap().chunk(0).elements;
        assert!(chunk > u32::MAX as usize, "chunks beyond 32 bits: {chunk}");
        let most = largest_packet(Algorithm::of(ranks), ranks, ARENA) * if ranks == 2 { 1 } else { ranks };
        assert_eq!(Plan::new(most * MOST_STEPS, ranks, ARENA).unwrap().steps, MOST_STEPS);
        assert_eq!(Plan::new(most * MOST_STEPS + 1, ranks, ARENA), Err(Unsuitable::TooLong));
    }
}

#[test]
fn more_than_2_to_the_31_elements_are_cut_without_a_gap() {
    for (ranks, arena) in [(2, 64 << 20), (3, 32 << 20), (8, 32 << 20)] {
        for count in [(1 << 31) + 1, (1 << 32) + 12_345_usize] {
            let Ok(plan) = Plan::new(count, ranks, arena) else { continue };
            let ends = |step| plan.chunk(step).start + plan.chunk(step).elements;
            assert!((1..plan.steps).all(|step| plan.chunk(step).start == ends(step - 1)));
            assert_eq!(ends(plan.steps - 1), count);
        }
    }
    assert!(Plan::new((1 << 31) + 1, 8, 32 << 20).is_ok());
}

#[test]
fn chunks_are_even() {
    let plan = Plan::new(100_000_000, 4, ARENA).unwrap();
    let sizes: Vec<usize> = (0..plan.steps).map(|step| plan.chunk(step).elements).collect();
    assert!(plan.steps > 10);
    assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 4 * BLOCK * plan.steps);
}

#[test]
fn each_chunk_is_scattered_and_then_gathered_with_another_between() {
    for steps in 1..9 {
        let plan = Plan { algorithm: Algorithm::TwoShot, count: 4096, ranks: 4, steps, packet_elements: 128 };
        let order: Vec<_> = (0..plan.exchanges()).map(|place| plan.exchange(place)).collect();
        for step in 0..steps {
            let place = |phase| order.iter().position(|exchange| *exchange == (phase, step)).unwrap();
            let between = place(Phase::Gather) - place(Phase::Scatter);
            assert_eq!(between, if step == steps - 1 && steps % 2 == 1 { 1 } else { 2 }, "{order:?}");
        }
        let slot_is_free = |step: usize| order.iter().position(|e| *e == (Phase::Scatter, step + 2));
        for step in 0..steps.saturating_sub(2) {
            let gathered = order.iter().position(|exchange| *exchange == (Phase::Gather, step));
            assert!(gathered < slot_is_free(step), "{order:?}");
        }
    }
}

#[test]
fn the_least_arena_suffices_and_a_byte_less_does_not() {
    for ranks in 2..=300 {
        let least = least_arena_bytes(ranks);
        assert!(Plan::new(1, ranks, least).is_ok(), "{ranks} ranks");
        assert_eq!(Plan::new(1, ranks, least - 1), Err(Unsuitable::ArenaTooSmall), "{ranks} ranks");
    }
}
