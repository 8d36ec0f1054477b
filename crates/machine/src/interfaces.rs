//! Which network interfaces are worth showing: those that can carry a job's traffic. Names in, yes or no out; reads
//! nothing itself.

/// Beginnings of the names of interfaces that only lead elsewhere on this node: the other ends of containers,
/// bridges between them, tunnels. A container's own end is mostly called `eth0` and is shown.
const VIRTUAL: [&str; 22] = [
    "veth",
    "docker",
    "br-",
    "cni",
    "flannel",
    "cali",
    "cilium",
    "lxc",
    "lxd",
    "vxlan",
    "virbr",
    "vnet",
    "tun",
    "tap",
    "dummy",
    "ifb",
    "kube-",
    "nodelocaldns",
    "sit",
    "ip6tnl",
    "gre",
    "podman",
];
const LOOPBACK: &str = "lo";

/// What NCCL_SOCKET_IFNAME says: beginnings of names, or with `=` whole names; with `^` those not to use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Choice {
    excludes: bool,
    whole: bool,
    names: Vec<String>,
}

impl Choice {
    pub(crate) fn parse(setting: &str) -> Self {
        let setting = setting.trim();
        let excludes = setting.starts_with('^');
        let setting = setting.trim_start_matches('^');
        let whole = setting.starts_with('=');
        let names = setting.trim_start_matches('=').split(',').filter(|name| !name.is_empty());
        Self { excludes, whole, names: names.take(64).map(str::to_owned).collect() }
    }

    fn lists(&self, name: &str) -> bool {
        self.names.iter().any(|listed| match self.whole {
            true => name == listed,
            false => name.starts_with(listed.as_str()),
        })
    }

    fn asks_for(&self, name: &str) -> bool {
        !self.excludes && self.lists(name)
    }

    /// With a list of what not to use, NCCL takes everything else, the loopback too.
    fn leaves_loopback(&self) -> bool {
        self.excludes && !self.names.is_empty() && !self.lists(LOOPBACK)
    }
}

/// Those of `all` that are shown, in their order. `used` are names that running jobs say they use.
pub(crate) fn shown(
    all: &[String],
    choice: &Choice,
    used: &[String],
    is_up: impl Fn(&str) -> bool,
) -> Vec<String> {
    let wanted = |name: &str| choice.asks_for(name) || used.iter().any(|other| other == name);
    let ordinary = |name: &str| name != LOOPBACK && !VIRTUAL.iter().any(|start| name.starts_with(start));
    // NCCL takes the loopback of its own accord only where nothing else is up.
    let loopback =
        choice.leaves_loopback() || !all.iter().any(|name| (ordinary(name) || wanted(name)) && is_up(name));
    let kept = all.iter().filter(|name| wanted(name) || ordinary(name) || (loopback && *name == LOOPBACK));
    kept.cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown_of(all: &[&str], setting: &str, used: &[&str]) -> Vec<String> {
        let own = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        shown(&own(all), &Choice::parse(setting), &own(used), |name| name != "down0")
    }

    #[test]
    fn ends_of_containers_and_the_loopback_are_left_out() {
        let all = ["bond0", "br-1f", "docker0", "eth0", "ib0", "lo", "veth12"];
        assert_eq!(shown_of(&all, "", &[]), ["bond0", "eth0", "ib0"]);
    }

    #[test]
    fn a_virtual_interface_that_nccl_is_told_to_use_is_shown() {
        let all = ["docker0", "eth0", "lo", "veth1", "veth12"];
        assert_eq!(shown_of(&all, "veth1", &[]), ["eth0", "veth1", "veth12"]);
        assert_eq!(shown_of(&all, "=veth1", &[]), ["eth0", "veth1"]);
        assert_eq!(shown_of(&all, "=lo", &[]), ["eth0", "lo"]);
        assert_eq!(shown_of(&all, "ib,docker", &[]), ["docker0", "eth0"]);
    }

    #[test]
    fn an_interface_that_a_job_names_is_shown() {
        assert_eq!(shown_of(&["eth0", "lo", "veth1"], "", &["veth1"]), ["eth0", "veth1"]);
    }

    #[test]
    fn the_loopback_is_shown_where_nothing_else_is_up() {
        assert_eq!(shown_of(&["lo"], "", &[]), ["lo"]);
        assert_eq!(shown_of(&["down0", "lo"], "", &[]), ["down0", "lo"]);
        assert_eq!(shown_of(&["lo", "veth1"], "", &[]), ["lo"]);
        assert_eq!(shown_of(&["lo", "veth1"], "veth", &[]), ["veth1"]);
    }

    #[test]
    fn a_list_of_what_not_to_use_leaves_the_loopback_unless_it_names_it() {
        assert_eq!(shown_of(&["eth0", "lo"], "^docker", &[]), ["eth0", "lo"]);
        assert_eq!(shown_of(&["eth0", "lo"], "^docker,lo", &[]), ["eth0"]);
        assert_eq!(shown_of(&["eth0", "lo"], "^", &[]), ["eth0"]);
    }
}
