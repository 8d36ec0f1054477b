//! What a hub is told when it starts.

use airamp_agreement::{PROTOCOL, Rank};
use std::path::PathBuf;
use std::time::Duration;

/// How long after its own vendor's init a rank waits for others to be heard of at all. Their Hello has arrived where
/// the id was made by then, and only has to be passed on.
pub const GRACE: Duration = Duration::from_millis(400);

#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    pub consensus: Duration,
    pub doubt: Duration,
}

impl Timeouts {
    /// The ranks of a child say Hello after the vendor has made it, each when it gets to it; but all of them can, since
    /// all ranks of the parent came.
    pub(crate) fn grace(self, is_child: bool) -> Duration {
        if is_child { self.consensus } else { GRACE.min(self.consensus) }
    }

    /// Well below the doubt of members who have pledged: they hear of an abort before they give up.
    pub(crate) fn proposal(self) -> Duration {
        (self.doubt / 4).min(Duration::from_secs(2))
    }
}

/// Where the thread writes what people should know.
#[derive(Clone, Copy, Debug)]
pub struct Log {
    pub warn: fn(&str),
    pub info: fn(&str),
    pub debug: fn(&str),
}

/// For tests: this process loses that rank's connection when so many of its frames have passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    pub rank: Rank,
    pub after: u64,
    /// Never connects again.
    pub forever: bool,
}

impl Cut {
    /// `<rank>:<frames>`, or `<rank>:<frames>:forever`.
    fn read(text: &str) -> Option<Self> {
        let mut parts = text.split(':');
        let rank = parts.next()?.parse().ok()?;
        let after = parts.next()?.parse().ok()?;
        let forever = match parts.next() {
            None => false,
            Some("forever") => true,
            Some(_) => return None,
        };
        parts.next().is_none().then_some(Self { rank, after, forever })
    }
}

#[derive(Clone, Debug)]
pub struct Options {
    pub timeouts: Timeouts,
    /// Which job the process belongs to, for an operator's orders.
    pub job: String,
    pub log: Log,
    /// The folder for the socket that takes orders; `None`: nobody can give any.
    pub orders: Option<PathBuf>,
    pub protocol: u16,
    pub cut: Option<Cut>,
}

impl Options {
    pub fn new(timeouts: Timeouts, job: &str, log: Log) -> Self {
        Self { timeouts, job: job.to_owned(), log, orders: None, protocol: PROTOCOL, cut: None }
    }

    /// With the faults that the environment asks for.
    pub(crate) fn from_environment(timeouts: Timeouts, job: &str, log: Log) -> Self {
        let variable = |name| std::env::var(name).ok();
        let mut options = Self::new(timeouts, job, log);
        options.cut = variable("AIRAMP_INJECT_CUT").as_deref().and_then(Cut::read);
        if let Some(protocol) = variable("AIRAMP_INJECT_PROTOCOL").and_then(|text| text.parse().ok()) {
            options.protocol = protocol;
        }
        options
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_is_read_strictly() {
        assert_eq!(Cut::read("1:3"), Some(Cut { rank: 1, after: 3, forever: false }));
        assert_eq!(Cut::read("0:12:forever"), Some(Cut { rank: 0, after: 12, forever: true }));
        for wrong in ["", "1", "1:", "a:1", "1:2:3", "1:2:forever:4", "-1:2"] {
            assert_eq!(Cut::read(wrong), None, "{wrong}");
        }
    }
}
