//! How the ranks of a test agree on compression: through a folder that the test harness has made
//! and named to all of them (`AIRAMP_TEST_PLAN`). It stands in for the agreement between machines.
//!
//! Each rank writes its vote. The first that knows the answer (all have voted, or one has voted no, or
//! time is up) writes the verdict, by a link that only one can make; and all obey what is written.

use crate::clique::Clique;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const POLL: Duration = Duration::from_millis(1);

/// What a rank says; of a yes, the terms under which.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Vote {
    Yes(String),
    No(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    On,
    Off(String),
    /// The verdict cannot be read, though there may be one.
    Doubt(String),
}

pub(super) struct Ballot {
    folder: PathBuf,
    rank: usize,
    ranks: usize,
}

impl Ballot {
    pub(super) fn new(plan: &Path, clique: Clique, rank: usize, ranks: usize) -> Self {
        Self { folder: plan.join(format!("{:016x}", clique.0)), rank, ranks }
    }

    /// Writes this rank's vote. One that cannot be written counts as none.
    pub(super) fn cast(&self, question: &str, vote: &Vote) {
        let text = match vote {
            Vote::Yes(terms) => format!("yes {terms}"),
            Vote::No(reason) => format!("no {reason}"),
        };
        let _ = self.write(&self.vote_file(question, self.rank), &text);
    }

    /// Waits for the verdict, and brings it about.
    pub(super) fn verdict(&self, question: &str, deadline: Instant) -> Verdict {
        let file = self.folder.join(format!("{question}.verdict"));
        loop {
            match std::fs::read_to_string(&file) {
                Ok(text) if text == "on" => return Verdict::On,
                Ok(text) => return Verdict::Off(text.trim_start_matches("off ").to_owned()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Verdict::Doubt(error.to_string()),
            }
            if let Some(text) = self.answer(question, Instant::now() > deadline)
                && let Err(error) = self.write(&file, &text)
                && error.kind() != io::ErrorKind::AlreadyExists
            {
                return Verdict::Doubt(error.to_string());
            }
            std::thread::sleep(POLL);
        }
    }

    /// Whether a rank has said no already.
    pub(super) fn is_refused(&self, question: &str) -> bool {
        let is_no = |rank| {
            std::fs::read_to_string(self.vote_file(question, rank)).is_ok_and(|vote| vote.starts_with("no "))
        };
        (0..self.ranks).any(is_no)
    }

    /// The verdict, if it can be told.
    fn answer(&self, question: &str, time_is_up: bool) -> Option<String> {
        let mut terms: Option<String> = None;
        let mut missing = None;
        for rank in 0..self.ranks {
            match std::fs::read_to_string(self.vote_file(question, rank)) {
                Ok(vote) => match vote.strip_prefix("yes ") {
                    None => return Some(format!("off rank {rank} says {vote}")),
                    Some(yes) if terms.as_deref().is_some_and(|terms| terms != yes) => {
                        return Some(format!("off rank {rank} has other settings: {yes}"));
                    }
                    Some(yes) => terms = Some(yes.to_owned()),
                },
                Err(_) => missing = Some(rank),
            }
        }
        match missing {
            None => Some("on".into()),
            Some(rank) => time_is_up.then(|| format!("off rank {rank} did not vote in time")),
        }
    }

    fn vote_file(&self, question: &str, rank: usize) -> PathBuf {
        self.folder.join(format!("{question}.{rank}"))
    }

    /// Makes a file with that text, whole or not at all; an error if there is one already.
    fn write(&self, file: &Path, text: &str) -> io::Result<()> {
        match std::fs::create_dir(&self.folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let draft = self.folder.join(format!("draft.{}", self.rank));
        std::fs::write(&draft, text)?;
        let linked = std::fs::hard_link(&draft, file);
        std::fs::remove_file(&draft)?;
        linked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ballots(folder: &Path) -> [Ballot; 2] {
        [0, 1].map(|rank| Ballot::new(folder, Clique(7), rank, 2))
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(200)
    }

    #[test]
    fn all_must_say_yes_to_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let [first, second] = ballots(folder.path());
        first.cast("a", &Vote::Yes("auto".into()));
        second.cast("a", &Vote::Yes("auto".into()));
        assert_eq!((first.verdict("a", soon()), second.verdict("a", soon())), (Verdict::On, Verdict::On));
        first.cast("b", &Vote::Yes("auto".into()));
        second.cast("b", &Vote::Yes("e4m3".into()));
        assert!(matches!(first.verdict("b", soon()), Verdict::Off(reason) if reason.contains("e4m3")));
        first.cast("c", &Vote::Yes("auto".into()));
        second.cast("c", &Vote::No("out of memory".into()));
        assert!(matches!(second.verdict("c", soon()), Verdict::Off(reason) if reason.contains("memory")));
    }

    #[test]
    fn who_comes_too_late_finds_the_verdict_of_those_who_waited() {
        let folder = tempfile::tempdir().unwrap();
        let [first, second] = ballots(folder.path());
        first.cast("a", &Vote::Yes("auto".into()));
        assert!(matches!(first.verdict("a", Instant::now()), Verdict::Off(_)));
        second.cast("a", &Vote::Yes("auto".into()));
        assert!(matches!(second.verdict("a", soon()), Verdict::Off(reason) if reason.contains("rank 1")));
    }
}
