//! How calls of a lane were cut before, to be looked up by the next ones like them: most calls of a job are like one
//! that came a step ago. Plain words without a lock; what two threads write at once is seen to be torn and computed anew.

use crate::plan::{MOST_STEPS, Plan, Unsuitable};
use crate::ranks::Ranks;
use crate::shape::Shape;
use std::sync::atomic::{AtomicU64, Ordering};

/// Calls of more sizes in one step take places from each other.
const PLACES: usize = 32;

pub(crate) struct Memo {
    places: [Place; PLACES],
}

/// Which call it is about, mixed with how it is cut: of two halves that do not belong together nobody's call comes out.
struct Place {
    mixed: AtomicU64,
    cut: AtomicU64,
}

const _: () = assert!(MOST_STEPS < 1 << 12);

impl Memo {
    pub(crate) const fn new() -> Self {
        Self { places: [const { Place { mixed: AtomicU64::new(0), cut: AtomicU64::new(0) } }; PLACES] }
    }

    /// The plan of so many elements in that variant, as `make` makes it if nobody has asked lately.
    pub(crate) fn plan(
        &self,
        (count, ranks, variant): (usize, Ranks, u8),
        shape: Shape,
        make: impl FnOnce() -> Result<Plan, Unsuitable>,
    ) -> Result<Plan, Unsuitable> {
        // Never 0, which is what an empty place holds: a plan has at least one element.
        let key = (count as u64) << 4 | u64::from(variant);
        let is_whole = count >> 60 == 0 && variant < 16;
        let place = &self.places[(key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 59) as usize % PLACES];
        let cut = place.cut.load(Ordering::Relaxed);
        if is_whole && cut != 0 && place.mixed.load(Ordering::Relaxed) ^ scattered(cut) == key {
            let (steps, in_turn) = ((cut & 0xfff) as usize, cut >> 12 & 1 != 0);
            let packet_elements = (cut >> 13) as usize;
            return Ok(Plan { shape, count, ranks, steps, packet_elements, in_turn, dry: false });
        }
        let plan = make()?;
        if is_whole && plan.packet_elements >> 51 == 0 {
            let cut = (plan.packet_elements as u64) << 13 | u64::from(plan.in_turn) << 12 | plan.steps as u64;
            place.mixed.store(key ^ scattered(cut), Ordering::Relaxed);
            place.cut.store(cut, Ordering::Relaxed);
        }
        Ok(plan)
    }
}

/// Else two cuts could differ by what two calls differ by.
fn scattered(cut: u64) -> u64 {
    cut.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANKS: usize = 4;
    const ARENA: usize = 16 << 20;

    fn looked_up(memo: &Memo, count: usize, variant: u8) -> Result<Plan, Unsuitable> {
        let shape = Shape::candidates(RANKS)[usize::from(variant)];
        memo.plan((count, RANKS.into(), variant), shape, || Plan::new(count, RANKS, ARENA, shape))
    }

    #[test]
    fn a_plan_that_is_looked_up_is_the_one_that_would_be_computed() {
        let memo = Memo::new();
        // More sizes than places, so that some are replaced.
        let long = [800_000_000, 1_900_000_000, 3_000_000_000];
        for count in (1..3000).map(|step| step * 7919).chain([1, usize::MAX >> 5]).chain(long) {
            for variant in 0..Shape::candidates(RANKS).len() as u8 {
                let shape = Shape::candidates(RANKS)[usize::from(variant)];
                let computed = Plan::new(count, RANKS, ARENA, shape);
                assert_eq!(looked_up(&memo, count, variant), computed);
                assert_eq!(looked_up(&memo, count, variant), computed);
            }
        }
        let [many, _, in_turn] = long.map(|count| {
            Shape::candidates(RANKS)
                .iter()
                .filter_map(move |shape| Plan::new(count, RANKS, ARENA, *shape).ok())
        });
        assert!(many.max_by_key(|plan| plan.steps).is_some_and(|plan| plan.steps > 256));
        assert!({ in_turn }.any(|plan| plan.in_turn && !plan.shape.in_turn));
    }

    #[test]
    fn a_call_that_came_before_is_not_cut_anew() {
        let memo = Memo::new();
        let shape = Shape::usual(RANKS);
        let plan = looked_up(&memo, 1 << 20, 0).expect("a plan");
        let found = memo.plan((1 << 20, RANKS.into(), 0), shape, || unreachable!("it is known"));
        assert_eq!(found, Ok(plan));
    }

    #[test]
    fn halves_of_two_plans_are_nobodys() {
        let memo = Memo::new();
        let plan = looked_up(&memo, 1 << 20, 0).expect("a plan");
        for place in &memo.places {
            place.cut.fetch_xor(1 << 20, Ordering::Relaxed);
        }
        assert_eq!(looked_up(&memo, 1 << 20, 0), Ok(plan));
    }
}
