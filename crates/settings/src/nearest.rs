//! Finds the name that a misspelt one probably meant: for what is said of it, and for the daemon to tell whether it was meant
//! to protect.

/// Names longer than this are noise, and comparing them would only cost time.
const LONGEST_NAME: usize = 64;

/// The candidate closest to `name`, if it is close enough to be what was meant. One that begins like it is closest:
/// ends are left out more often than mistaken.
pub(crate) fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > LONGEST_NAME {
        return None;
    }
    let name = name.to_ascii_lowercase();
    let judged = |candidate: &'a str| {
        let lower = candidate.to_ascii_lowercase();
        (!lower.starts_with(&name), distance(&name, &lower), candidate)
    };
    candidates
        .map(judged)
        .filter(|(_, distance, candidate)| *distance <= candidate.len() / 3)
        .min_by_key(|(differs, distance, _)| (*differs, *distance))
        .map(|(.., candidate)| candidate)
}

/// Levenshtein's distance over bytes, one row at a time.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.bytes().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, right) in b.bytes().enumerate() {
            let replaced = diagonal + usize::from(left != right);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_counts_edits() {
        for (a, b, edits) in [
            ("", "abc", 3),
            ("abc", "", 3),
            ("mode", "mode", 0),
            ("mdoe", "mode", 2),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distance(a, b), edits, "{a} to {b}");
        }
    }

    #[test]
    fn a_slip_of_the_finger_finds_the_name_meant() {
        let names = ["metrics_port", "metrics_addr", "mode"];
        assert_eq!(nearest("metric_port", names.into_iter()), Some("metrics_port"));
        assert_eq!(nearest("METRICS_ADR", names.into_iter()), Some("metrics_addr"));
    }

    #[test]
    fn a_name_that_was_cut_short_finds_the_whole_one() {
        let names = ["metrics_port", "metrics_token_file"];
        assert_eq!(nearest("metrics_token", names.into_iter()), Some("metrics_token_file"));
    }

    #[test]
    fn a_stranger_finds_nothing() {
        assert_eq!(nearest("colour_of_the_sky", ["mode", "log"].into_iter()), None);
        assert_eq!(nearest(&"m".repeat(100_000), ["mode"].into_iter()), None);
    }
}
