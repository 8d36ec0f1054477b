//! How bytes and times fall into classes and buckets. Pure; writer and readers use the same functions.

/// Size classes are powers of four from 1 KiB on, the same as the tuner's.
pub const SIZE_CLASSES: usize = 16;
/// Buckets of durations: at most 1 us, 2 us, 4 us, …; the last has no bound.
pub const DURATION_BUCKETS: usize = 28;
/// Buckets of our own host time: below 1 tick, 2 ticks, 4 ticks, …; the last has no bound.
pub const HOOK_BUCKETS: usize = 32;

/// floor(log4(bytes / 1024)), between 0 and 15.
#[inline]
pub fn size_class(bytes: u64) -> u8 {
    let units = (bytes >> 10) | 1;
    (units.ilog2() as u8 / 2).min(SIZE_CLASSES as u8 - 1)
}

/// The fewest bytes of a call of this class, and the bytes from which on calls are of the next one.
pub fn size_class_bytes(class: u8) -> (u64, Option<u64>) {
    let class = class.min(SIZE_CLASSES as u8 - 1);
    let bound = |class: u8| 1024u64 << (2 * u32::from(class));
    let least = if class == 0 { 0 } else { bound(class) };
    (least, (usize::from(class) + 1 < SIZE_CLASSES).then(|| bound(class + 1)))
}

#[inline]
pub fn duration_bucket(ns: u64) -> usize {
    let microseconds = ns.div_ceil(1000).max(1);
    (u64::BITS - (microseconds - 1).leading_zeros()).min(DURATION_BUCKETS as u32 - 1) as usize
}

/// The longest duration that falls into the bucket, in nanoseconds; `None` for the last.
pub fn duration_bound_ns(bucket: usize) -> Option<u64> {
    (bucket + 1 < DURATION_BUCKETS).then(|| 1000u64 << bucket)
}

#[inline]
pub fn hook_bucket(ticks: u64) -> usize {
    let ticks = ticks.min((1 << (HOOK_BUCKETS - 1)) - 1);
    (ticks << 1 | 1).ilog2() as usize
}

#[cfg(test)]
mod tests {
    use airamp_policy::{Class, Element};
    use proptest::prelude::*;

    use super::*;

    fn any_magnitude() -> impl Strategy<Value = u64> {
        (any::<u64>(), 0..64u32).prop_map(|(number, shift)| number >> shift)
    }

    proptest! {
        #[test]
        fn every_size_lies_within_the_bounds_of_its_class(bytes in any_magnitude()) {
            let (least, next) = size_class_bytes(size_class(bytes));
            prop_assert!(bytes >= least && next.is_none_or(|next| bytes < next));
        }

        #[test]
        fn size_classes_are_the_tuners(count in 0..1u64 << 48) {
            prop_assert_eq!(size_class(2 * count), Class::of(Element::F16, count).size());
        }

        #[test]
        fn every_duration_is_at_most_its_bound_and_above_the_one_before(ns in any_magnitude()) {
            let bucket = duration_bucket(ns);
            prop_assert!(bucket < DURATION_BUCKETS);
            prop_assert!(duration_bound_ns(bucket).is_none_or(|bound| ns <= bound));
            prop_assert!(bucket == 0 || ns > duration_bound_ns(bucket - 1).unwrap());
        }

        #[test]
        fn every_hook_time_is_below_two_to_the_power_of_its_bucket(ticks in any_magnitude()) {
            let bucket = hook_bucket(ticks);
            prop_assert!(bucket + 1 == HOOK_BUCKETS || ticks < 1 << bucket);
            prop_assert!(bucket == 0 || ticks >= 1 << (bucket - 1));
        }
    }
}
