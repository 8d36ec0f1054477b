//! Numbers as people write and read them. `airamp bench`, whose output this crate reads, has them from here too.

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
pub(crate) const LARGEST: usize = 64 << 30;

/// A number of bytes.
pub fn size(text: &str) -> Result<usize, String> {
    let unit = UNITS.iter().find(|(suffix, _)| text.ends_with(suffix));
    let (suffix, factor) = unit.copied().unwrap_or(("", 1));
    let number: Option<usize> = text.strip_suffix(suffix).and_then(|number| number.trim().parse().ok());
    let bytes = number.and_then(|number| number.checked_mul(factor));
    match bytes {
        Some(bytes) if (8..=LARGEST).contains(&bytes) => Ok(bytes),
        Some(_) => Err("expected from 8B to 64GiB".into()),
        None => Err("expected a whole number of bytes, as 4096, 512KiB or 64MiB".into()),
    }
}

/// In the largest unit that is not too large, with at most one digit behind the point.
pub fn shown_size(bytes: usize) -> String {
    let units = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];
    let (unit, size) = units.into_iter().find(|(_, size)| bytes >= *size).unwrap_or(("B", 1));
    format!("{}{unit}", (bytes as f64 / size as f64 * 10.0).round() / 10.0)
}

/// NCCL's: 22809 is 2.28.9.
pub fn version(code: i32) -> String {
    format!("{}.{}.{}", code / 10_000, code / 100 % 100, code % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_and_without_a_unit() {
        assert_eq!(size("4096"), Ok(4096));
        assert_eq!(size("64MiB"), Ok(64 << 20));
        assert_eq!(size("2G"), Ok(2 << 30));
        assert!(size("1.5MiB").is_err());
        assert!(size("-1").is_err());
        assert!(size("").is_err());
        assert!(size("99999999999999999999GiB").is_err());
        assert!(size("0").is_err());
    }
}
