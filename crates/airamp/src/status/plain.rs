//! The view as text for pipes, logs and mails: every section of every job, one after the other.

use airamp_observer::view::{Job, JobState, Node};

use super::keys::Section;
use super::quantities::clock;
use super::sections;
use super::table::Line;
use crate::config::without_control_characters;
use crate::observe;

/// Wide enough for whatever there is; sentences are broken before that.
const WIDTH: usize = 240;
/// More are in the JSON.
const MOST_EVENTS: usize = 20;

pub(super) fn of(node: &Node) -> String {
    let mut text = format!("{}\n", heading(node));
    for job in &node.jobs {
        text.push_str(&format!("\n{}\n", about(job)));
        for section in Section::ALL {
            let mut lines = sections::of(section, node, job, WIDTH);
            if section == Section::Events {
                lines.truncate(MOST_EVENTS + 1);
            }
            if section != Section::Overview {
                text.push_str(&format!("\n{}\n", section.name()));
            }
            lines.into_iter().for_each(|Line { text: line, .. }| text.push_str(&format!("{line}\n")));
        }
    }
    text
}

pub(super) fn heading(node: &Node) -> String {
    let plural =
        |count: u64, one: &str, many: &str| format!("{count} {}", if count == 1 { one } else { many });
    let jobs = plural(node.jobs.len() as u64, "job", "jobs");
    let processes = plural(node.processes, "process", "processes");
    let unreadable = match node.unreadable_count {
        0 => String::new(),
        count => format!(", {} not readable", plural(count, "file", "files")),
    };
    let node_name = without_control_characters(&node.node);
    format!(
        "airamp {}  {node_name}  {} UTC  {jobs}, {processes}{unreadable}",
        node.version,
        clock(node.time_unix_ms)
    )
}

/// One line that says which job it is.
pub(super) fn about(job: &Job) -> String {
    let state = if job.state == JobState::Ended { "ended" } else { "running" };
    let source = if job.source == "none" { String::new() } else { format!(" ({})", job.source) };
    let ranks = format!("{} of {} ranks here", job.ranks_here, job.size.max(job.ranks_here));
    let line = format!(
        "job {}{source}  user {}  {state}  mode {}  {ranks}  {}",
        observe::name(job),
        job.user,
        job.mode,
        job.vendor
    );
    without_control_characters(line.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_job_and_every_section_is_printed() {
        let node = Node::example();
        let text = of(&node);
        for job in &node.jobs {
            assert!(text.contains(&about(job)), "{text}");
        }
        for section in Section::ALL.into_iter().skip(1) {
            assert_eq!(
                text.lines().filter(|line| *line == section.name()).count(),
                node.jobs.len(),
                "{text}"
            );
        }
        assert!(
            text.starts_with(
                "airamp 0.1.0  node-17  10:00:00 UTC  2 jobs, 5 processes, 1 file not readable\n"
            )
        );
    }
}
