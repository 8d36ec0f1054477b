//! What the maker of an id writes into the id's unused bytes, and what can be read from an id at all.
//! Whatever is not exactly such a trailer is none: the bytes come from outside.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Bytes of an `ncclUniqueId`.
pub const ID_BYTES: usize = 128;

const MAGIC: [u8; 4] = *b"AIRa";
const VERSION: u8 = 1;
const START: usize = ID_BYTES - Trailer::BYTES;

/// The magic of an id that comes from NCCL_COMM_ID and that every rank makes for itself.
const SHARED_MAGIC: u64 = 0x0280_0280_0280_0280;

/// Where the maker of the id listens, and the word that lets one in there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trailer {
    pub address: SocketAddr,
    pub token: [u8; 16],
}

impl Trailer {
    pub const BYTES: usize = 48;

    /// The trailer of an id; `None` if it has none, or noise.
    pub fn read(id: &[u8; ID_BYTES]) -> Option<Self> {
        let bytes: &[u8; Self::BYTES] = id.last_chunk()?;
        let (address, sum) = (&bytes[8..24], &bytes[40..48]);
        if bytes[..4] != MAGIC || bytes[4] != VERSION || sum != checksum(id) {
            return None;
        }
        let ip = match bytes[5] {
            4 if address[4..].iter().all(|byte| *byte == 0) => {
                IpAddr::V4(Ipv4Addr::new(address[0], address[1], address[2], address[3]))
            }
            6 => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(address).ok()?)),
            _ => return None,
        };
        let port = u16::from_be_bytes([bytes[6], bytes[7]]);
        let nobody = ip.is_unspecified() || ip.is_multicast() || port == 0;
        (!nobody)
            .then_some(Self { address: SocketAddr::new(ip, port), token: bytes[24..40].try_into().ok()? })
    }

    /// Writes the trailer over zeros. False, and nothing is written, if something else is there.
    pub fn write(&self, id: &mut [u8; ID_BYTES]) -> bool {
        if id[START..].iter().any(|byte| *byte != 0) {
            return false;
        }
        let bytes = &mut id[START..];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = VERSION;
        bytes[6..8].copy_from_slice(&self.address.port().to_be_bytes());
        match self.address.ip() {
            IpAddr::V4(ip) => {
                bytes[5] = 4;
                bytes[8..12].copy_from_slice(&ip.octets());
            }
            IpAddr::V6(ip) => {
                bytes[5] = 6;
                bytes[8..24].copy_from_slice(&ip.octets());
            }
        }
        bytes[24..40].copy_from_slice(&self.token);
        let sum = checksum(id);
        id[ID_BYTES - 8..].copy_from_slice(&sum);
        true
    }
}

/// FNV-1a over all that stands before it: a trailer belongs to its id.
fn checksum(id: &[u8; ID_BYTES]) -> [u8; 8] {
    let mut sum = 0xcbf2_9ce4_8422_2325_u64;
    for byte in &id[..ID_BYTES - 8] {
        sum = (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    sum.to_le_bytes()
}

/// The interface that the vendor chose: a `sockaddr` behind eight bytes of magic.
pub fn address_in_id(id: &[u8; ID_BYTES]) -> Option<IpAddr> {
    let family = i32::from(u16::from_ne_bytes([id[8], id[9]]));
    let ip = match family {
        libc::AF_INET => IpAddr::V4(Ipv4Addr::new(id[12], id[13], id[14], id[15])),
        libc::AF_INET6 => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(&id[16..32]).ok()?)),
        _ => return None,
    };
    (!ip.is_unspecified() && !ip.is_multicast()).then_some(ip)
}

/// Whether the id comes from NCCL_COMM_ID. Every rank makes it for itself, so that none may write into it.
pub fn every_rank_makes_this_id(id: &[u8; ID_BYTES]) -> bool {
    id.first_chunk().is_some_and(|magic| u64::from_ne_bytes(*magic) == SHARED_MAGIC)
}

#[cfg(test)]
#[path = "trailer_tests.rs"]
mod tests;
