//! The network interface that the vendor was told to use, by name: as far as NCCL_SOCKET_IFNAME names one that is
//! there. What the vendor chooses by itself is not asked for.

const LONGEST: usize = 16;

/// The interface's name, padded with zeros; empty where it is not known.
pub(super) fn of_this_process() -> [u8; LONGEST] {
    let mut nic = [0; LONGEST];
    let given = std::env::var("NCCL_SOCKET_IFNAME").unwrap_or_default();
    if let Some(name) = first_name(&given).filter(|name| is_there(name)) {
        nic.iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from);
    }
    nic
}

/// `=eth0,…` and `eth0,…` begin with a name; `^eth0` says what not to use.
fn first_name(given: &str) -> Option<&str> {
    let name = given.trim().trim_start_matches('=').split(',').next()?.trim();
    let is_name =
        !name.is_empty() && name.len() < LONGEST && !name.starts_with(['^', '.']) && !name.contains('/');
    is_name.then_some(name)
}

fn is_there(name: &str) -> bool {
    std::path::Path::new("/sys/class/net").join(name).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_names_an_interface_is_taken_for_one() {
        assert_eq!(first_name("=eth0"), Some("eth0"));
        assert_eq!(first_name("ens3, ens4"), Some("ens3"));
        for none in ["", "^docker0", "=../../etc", "a-name-that-is-too-long"] {
            assert_eq!(first_name(none), None, "{none}");
        }
    }
}
