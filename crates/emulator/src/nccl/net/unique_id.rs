//! The bytes of `ncclUniqueId`: 8 of magic, then a socket address, then zeros, as in NCCL.
//!
//! The zeros are part of the contract: a preloaded library may write a trailer over them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};

use airamp_vendor_abi::nccl::{UNIQUE_ID_BYTES, UniqueId};

use crate::nccl::error::{NcclError, Outcome};

/// The magic of an id that comes from NCCL_COMM_ID and that every rank makes for itself.
pub(crate) const SHARED_MAGIC: u64 = 0x0280_0280_0280_0280;

/// What an id says: where to meet and under which name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Meeting {
    pub(crate) magic: u64,
    pub(crate) address: SocketAddr,
}

impl Meeting {
    pub(crate) fn encode(self) -> UniqueId {
        let mut internal = [0; UNIQUE_ID_BYTES];
        internal[..8].copy_from_slice(&self.magic.to_ne_bytes());
        internal[10..12].copy_from_slice(&self.address.port().to_be_bytes());
        let family = match self.address.ip() {
            IpAddr::V4(ip) => {
                internal[12..16].copy_from_slice(&ip.octets());
                libc::AF_INET
            }
            IpAddr::V6(ip) => {
                internal[16..32].copy_from_slice(&ip.octets());
                libc::AF_INET6
            }
        };
        internal[8..10].copy_from_slice(&(family as u16).to_ne_bytes());
        UniqueId { internal }
    }

    pub(crate) fn decode(id: &UniqueId) -> Outcome<Self> {
        let bytes = &id.internal;
        let family = u16::from_ne_bytes([bytes[8], bytes[9]]);
        let port = u16::from_be_bytes([bytes[10], bytes[11]]);
        let ip = match i32::from(family) {
            libc::AF_INET => Ipv4Addr::new(bytes[12], bytes[13], bytes[14], bytes[15]).into(),
            libc::AF_INET6 => {
                let octets: [u8; 16] = std::array::from_fn(|index| bytes[16 + index]);
                Ipv6Addr::from(octets).into()
            }
            _ => return Err(NcclError::InvalidArgument("the unique id holds no address".into())),
        };
        let magic = u64::from_ne_bytes(std::array::from_fn(|index| bytes[index]));
        Ok(Self { magic, address: SocketAddr::new(ip, port) })
    }

    /// The meeting that NCCL_COMM_ID names, if it is set.
    pub(crate) fn from_environment() -> Outcome<Option<Self>> {
        let Some(text) = std::env::var("NCCL_COMM_ID").ok().filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        let mut addresses = text.to_socket_addrs().into_iter().flatten();
        let address = addresses.next();
        let address = address.ok_or_else(|| {
            NcclError::InvalidArgument(format!("NCCL_COMM_ID={text:?} is not an address and port"))
        })?;
        Ok(Some(Self { magic: SHARED_MAGIC, address }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv4_id_uses_sixteen_bytes_and_leaves_zeros() {
        let meeting =
            Meeting { magic: 0x1122_3344_5566_7788, address: "10.1.2.3:513".parse().expect("an address") };
        let id = meeting.encode();
        assert_eq!(&id.internal[8..16], &[2, 0, 2, 1, 10, 1, 2, 3]);
        assert!(id.internal[16..].iter().all(|byte| *byte == 0));
        assert_eq!(Meeting::decode(&id).expect("decodes"), meeting);
    }

    #[test]
    fn a_trailer_over_the_zeros_does_not_change_the_meeting() {
        let meeting = Meeting { magic: 1, address: "10.1.2.3:4".parse().expect("an address") };
        let mut id = meeting.encode();
        id.internal[40..].fill(0xab);
        assert_eq!(Meeting::decode(&id).expect("decodes"), meeting);
    }

    #[test]
    fn an_id_of_zeros_is_an_invalid_argument() {
        let id = UniqueId { internal: [0; UNIQUE_ID_BYTES] };
        assert!(matches!(Meeting::decode(&id), Err(NcclError::InvalidArgument(_))));
    }
}
