//! Which of the two forms a client gets, from its Accept header alone. Pure: the server hands in the header's
//! text and sends the answer's content type. A client that can read neither still gets text.

/// The two text forms that Prometheus reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    OpenMetrics,
    Text,
}

impl Format {
    pub fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// Type, subtype and the version that a media range may name.
    fn media(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::OpenMetrics => ("application", "openmetrics-text", "1.0.0"),
            Self::Text => ("text", "plain", "0.0.4"),
        }
    }
}

/// The form with the higher weight. Where both weigh the same, OpenMetrics must have been asked for by name:
/// what asks for anything (a browser, curl) is better served with the form that everything reads.
pub fn negotiate(accept: &str) -> Format {
    let ranges: Vec<Range<'_>> = accept.split(',').filter_map(Range::parsed).collect();
    let open = weight(&ranges, Format::OpenMetrics);
    let text = weight(&ranges, Format::Text);
    let named = open.precision == Precision::Exact && open.thousandths > 0;
    if open.thousandths > text.thousandths || (named && open.thousandths == text.thousandths) {
        Format::OpenMetrics
    } else {
        Format::Text
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Precision {
    None,
    All,
    Type,
    Exact,
}

struct Weight {
    precision: Precision,
    thousandths: u32,
}

/// By the most precise range that covers the form; of several equally precise ones, the heaviest.
fn weight(ranges: &[Range<'_>], format: Format) -> Weight {
    let covering = ranges.iter().filter_map(|range| Some((range.covers(format)?, range.thousandths)));
    let (precision, thousandths) = covering.max().unwrap_or((Precision::None, 0));
    Weight { precision, thousandths }
}

/// One element of an Accept header.
struct Range<'a> {
    kind: &'a str,
    subtype: &'a str,
    version: Option<&'a str>,
    thousandths: u32,
}

impl<'a> Range<'a> {
    /// `None` for what is no media range; the others still count.
    fn parsed(text: &'a str) -> Option<Self> {
        let mut parts = text.split(';').map(str::trim);
        let (kind, subtype) = parts.next()?.split_once('/')?;
        let mut range = Self { kind, subtype, version: None, thousandths: 1000 };
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            let value = value.trim().trim_matches('"');
            match name.trim() {
                name if name.eq_ignore_ascii_case("q") => range.thousandths = thousandths(value)?,
                name if name.eq_ignore_ascii_case("version") => range.version = Some(value),
                _ => {}
            }
        }
        Some(range)
    }

    fn covers(&self, format: Format) -> Option<Precision> {
        let (kind, subtype, version) = format.media();
        if self.kind == "*" && self.subtype == "*" {
            return Some(Precision::All);
        }
        if !self.kind.eq_ignore_ascii_case(kind) {
            return None;
        }
        if self.subtype == "*" {
            return Some(Precision::Type);
        }
        let same_version = self.version.is_none_or(|asked| asked == version);
        (self.subtype.eq_ignore_ascii_case(subtype) && same_version).then_some(Precision::Exact)
    }
}

/// A weight from 0 to 1; one that is no such number makes its range worthless.
fn thousandths(text: &str) -> Option<u32> {
    let weight: f64 = text.parse().ok()?;
    (0.0..=1.0).contains(&weight).then_some((weight * 1000.0).round() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn gets(accept: &str, format: Format) {
        assert_eq!(negotiate(accept), format, "{accept}");
    }

    #[test]
    fn prometheus_gets_openmetrics() {
        gets(
            "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
             text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            Format::OpenMetrics,
        );
        gets(
            "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,\
             text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
            Format::OpenMetrics,
        );
    }

    #[test]
    fn who_asks_for_anything_or_nothing_gets_text() {
        gets("", Format::Text);
        gets("*/*", Format::Text);
        gets("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", Format::Text);
    }

    #[test]
    fn a_version_that_is_not_written_here_is_not_promised() {
        gets(
            "application/openmetrics-text; version=0.0.1,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            Format::Text,
        );
        gets("application/openmetrics-text;version=2.0.0", Format::Text);
    }

    #[test]
    fn the_higher_weight_wins_and_a_name_breaks_the_tie() {
        gets("application/openmetrics-text;q=0.2, text/plain;q=0.9", Format::Text);
        gets("text/plain;q=0.9, application/openmetrics-text;q=0.901", Format::OpenMetrics);
        gets("text/plain, application/openmetrics-text", Format::OpenMetrics);
        gets("application/*, text/*;q=0.5", Format::OpenMetrics);
    }

    #[test]
    fn a_precise_range_counts_before_a_wide_one() {
        gets("*/*;q=1, application/openmetrics-text;q=0", Format::Text);
        gets("text/plain;q=0, */*;q=0.3", Format::OpenMetrics);
        gets("text/*;q=0.9, text/plain;q=0.1, application/openmetrics-text;q=0.5", Format::OpenMetrics);
    }

    #[test]
    fn names_are_read_in_any_case_and_broken_elements_are_passed_over() {
        gets("Application/OpenMetrics-Text ; VERSION=\"1.0.0\" ; Q=0.7", Format::OpenMetrics);
        gets("application/openmetrics-text;q=2, text/plain;q=0.1", Format::Text);
        gets("application/openmetrics-text;q=NaN, text/plain;q=0.1", Format::Text);
        gets(",,;;=,/,application/openmetrics-text", Format::OpenMetrics);
    }
}
