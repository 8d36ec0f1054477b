//! Whole numbers of the command line: read, and refused in words that name what is right.

use std::ops::RangeInclusive;

/// A parser for what lies in `range`; one that ends at `u64::MAX` is said to have no end.
pub(crate) fn whole<N: TryFrom<u64>>(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<N, String> + Clone + Send + Sync + 'static {
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.and_then(|number| N::try_from(number).ok()).ok_or_else(|| expected(&range))
    }
}

fn expected(range: &RangeInclusive<u64>) -> String {
    match (range.start(), range.end()) {
        (least, &u64::MAX) => format!("expected a whole number, {least} or more"),
        (least, most) => format!("expected a whole number from {least} to {most}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_outside_and_what_is_none_are_answered_with_what_is_right() {
        let read = whole::<u32>(1..=64);
        assert_eq!((read("1"), read("64")), (Ok(1), Ok(64)));
        for wrong in ["0", "65", "-1", "", "2.0", "many", "99999999999999999999"] {
            assert_eq!(read(wrong), Err("expected a whole number from 1 to 64".to_owned()), "{wrong}");
        }
        assert_eq!(whole::<u64>(1..=u64::MAX)("0"), Err("expected a whole number, 1 or more".to_owned()));
    }
}
