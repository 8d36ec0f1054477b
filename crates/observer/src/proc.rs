//! What the kernel says of a process, and the names of users. Small files, read whole.

use std::collections::BTreeMap;

use airamp_telemetry::Standing;

/// R, S, D, T, …
pub(crate) fn state(pid: u32) -> Option<char> {
    Standing::of(pid).map(|standing| standing.state)
}

pub(crate) fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
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
    fn a_user_without_a_name_is_shown_by_number() {
        let passwd = "root:x:0:0::/:/bin/sh\nalice:x:1000:1000::/:/bin/sh\nbroken\n";
        assert_eq!(name_in(passwd, 1000).as_deref(), Some("alice"));
        assert_eq!(name_in(passwd, 1001), None);
    }
}
