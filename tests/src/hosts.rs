//! Network namespaces of a test's own, gone when dropped: two hosts joined by a virtual cable, or one in which an
//! address swallows whatever is sent to it. They need root and iproute2.

use std::process::{Command, id};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::Run;

fn ip(arguments: &[&str]) -> bool {
    Command::new("ip").args(arguments).output().is_ok_and(|output| output.status.success())
}

/// Names are the whole machine's.
fn unique() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{}x{}", id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A namespace; the cables in it go with it.
struct Namespace(String);

impl Namespace {
    fn new(name: String) -> Option<Self> {
        ip(&["netns", "add", &name]).then_some(Self(name))
    }

    fn ip(&self, arguments: &[&str]) -> bool {
        ip(&[&["-n", &self.0], arguments].concat())
    }

    fn inside(&self, program: &std::path::Path) -> Run {
        Run::new("ip").args(["netns", "exec", &self.0]).arg(program)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        ip(&["netns", "del", &self.0]);
    }
}

/// Two namespaces with one end of a cable each.
pub struct TwoHosts([Namespace; 2]);

impl TwoHosts {
    /// The first host's address.
    pub const FIRST: &str = "10.123.45.1";

    pub fn new() -> Option<Self> {
        let unique = unique();
        let [left, right] = ["a", "b"].map(|side| format!("ar{unique}{side}"));
        let hosts =
            [Namespace::new(format!("airamp-{unique}-a"))?, Namespace::new(format!("airamp-{unique}-b"))?];
        let made = ip(&["link", "add", &left, "type", "veth", "peer", "name", &right]);
        let ends = hosts.iter().zip([&left, &right]).zip(["10.123.45.1/24", "10.123.45.2/24"]);
        let joined = made
            && ends.into_iter().all(|((host, cable), address)| {
                ip(&["link", "set", cable, "netns", &host.0])
                    && host.ip(&["addr", "add", address, "dev", cable])
                    && host.ip(&["link", "set", cable, "up"])
                    && host.ip(&["link", "set", "lo", "up"])
            });
        joined.then_some(Self(hosts))
    }

    /// The program on one of the hosts.
    pub fn inside(&self, host: usize, program: &std::path::Path) -> Run {
        self.0[host].inside(program)
    }
}

/// Any number of namespaces, each with one cable to a switch in a namespace of its own: whatever a host sends to
/// another crosses its own cable once.
pub struct Hosts {
    hosts: Vec<Namespace>,
    _switch: Namespace,
}

impl Hosts {
    /// The interface of each host.
    pub const CABLE: &str = "eth0";
    /// The first host's address.
    pub const FIRST: &str = "10.123.47.1";

    pub fn new(count: usize) -> Option<Self> {
        let unique = unique();
        let switch = Namespace::new(format!("airamp-{unique}-s"))?;
        let up = |port: &str| switch.ip(&["link", "set", port, "up"]);
        if !(switch.ip(&["link", "add", "sw", "type", "bridge"]) && up("sw")) {
            return None;
        }
        let mut hosts = Vec::new();
        for number in 1..=count {
            let host = Namespace::new(format!("airamp-{unique}-h{number}"))?;
            let (port, address) = (format!("port{number}"), format!("10.123.47.{number}/24"));
            let cable = ["type", "veth", "peer", "name", Self::CABLE, "netns", &host.0];
            let joined = switch.ip(&[&["link", "add", &port][..], &cable].concat())
                && switch.ip(&["link", "set", &port, "master", "sw"])
                && up(&port)
                && host.ip(&["addr", "add", &address, "dev", Self::CABLE])
                && host.ip(&["link", "set", Self::CABLE, "up"])
                && host.ip(&["link", "set", "lo", "up"]);
            if !joined {
                return None;
            }
            hosts.push(host);
        }
        Some(Self { hosts, _switch: switch })
    }

    /// The program on one of the hosts.
    pub fn inside(&self, host: usize, program: &std::path::Path) -> Run {
        self.hosts[host].inside(program)
    }

    /// What the kernel counted on a host's cable: a file of `statistics`.
    pub fn counted(&self, host: usize, counter: &str) -> u64 {
        let file = format!("/sys/class/net/{}/statistics/{counter}", Self::CABLE);
        let outcome = self.inside(host, "cat".as_ref()).arg(file).run();
        outcome.assert_success().stdout_text().trim().parse().expect("a number")
    }
}

/// A namespace with loopback, and with a network on which nobody answers.
pub struct DeafHost(Namespace);

impl DeafHost {
    /// What is sent there is lost without a word.
    pub const NOBODY: &str = "10.123.46.2";

    pub fn new() -> Option<Self> {
        let unique = unique();
        let [near, far] = ["n", "f"].map(|side| format!("ar{unique}{side}"));
        let host = Namespace::new(format!("airamp-{unique}-d"))?;
        // Frames for a card that is not there: the far end of the cable drops them.
        let made = host.ip(&["link", "set", "lo", "up"])
            && host.ip(&["link", "add", &near, "type", "veth", "peer", "name", &far])
            && host.ip(&["addr", "add", "10.123.46.1/24", "dev", &near])
            && host.ip(&["link", "set", &near, "up"])
            && host.ip(&["link", "set", &far, "up"])
            && host.ip(&["neigh", "add", Self::NOBODY, "lladdr", "02:00:00:00:00:99", "dev", &near]);
        made.then_some(Self(host))
    }

    pub fn inside(&self, program: &std::path::Path) -> Run {
        self.0.inside(program)
    }
}
