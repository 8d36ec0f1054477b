//! A decision as a sentence: whether calls of the class are compressed, since when, and why.

use airamp_policy::explain::{Decision, Record};

use super::table::{class, ranks};
use crate::columns::time;
use crate::config::without_control_characters;

/// As `AllReduce float32 64 KiB to 256 KiB is on from call 12: …`.
pub(super) fn of(record: &Record) -> String {
    let about = record.class.as_ref().map_or_else(|| "All calls".to_owned(), class);
    let is_one = record.class.is_some();
    let verb = if is_one { "is" } else { "are" };
    let since = record.index.map(|index| format!(" from call {index}")).unwrap_or_default();
    let said = match record.decision {
        Decision::Compressed => format!("{verb} on{since}"),
        Decision::Vendor => format!("{verb} off{since}"),
        Decision::Trial => format!("{verb} being measured{since}, with exact results"),
        Decision::Would => "would be on (shadow mode)".to_owned(),
        Decision::WouldNot => "would be off (shadow mode)".to_owned(),
        Decision::Frozen => format!(
            "{} as {}{since}",
            if is_one { "stays" } else { "stay" },
            if is_one { "it is" } else { "they are" }
        ),
        Decision::Resumed => format!("{verb} again as decided before{since}"),
        Decision::Withdrawn => format!("{verb} as before: a change was withdrawn"),
    };
    let reason = without_control_characters(record.reason.trim_end_matches('.'));
    let who =
        if record.who.is_empty() { String::new() } else { format!(" (because of {})", ranks(&record.who)) };
    format!("{about} {said}: {reason}{who}.{}", measured(record))
}

/// The numbers that the reason may leave out.
fn measured(record: &Record) -> String {
    let mut parts = Vec::new();
    if let (Some(ours), Some(vendor)) = (record.ours_us, record.vendor_us) {
        parts.push(format!("compressed it takes {}, the vendor's call {}", time(ours), time(vendor)));
    }
    if let Some(error) = record.vnmse {
        parts.push(format!("the error (vNMSE) is {error:.1e}"));
    }
    if parts.is_empty() { String::new() } else { format!(" Measured: {}.", parts.join("; ")) }
}

#[cfg(test)]
mod tests {
    use super::super::communicators::tests::record;
    use super::*;

    #[test]
    fn a_class_says_whether_it_is_on_since_when_and_why() {
        let mut on = record(0, 65_536, Decision::Compressed, "1.83 times the vendor's speed.");
        (on.ours_us, on.vendor_us, on.vnmse) = (Some(100.0), Some(183.0), Some(8.6e-5));
        assert_eq!(
            of(&on),
            "AllReduce float32 64 KiB to 256 KiB is on from call 12: 1.83 times the vendor's speed. Measured: compressed \
             it takes 100 us, the vendor's call 183 us; the error (vNMSE) is 8.6e-5."
        );
        let off = Record { who: vec![2], class: None, ..record(0, 0, Decision::Vendor, "no memory") };
        assert_eq!(of(&off), "All calls are off from call 12: no memory (because of rank 2).");
    }

    #[test]
    fn every_decision_has_words() {
        use Decision::{Compressed, Frozen, Resumed, Trial, Vendor, Withdrawn, Would, WouldNot};
        for decision in [Compressed, Frozen, Resumed, Trial, Vendor, Withdrawn, Would, WouldNot] {
            let text = of(&record(0, 1024, decision, "why\u{1b}"));
            assert!(text.contains(": why") && !text.contains('\u{1b}'), "{text}");
        }
    }
}
