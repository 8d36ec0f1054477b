//! The samples of one family while it is filled: label values in, one point per set of labels out. It keeps
//! what would break a scrape away from the page: a set of labels that comes twice (counters are added up, of
//! anything else the first stays), numbers that are not finite, and endless label values.

use std::collections::HashMap;
use std::collections::hash_map::{DefaultHasher, Entry};
use std::hash::{Hash as _, Hasher as _};

use super::family::{Family, Kind};
use super::number::{Number, Value};

/// Longer label values are cut; the names and words that we have are far shorter.
const LABEL_CHARACTERS: usize = 128;

pub(super) struct Samples<'f> {
    family: &'f Family,
    points: Vec<Point>,
    /// Where a point is, by the hash of its labels: a node has many, and their text is held once.
    by_hash: HashMap<u64, usize>,
    /// Unix time in seconds at which the counters of this family were zero, where that is known.
    pub(super) created: Option<f64>,
}

pub(super) struct Point {
    /// `a="x",b="y"`, escaped.
    pub(super) labels: String,
    pub(super) value: PointValue,
}

pub(super) enum PointValue {
    One(Number),
    Histogram(Histogram),
}

/// Buckets that are not cumulative; `counts` has one more than `bounds`.
#[derive(Clone, Debug, Default)]
pub(super) struct Histogram {
    pub(super) bounds: Vec<f64>,
    pub(super) counts: Vec<u64>,
    pub(super) sum: f64,
    pub(super) exemplars: Vec<Exemplar>,
}

/// One observation that stands for its bucket.
#[derive(Clone, Debug)]
pub(super) struct Exemplar {
    pub(super) bucket: usize,
    /// Names and values; together at most 128 characters, or it is left out.
    pub(super) labels: Vec<(&'static str, String)>,
    pub(super) value: f64,
    pub(super) unix_s: f64,
}

impl<'f> Samples<'f> {
    pub(super) fn of(family: &'f Family) -> Self {
        Self { family, points: Vec::new(), by_hash: HashMap::new(), created: None }
    }

    /// One sample; nothing where the value is not known. `labels` are the values of the family's label names,
    /// in their order.
    pub(super) fn add(&mut self, labels: &[&str], value: impl Value) {
        let Some(number) = value.number().filter(|number| self.takes(*number)) else { return };
        self.put(labels, PointValue::One(number));
    }

    pub(super) fn add_histogram(&mut self, labels: &[&str], histogram: Histogram) {
        let fits = histogram.counts.len() == histogram.bounds.len() + 1;
        let rises = histogram.bounds.windows(2).all(|pair| pair[0] < pair[1]);
        if fits && rises && histogram.sum.is_finite() && histogram.sum >= 0.0 {
            self.put(labels, PointValue::Histogram(histogram));
        }
    }

    pub(super) fn points(&self) -> &[Point] {
        &self.points
    }

    fn takes(&self, number: Number) -> bool {
        number.is_finite() && (self.family.kind != Kind::Counter || !number.is_negative())
    }

    fn put(&mut self, labels: &[&str], value: PointValue) {
        debug_assert_eq!(labels.len(), self.family.labels.len(), "labels of {}", self.family.name);
        let labels = label_text(self.family.labels.iter().copied().zip(labels.iter().copied()));
        match self.by_hash.entry(hash(&labels)) {
            Entry::Vacant(place) => {
                place.insert(self.points.len());
                self.points.push(Point { labels, value });
            }
            Entry::Occupied(place) => match self.points.get_mut(*place.get()) {
                Some(point) if point.labels == labels => point.value.merge(value, self.family.kind),
                _ => self.points.push(Point { labels, value }),
            },
        }
    }
}

fn hash(labels: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    labels.hash(&mut hasher);
    hasher.finish()
}

impl PointValue {
    fn merge(&mut self, other: Self, kind: Kind) {
        match (self, other) {
            (Self::One(sum), Self::One(more)) if kind == Kind::Counter => *sum = sum.plus(more),
            (Self::Histogram(sum), Self::Histogram(more)) if sum.bounds == more.bounds => sum.add(more),
            _ => {}
        }
    }
}

impl Histogram {
    fn add(&mut self, more: Self) {
        for (count, others) in self.counts.iter_mut().zip(&more.counts) {
            *count = count.saturating_add(*others);
        }
        self.sum += more.sum;
        for exemplar in more.exemplars {
            if self.exemplars.iter().all(|own| own.bucket != exemplar.bucket) {
                self.exemplars.push(exemplar);
            }
        }
    }
}

/// `a="x",b="y"` with the values escaped as both formats ask for it.
pub(super) fn label_text<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut text = String::with_capacity(96);
    for (name, value) in pairs {
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(name);
        text.push_str("=\"");
        if value.len() <= LABEL_CHARACTERS && !value.contains(['\\', '"', '\n']) {
            text.push_str(value);
        } else {
            value.chars().take(LABEL_CHARACTERS).for_each(|character| push_escaped(&mut text, character));
        }
        text.push('"');
    }
    text
}

pub(super) fn push_escaped(text: &mut String, character: char) {
    match character {
        '\\' => text.push_str("\\\\"),
        '"' => text.push_str("\\\""),
        '\n' => text.push_str("\\n"),
        other => text.push(other),
    }
}
