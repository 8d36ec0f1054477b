//! Ranks in network namespaces of their own, joined by a virtual cable: what crosses between them
//! crosses a network, by the addresses that the emulated NCCL chose itself.

use airamp_tests::{Run, emulator_dir, interposer, rank_program, skip};
use std::process::{Command, id};
use std::time::Duration;

/// Two namespaces with one end of a cable each; gone when dropped.
struct TwoHosts {
    names: [String; 2],
}

fn ip(arguments: &[&str]) -> bool {
    Command::new("ip").args(arguments).output().is_ok_and(|output| output.status.success())
}

impl TwoHosts {
    fn new() -> Option<Self> {
        let hosts = Self { names: ["a", "b"].map(|side| format!("airamp-{}-{side}", id())) };
        let cables = ["a", "b"].map(|side| format!("ar{}{side}", id()));
        let [left, right] = &cables;
        let made = hosts.names.iter().all(|name| ip(&["netns", "add", name]))
            && ip(&["link", "add", left, "type", "veth", "peer", "name", right]);
        let joined = hosts.names.iter().zip(&cables).zip(["10.123.45.1/24", "10.123.45.2/24"]).all(
            |((name, cable), address)| {
                ip(&["link", "set", cable, "netns", name])
                    && ip(&["-n", name, "addr", "add", address, "dev", cable])
                    && ip(&["-n", name, "link", "set", cable, "up"])
                    && ip(&["-n", name, "link", "set", "lo", "up"])
            },
        );
        (made && joined).then_some(hosts)
    }

    /// The conformance job, one rank on each host.
    fn rank(&self, rank: usize) -> Run {
        Run::new("ip")
            .args(["netns", "exec", &self.names[rank]])
            .arg(rank_program())
            .args(["conformance", "--quick"])
            .env("RANK", rank.to_string())
            .env("LOCAL_RANK", "0")
            .env("WORLD_SIZE", "2")
            .env("MASTER_ADDR", "10.123.45.1")
            .env("MASTER_PORT", "29555")
            .library_dir(emulator_dir())
            .time_limit(Duration::from_secs(100))
    }
}

impl Drop for TwoHosts {
    fn drop(&mut self) {
        // The cable goes with either end.
        for name in &self.names {
            ip(&["netns", "del", name]);
        }
    }
}

#[test]
fn ranks_on_two_hosts_agree_without_and_with_the_library() {
    let Some(hosts) = TwoHosts::new() else {
        return skip("network namespaces need root and iproute2");
    };
    let job = |with: bool| {
        let run = |rank| if with { hosts.rank(rank).preload(interposer()) } else { hosts.rank(rank) };
        let (first, second) = (run(0), run(1));
        let other = std::thread::spawn(move || second.run());
        [first.run(), other.join().expect("the other rank's run")]
    };
    let (bare, with) = (job(false), job(true));
    for (bare, with) in bare.iter().zip(&with) {
        let text = bare.assert_success().stdout_text();
        assert!(text.lines().count() > 50, "{bare}");
        assert!(text.lines().all(|line| line.contains("\"expected\":\"ok\"")), "{bare}");
        assert_eq!(text, with.assert_success().stdout_text());
    }
}
