//! Writes families in both text forms. It knows their grammar and nothing of what the numbers mean: which
//! endings samples have, which metadata lines there are, what is escaped, where buckets and exemplars stand.

use std::fmt::Write as _;

use super::family::{Family, Kind};
use super::negotiate::Format;
use super::number::bound;
use super::samples::{Exemplar, Histogram, Point, PointValue, Samples, label_text, push_escaped};

/// OpenMetrics allows an exemplar's label names and values so many characters in all.
const EXEMPLAR_CHARACTERS: usize = 128;

pub(super) struct Exposition {
    format: Format,
    text: String,
}

impl Exposition {
    pub(super) fn new(format: Format) -> Self {
        Self { format, text: String::with_capacity(1 << 16) }
    }

    /// One family; nothing at all where it has no samples.
    pub(super) fn write(&mut self, family: &Family, samples: &Samples<'_>) {
        if samples.points().is_empty() {
            return;
        }
        self.head(family);
        for point in samples.points() {
            match &point.value {
                PointValue::One(number) => {
                    self.name(family.name, family.kind.ending(), &point.labels, None);
                    let _ = writeln!(self.text, " {number}");
                }
                PointValue::Histogram(histogram) => self.histogram(family, point, histogram),
            }
            self.created(family, samples, point);
        }
    }

    pub(super) fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }

    /// In OpenMetrics the family has the name without its samples' ending; the older form knows only samples,
    /// and no type for information.
    fn head(&mut self, family: &Family) {
        let ending = if self.format == Format::Text { family.kind.ending() } else { "" };
        let kind = match (self.format, family.kind) {
            (Format::Text, Kind::Info) => Kind::Gauge,
            (_, kind) => kind,
        };
        let name = family.name;
        let _ = writeln!(self.text, "# TYPE {name}{ending} {}", kind.name());
        if self.format == Format::OpenMetrics && !family.unit.is_empty() {
            let _ = writeln!(self.text, "# UNIT {name} {}", family.unit);
        }
        let _ = write!(self.text, "# HELP {name}{ending} ");
        for character in family.help.chars() {
            match (self.format, character) {
                // The older form does not escape quotes here.
                (Format::Text, '"') => self.text.push('"'),
                (_, other) => push_escaped(&mut self.text, other),
            }
        }
        self.text.push('\n');
    }

    fn name(&mut self, name: &str, ending: &str, labels: &str, le: Option<&str>) {
        self.text.push_str(name);
        self.text.push_str(ending);
        if labels.is_empty() && le.is_none() {
            return;
        }
        self.text.push('{');
        self.text.push_str(labels);
        if let Some(le) = le {
            let comma = if labels.is_empty() { "" } else { "," };
            let _ = write!(self.text, "{comma}le=\"{le}\"");
        }
        self.text.push('}');
    }

    fn histogram(&mut self, family: &Family, point: &Point, histogram: &Histogram) {
        let mut total = 0_u64;
        for (bucket, count) in histogram.counts.iter().enumerate() {
            total = total.saturating_add(*count);
            let le = histogram.bounds.get(bucket).map_or_else(|| "+Inf".to_owned(), |value| bound(*value));
            self.name(family.name, "_bucket", &point.labels, Some(&le));
            let _ = write!(self.text, " {total}");
            self.exemplar(histogram, bucket);
            self.text.push('\n');
        }
        self.name(family.name, "_count", &point.labels, None);
        let _ = writeln!(self.text, " {total}");
        self.name(family.name, "_sum", &point.labels, None);
        let _ = writeln!(self.text, " {:?}", histogram.sum);
    }

    fn exemplar(&mut self, histogram: &Histogram, bucket: usize) {
        let lies_here = |exemplar: &&Exemplar| exemplar.bucket == bucket && exemplar.value.is_finite();
        let found = histogram.exemplars.iter().find(lies_here);
        let Some(exemplar) = found.filter(|_| self.format == Format::OpenMetrics) else { return };
        let length = |(name, value): &(&str, String)| name.chars().count() + value.chars().count();
        if exemplar.labels.iter().map(length).sum::<usize>() > EXEMPLAR_CHARACTERS {
            return;
        }
        let labels = label_text(exemplar.labels.iter().map(|(name, value)| (*name, value.as_str())));
        let _ = write!(self.text, " # {{{labels}}} {:?} {:.3}", exemplar.value, exemplar.unix_s);
    }

    fn created(&mut self, family: &Family, samples: &Samples<'_>, point: &Point) {
        let counts = matches!(family.kind, Kind::Counter | Kind::Histogram);
        if let Some(created) = samples.created.filter(|_| counts && self.format == Format::OpenMetrics) {
            self.name(family.name, "_created", &point.labels, None);
            let _ = writeln!(self.text, " {created:.3}");
        }
    }
}
