//! A number of bytes as people write it.

use std::str::FromStr;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Size(usize);

const UNITS: [(&str, usize); 7] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("K", 1 << 10),
    ("M", 1 << 20),
    ("G", 1 << 30),
    ("B", 1),
];
/// More than any GPU's memory would hold twice.
const LARGEST: usize = 64 << 30;

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unit = UNITS.iter().find(|(suffix, _)| text.ends_with(suffix));
        let (suffix, factor) = unit.copied().unwrap_or(("", 1));
        let number: Option<usize> = text.strip_suffix(suffix).and_then(|number| number.trim().parse().ok());
        let bytes = number.and_then(|number| number.checked_mul(factor));
        match bytes {
            Some(bytes) if (8..=LARGEST).contains(&bytes) => Ok(Self(bytes)),
            Some(_) => Err("expected from 8B to 64GiB".into()),
            None => Err("expected a whole number of bytes, as 4096, 512KiB or 64MiB".into()),
        }
    }
}

/// One item of a list of sizes: a size, or a range that doubles, as 1MiB..256MiB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sizes(pub(super) Vec<usize>);

impl FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((first, last)) = text.split_once("..") else {
            return text.parse().map(|Size(bytes)| Self(vec![bytes]));
        };
        let (Size(first), Size(last)) = (first.parse()?, last.parse()?);
        if first > last {
            return Err("expected the smaller size first, as 1MiB..256MiB".into());
        }
        Ok(Self(
            std::iter::successors(Some(first), |bytes| Some(2 * bytes).filter(|next| *next <= last))
                .collect(),
        ))
    }
}

/// One size, in bytes.
pub(crate) fn one(text: &str) -> Result<usize, String> {
    text.parse().map(|Size(bytes)| bytes)
}

/// The largest unit that gives a whole number.
pub(super) fn shown(bytes: usize) -> String {
    let units = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match units.iter().find(|(_, factor)| bytes >= *factor && bytes.is_multiple_of(*factor)) {
        Some((suffix, factor)) => format!("{}{suffix}", bytes / factor),
        None => format!("{bytes}B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_and_without_a_unit() {
        let read = |text: &str| text.parse::<Size>().map(|size| size.0);
        assert_eq!(read("4096"), Ok(4096));
        assert_eq!(read("64MiB"), Ok(64 << 20));
        assert_eq!(read("2G"), Ok(2 << 30));
        assert!(read("1.5MiB").is_err());
        assert!(read("-1").is_err());
        assert!(read("").is_err());
        assert!(read("99999999999999999999GiB").is_err());
        assert!(read("0").is_err());
    }

    #[test]
    fn a_range_doubles_up_to_its_end() {
        let read = |text: &str| text.parse::<Sizes>().map(|sizes| sizes.0);
        assert_eq!(read("1KiB..8KiB"), Ok(vec![1 << 10, 2 << 10, 4 << 10, 8 << 10]));
        assert_eq!(read("1000..3000"), Ok(vec![1000, 2000]));
        assert_eq!(read("8..8"), Ok(vec![8]));
        assert_eq!(read("64MiB"), Ok(vec![64 << 20]));
        assert!(read("2MiB..1MiB").is_err());
        assert!(read("1MiB..").is_err());
        assert!(read("1MiB...2MiB").is_err());
    }

    #[test]
    fn a_size_is_shown_in_the_unit_that_fits() {
        assert_eq!(shown(64 << 20), "64MiB");
        assert_eq!(shown(1536), "1536B");
    }
}
