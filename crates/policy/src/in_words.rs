//! A plan as a line of text, for those who watch a job: which classes are compressed and which are tried. The rest is
//! the vendor's, and is not listed. Decides nothing; telemetry's events carry it.

use crate::{Class, Entry, PLACES, Plan};

/// For example `compressed: float16 from 1 MiB to below 16 MiB; tried: float32 from 4 KiB`.
pub fn in_words(plan: &Plan) -> String {
    let entries: Vec<Entry> = plan.iter().take(PLACES).map(|byte| Entry::from_byte(*byte)).collect();
    let compressed = runs(&entries, |entry| matches!(entry, Entry::Compressed { .. }));
    let tried = runs(&entries, |entry| matches!(entry, Entry::Trial { .. }));
    let parts = [("compressed", compressed), ("tried", tried)];
    let said = parts.into_iter().filter(|(_, runs)| !runs.is_empty());
    let text = said.map(|(what, runs)| format!("{what}: {}", runs.join(", "))).collect::<Vec<_>>().join("; ");
    if text.is_empty() { "everything is the vendor's".into() } else { text }
}

/// Classes of one datatype that lie next to each other are one run.
fn runs(entries: &[Entry], is_one: impl Fn(&Entry) -> bool) -> Vec<String> {
    let chosen = entries.iter().enumerate().filter(|(_, entry)| is_one(entry));
    let mut runs: Vec<(Class, Class)> = Vec::new();
    for class in chosen.filter_map(|(place, _)| Class::from_place(place)) {
        match runs.last_mut() {
            Some((_, last)) if last.element() == class.element() && last.size() + 1 == class.size() => {
                *last = class;
            }
            _ => runs.push((class, class)),
        }
    }
    runs.into_iter().map(|(first, last)| run(first, last)).collect()
}

fn run(first: Class, last: Class) -> String {
    let (from, to) = (first.bytes().0, last.bytes().1);
    let from = if from > 0 { format!(" from {}", size(from)) } else { String::new() };
    let to = to.map(|bytes| format!(" to below {}", size(bytes))).unwrap_or_default();
    format!("{}{from}{to}", first.datatype())
}

/// The bounds of classes are powers of two.
fn size(bytes: u64) -> String {
    match bytes {
        0..0x10_0000 => format!("{} KiB", bytes >> 10),
        0x10_0000..0x4000_0000 => format!("{} MiB", bytes >> 20),
        _ => format!("{} GiB", bytes >> 30),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Element, PLAN_BYTES};

    fn with(entries: &[(Element, u64, Entry)]) -> Plan {
        let mut plan = [0; PLAN_BYTES];
        entries.iter().for_each(|(element, count, entry)| {
            plan[Class::of(*element, *count).place()] = entry.byte();
        });
        plan
    }

    const COMPRESSED: Entry = Entry::Compressed { variant: 1 };

    #[test]
    fn what_is_not_the_vendors_is_said_by_datatype_and_size() {
        let plan = with(&[
            (Element::F16, 1 << 19, COMPRESSED),
            (Element::F16, 1 << 21, COMPRESSED),
            (Element::F32, 1 << 18, Entry::Vendor { settled: true }),
            (Element::F32, 1 << 20, Entry::Trial { variant: 0, round: 2 }),
        ]);
        let expected =
            "compressed: float16 from 1 MiB to below 16 MiB; tried: float32 from 4 MiB to below 16 MiB";
        assert_eq!(in_words(&plan), expected);
    }

    #[test]
    fn a_gap_and_another_datatype_begin_anew() {
        let of = |element, count| (element, count, COMPRESSED);
        let plan = with(&[of(Element::F16, 1), of(Element::F16, 1 << 17), of(Element::F32, 1 << 40)]);
        let expected =
            "compressed: float16 to below 4 KiB, float16 from 256 KiB to below 1 MiB, float32 from 1024 GiB";
        assert_eq!(in_words(&plan), expected);
    }

    #[test]
    fn every_plan_has_words_that_an_event_holds_or_cuts() {
        assert_eq!(in_words(&[0; PLAN_BYTES]), "everything is the vendor's");
        let everything = [COMPRESSED.byte(); PLAN_BYTES];
        assert_eq!(in_words(&everything), "compressed: float16, bfloat16, float32");
        for byte in 0..=u8::MAX {
            assert!(!in_words(&[byte; PLAN_BYTES]).is_empty());
        }
    }
}
