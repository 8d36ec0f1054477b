//! What a row of the table is: a family with its name, type, unit, labels and help, and where its samples come
//! from. Names are without the ending that the type brings (`_total`, `_info`).

use super::look::Look;
use super::samples::Samples;

pub struct Family {
    pub name: &'static str,
    pub kind: Kind,
    /// The name's last words if it has a unit, else empty.
    pub unit: &'static str,
    pub labels: &'static [&'static str],
    pub help: &'static str,
    pub(super) source: fn(&Look<'_>, &mut Samples<'_>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
    Info,
}

/// Rows that belong together, a heading of the page.
pub struct Section {
    pub title: &'static str,
    pub about: &'static str,
    pub families: &'static [Family],
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Info => "info",
        }
    }

    /// What follows the family's name in the name of its samples. (A histogram's have several endings.)
    pub fn ending(self) -> &'static str {
        match self {
            Self::Counter => "_total",
            Self::Info => "_info",
            Self::Gauge | Self::Histogram => "",
        }
    }
}

impl Family {
    pub(super) const fn labels(mut self, labels: &'static [&'static str]) -> Self {
        self.labels = labels;
        self
    }

    pub(super) const fn unit(mut self, unit: &'static str) -> Self {
        self.unit = unit;
        self
    }
}

type Source = fn(&Look<'_>, &mut Samples<'_>);

pub(super) const fn counter(name: &'static str, help: &'static str, source: Source) -> Family {
    Family { name, kind: Kind::Counter, unit: "", labels: &[], help, source }
}

pub(super) const fn gauge(name: &'static str, help: &'static str, source: Source) -> Family {
    Family { name, kind: Kind::Gauge, unit: "", labels: &[], help, source }
}

pub(super) const fn histogram(name: &'static str, help: &'static str, source: Source) -> Family {
    Family { name, kind: Kind::Histogram, unit: "", labels: &[], help, source }
}

pub(super) const fn info(name: &'static str, help: &'static str, source: Source) -> Family {
    Family { name, kind: Kind::Info, unit: "", labels: &[], help, source }
}
