//! Numbers of bytes as people list them, and as the benchmark shows them.

use std::str::FromStr;

use airamp_plan::size;

/// One item of a list of sizes: a size, or a range that doubles, as 1MiB..256MiB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sizes(pub(super) Vec<usize>);

impl FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((first, last)) = text.split_once("..") else {
            return size(text).map(|bytes| Self(vec![bytes]));
        };
        let (first, last) = (size(first)?, size(last)?);
        if first > last {
            return Err("expected the smaller size first, as 1MiB..256MiB".into());
        }
        Ok(Self(
            std::iter::successors(Some(first), |bytes| Some(2 * bytes).filter(|next| *next <= last))
                .collect(),
        ))
    }
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
