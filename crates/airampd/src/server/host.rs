//! The host that a question was meant for, as its Host header names it: `name`, `name:port` or `[address]:port`.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Whether that is this machine's loopback, whatever a name server says.
pub fn is_of_loopback(host: &str) -> bool {
    let (name, rest) = match host.strip_prefix('[').map(|bracketed| bracketed.split_once(']')) {
        Some(Some((address, rest))) => return is_loopback_v6(address) && is_port_or_nothing(rest),
        Some(None) => return false,
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    let is_address = name.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback());
    let is_name = name == "localhost" || name.ends_with(".localhost") && name.bytes().all(is_of_a_name);
    (is_address || is_name) && is_port_or_nothing(rest)
}

fn is_loopback_v6(address: &str) -> bool {
    address.parse::<Ipv6Addr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

fn is_of_a_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

/// `:` alone is allowed too.
fn is_port_or_nothing(rest: &str) -> bool {
    rest.is_empty()
        || rest.strip_prefix(':').is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
}
