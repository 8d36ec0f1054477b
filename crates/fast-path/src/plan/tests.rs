//! Plans over many counts, ranks and arenas.

use super::*;
use crate::arena::STATS_ROOM;
use proptest::prelude::*;

const ARENA: usize = 16 << 20;
const ARENAS: [usize; 4] = [1 << 20, 4 << 20, ARENA, 64 << 20];

fn counts() -> impl Iterator<Item = usize> {
    let small = (1..1200).step_by(37);
    small.chain([65_537, 1 << 20, (1 << 22) + 1, 33_554_432, 100_000_007])
}

/// Nodes of several ranks.
const NODES: [(usize, usize); 10] =
    [(4, 2), (6, 2), (6, 3), (8, 2), (8, 4), (15, 3), (16, 8), (64, 8), (256, 2), (1024, 8)];

fn on_nodes() -> impl Iterator<Item = Ranks> + Clone {
    NODES.into_iter().map(|(all, per_node)| Ranks::new(all, per_node))
}

/// Each on its own node, and nodes of several.
fn all_ranks() -> impl Iterator<Item = Ranks> + Clone {
    (2..=64).map(Ranks::from).chain(on_nodes())
}

fn usual(count: usize, ranks: impl Into<Ranks> + Copy, arena: usize) -> Result<Plan, Unsuitable> {
    Plan::new(count, ranks, arena, Shape::usual(ranks))
}

/// Every shape, live and dry.
fn all_of(count: usize, ranks: impl Into<Ranks>, arena: usize) -> impl Iterator<Item = Plan> {
    let ranks = ranks.into();
    let shapes = Shape::candidates(ranks).iter();
    shapes.flat_map(move |shape| {
        let made = [Plan::new(count, ranks, arena, *shape), Plan::dry(count, ranks, arena, *shape)];
        made.into_iter().flatten()
    })
}

fn plans() -> impl Iterator<Item = Plan> {
    let cases = counts().flat_map(|count| all_ranks().map(move |ranks| (count, ranks)));
    cases
        .flat_map(move |(count, ranks)| ARENAS.into_iter().flat_map(move |arena| all_of(count, ranks, arena)))
}

#[test]
fn the_usual_shape_cuts_as_it_always_has() {
    let cut = |count, ranks, arena| usual(count, ranks, arena).map(|plan| (plan.steps, plan.packet_elements));
    assert_eq!(cut(1, 2, ARENA), Ok((1, 128)));
    assert_eq!(cut(900001, 2, 300_000), Ok((13, 69248)));
    assert_eq!(cut(100000007, 2, ARENA), Ok((25, 4000128)));
    assert_eq!(cut(900001, 3, 300_000), Ok((7, 42880)));
    assert_eq!(cut(33554432, 4, ARENA), Ok((5, 1677824)));
    assert_eq!(cut(100000007, 8, ARENA), Ok((13, 961664)));
}

#[test]
fn a_gibibyte_of_any_type_can_be_tried_by_a_common_number_of_ranks() {
    let counts = [1 << 28, 1 << 29];
    let tried = |ranks: Ranks, count| {
        let mut shapes = Shape::candidates(ranks).iter();
        shapes.any(|shape| Plan::dry(count, ranks, ARENA, *shape).is_ok())
    };
    let untried: Vec<_> = [2, 4, 8, 16, 32, 64]
        .into_iter()
        .map(Ranks::from)
        .chain(on_nodes().filter(|ranks| ranks.all().is_power_of_two()))
        .flat_map(|ranks| counts.map(|count| (ranks, count)))
        .filter(|(ranks, count)| !tried(*ranks, *count))
        .collect();
    assert_eq!(untried, []);
}

#[test]
fn one_chunk_at_a_time_is_about_twice_as_large_as_two_that_overlap() {
    for (ranks, name) in [(2, "one-shot, one at a time"), (8, "two-shot, one at a time")] {
        let in_turn = Shape { in_turn: true, ..Shape::usual(ranks) };
        let cut = |shape| Plan::new(100_000_007, ranks, ARENA, shape).map(|plan| (plan.steps, plan.slots()));
        let overlapping = cut(Shape::usual(ranks)).unwrap();
        assert_eq!(overlapping.1, 2);
        assert_eq!(cut(in_turn), Ok((overlapping.0.div_ceil(2), 1)), "{ranks} ranks");
        assert_eq!(in_turn.to_string(), name);
    }
    let of_four = Shape { in_turn: true, ..Shape::usual(4) };
    assert_eq!(Plan::new(100, 4, ARENA, of_four), Err(Unsuitable::ForeignShape));
}

#[test]
fn a_rank_writes_the_blocks_of_its_input_and_those_of_its_shards() {
    for plan in plans() {
        let blocks_of = |elements: &dyn Fn(Chunk) -> usize| -> usize {
            (0..plan.steps).map(|step| elements(plan.chunk(step)).div_ceil(BLOCK)).sum()
        };
        let input = blocks_of(&|chunk| chunk.elements);
        for rank in [0, plan.ranks.all() / 2, plan.ranks.all() - 1] {
            let reduced = match plan.shape.algorithm {
                Algorithm::OneShot => 0,
                Algorithm::TwoShot => blocks_of(&|chunk| chunk.shard_elements(rank)),
                Algorithm::ThreeShot => {
                    let same_place =
                        |owner: &usize| (owner % plan.ranks.per_node()) == rank % plan.ranks.per_node();
                    let of_node = (0..plan.ranks.all()).filter(same_place);
                    let of_node = of_node.map(|owner| blocks_of(&|chunk| chunk.shard_elements(owner)));
                    of_node.sum::<usize>() + blocks_of(&|chunk| chunk.shard_elements(rank))
                }
            };
            assert_eq!(plan.blocks(rank), input + reduced, "rank {rank}, {plan:?}");
        }
    }
}

#[test]
fn every_element_is_in_one_chunk_and_one_shard() {
    for plan in plans() {
        let mut next = 0;
        for chunk in (0..plan.steps).map(|step| plan.chunk(step)) {
            assert_eq!(chunk.start, next, "{plan:?}");
            assert!(chunk.elements > 0, "{plan:?}");
            next += chunk.elements;
            let packets = plan.layout().packets_per_chunk();
            let shards: usize = (0..packets).map(|rank| chunk.shard_elements(rank)).sum();
            assert_eq!(shards, chunk.elements, "{plan:?}");
        }
        assert_eq!(next, plan.count);
    }
}

#[test]
fn the_scratch_never_exceeds_the_arena() {
    let cases = counts().flat_map(|count| all_ranks().map(move |ranks| (count, ranks)));
    for (count, ranks, arena) in cases.flat_map(|(count, ranks)| ARENAS.map(|arena| (count, ranks, arena))) {
        for plan in all_of(count, ranks, arena) {
            assert!(plan.layout().arena_bytes(plan.packet_elements) <= arena, "{plan:?}");
        }
    }
}

#[test]
fn what_is_received_fits_into_the_output_or_into_its_place_in_the_arena() {
    let live = plans().filter(|plan| !plan.dry && plan.shape.algorithm != Algorithm::OneShot);
    for plan in live {
        for (chunk, size) in (0..plan.steps).flat_map(|step| [2, 4].map(|size| (plan.chunk(step), size))) {
            let bytes = plan.ranks.all() * chunk.stride();
            let room = plan.slot_bytes() - plan.ranks.all() * packet_bytes(plan.packet_elements);
            let fits = chunk.receives_in_output(size, plan.ranks.all());
            assert!(fits || bytes <= room, "{plan:?} {chunk:?} {size}");
            assert!(!fits || bytes + PACKET_ALIGNMENT <= chunk.elements * size, "{plan:?}");
        }
    }
}

#[test]
fn what_cannot_be_done_says_why() {
    assert_eq!(usual(100, 1, ARENA), Err(Unsuitable::SingleRank));
    assert_eq!(usual(0, 4, ARENA), Err(Unsuitable::Empty));
    assert_eq!(usual(100, 4, 1 << 10), Err(Unsuitable::ArenaTooSmall));
    assert_eq!(usual(100, 4, 0), Err(Unsuitable::ArenaTooSmall));
    assert_eq!(usual(1 << 40, 4, ARENA), Err(Unsuitable::TooLong));
    let two_shot = Shape { algorithm: Algorithm::TwoShot, parts: 1, in_turn: false };
    assert_eq!(Plan::new(100, 2, ARENA, two_shot), Err(Unsuitable::ForeignShape), "it is not connected");
    assert_eq!(Plan::dry(100, 4, ARENA, Shape { parts: 3, ..two_shot }), Err(Unsuitable::ForeignShape));
}

#[test]
fn the_longest_call_depends_on_count_ranks_and_arena_alone() {
    for ranks in [2, 3, 8] {
        let chunk = usual(usize::MAX >> 20, ranks, 1 << 50).unwrap().chunk(0).elements;
        assert!(chunk > u32::MAX as usize, "chunks beyond 32 bits: {chunk}");
        let overlapping = Layout::new(Shape::usual(ranks), ranks.into(), false);
        let alone = Layout { in_turn: true, ..overlapping };
        let cut = |count| usual(count, ranks, ARENA).map(|plan| (plan.steps, plan.slots()));
        let most = most_steps(&overlapping);
        assert_eq!(cut(longest(&overlapping)), Ok((most, 2)));
        let (steps, slots) = cut(longest(&overlapping) + 1).unwrap();
        assert!(slots == 1 && steps >= most / 2 && steps < most * 2 / 3, "{steps} steps, {slots} slots");
        assert_eq!(cut(longest(&alone)), Ok((most, 1)));
        assert_eq!(cut(longest(&alone) + 1), Err(Unsuitable::TooLong));
    }
}

#[test]
fn more_than_2_to_the_31_elements_are_cut_without_a_gap() {
    for (ranks, arena) in [(2, ARENA), (3, ARENA), (8, ARENA), (64, ARENA), (2, 64 << 20), (8, 32 << 20)] {
        for count in [(1 << 31) + 1, 3_500_000_001_usize] {
            let plan = usual(count, ranks, arena).unwrap();
            let ends = |step| plan.chunk(step).start + plan.chunk(step).elements;
            assert!((1..plan.steps).all(|step| plan.chunk(step).start == ends(step - 1)));
            assert_eq!(ends(plan.steps - 1), count);
        }
    }
}

#[test]
fn the_long_calls_of_the_tests_with_whole_jobs_are_as_long_as_they_say() {
    for ranks in [2, 3] {
        let cut = |count| usual(count, ranks, 140_000).map(|plan| plan.slots());
        assert_eq!([10_000, 20_000_001, 40_000_001].map(cut), [Ok(2), Ok(1), Err(Unsuitable::TooLong)]);
    }
}

#[test]
fn a_call_for_which_two_chunks_at_a_time_do_is_cut_as_it_was_before_longer_ones_could_be() {
    let cut = |count, ranks: usize, parts| {
        let plan = Plan::new(count, ranks, ARENA, Shape { parts, ..Shape::usual(ranks) }).unwrap();
        (plan.steps, plan.packet_elements, plan.slots())
    };
    assert_eq!(cut(900_000_000, 2, 1), (218, 4_128_512, 2));
    assert_eq!(cut(900_000_000, 2, 64), (240, 3_750_016, 2));
    assert_eq!(cut(1_900_000_000, 4, 1), (231, 2_056_320, 2));
    assert_eq!(cut(1_900_000_000, 4, 64), (240, 1_979_264, 2));
}

#[test]
fn chunks_are_even() {
    let plan = usual(100_000_000, 4, ARENA).unwrap();
    let sizes: Vec<usize> = (0..plan.steps).map(|step| plan.chunk(step).elements).collect();
    assert!(plan.steps > 10);
    assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 4 * BLOCK * plan.steps);
}

#[test]
fn each_chunk_is_scattered_and_then_gathered_with_another_between() {
    for steps in 1..9 {
        let shape = Shape { algorithm: Algorithm::TwoShot, parts: 1, in_turn: false };
        let plan = Plan {
            shape,
            count: 4096,
            ranks: 4.into(),
            steps,
            packet_elements: 128,
            in_turn: false,
            dry: false,
        };
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
fn in_three_exchanges_each_has_another_chunks_between() {
    for steps in 1..9 {
        let shape = Shape::usual(Ranks::new(4, 2));
        let plan = Plan {
            shape,
            count: 4096,
            ranks: Ranks::new(4, 2),
            steps,
            packet_elements: 128,
            in_turn: false,
            dry: false,
        };
        let order: Vec<_> = (0..plan.exchanges()).map(|place| plan.exchange(place)).collect();
        let place = |phase, step| order.iter().position(|exchange| *exchange == (phase, step)).unwrap();
        for step in 0..steps {
            let alone = step == steps - 1 && steps % 2 == 1;
            let places = [Phase::WithinNode, Phase::Scatter, Phase::Gather].map(|phase| place(phase, step));
            let between = [places[1] - places[0], places[2] - places[1]];
            assert_eq!(between, if alone { [1; 2] } else { [2; 2] }, "{order:?}");
        }
        for step in 0..steps.saturating_sub(2) {
            assert!(place(Phase::Gather, step) < place(Phase::WithinNode, step + 2), "{order:?}");
        }
    }
}

#[test]
fn a_call_has_fewer_steps_the_more_nodes_it_reduces_for() {
    let most = |ranks| most_steps(&Layout::new(Shape::usual(ranks), ranks, false));
    let cases = [(4, 2, 163), (6, 2, 139), (16, 2, 81), (64, 8, 81), (256, 2, 7)];
    for (all, per_node, steps) in cases {
        assert_eq!(most(Ranks::new(all, per_node)), steps, "{all} ranks as {per_node}");
    }
    let ranks = Ranks::new(4, 2);
    let cut = |count| usual(count, ranks, ARENA).map(|plan| (plan.steps, plan.slots()));
    assert_eq!(cut(usual_chunk(ranks) * 163), Ok((163, 2)));
    assert!(cut(usual_chunk(ranks) * 163 + 1).is_ok_and(|(steps, slots)| steps < 163 && slots == 1));
}

#[test]
fn chunks_that_take_turns_are_scattered_and_gathered_one_after_the_other() {
    let shape = Shape { algorithm: Algorithm::TwoShot, parts: 1, in_turn: true };
    let plan = Plan {
        shape,
        count: 4096,
        ranks: 8.into(),
        steps: 3,
        packet_elements: 128,
        in_turn: true,
        dry: false,
    };
    let order: Vec<_> = (0..plan.exchanges()).map(|place| plan.exchange(place)).collect();
    let in_turn = (0..3).flat_map(|step| [(Phase::Scatter, step), (Phase::Gather, step)]);
    assert_eq!(order, in_turn.collect::<Vec<_>>());
}

#[test]
fn the_least_arena_suffices_and_a_byte_less_does_not() {
    for ranks in (2..=300).map(Ranks::from).chain(on_nodes()) {
        let least = least_arena_bytes(ranks);
        assert!(usual(1, ranks, least).is_ok(), "{ranks:?}");
        assert_eq!(usual(1, ranks, least - 1), Err(Unsuitable::ArenaTooSmall), "{ranks:?}");
        // A lane is acquired before it knows its nodes.
        assert_eq!(least, least_arena_bytes(ranks.all()), "{ranks:?}");
    }
}

#[test]
fn smaller_parts_mean_more_steps_as_long_as_there_are_steps_to_spare() {
    for ranks in [2, 3, 8] {
        let usual = Shape::usual(ranks);
        let in_parts = Shape { parts: 4, ..usual };
        let steps = |count, shape| Plan::new(count, ranks, ARENA, shape).unwrap().steps;
        let four_steps = usual_chunk(ranks) * 4;
        assert_eq!(steps(four_steps, usual), 4);
        assert_eq!(steps(four_steps, in_parts), 16);
        // The longest call that the usual shape can do is none too long for the other.
        let layout = Layout { in_turn: true, ..Layout::new(usual, ranks.into(), false) };
        let (longest, most) = (longest(&layout), most_steps(&layout));
        assert_eq!((steps(longest, usual), steps(longest, in_parts)), (most, most));
        assert_eq!(Plan::new(longest + 1, ranks, ARENA, in_parts), Err(Unsuitable::TooLong));
    }
}

fn chunk_of(layout: &Layout) -> usize {
    layout.largest_packet(ARENA) * layout.packets_per_chunk()
}

/// Elements of the most that two overlapping chunks, or one alone, cut with so many slots.
fn longest(layout: &Layout) -> usize {
    chunk_of(layout) * most_steps(layout)
}

/// Elements of the largest chunk of the usual shape.
fn usual_chunk(ranks: impl Into<Ranks> + Copy) -> usize {
    let ranks = ranks.into();
    chunk_of(&Layout::new(Shape::usual(ranks), ranks, false))
}

#[test]
fn a_dry_run_in_parts_has_the_chunks_of_the_call() {
    // With more nodes the call has too few steps for the parts.
    let on_few_nodes = on_nodes().filter(|ranks| ranks.nodes() <= 8);
    for ranks in [2, 3, 4, 8, 64].into_iter().map(Ranks::from).chain(on_few_nodes) {
        let in_parts = Shape { parts: 4, ..Shape::usual(ranks) };
        let (live, dry) =
            (Plan::new(30_000_000, ranks, ARENA, in_parts), Plan::dry(30_000_000, ranks, ARENA, in_parts));
        assert_eq!(Plan { dry: true, ..live.unwrap() }, dry.unwrap());
    }
}

#[test]
fn a_dry_run_too_long_says_so_and_the_call_itself_may_still_do() {
    for ranks in [2, 3, 4, 7, 8, 64].into_iter().map(Ranks::from).chain(on_nodes()) {
        for shape in Shape::candidates(ranks) {
            let layout = Layout { in_turn: true, ..Layout::new(*shape, ranks, true) };
            let most = longest(&layout);
            assert_eq!(Plan::dry(most, ranks, ARENA, *shape).unwrap().steps, most_steps(&layout));
            assert_eq!(Plan::dry(most + 1, ranks, ARENA, *shape), Err(Unsuitable::TooLong));
            assert!(Plan::new(most + 1, ranks, ARENA, *shape).is_ok());
        }
    }
}

/// Some on nodes of several.
fn ranks() -> impl Strategy<Value = Ranks> {
    let flat = prop_oneof![2..=9_usize, 2..=1024_usize].prop_map(Ranks::from);
    let on_nodes =
        (2..=8_usize, 2..=128_usize).prop_map(|(per_node, nodes)| Ranks::new(per_node * nodes, per_node));
    prop_oneof![flat, on_nodes]
}

/// Of the kernels' stream.
fn launches(plan: &Plan, size: usize) -> usize {
    let pieces: usize = (0..plan.steps).map(|step| plan.pieces(step, size).count()).sum();
    let (quantise, copy) = (1, 1);
    pieces
        + plan.steps
            * match plan.shape.algorithm {
                Algorithm::OneShot => quantise,
                Algorithm::TwoShot => quantise + copy + 1,
                Algorithm::ThreeShot => quantise + copy + plan.ranks.nodes() + 1,
            }
}

proptest! {
    #[test]
    fn whatever_is_asked_every_element_is_exchanged_once_within_the_arena_and_the_limit_of_steps(
        count in prop_oneof![1..5000_usize, 1..3_000_000_usize, 1..5_000_000_000_usize],
        ranks in ranks(),
        arena in prop_oneof![4096..2_000_000_usize, 2_000_000..100_000_000_usize],
        size in prop_oneof![Just(2_usize), Just(4)],
    ) {
        for plan in all_of(count, ranks, arena) {
            prop_assert!(plan.layout().arena_bytes(plan.packet_elements) <= arena);
            prop_assert!(launches(&plan, size).max(plan.exchanges()) + OTHER_LAUNCHES < MOST_PENDING);
            prop_assert!(plan.steps <= MOST_STEPS);
            let mut next = 0;
            for piece in (0..plan.steps).flat_map(|step| plan.pieces(step, size)) {
                prop_assert!(piece.start == next && piece.elements > 0);
                next += piece.elements;
            }
            prop_assert_eq!(next, count);
        }
    }

    #[test]
    fn a_piece_of_a_dry_run_fits_into_its_place(
        count in prop_oneof![1..5000_usize, 1..100_000_000_usize],
        ranks in ranks(),
        size in prop_oneof![Just(2_usize), Just(4)],
    ) {
        for plan in all_of(count, ranks, ARENA).filter(|plan| plan.dry) {
            for step in [0, plan.steps - 1] {
                let (chunk, pieces) = (plan.chunk(step), plan.pieces(step, size).count());
                let behind_packets = match plan.shape.algorithm {
                    Algorithm::TwoShot | Algorithm::ThreeShot => plan.slot_bytes() - plan.ranks.all() * chunk.stride(),
                    Algorithm::OneShot => ARENA - STATS_ROOM - plan.slots() * plan.slot_bytes(),
                };
                prop_assert!(plan.pieces(step, size).all(|piece| piece.elements * size <= behind_packets));
                prop_assert!(plan.shape.algorithm == Algorithm::OneShot || plan.ranks.all() * chunk.stride() <= behind_packets);
                prop_assert!(pieces <= plan.layout().most_pieces());
            }
        }
    }
}

#[test]
fn what_a_rank_sends_is_what_its_exchanges_hand_to_the_vendor() {
    for plan in plans() {
        let all = plan.ranks.all();
        for rank in [0, 1, all / 2, all - 1] {
            let of_exchange = |place| {
                let (phase, step) = plan.exchange(place);
                let chunk = plan.chunk(step);
                let peers = (0..all).filter(|peer| *peer != rank);
                let per_node = plan.ranks.per_node();
                let in_node = |peer: &usize| peer / per_node == rank / per_node;
                match (plan.shape.algorithm, phase) {
                    (Algorithm::ThreeShot, Phase::Scatter) => {
                        let across = peers.filter(|peer| peer % per_node == rank % per_node);
                        across.map(|peer| chunk.shard_bytes(peer)).sum()
                    }
                    (_, Phase::WithinNode) => {
                        let shards =
                            |peer: usize| (0..all).filter(move |owner| owner % per_node == peer % per_node);
                        peers.filter(in_node).flat_map(shards).map(|owner| chunk.shard_bytes(owner)).sum()
                    }
                    (_, Phase::Scatter) => peers.map(|peer| chunk.shard_bytes(peer)).sum::<usize>(),
                    (_, Phase::Gather) => peers.count() * chunk.stride(),
                }
            };
            let sent: usize = (0..plan.exchanges()).map(of_exchange).sum();
            assert_eq!(plan.sent_bytes(rank), sent, "{plan:?}, rank {rank}");
        }
    }
}

#[test]
fn a_variant_fits_where_no_usual_one_makes_chunks_that_overlap() {
    const ARENA: usize = 16 << 20;
    for ranks in [2, 3, 4, 8].into_iter().map(Ranks::from).chain([Ranks::new(4, 2), Ranks::new(16, 8)]) {
        let (tried, fitted) = Shape::variants(ranks);
        assert_eq!(usize::from(tried + fitted), Shape::candidates(ranks).len());
        let mut found = 0;
        for count in (12..26).map(|bits| 1 << bits) {
            let steps = |variant: u8| {
                let shape = Shape::candidates(ranks)[usize::from(variant)];
                Plan::new(count, ranks, ARENA, shape).map_or(0, |plan| plan.steps)
            };
            match fitting_variant(count, ranks, ARENA) {
                Some(variant) => {
                    found += 1;
                    assert!(variant >= tried && steps(variant) >= OVERLAPPING, "{count} elements, {ranks:?}");
                    assert!((0..variant).all(|other| steps(other) < OVERLAPPING));
                }
                // Too small for any, or large enough for a usual one.
                None => assert!(
                    (0..tried).any(|variant| steps(variant) >= OVERLAPPING)
                        || (0..tried + fitted).all(|variant| steps(variant) < OVERLAPPING),
                    "{count} elements, {ranks:?}"
                ),
            }
        }
        assert!(found > 0, "{ranks:?}");
    }
}
