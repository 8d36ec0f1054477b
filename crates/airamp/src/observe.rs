//! Looks at the processes of this machine through their telemetry files, for the commands that show them. No daemon
//! is asked, and nothing of a process is changed.

use std::path::PathBuf;
use std::time::Duration;

use airamp_observer::view::{Job, Node};
use airamp_observer::{Observer, Options};

/// Rates are those between two looks.
const BETWEEN_TWO_LOOKS: Duration = Duration::from_millis(500);

/// Which processes a command is about.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Which {
    /// Only this job: its name or its label, as `airamp status` shows them; "" for processes without a job's name
    #[arg(long, value_name = "JOB")]
    pub(crate) job: Option<String>,

    /// Where the library keeps its telemetry (the folder that AIRAMP_TELEMETRY_DIR names in the job); may be repeated
    #[arg(long, value_name = "DIR", value_parser = airamp_observer::base_folder)]
    pub(crate) telemetry_dir: Vec<PathBuf>,
}

impl Which {
    pub(crate) fn observer(&self) -> Observer {
        let settings = airamp_settings::load().settings;
        Observer::new(Options {
            bases: self.bases(),
            hang_after: Duration::from_millis(settings.hang_after_ms),
            late_after: Duration::from_millis(settings.late_after_ms),
        })
    }

    /// Base folders of telemetry; none: as the library itself chooses.
    pub(crate) fn bases(&self) -> Vec<PathBuf> {
        match self.telemetry_dir.is_empty() {
            true => airamp_settings::load().settings.telemetry_dir.into_iter().collect(),
            false => self.telemetry_dir.clone(),
        }
    }

    /// The node with nothing but what is asked for. What counts for all jobs together stays.
    pub(crate) fn of(&self, mut node: Node) -> Node {
        let Some(asked) = &self.job else { return node };
        node.jobs.retain(|job| job.job == *asked || job.label == *asked);
        let labels: Vec<String> = node.jobs.iter().map(|job| job.label.clone()).collect();
        node.events.retain(|event| labels.contains(&event.job));
        node.findings.retain(|finding| labels.contains(&finding.job));
        node
    }

    /// One view with rates.
    pub(crate) fn seen(&self) -> Node {
        let mut observer = self.observer();
        observer.look();
        std::thread::sleep(BETWEEN_TWO_LOOKS);
        self.of(observer.look())
    }

    /// What to do where there is nothing to see.
    pub(crate) fn nothing_found(&self, node: &Node) -> String {
        let of_job = self.job.as_ref().map(|job| format!(" of job {job:?}")).unwrap_or_default();
        let mut advice = match self.job {
            Some(_) => "`airamp status --once` without --job shows how the jobs are named".to_owned(),
            None => "run it as the job's user (or root) on a machine of the job; a job that sets AIRAMP_TELEMETRY_DIR \
                     needs it here too (--telemetry-dir), and one with AIRAMP_TELEMETRY=0 is not seen; `airamp doctor` \
                     checks the folder"
                .to_owned(),
        };
        if node.unreadable_count > 0 {
            let why = node.unreadable.first().map(|first| format!(" ({}: {})", first.file, first.why));
            advice = format!(
                "{advice}. {} files could not be read{}",
                node.unreadable_count,
                why.unwrap_or_default()
            );
        }
        format!("airamp: no process{of_job} with the library is seen here -> {advice}")
    }
}

/// A job as people call it.
pub(crate) fn name(job: &Job) -> &str {
    if job.label.is_empty() { "(no name)" } else { &job.label }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_job_is_chosen_with_what_belongs_to_it() {
        let node = Node::example();
        let [first, second] = [&node.jobs[0], &node.jobs[1]].map(|job| job.label.clone());
        let which = |job: &str| Which { job: Some(job.to_owned()), telemetry_dir: Vec::new() };
        let only = which(&second).of(node.clone());
        assert_eq!(only.jobs.iter().map(|job| &job.label).collect::<Vec<_>>(), [&second]);
        assert!(only.findings.iter().all(|finding| finding.job == second));
        assert!(only.events.iter().all(|event| event.job == second));
        assert!(node.events.iter().any(|event| event.job == first), "the example has events of the other");
        assert!(which("none").of(node).jobs.is_empty());
    }

    #[test]
    fn who_sees_nothing_is_told_what_to_do() {
        let node = Node::example();
        assert!(Which::default().nothing_found(&node).contains("AIRAMP_TELEMETRY_DIR"));
        assert!(
            Which::default().nothing_found(&node).contains("layout version"),
            "and what could not be read"
        );
        let which = Which { job: Some("x".into()), ..Which::default() };
        assert!(which.nothing_found(&Node::default()).contains("without --job"));
    }
}
