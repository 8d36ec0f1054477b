//! A prediction, and a fit's errors, for people and as JSON. No number is made here.

use std::fmt::Write;

use airamp_plan::{
    Cluster, Compared, ErrorsOf, Fit, Missed, OfMessage, Pays, Prediction, Spread, Verdict, shown_size,
};
use serde_json::json;

use crate::columns::{aligned, time};

/// What no prediction holds; in text and in JSON.
pub(super) const LEAVES_OUT: [&str; 7] = [
    "other jobs on the same links, and switches that are narrower than the NICs together",
    "latency between nodes: calls cost what they cost on the machine that was measured",
    "hosts of their own: all ranks of a benchmark share one, so that processors with fewer ranks are a step beyond every fit",
    "how much of the communication the computation hides: the two bounds are given instead",
    "NCCL's other algorithms (NVLS, CollNet, rings inside a node apart from those between nodes)",
    "shapes that the library's tuner may find to be faster than the usual one, and its trials",
    "the time that ranks wait for each other",
];

pub(super) fn text(cluster: &Cluster, fit: &Fit, prediction: &Prediction, name: &str) -> String {
    let mut text = format!("{}\n{}\n", summary(cluster, name), of_fit(fit));
    let lines = prediction.messages.iter().map(columns).collect();
    let header = [
        "calls",
        "among",
        "ranks",
        "per step",
        "vendor",
        "compressed",
        "gain",
        "with AIRamp",
        "pays",
        "bound by",
    ];
    let _ =
        write!(text, "\n{}", aligned(header, lines, &["calls", "among", "with AIRamp", "pays", "bound by"]));
    let _ = write!(text, "\n{}", steps(prediction));
    notes(&mut text, cluster, prediction);
    text
}

fn summary(cluster: &Cluster, name: &str) -> String {
    let file = &cluster.file;
    let counted =
        |number: usize, name: &str| format!("{number} {name}{}", if number == 1 { "" } else { "s" });
    let (nodes, gpus) = (counted(file.nodes, "node"), counted(file.gpus_per_node, "GPU"));
    let mut parts = vec![format!("{nodes} of {gpus}")];
    if let Some(gbps) = file.nic_gbps.filter(|_| file.nodes > 1) {
        let how = if file.is_rdma { "RDMA" } else { "sockets" };
        parts.push(format!("{} of {gbps} Gbit/s to a node ({how})", counted(file.nics_per_node, "NIC")));
    }
    if let Some(gbps) = file.gpu_link_gbps.filter(|_| file.gpus_per_node > 1) {
        parts.push(format!("GPU links of {gbps} Gbit/s"));
    }
    format!("{}: {}", file.name.as_deref().unwrap_or(name), parts.join(", "))
}

pub(super) fn of_fit(fit: &Fit) -> String {
    let scope = &fit.scope;
    let ranks: Vec<String> = scope.ranks.iter().map(usize::to_string).collect();
    let links = scope.gbps.map_or("no link with a rate".to_owned(), |[least, most]| {
        if least == most { format!("{least} Gbit/s") } else { format!("{least} to {most} Gbit/s") }
    });
    let (least, most) = (shown_size(scope.least_bytes), shown_size(scope.most_bytes));
    let off = |of: Spread| {
        let (median, worst) = (percent(of.median), percent(of.worst));
        let missed =
            format!("{} of {} times beyond 10%, {} unexplained", of.missed, of.times, of.unexplained);
        format!("median {median}, worst {worst} ({missed})")
    };
    let errors = match (fit.errors.of_sizes(true), fit.errors.of_sizes(false)) {
        (None, None) => "no size could be held out".to_owned(),
        (rate, unlimited) => {
            let shown = |name: &str, of: Option<_>| of.map(|of| format!("{name} {}", off(of)));
            let both = [shown("at a rate", rate), shown("unlimited", unlimited)];
            both.into_iter().flatten().collect::<Vec<_>>().join("; ")
        }
    };
    format!(
        "fit: {}; {} tensors, ranks {}, {least} to {most}, {links}\nits error on sizes that were held out: {errors}",
        fit.source,
        scope.points,
        ranks.join(", ")
    )
}

fn columns(of: &OfMessage) -> [String; 10] {
    let dash = || "-".to_owned();
    let kind = if of.collective == "all_reduce" { "" } else { of.collective };
    let mark = if of.extrapolated.is_empty() { "" } else { " *" };
    let calls = format!("{kind} {} {}{mark}", of.datatype, shown_size(of.bytes));
    [
        calls.trim_start().to_owned(),
        of.among.to_owned(),
        of.ranks.to_string(),
        format!("{}", (of.per_step * 100.0).round() / 100.0),
        time(of.vendor.total_us),
        of.compressed.map_or_else(dash, |ours| time(ours.total_us)),
        of.gain_if_compressed.map_or_else(dash, |gain| format!("{gain:.2}x")),
        of.left_to_the_vendor.as_ref().map_or("compressed".to_owned(), |why| format!("vendor: {why}")),
        of.pays.as_ref().map_or_else(dash, pays),
        of.pays.as_ref().map_or_else(dash, |pays| pays.bound_by.to_owned()),
    ]
}

fn pays(of: &Pays) -> String {
    let mark = if of.is_extrapolated { " *" } else { "" };
    let (from, to) =
        (of.from_gbps.map_or(String::new(), rounded), of.up_to_gbps.map_or(String::new(), rounded));
    match of.verdict {
        Verdict::UpTo => format!("up to {to} Gbit/s{mark}"),
        Verdict::From => format!("from {from} Gbit/s on{mark}"),
        Verdict::Between => format!("from {from} to {to} Gbit/s{mark}"),
        Verdict::AtNoSpeed => format!("at no speed{mark}"),
        Verdict::AtEverySpeed => format!("at every speed{mark}"),
    }
}

/// Three digits.
pub(super) fn rounded(value: f64) -> String {
    let digits = (2 - value.abs().max(1e-9).log10().floor() as i32).clamp(0, 6);
    format!("{value:.*}", digits as usize)
}

fn steps(prediction: &Prediction) -> String {
    let step = &prediction.step;
    let line = |name: &str, of: Compared| {
        [name.to_owned(), time(of.without_us), time(of.with_us), format!("{:.2}x", of.gain)]
    };
    let mut lines = vec![line("communication", step.communication)];
    lines.extend(step.nothing_hidden.map(|of| line("step, nothing hidden", of)));
    lines.extend(step.all_hidden.map(|of| line("step, all hidden that can be", of)));
    aligned(["", "without", "with", "gain"], lines, &[""])
}

fn notes(text: &mut String, cluster: &Cluster, prediction: &Prediction) {
    let mut beyond: Vec<&str> = Vec::new();
    for one in prediction.messages.iter().flat_map(|of| &of.extrapolated) {
        let one = if one.starts_with("size ") { "other sizes" } else { one };
        if !beyond.contains(&one) {
            beyond.push(one);
        }
    }
    text.push('\n');
    if prediction.step.compute_us.is_none() {
        text.push_str("compute_ms is not given: nothing is said about the step as a whole.\n");
    }
    if !beyond.is_empty() {
        let _ = writeln!(text, "* extrapolated beyond what was measured: {}.", beyond.join("; "));
    }
    for one in &cluster.left_out {
        let _ = writeln!(text, "Not in the prediction: {one}.");
    }
    let _ = writeln!(text, "The model leaves out:\n- {}.", LEAVES_OUT.join(";\n- "));
}

pub(super) fn json(cluster: &Cluster, fit: &Fit, prediction: &Prediction, name: &str) -> String {
    let extrapolated = prediction.messages.iter().any(|of| !of.extrapolated.is_empty());
    let mut fit = serde_json::to_value(fit).unwrap_or_default();
    // One by one they are in what `--errors --json` prints.
    fit["errors"].as_object_mut().map(|errors| errors.remove("missed"));
    let value = json!({
        "airamp": env!("CARGO_PKG_VERSION"),
        "cluster": cluster.file.name.as_deref().unwrap_or(name),
        "fit": fit,
        "min_speedup": cluster.min_speedup,
        "messages": prediction.messages,
        "step": prediction.step,
        "extrapolated": extrapolated,
        "not_in_the_prediction": cluster.left_out,
        "the_model_leaves_out": LEAVES_OUT,
    });
    format!("{value:#}\n")
}

/// Both kinds of `beyond 10%` count times: as they were measured, and as the median of what the same work took.
const ERRORS: [&str; 9] = [
    "link",
    "ranks",
    "",
    "times",
    "median",
    "worst",
    "beyond 10%",
    "not explained",
    "beyond 10% of the median of repeats",
];

/// What `--errors` prints.
pub(super) fn errors(fit: &Fit) -> String {
    let mut text = format!("{}\n", of_fit(fit));
    let tables = [
        ("Each size between the least and the largest of its series held out", &fit.errors.sizes),
        ("The least and the largest size held out", &fit.errors.ends),
        ("That number of ranks held out, for information", &fit.errors.ranks),
    ];
    for (title, errors) in tables {
        if errors.is_empty() {
            let _ = write!(text, "\n{title}: too few measurements\n");
            continue;
        }
        let lines = errors.iter().flat_map(error_lines).collect();
        let _ = write!(text, "\n{title}\n{}", aligned(ERRORS, lines, &["link", ""]));
    }
    if !fit.errors.missed.is_empty() {
        let header = ["sizes beyond 10%", "measured", "predicted", "off", "scatter", ""];
        let lines = fit.errors.missed.iter().map(missed_columns).collect();
        let _ = write!(text, "\n{}", aligned(header, lines, &["sizes beyond 10%", ""]));
    }
    text
}

fn percent(value: f64) -> String {
    format!("{:.1}%", value * 1e2)
}

fn error_lines(of: &ErrorsOf) -> Vec<[String; 9]> {
    let link = if of.link_has_a_rate { "at a rate" } else { "unlimited" };
    let line = |name: &str, spread: &Spread| {
        [
            link.to_owned(),
            of.ranks.to_string(),
            name.to_owned(),
            spread.times.to_string(),
            percent(spread.median),
            percent(spread.worst),
            spread.missed.to_string(),
            spread.unexplained.to_string(),
            spread.missed_medians.to_string(),
        ]
    };
    let both = [("vendor", &of.vendor), ("ours", &of.ours)];
    both.into_iter().filter(|(_, spread)| spread.times > 0).map(|(name, spread)| line(name, spread)).collect()
}

fn missed_columns(of: &Missed) -> [String; 6] {
    let whose = if of.is_ours { "ours" } else { "vendor" };
    [
        format!("{whose}, {}, {} ranks, {} {}", of.link, of.ranks, of.datatype, shown_size(of.bytes)),
        time(of.measured_us),
        time(of.predicted_us),
        format!("{:+.0}%", (of.predicted_us / of.measured_us - 1.0) * 1e2),
        format!("{:.0}%", (of.scatter - 1.0) * 1e2),
        match of.contradicted_by_us {
            _ if !of.is_explained => "not explained by scatter".to_owned(),
            Some(other) if other < of.measured_us => format!("a larger one took {}", time(other)),
            Some(other) => format!("a smaller one took {}", time(other)),
            None => String::new(),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_predicted_worse_is_named() {
        let text = errors(&Fit::built_in().unwrap());
        assert!(text.contains("ours, loopback, 8 ranks, float32 640KiB"), "{text}");
    }
}
