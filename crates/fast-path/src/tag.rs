//! What a packet says about itself, so that one that belongs elsewhere is never taken for the one
//! awaited: our messages share one queue per pair of ranks with the application's own.

use crate::enqueue::{Call, Post};
use crate::plan::{MOST_STEPS, Phase, Plan};
use crate::shape::Algorithm;
use airamp_codec::{Format, Tag};

/// The index of every call in a graph. To capture it puts nothing on the wire, and a rank may throw a capture away: so such
/// calls have no place among the live ones, and their packets say only what they are part of.
pub const CAPTURED: u64 = u64::MAX;

const _: () = assert!(MOST_STEPS <= 0x1000);

/// The tag of rank 0's packet in that phase of that step.
pub(crate) fn of(post: &Post<'_>, step: usize, phase: Phase) -> Tag {
    let Post { lane, plan, call, index, .. } = post;
    Facts { index: *index, format: lane.format, call, plan, step, phase }.tag()
}

/// All that ranks must agree on to read each other's packets.
#[derive(Clone, Copy)]
struct Facts<'a> {
    index: u64,
    format: Format,
    call: &'a Call,
    plan: &'a Plan,
    step: usize,
    phase: Phase,
}

impl Facts<'_> {
    /// The lowest 16 bits of the part are for the rank, or for what else a packet's sender is told by in its phase.
    fn tag(&self) -> Tag {
        let Self { index, format, call, plan, step, phase } = *self;
        let part = (step as u64 & 0xfff) << 16
            | u64::from(plan.shape.algorithm == Algorithm::ThreeShot) << 29
            | u64::from(phase == Phase::WithinNode) << 30
            | u64::from(plan.dry) << 31
            | u64::from(phase == Phase::Gather) << 32
            | (format as u64) << 33
            | (call.element as u64) << 35
            | u64::from(plan.shape.algorithm == Algorithm::TwoShot) << 37
            | u64::from(call.average) << 38
            | (plan.chunk(step).blocks_per_packet() as u64 & 0x1ff_ffff) << 39;
        Tag { call: index, part }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranks::Ranks;
    use crate::shape::Shape;
    use airamp_codec::Element;

    const CALL: Call = Call { input: 0, output: 0, element: Element::F16, average: false };

    fn plan(count: usize, ranks: usize) -> Plan {
        Plan::new(count, ranks, 1 << 20, Shape::usual(ranks)).expect("a plan")
    }

    /// All facts at their first value, on a plan of several steps.
    fn base<'a>(plan: &'a Plan) -> Facts<'a> {
        Facts { index: 0, format: Format::E4M3, call: &CALL, plan, step: 0, phase: Phase::Scatter }
    }

    #[track_caller]
    fn assert_all_differ(tags: &[Tag]) {
        for (place, tag) in tags.iter().enumerate() {
            assert!(!tags[..place].contains(tag), "{tag:?} is there twice in {tags:?}");
        }
    }

    #[test]
    fn tags_that_differ_in_one_fact_differ() {
        let plan = plan(2_000_000, 3);
        let base = base(&plan);
        assert!(plan.steps > 2);
        let indices = [1, 2, 1 << 32, u64::MAX].map(|index| Facts { index, ..base }.tag());
        let steps = [1, 2].map(|step| Facts { step, ..base }.tag());
        let formats = [Format::E5M2, Format::Int8, Format::Auto].map(|format| Facts { format, ..base }.tag());
        let [bf16, f32] = [Element::Bf16, Element::F32].map(|element| Call { element, ..CALL });
        let average = Call { average: true, ..CALL };
        let calls = [&bf16, &f32, &average].map(|call| Facts { call, ..base }.tag());
        let gather = Facts { phase: Phase::Gather, ..base }.tag();
        let within = Facts { phase: Phase::WithinNode, ..base }.tag();
        let ranks = [1, 2, 0xffff].map(|rank| base.tag().of_rank(rank));
        let all = [&indices[..], &steps, &formats, &calls, &[base.tag(), gather, within], &ranks].concat();
        assert_all_differ(&all);
    }

    #[test]
    fn tags_of_different_algorithms_and_packet_sizes_differ() {
        // A single block, so that the packets of all are of one size.
        let algorithms = [Algorithm::OneShot, Algorithm::TwoShot, Algorithm::ThreeShot];
        let plans = algorithms
            .map(|algorithm| Plan { shape: Shape { algorithm, parts: 1, in_turn: false }, ..plan(100, 2) });
        let sizes = [plan(129, 2), plan(385, 2), plan(40_000, 2)];
        let tags: Vec<Tag> = plans.iter().chain(&sizes).map(|plan| base(plan).tag()).collect();
        assert_all_differ(&tags);
    }

    #[test]
    fn a_dry_run_is_not_taken_for_a_call() {
        let live = plan(100, 2);
        let dry = Plan { dry: true, ..live };
        assert_all_differ(&[base(&live).tag(), base(&dry).tag()]);
    }

    #[test]
    fn a_rank_has_the_lowest_bits_to_itself() {
        let plan = plan(2_000_000, 3);
        for step in 0..plan.steps {
            let tag = Facts { step, ..base(&plan) }.tag();
            assert_eq!(tag.part & 0xffff, 0);
            assert_eq!(tag.of_rank(0xffff), Tag { call: tag.call, part: tag.part | 0xffff });
        }
    }

    #[test]
    fn every_step_of_a_call_has_a_tag_of_its_own() {
        let plan = plan(50_000_000, 3);
        assert!(plan.steps > 64 && plan.steps <= MOST_STEPS);
        let on_nodes = Plan { ranks: Ranks::new(4, 2), shape: Shape::usual(Ranks::new(4, 2)), ..plan };
        let long = self::plan(120_000_000, 2);
        assert!(long.steps > 256);
        for plan in [plan, on_nodes, long] {
            let phases = plan.shape.algorithm.phases().iter();
            let of_phase = |phase| (0..plan.steps).map(move |step| (step, phase));
            let tags = phases
                .flat_map(of_phase)
                .map(|(step, phase)| Facts { step, phase: *phase, ..base(&plan) }.tag());
            assert_all_differ(&tags.collect::<Vec<Tag>>());
        }
    }
}
