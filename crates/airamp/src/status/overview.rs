//! A job in a few sentences: what it carries, what holds it back, what was gained, what is wrong.

use airamp_observer::view::{Bound, Finding, Job, Node};

use super::quantities::{bytes, count, known, rate, seconds};
use super::sections::{spelled, tone_of_severity};
use super::table::{Line, Tone, wrapped};
use crate::config::without_control_characters;
use crate::explain;

/// As wide as the longest name before a sentence, and two spaces.
const INDENT: usize = 14;

pub(super) fn of(node: &Node, job: &Job, width: usize) -> Vec<Line> {
    let mut lines = findings(node, job, width);
    let mut say = |name: &str, tone: Tone, text: String| {
        if !text.is_empty() {
            lines.extend(sentence(name, tone, &text, width));
        }
    };
    say("carries", Tone::Plain, carries(job));
    say("bound by", Tone::Plain, bound_by(job));
    say("rhythm", Tone::Plain, rhythm(job));
    say("pace", Tone::Plain, pace(job));
    say("gain", tone_of_gain(job), gain(job));
    say("other links", Tone::Plain, other_links(job));
    say("in all", Tone::Plain, in_all(job));
    say("own cost", Tone::Plain, own_cost(job));
    say("errors", Tone::Bad, errors(job));
    say("accuracy", Tone::Plain, accuracy(job));
    say("ghosts", Tone::Plain, ghosts(job));
    lines
}

/// What is wrong with this job, in the observer's words.
pub(super) fn findings(node: &Node, job: &Job, width: usize) -> Vec<Line> {
    let of_job = node.findings.iter().filter(|finding| finding.job == job.label);
    of_job
        .flat_map(|finding| {
            sentence(&name(finding), tone_of_severity(finding.severity), &finding.text, width)
        })
        .collect()
}

fn name(finding: &Finding) -> String {
    format!("! {}", finding.kind.name().replace('_', " "))
}

fn sentence(name: &str, tone: Tone, text: &str, width: usize) -> Vec<Line> {
    let room = width.saturating_sub(INDENT + 2).max(1);
    let lines = wrapped(&without_control_characters(text), room);
    let line = |(place, text): (usize, String)| {
        let before = if place == 0 { name } else { "" };
        let line = format!("{before:INDENT$}  {text}");
        Line::new(tone, super::table::cut(line.trim_end(), width))
    };
    lines.into_iter().enumerate().map(line).collect()
}

fn carries(job: &Job) -> String {
    let rates = &job.rates;
    let mut text = format!(
        "{} in {:.0} calls a second, {} on the wire",
        rate(rates.logical_bytes_per_s),
        rates.calls_per_s,
        rate(rates.wire_bytes_per_s)
    );
    if rates.saved_bytes_per_s > 0.0 {
        text.push_str(&format!(", {} saved", rate(rates.saved_bytes_per_s)));
    }
    text.push_str(&known(rates.mean_latency_s, |mean| format!("; {} a call", seconds(mean))));
    text.push_str(&known(rates.effective_gbit_per_s, |rate| format!(", {rate:.1} Gbit/s while it runs")));
    text
}

fn bound_by(job: &Job) -> String {
    match job.bound_by.what {
        Bound::Unknown if job.bound_by.why.is_empty() => String::new(),
        what => format!("{}: {}", spelled(&what), job.bound_by.why),
    }
}

fn rhythm(job: &Job) -> String {
    let rhythm = &job.rhythm;
    if matches!(rhythm.state.as_ref(), "off" | "") {
        return String::new();
    }
    let mut text = rhythm.state.to_string();
    text.push_str(&known(rhythm.step_s, |step| format!(", {} a step", seconds(step))));
    text.push_str(&known(rhythm.step, |step| format!(", step {}", count(step))));
    let one = |row: &airamp_observer::view::Deviations| format!("{} {}", count(row.calls), row.kind);
    let deviations: Vec<String> = job.totals.deviations.iter().map(one).collect();
    if !deviations.is_empty() {
        text.push_str(&format!("; calls not as foreseen: {}", deviations.join(", ")));
    }
    text
}

/// The newest change.
fn pace(job: &Job) -> String {
    let Some(change) = job.pace_changes.last() else { return String::new() };
    let slower = change.after_s > change.before_s;
    let of = |what: &str| {
        let ranks = change.ranks.iter().filter(|one| one.grew == what).filter_map(|one| one.rank);
        let ranks: Vec<u32> = ranks.collect();
        let verb = if slower { "grew" } else { "shrank" };
        (!ranks.is_empty()).then(|| format!("{what} {verb} on {}", explain::ranks(&ranks)))
    };
    let grew: Vec<String> = ["compute", "communication"].into_iter().filter_map(of).collect();
    format!(
        "{} since step {}: {} a step, {} before{}",
        if slower { "slower" } else { "faster" },
        count(change.step),
        seconds(change.after_s),
        seconds(change.before_s),
        if grew.is_empty() { String::new() } else { format!("; {}", grew.join(", ")) },
    )
}

fn ghosts(job: &Job) -> String {
    if job.totals.ghosts == 0 {
        return String::new();
    }
    let measured = job.ranks.iter().filter_map(|rank| rank.ghosts.as_ref().map(|gain| (rank, gain)));
    let best =
        measured.max_by(|(_, a), (_, b)| (a.without_s - a.with_s).total_cmp(&(b.without_s - b.with_s)));
    let gain = best.map(|(rank, gain)| {
        let who = known(rank.rank, |rank| format!(" (rank {rank})"));
        format!(
            "; a kernel after a gap takes {}, {} without{who}",
            seconds(gain.with_s),
            seconds(gain.without_s)
        )
    });
    format!("{} kernels in idle gaps{}", count(job.totals.ghosts), gain.unwrap_or_default())
}

fn gain(job: &Job) -> String {
    let gain = &job.gain;
    let against =
        if gain.baseline == "none" { String::new() } else { format!(", against {}", gain.baseline) };
    let speedup = gain.speedup.map(|speedup| format!("{speedup:.2}x where calls are compressed{against}"));
    let time = gain
        .saved_s
        .map(|time| format!("{} {}", seconds(time.abs()), if time < 0.0 { "lost" } else { "saved" }));
    let bytes = (gain.saved_bytes > 0).then(|| format!("{} not sent", bytes(gain.saved_bytes)));
    [speedup, time, bytes].into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// A loss is one also where many bytes were not sent.
fn tone_of_gain(job: &Job) -> Tone {
    if job.gain.speedup.is_some_and(|speedup| speedup < 1.0) { Tone::Warning } else { Tone::Good }
}

fn other_links(job: &Job) -> String {
    let one = |link: &airamp_observer::view::OnLink| {
        link.speedup.map(|speedup| format!("{speedup:.2}x at {:.0} Gbit/s", link.gbit_per_s))
    };
    let links: Vec<String> = job.gain.on_other_links.iter().filter_map(one).collect();
    if links.is_empty() { String::new() } else { format!("by a model: {}", links.join(", ")) }
}

fn in_all(job: &Job) -> String {
    let sum = |of: fn(&airamp_observer::view::Calls) -> u64| job.totals.calls.iter().map(of).sum::<u64>();
    let (calls, logical, wire) =
        (sum(|row| row.calls), sum(|row| row.logical_bytes), sum(|row| row.wire_bytes));
    let compressed: u64 =
        job.totals.calls.iter().filter(|row| row.path.starts_with("compressed")).map(|row| row.calls).sum();
    let share =
        if compressed > 0 { format!(", {} of them compressed", count(compressed)) } else { String::new() };
    format!("{} calls{share}; {}, {} on the wire", count(calls), bytes(logical), bytes(wire))
}

fn own_cost(job: &Job) -> String {
    let totals = &job.totals;
    if totals.hook_calls == 0 {
        return String::new();
    }
    let mut text = format!("{} on the host for each call", seconds(totals.hook_s / totals.hook_calls as f64));
    if totals.codec_s > 0.0 {
        text.push_str(&format!(", {} in kernels in all", seconds(totals.codec_s)));
    }
    text
}

fn errors(job: &Job) -> String {
    let one = |error: &airamp_observer::view::Errors| {
        format!("{} calls returned {}", count(error.calls), error.result)
    };
    job.totals.errors.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn accuracy(job: &Job) -> String {
    let members = job.communicators.iter().flat_map(|communicator| &communicator.ranks);
    let worst = members.filter_map(|member| member.vnmse).max_by(f64::total_cmp);
    let saturated = if job.totals.saturated > 0 {
        format!("; {} values took the largest code", count(job.totals.saturated))
    } else {
        String::new()
    };
    known(worst, |error| format!("vNMSE {error:.1e} at most, on samples{saturated}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rhythm_says_its_step_what_broke_it_and_whose_doing_a_slow_down_is() {
        let mut job = Node::example().jobs.remove(0);
        assert_eq!(
            rhythm(&job),
            "locked, 512.0 ms a step, step 1,169; calls not as foreseen: 16 late, 1 missing"
        );
        assert_eq!(
            pace(&job),
            "slower since step 981: 512.0 ms a step, 431.0 ms before; compute grew on rank 3, communication grew on ranks 0, 1, 2"
        );
        assert_eq!(ghosts(&job), "");
        job.totals.ghosts = 1200;
        assert_eq!(
            ghosts(&job),
            "1,200 kernels in idle gaps; a kernel after a gap takes 49.0 us, 158.0 us without (rank 0)"
        );
        job.rhythm = Default::default();
        assert_eq!(rhythm(&job), "");
    }

    #[test]
    fn a_loss_is_called_a_loss() {
        let mut job = Node::example().jobs.remove(0);
        assert_eq!(
            gain(&job),
            "1.91x where calls are compressed, against trials; 2 min 56 s saved; 1.4 TiB not sent"
        );
        (job.gain.speedup, job.gain.saved_s) = (Some(0.5), Some(-3.0));
        assert!(gain(&job).starts_with("0.50x") && gain(&job).contains("3.0 s lost"), "{}", gain(&job));
        assert_eq!(tone_of_gain(&job), Tone::Warning);
        job.gain = Default::default();
        assert_eq!(gain(&job), "");
    }
}
