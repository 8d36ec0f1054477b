//! Ranks in network namespaces of their own, joined by a virtual cable: what crosses between them
//! crosses a network, by the addresses that the emulated NCCL chose itself.

use std::time::Duration;

use airamp_tests::hosts::TwoHosts;
use airamp_tests::scenario::{planned, settings};
use airamp_tests::{Outcome, Run, emulator_dir, interposer, rank_program, skip_outside_ci};

/// A rank on its host.
fn rank(hosts: &TwoHosts, rank: usize, arguments: &[&str]) -> Run {
    hosts
        .inside(rank, &rank_program())
        .args(arguments)
        .env("RANK", rank.to_string())
        .env("LOCAL_RANK", "0")
        .env("WORLD_SIZE", "2")
        .env("MASTER_ADDR", TwoHosts::FIRST)
        .env("MASTER_PORT", "29555")
        .library_dir(emulator_dir())
        .time_limit(Duration::from_secs(100))
}

fn job(run: impl Fn(usize) -> Run) -> [Outcome; 2] {
    let (first, second) = (run(0), run(1));
    let other = std::thread::spawn(move || second.run());
    [first.run(), other.join().expect("the other rank's run")]
}

#[test]
fn ranks_on_two_hosts_agree_without_and_with_the_library() {
    let Some(hosts) = TwoHosts::new() else {
        return skip_outside_ci("network namespaces need root and iproute2");
    };
    let run = |number| rank(&hosts, number, &["conformance", "--quick"]);
    let (bare, with) = (job(run), job(|number| run(number).preload(interposer())));
    for (bare, with) in bare.iter().zip(&with) {
        let text = bare.assert_success().stdout_text();
        assert!(text.lines().count() > 50, "{bare}");
        assert!(text.lines().all(|line| line.contains("\"expected\":\"ok\"")), "{bare}");
        assert_eq!(text, with.assert_success().stdout_text());
    }
}

#[test]
fn ranks_on_two_hosts_agree_to_compress_over_the_network() {
    let Some(hosts) = TwoHosts::new() else {
        return skip_outside_ci("network namespaces need root and iproute2");
    };
    let arguments = ["scenario", "calls/float32", "--expect", "compressed"];
    let run = |number| planned(settings(rank(&hosts, number, &arguments).preload(interposer())));
    for outcome in job(run) {
        let text = outcome.assert_success().stdout_text();
        assert!(text.lines().count() > 1 && !text.contains("\"compressed\":0"), "{outcome}");
    }
}
