//! `airamp disable` and `airamp enable`: an operator's order to the jobs of this user that run on this machine.
//! Each process hands it to its communicators' leaders; their ranks switch together, at a call that all agree on.

use airamp_agreement::Order;
use airamp_control::orders::{self, Answer};
use serde_json::json;

use crate::cli::CommandError;
use crate::config::without_control_characters;
use crate::streams;

const AFTER_DISABLE: &str = "\
Every process of this user on this machine that was started with AIRAMP_MODE=on or shadow and has made a \
communicator is told, or those of one job. One told process of a job is enough: its communicators switch on all \
ranks, also on other machines, at the next call that all agree on. Until then, and in captured graphs, which must be \
captured again, calls stay as they were. Processes that start later are not told; AIRAMP_DISABLE=1 keeps those from it.

A job is named by AIRAMP_JOB, SLURM_JOB_ID or TORCHELASTIC_RUN_ID in its environment, the first of them that is set; \
torchrun's own \"none\" is no name.

Exit code: 0 a process has answered, 1 none did, 2 wrong arguments, 125 airamp failed.

Examples:
  airamp disable
  airamp disable --job 4711
  airamp disable --json | jq '.answers[].pid'";

const AFTER_ENABLE: &str = "\
Takes `airamp disable` back: calls go on as they were decided before. It does not switch compression on in a job that \
runs without it (AIRAMP_MODE is read at start). See `airamp disable --help` for who is told.

Exit code: 0 a process has answered, 1 none did, 2 wrong arguments, 125 airamp failed.

Examples:
  airamp enable
  airamp enable --job 4711";

/// Switch compression off in running jobs, agreed by all their ranks
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_DISABLE)]
pub(crate) struct DisableArgs {
    #[command(flatten)]
    to: To,
}

/// Switch compression on again where `airamp disable` switched it off
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_ENABLE)]
pub(crate) struct EnableArgs {
    #[command(flatten)]
    to: To,
}

#[derive(Debug, clap::Args)]
struct To {
    /// Only processes of this job
    #[arg(long, value_name = "JOB", value_parser = job_name)]
    job: Option<String>,

    /// Print one JSON object instead of lines
    #[arg(long)]
    json: bool,
}

/// An empty name is mostly a script's variable that holds nothing: neither the jobs without a name are meant nor all.
fn job_name(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err("it names no job: give a name, or leave --job out to tell all jobs".to_owned());
    }
    Ok(text.to_owned())
}

pub(crate) fn disable(args: &DisableArgs) -> Result<u8, CommandError> {
    give(Order::Off, "disable", &args.to)
}

pub(crate) fn enable(args: &EnableArgs) -> Result<u8, CommandError> {
    give(Order::On, "enable", &args.to)
}

fn give(order: Order, name: &str, to: &To) -> Result<u8, CommandError> {
    let answers = orders::send(order, to.job.as_deref())?;
    if to.json {
        streams::print(&format!("{:#}\n", as_json(name, to.job.as_deref(), &answers)))?;
    } else {
        streams::print(&answers.iter().map(line).collect::<String>())?;
    }
    if answers.is_empty() {
        streams::complain(&nobody(to.job.as_deref()));
    }
    Ok(u8::from(answers.is_empty()))
}

fn as_json(order: &str, job: Option<&str>, answers: &[Answer]) -> serde_json::Value {
    let one = |answer: &Answer| {
        json!({
            "pid": answer.pid,
            "job": answer.job,
            "communicators": answer.communicators,
            "text": answer.text,
        })
    };
    json!({ "order": order, "job": job, "answers": answers.iter().map(one).collect::<Vec<_>>() })
}

fn line(answer: &Answer) -> String {
    let job = if answer.job.is_empty() { String::new() } else { format!(", job {}", answer.job) };
    let count = answer.communicators;
    let communicators =
        if count == 1 { "1 communicator".to_owned() } else { format!("{count} communicators") };
    let text = format!("process {}{job}: {communicators}: {}", answer.pid, answer.text);
    format!("{}\n", without_control_characters(text.trim_end_matches([':', ' '])))
}

/// Not what status shows: that also has labels, and the names of pods, which an order does not go by.
const NAMES: &str = "a job's name here is AIRAMP_JOB, SLURM_JOB_ID or TORCHELASTIC_RUN_ID of its environment, not a \
                     pod's name or a label such as 77#2; ";

/// What to do where nobody answered.
fn nobody(job: Option<&str>) -> String {
    let (of_job, names) = match job {
        Some(job) => (format!(" of job {job}"), NAMES),
        None => (String::new(), ""),
    };
    without_control_characters(&format!(
        "airamp: no process{of_job} has answered -> run it on a machine of the job and as the job's user; {names}only jobs \
         that were started with AIRAMP_MODE=on or shadow listen"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::Parser;

    #[test]
    fn an_answer_is_one_line() {
        let answer = |job: &str, communicators| Answer {
            pid: 7,
            job: job.into(),
            communicators,
            text: "told\n\u{7}".into(),
        };
        assert_eq!(line(&answer("", 1)), "process 7: 1 communicator: told\\n\\u{7}\n");
        assert_eq!(line(&answer("4711", 2)), "process 7, job 4711: 2 communicators: told\\n\\u{7}\n");
    }

    #[test]
    fn a_job_without_a_name_cannot_be_meant() {
        for order in ["disable", "enable"] {
            for name in ["", " "] {
                let refused = Cli::try_parse_from(["airamp", order, "--job", name]).unwrap_err();
                assert_eq!(refused.exit_code(), 2);
                assert!(refused.to_string().contains("leave --job out to tell all jobs"), "{refused}");
            }
        }
        assert!(Cli::try_parse_from(["airamp", "disable", "--job", "4711"]).is_ok());
    }

    #[test]
    fn who_finds_nobody_is_told_what_to_do() {
        let of_a_job = nobody(Some("x"));
        for part in ["as the job's user", "AIRAMP_JOB, SLURM_JOB_ID or TORCHELASTIC_RUN_ID", "such as 77#2"] {
            assert!(of_a_job.contains(part), "{of_a_job}");
        }
        assert!(!of_a_job.contains("airamp status"), "that also names jobs by pods and numbers: {of_a_job}");
        assert!(!of_a_job.contains("without --job"), "that would tell all of them: {of_a_job}");
        assert!(nobody(None).contains("as the job's user"));
    }
}
