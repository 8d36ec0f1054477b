//! Which address this process is reached at: NCCL_SOCKET_IFNAME, else the first interface that
//! is not loopback, else loopback.
//!
//! The rules of NCCL_SOCKET_IFNAME are NCCL's: a list of prefixes, `=` for exact names, `^` to
//! exclude. Called once per process by the switchboard.

use std::ffi::CStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::nccl::error::{NcclError, Outcome};

/// An interface that is up, with one of its addresses.
#[derive(Clone, Debug)]
pub(crate) struct Interface {
    name: String,
    ip: IpAddr,
}

pub(crate) fn choose() -> Outcome<IpAddr> {
    let wish = std::env::var("NCCL_SOCKET_IFNAME").ok();
    pick(&all()?, wish.as_deref()).ok_or_else(|| {
        let wish = wish.unwrap_or_default();
        NcclError::InvalidUsage(format!("no network interface fits NCCL_SOCKET_IFNAME={wish:?}"))
    })
}

fn pick(interfaces: &[Interface], wish: Option<&str>) -> Option<IpAddr> {
    let v4_first = |fits: &dyn Fn(&Interface) -> bool| {
        let mut found = interfaces.iter().filter(|interface| fits(interface));
        let any = found.clone().next();
        found.find(|interface| interface.ip.is_ipv4()).or(any).map(|interface| interface.ip)
    };
    match wish.filter(|wish| !wish.is_empty()) {
        Some(wish) => v4_first(&|interface| fits(&interface.name, wish)),
        None => v4_first(&|interface| !interface.ip.is_loopback() && !interface.name.starts_with("docker"))
            .or_else(|| v4_first(&|interface| interface.ip.is_loopback())),
    }
}

fn fits(name: &str, wish: &str) -> bool {
    let (exclude, wish) = match wish.strip_prefix('^') {
        Some(rest) => (true, rest),
        None => (false, wish),
    };
    let (exact, list) = match wish.strip_prefix('=') {
        Some(rest) => (true, rest),
        None => (false, wish),
    };
    let mut names = list.split(',').filter(|part| !part.is_empty());
    let listed = names.any(|part| if exact { name == part } else { name.starts_with(part) });
    listed != exclude
}

fn all() -> Outcome<Vec<Interface>> {
    let mut head: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: `head` receives a list that `freeifaddrs` below gives back.
    if unsafe { libc::getifaddrs(&mut head) } != 0 {
        let error = std::io::Error::last_os_error();
        return Err(NcclError::System(format!("the network interfaces cannot be listed: {error}")));
    }
    let mut found = Vec::new();
    let mut next = head;
    while !next.is_null() {
        // SAFETY: `next` walks the list from getifaddrs, which lives until freeifaddrs.
        let entry = unsafe { &*next };
        if entry.ifa_flags & libc::IFF_UP as u32 != 0
            && let Some(ip) = address(entry.ifa_addr)
        {
            // SAFETY: every entry has a NUL-terminated name.
            let name = unsafe { CStr::from_ptr(entry.ifa_name) };
            found.push(Interface { name: name.to_string_lossy().into_owned(), ip });
        }
        next = entry.ifa_next;
    }
    // SAFETY: `head` came from getifaddrs and nothing of the list is used after this.
    unsafe { libc::freeifaddrs(head) };
    Ok(found)
}

fn address(raw: *const libc::sockaddr) -> Option<IpAddr> {
    if raw.is_null() {
        return None;
    }
    // SAFETY: the kernel's address begins with its family, which says how long it is.
    match i32::from(unsafe { (*raw).sa_family }) {
        libc::AF_INET => {
            // SAFETY: the family says that this is a sockaddr_in.
            let v4 = unsafe { &*raw.cast::<libc::sockaddr_in>() };
            Some(IpAddr::V4(Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr))))
        }
        libc::AF_INET6 => {
            // SAFETY: the family says that this is a sockaddr_in6.
            let v6 = unsafe { &*raw.cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            // A link-local address means nothing without its interface's number.
            (!ip.is_unicast_link_local()).then_some(IpAddr::V6(ip))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<Interface> {
        [("lo", "127.0.0.1"), ("docker0", "172.17.0.1"), ("eth0", "10.0.0.2"), ("eth1", "10.0.1.2")]
            .map(|(name, ip)| Interface { name: name.to_owned(), ip: ip.parse().expect("an address") })
            .to_vec()
    }

    fn picked(wish: Option<&str>) -> Option<String> {
        pick(&sample(), wish).map(|ip| ip.to_string())
    }

    #[test]
    fn without_a_wish_the_first_real_interface_is_taken() {
        assert_eq!(picked(None).as_deref(), Some("10.0.0.2"));
        assert_eq!(pick(&sample()[..1], None).map(|ip| ip.to_string()).as_deref(), Some("127.0.0.1"));
    }

    #[test]
    fn a_wish_is_a_list_of_prefixes_exact_names_or_exclusions() {
        assert_eq!(picked(Some("lo")).as_deref(), Some("127.0.0.1"));
        assert_eq!(picked(Some("ib,eth1")).as_deref(), Some("10.0.1.2"));
        assert_eq!(picked(Some("=eth")), None);
        assert_eq!(picked(Some("^lo,docker,eth0")).as_deref(), Some("10.0.1.2"));
    }
}
