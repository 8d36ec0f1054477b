//! What the kernel says of a process, and the names of users. Small files, read whole.

use std::collections::BTreeMap;

use airamp_telemetry::Standing;

/// R, S, D, T, …
pub(crate) fn state(pid: u32) -> Option<char> {
    Standing::of(pid).map(|standing| standing.state)
}

/// This node, by the name that its processes write into their telemetry.
pub(crate) fn host_name() -> String {
    let kernels = || std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    node_name(&|name| std::env::var(name).ok(), &kernels)
}

/// What a scheduler calls it comes first: to the kernel a pod is a host of its own.
fn node_name(variable: &dyn Fn(&str) -> Option<String>, kernels: &dyn Fn() -> String) -> String {
    let given = |name: &&str| variable(name).filter(|value| !value.trim().is_empty());
    let name = ["SLURMD_NODENAME", "NODE_NAME"].iter().find_map(given).unwrap_or_else(kernels);
    name.trim().chars().take(253).collect()
}

/// Names by /etc/passwd, else the number. Asked for once each.
#[derive(Default)]
pub(crate) struct Users {
    names: BTreeMap<u32, String>,
}

impl Users {
    pub(crate) fn name(&mut self, uid: u32) -> String {
        let named = || std::fs::read_to_string("/etc/passwd").ok().and_then(|all| name_in(&all, uid));
        self.names.entry(uid).or_insert_with(|| named().unwrap_or_else(|| uid.to_string())).clone()
    }
}

fn name_in(passwd: &str, uid: u32) -> Option<String> {
    let fields = passwd.lines().map(|line| line.split(':').collect::<Vec<&str>>());
    let uid = uid.to_string();
    let own = fields.into_iter().find(|fields| fields.get(2) == Some(&uid.as_str()))?;
    own.first().map(|name| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_called_what_its_scheduler_calls_it() {
        let named = |variables: &[(&str, &str)]| {
            let find = |name: &str| {
                let found = variables.iter().find(|(key, _)| *key == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            node_name(&find, &|| "pod-0\n".to_owned())
        };
        assert_eq!(named(&[]), "pod-0");
        assert_eq!(named(&[("NODE_NAME", "")]), "pod-0");
        assert_eq!(named(&[("NODE_NAME", "node-a")]), "node-a");
        assert_eq!(named(&[("NODE_NAME", "node-a"), ("SLURMD_NODENAME", "node-b")]), "node-b");
    }

    #[test]
    fn a_user_without_a_name_is_shown_by_number() {
        let passwd = "root:x:0:0::/:/bin/sh\nalice:x:1000:1000::/:/bin/sh\nbroken\n";
        assert_eq!(name_in(passwd, 1000).as_deref(), Some("alice"));
        assert_eq!(name_in(passwd, 1001), None);
    }
}
