//! Communicators over several ranks of each node: their leader sees from the hosts, or the settings say, how the ranks
//! lie, and all ranks cut their calls alike. Uneven nodes stay with the shapes of ranks that have a node each.

use std::time::Duration;

use airamp_tests::hosts::Hosts;
use airamp_tests::scenario::{
    Scenario, assert_compressed, assert_exact_without_a_plan, assert_right, planned,
};
use airamp_tests::tuned::assert_alike;
use airamp_tests::{Outcome, Run, emulator_dir, interposer, rank_program, skip_outside_ci};

const CASES: usize = 10;

/// Every call compressed, each rank on the host of that name; the program expects the bits of so many on a node.
#[track_caller]
fn assert_cut_for(per_node: &str, hosts: &[&str]) {
    let job = Scenario::new("calls", hosts.len() as u32).env("AIRAMP_TEST_RANKS_PER_NODE", per_node);
    let outcomes = job.compressed_but(|rank, run| run.env("NCCL_HOSTID", hosts[rank as usize]));
    let lines = assert_right(&outcomes, CASES);
    assert!(lines.iter().flatten().all(|line| line.compressed > 0), "{hosts:?}: {lines:?}");
    assert!(outcomes.iter().all(|outcome| says(outcome, per_node)), "{hosts:?}: {}", outcomes[0]);
}

/// Whether a rank says that so many are on a node.
fn says(outcome: &Outcome, per_node: &str) -> bool {
    outcome.stderr_text().contains(&format!("{per_node} to a node"))
}

#[test]
fn a_number_in_the_settings_gives_the_bits_of_three_exchanges() {
    for (ranks, per_node) in [(4, "2"), (6, "3")] {
        let scenario = Scenario::new("calls", ranks).env("AIRAMP_RANKS_PER_NODE", per_node);
        assert_compressed(&scenario, CASES);
    }
    assert_exact_without_a_plan(&Scenario::new("calls", 4).env("AIRAMP_RANKS_PER_NODE", "2"), CASES);
    let hip = Scenario::new("calls", 4).args(&["--hip"]).env("AIRAMP_RANKS_PER_NODE", "2");
    assert_compressed(&hip, CASES);
}

#[test]
fn even_hosts_are_nodes_without_a_setting() {
    assert_cut_for("2", &["one", "one", "two", "two"]);
    assert_cut_for("3", &["one", "one", "one", "two", "two", "two"]);
}

#[test]
fn uneven_interleaved_and_single_hosts_are_cut_as_ever() {
    assert_cut_for("1", &["one", "one", "one", "two"]);
    assert_cut_for("1", &["one", "two", "one", "two"]);
    assert_cut_for("1", &["one"; 4]);
    assert_cut_for("1", &["one", "two", "three", "four"]);
}

#[test]
fn a_number_that_does_not_fit_counts_as_1_and_is_told() {
    let scenario = Scenario::new("calls/float32", 4).env("AIRAMP_RANKS_PER_NODE", "3");
    let outcomes = scenario.compressed();
    assert_right(&outcomes, 2);
    assert!(outcomes.iter().all(|outcome| says(outcome, "1")), "{}", outcomes[0]);
    let told = |outcome: &Outcome| {
        outcome.stderr_text().contains("AIRAMP_RANKS_PER_NODE=3 does not make 2 to 128 full nodes")
    };
    assert!(told(&outcomes[0]), "{}", outcomes[0]);
}

#[test]
fn groups_and_graphs_are_cut_for_nodes_too() {
    for name in ["groups", "graphs"] {
        assert_compressed(&Scenario::new(name, 4).env("AIRAMP_RANKS_PER_NODE", "2"), 1);
    }
}

#[test]
fn the_tuner_tries_and_takes_what_nodes_can_do() {
    let job = Scenario::new("tuned-loop", 4).args(&["--tensors", "float32:4194304"]);
    let job = job.args(&["--steps", "3000", "--after-decided", "16"]).env("AIRAMP_EMU_LINK_GBPS", "1");
    let job = job.time_limit(Duration::from_secs(200));
    let hosts = ["one", "one", "two", "two"];
    let outcomes = job.in_mode_but("on", |rank, run| run.env("NCCL_HOSTID", hosts[rank as usize]));
    for report in assert_alike(&outcomes) {
        assert!(report.agreed && report.trials > 0 && report.compressed > 0, "{report:?}");
        assert_eq!(report.classes[0].planned, "compressed", "{report:?}");
    }
    assert!(outcomes.iter().all(|outcome| says(outcome, "2")), "{}", outcomes[0]);
}

/// Two hosts of two ranks.
const PER_HOST: usize = 2;
const RANKS: usize = 4;
const BYTES: u64 = 4 << 20;
const STEPS: u64 = 4;
/// At most one of 1,448 bytes is a header of 66 or an acknowledgement, and what it takes to meet.
const OVERHEAD: f64 = 0.1;
const MEETING: u64 = 256 << 10;

/// What the first host's cable carried in a job of so many AllReduces.
fn left_the_host(steps: u64, adjust: impl Fn(Run) -> Run) -> Option<u64> {
    let hosts = Hosts::new(RANKS / PER_HOST)?;
    let (steps, bytes) = (steps.to_string(), BYTES.to_string());
    let before = hosts.counted(0, "tx_bytes");
    let one = |rank: usize| {
        let run = hosts.inside(rank / PER_HOST, &rank_program());
        let run = run.args(["steps", "--collective", "all_reduce", "--steps", &steps, "--bytes", &bytes]);
        let run = run.env("RANK", rank.to_string()).env("LOCAL_RANK", (rank % PER_HOST).to_string());
        let run =
            run.env("WORLD_SIZE", RANKS.to_string()).env("NCCL_HOSTID", format!("host-{}", rank / PER_HOST));
        let run =
            run.env("MASTER_ADDR", Hosts::FIRST).env("MASTER_PORT", "29555").library_dir(emulator_dir());
        adjust(run.preload(interposer()).time_limit(Duration::from_secs(100)))
    };
    let threads: Vec<_> = (0..RANKS).map(one).map(|run| std::thread::spawn(move || run.run())).collect();
    for thread in threads {
        thread.join().expect("a rank's run").assert_success();
    }
    Some(hosts.counted(0, "tx_bytes") - before)
}

/// The same of one AllReduce: by what a longer job sent more than a shorter one.
fn per_call(adjust: impl Fn(Run) -> Run) -> Option<f64> {
    let (short, long) = (left_the_host(STEPS, &adjust)?, left_the_host(3 * STEPS, &adjust)?);
    Some((long + MEETING).saturating_sub(short) as f64 / (2 * STEPS) as f64)
}

/// Rings leave a host once, with three quarters of what they carry; a two-shot's scatter leaves it with half of each of
/// its ranks' packets, a three-shot's with half of the packets of one.
#[test]
fn three_exchanges_send_half_as_much_of_a_scatter_out_of_a_host_as_two() {
    let (Some(vendor), Some(two), Some(three)) = (
        per_call(|run| run),
        per_call(|run| planned(run.env("AIRAMP_RANKS_PER_NODE", "1"))),
        per_call(planned),
    ) else {
        return skip_outside_ci("network namespaces need root and iproute2");
    };
    let (tensor, packed) = (BYTES as f64, BYTES as f64 / 4.0 * 130.0 / 128.0);
    let cases = [
        ("vendor", vendor, 1.5 * tensor),
        ("two-shot", two, 1.75 * packed),
        ("three-shot", three, 1.25 * packed),
    ];
    for (name, carried, expected) in cases {
        println!(
            "{name}: {carried:.0} bytes of each call left the host, of which {expected:.0} are expected"
        );
        let most = expected * (1.0 + OVERHEAD) + MEETING as f64 / STEPS as f64;
        assert!(
            carried >= expected && carried <= most,
            "{name}: {carried:.0}, and not {expected:.0} to {most:.0}"
        );
    }
}
