//! The network interface of this process, by name: the one that NCCL_SOCKET_IFNAME names, or else the one from which the
//! address in the first communicator's id is reached, where the ranks meet. What the vendor chooses for its data besides
//! is not asked for. Asked when a communicator is made, never at a call.

use airamp_control::address_in_id;
use airamp_vendor_abi::nccl::UniqueId;
use std::ffi::CStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::sync::OnceLock;

const LONGEST: usize = 16;

type Name = [u8; LONGEST];

static WHERE_RANKS_MEET: OnceLock<Name> = OnceLock::new();

/// A communicator is made with that id.
pub(crate) fn meet_by(id: &UniqueId) {
    WHERE_RANKS_MEET.get_or_init(|| {
        let reached = address_in_id(&id.internal).and_then(local_address_towards).and_then(interface_with);
        reached.unwrap_or_default()
    });
}

/// The interface's name, padded with zeros; empty where it is not known.
pub(super) fn of_this_process() -> Name {
    let given = std::env::var("NCCL_SOCKET_IFNAME").unwrap_or_default();
    match first_name(&given).filter(|name| is_there(name)) {
        Some(name) => padded(name.as_bytes()),
        None => WHERE_RANKS_MEET.get().copied().unwrap_or_default(),
    }
}

fn padded(name: &[u8]) -> Name {
    let mut nic = [0; LONGEST];
    nic.iter_mut().zip(name).for_each(|(to, from)| *to = *from);
    nic
}

/// As the system would choose it. No packet is sent.
fn local_address_towards(peer: IpAddr) -> Option<IpAddr> {
    let any = match peer {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect((peer, 9)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

fn interface_with(address: IpAddr) -> Option<Name> {
    let mut list = std::ptr::null_mut();
    // SAFETY: the list is written on success.
    if unsafe { libc::getifaddrs(&mut list) } != 0 {
        return None;
    }
    let mut found = None;
    let mut next = list;
    // SAFETY: null, or an entry of the list, which is freed below.
    while let Some(entry) = unsafe { next.as_ref() } {
        // SAFETY: as above.
        if unsafe { address_of(entry.ifa_addr) } == Some(address) {
            // SAFETY: an entry's name is a C string.
            found = Some(padded(unsafe { CStr::from_ptr(entry.ifa_name) }.to_bytes()));
            break;
        }
        next = entry.ifa_next;
    }
    // SAFETY: made by `getifaddrs`, and freed once.
    unsafe { libc::freeifaddrs(list) };
    found
}

/// # Safety
/// Null, or a socket address as long as its family says.
unsafe fn address_of(address: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: the caller vouches for it.
    match i32::from(unsafe { address.as_ref() }?.sa_family) {
        libc::AF_INET => {
            // SAFETY: as long as the family says.
            let four = unsafe { &*address.cast::<libc::sockaddr_in>() };
            Some(IpAddr::V4(Ipv4Addr::from(u32::from_be(four.sin_addr.s_addr))))
        }
        libc::AF_INET6 => {
            // SAFETY: as long as the family says.
            let six = unsafe { &*address.cast::<libc::sockaddr_in6>() };
            Some(IpAddr::V6(Ipv6Addr::from(six.sin6_addr.s6_addr)))
        }
        _ => None,
    }
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

    #[test]
    fn loopback_is_reached_from_loopback() {
        let local = local_address_towards(IpAddr::V4(Ipv4Addr::LOCALHOST)).expect("loopback");
        assert_eq!(interface_with(local), Some(padded(b"lo")));
    }

    #[test]
    fn an_address_that_nobody_here_has_names_no_interface() {
        assert_eq!(interface_with(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 77))), None);
    }
}
