//! Reads a page strictly, line by line, as a scraper would: a second opinion that shares no code with the writer.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::metrics::Format;

#[derive(Debug, Default)]
pub(super) struct Page {
    pub(super) families: HashSet<String>,
    pub(super) samples: Vec<Sample>,
    by_series: HashMap<(String, BTreeMap<String, String>), usize>,
}

#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) name: String,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) value: f64,
}

#[derive(Default)]
struct Current {
    name: String,
    kind: String,
    has_samples: bool,
}

impl Page {
    /// Panics at the first line that breaks a rule.
    #[track_caller]
    pub(super) fn checked(text: &str, format: Format) -> Self {
        let mut page = Self::default();
        let mut current = Current::default();
        let body = match format {
            Format::OpenMetrics => text.strip_suffix("# EOF\n").expect("OpenMetrics ends in # EOF"),
            Format::Text => text,
        };
        assert!(body.ends_with('\n'), "the last line is not ended");
        for line in body.strip_suffix('\n').unwrap_or_default().split('\n') {
            match line.strip_prefix("# ") {
                Some(metadata) => page.metadata(metadata, &mut current, format),
                None => page.sample(line, &mut current, format),
            }
        }
        page.check_histograms();
        page
    }

    pub(super) fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let has = |sample: &Sample| {
            let same =
                |(name, value): &(&str, &str)| sample.labels.get(*name).is_some_and(|held| held == value);
            sample.name == name && labels.iter().all(same)
        };
        let mut found = self.samples.iter().filter(|sample| has(sample));
        let value = found.next().map(|sample| sample.value);
        assert!(found.next().is_none(), "{name} {labels:?} is not one series");
        value
    }

    pub(super) fn labels_of(&self, name: &str, label: &str) -> Vec<String> {
        let named = self.samples.iter().filter(|sample| sample.name == name);
        named.filter_map(|sample| sample.labels.get(label).cloned()).collect()
    }

    #[track_caller]
    fn metadata(&mut self, line: &str, current: &mut Current, format: Format) {
        let mut words = line.splitn(3, ' ');
        let (word, name, rest) =
            (words.next(), words.next().unwrap_or_default(), words.next().unwrap_or_default());
        match word {
            Some("TYPE") => {
                assert!(is_name(name), "{line}");
                assert!(self.families.insert(name.to_owned()), "{name} comes twice or in two pieces");
                let kinds: &[&str] = match format {
                    Format::OpenMetrics => &["counter", "gauge", "histogram", "info"],
                    Format::Text => &["counter", "gauge", "histogram"],
                };
                assert!(kinds.contains(&rest), "{line}");
                *current = Current { name: name.to_owned(), kind: rest.to_owned(), has_samples: false };
            }
            Some("UNIT") => {
                assert!(
                    format == Format::OpenMetrics && name == current.name && !current.has_samples,
                    "{line}"
                );
                assert!(name.ends_with(&format!("_{rest}")) && current.kind != "info", "{line}");
            }
            Some("HELP") => {
                assert!(name == current.name && !current.has_samples && !rest.is_empty(), "{line}");
            }
            _ => panic!("neither TYPE, UNIT nor HELP: {line}"),
        }
    }

    #[track_caller]
    fn sample(&mut self, line: &str, current: &mut Current, format: Format) {
        current.has_samples = true;
        let end = line.find(['{', ' ']).expect("a name and a value");
        let (name, rest) = line.split_at(end);
        let (labels, rest) = if rest.starts_with('{') { parse_labels(rest) } else { (BTreeMap::new(), rest) };
        let rest = rest.strip_prefix(' ').unwrap_or_else(|| panic!("no space before the value: {line}"));
        let (number, exemplar) = match rest.split_once(" # ") {
            Some((number, exemplar)) => (number, Some(exemplar)),
            None => (rest, None),
        };
        let value: f64 = number.parse().unwrap_or_else(|_| panic!("no number: {line}"));
        let ending = name.strip_prefix(current.name.as_str());
        let ending = ending.unwrap_or_else(|| panic!("a sample of another family: {line}"));
        assert!(allowed(format, &current.kind).contains(&ending), "{} has no {ending}: {line}", current.kind);
        assert!(value >= 0.0 || current.kind == "gauge", "{line}");
        assert_eq!(labels.contains_key("le"), ending == "_bucket", "{line}");
        if let Some(exemplar) = exemplar {
            assert!(format == Format::OpenMetrics && ending == "_bucket", "{line}");
            check_exemplar(exemplar, &labels["le"]);
        }
        let series = (name.to_owned(), labels.clone());
        assert!(self.by_series.insert(series, self.samples.len()).is_none(), "twice: {line}");
        self.samples.push(Sample { name: name.to_owned(), labels, value });
    }

    /// Buckets rise up to `+Inf`, which is the count.
    #[track_caller]
    fn check_histograms(&self) {
        let mut last: Option<(&BTreeMap<String, String>, f64)> = None;
        for sample in &self.samples {
            if sample.name.ends_with("_bucket") {
                let bound = &sample.labels["le"];
                if let Some((labels, count)) = last.filter(|(labels, _)| labels["le"] != "+Inf") {
                    let (before, here) = (number(&labels["le"]), number(bound));
                    assert!(before < here && count <= sample.value, "{sample:?}");
                }
                last = Some((&sample.labels, sample.value));
            } else if sample.name.ends_with("_count") {
                let (labels, count) = last.expect("buckets before the count");
                assert!(labels["le"] == "+Inf" && count == sample.value, "{sample:?}");
            }
        }
    }
}

pub(super) fn is_name(name: &str) -> bool {
    let starts = name.starts_with(|c: char| c.is_ascii_lowercase());
    starts && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

fn allowed(format: Format, kind: &str) -> &'static [&'static str] {
    match (format, kind) {
        (Format::OpenMetrics, "counter") => &["_total", "_created"],
        (Format::OpenMetrics, "info") => &["_info"],
        (Format::OpenMetrics, "histogram") => &["_bucket", "_count", "_sum", "_created"],
        (Format::Text, "histogram") => &["_bucket", "_count", "_sum"],
        _ => &[""],
    }
}

fn number(bound: &str) -> f64 {
    if bound == "+Inf" { f64::INFINITY } else { bound.parse().expect("a bound") }
}

/// From `{` on; what follows the closing brace is the rest.
#[track_caller]
fn parse_labels(text: &str) -> (BTreeMap<String, String>, &str) {
    let mut labels = BTreeMap::new();
    let mut rest = &text[1..];
    while !rest.starts_with('}') {
        let (name, after) = rest.split_once("=\"").unwrap_or_else(|| panic!("no label: {text}"));
        assert!(is_name(name), "{text}");
        let (value, after) = parse_value(after);
        assert!(labels.insert(name.to_owned(), value).is_none(), "a label twice: {text}");
        rest = after.strip_prefix(',').unwrap_or(after);
    }
    (labels, &rest[1..])
}

fn parse_value(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (value, &text[at + 1..]),
            '\\' => match characters.next().map(|(_, escaped)| escaped) {
                Some('n') => value.push('\n'),
                Some(escaped @ ('"' | '\\')) => value.push(escaped),
                other => panic!("escaped {other:?} in {text}"),
            },
            plain => value.push(plain),
        }
    }
    panic!("a label value without an end: {text}");
}

#[track_caller]
fn check_exemplar(text: &str, le: &str) {
    let (labels, rest) = parse_labels(text);
    let characters: usize =
        labels.iter().map(|(name, value)| name.chars().count() + value.chars().count()).sum();
    assert!(characters <= 128, "{text}");
    let numbers: Vec<f64> = rest.split_whitespace().map(|word| word.parse().expect("a number")).collect();
    assert!(numbers.len() == 2 && numbers[0] <= number(le), "{text} in the bucket up to {le}");
}
