//! The fixed-size records that open a connection, and their bytes.
//!
//! A connection begins with one preamble that says whether it joins a gathering of ranks or
//! is a link of an existing communicator. Bytes come from other processes: decoding
//! answers `None` for what it does not understand and never panics.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

const MAGIC: u32 = 0xa1ea_5e4d;
pub(crate) const PREAMBLE_BYTES: usize = 96;
pub(crate) const MEMBER_BYTES: usize = 56;

/// What a link is for. One TCP connection carries one direction of one purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Purpose {
    /// Health, faults and announcements, from each rank to the next.
    Control,
    /// Data of ring algorithms, from each rank to the next.
    Ring,
    /// All Send/Recv of one ordered pair.
    Pair,
}

/// One rank as the others have to know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) address: SocketAddr,
    /// Random per process: ranks with the same one live together.
    pub(crate) process: u64,
    pub(crate) device: i32,
    /// The rank in the job, which faults name.
    pub(crate) job_rank: u32,
    /// Colour and key of a split, zero elsewhere.
    pub(crate) color: i32,
    pub(crate) key: i32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Preamble {
    Join { key: u64, size: u32, rank: u32, member: Member },
    Link { key: u64, from: u32, to: u32, purpose: Purpose },
}

impl Preamble {
    pub(crate) fn encode(&self) -> [u8; PREAMBLE_BYTES] {
        let mut writer = Writer::default();
        writer.u32(MAGIC);
        match self {
            Self::Join { key, size, rank, member } => {
                writer.u32(0);
                writer.u64(*key);
                writer.u32(*size);
                writer.u32(*rank);
                writer.bytes.extend(member.encode());
            }
            Self::Link { key, from, to, purpose } => {
                writer.u32(1);
                writer.u64(*key);
                writer.u32(*from);
                writer.u32(*to);
                writer.u32(*purpose as u32);
            }
        }
        let mut fixed = [0; PREAMBLE_BYTES];
        fixed[..writer.bytes.len()].copy_from_slice(&writer.bytes);
        fixed
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        if reader.u32()? != MAGIC {
            return None;
        }
        let kind = reader.u32()?;
        let key = reader.u64()?;
        let (first, second) = (reader.u32()?, reader.u32()?);
        match kind {
            0 => Some(Self::Join { key, size: first, rank: second, member: Member::decode(reader.0)? }),
            1 => {
                let purpose = match reader.u32()? {
                    0 => Purpose::Control,
                    1 => Purpose::Ring,
                    2 => Purpose::Pair,
                    _ => return None,
                };
                Some(Self::Link { key, from: first, to: second, purpose })
            }
            _ => None,
        }
    }
}

impl Member {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        let (v4, ip) = match self.address.ip() {
            IpAddr::V4(v4) => (1, v4.to_ipv6_mapped()),
            IpAddr::V6(v6) => (0, v6),
        };
        writer.bytes.extend(ip.octets());
        writer.u32(v4);
        writer.u32(u32::from(self.address.port()));
        writer.u64(self.process);
        for value in [self.device, self.color, self.key] {
            writer.u32(value as u32);
        }
        writer.u32(self.job_rank);
        writer.bytes.resize(MEMBER_BYTES, 0);
        writer.bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let v6 = Ipv6Addr::from(*reader.take::<16>()?);
        let ip = match reader.u32()? {
            1 => IpAddr::V4(v6.to_ipv4_mapped()?),
            _ => IpAddr::V6(v6),
        };
        let port = u16::try_from(reader.u32()?).ok()?;
        Some(Self {
            address: SocketAddr::new(ip, port),
            process: reader.u64()?,
            device: reader.u32()? as i32,
            color: reader.u32()? as i32,
            key: reader.u32()? as i32,
            job_rank: reader.u32()?,
        })
    }
}

/// Little-endian fields in a row.
#[derive(Default)]
pub(crate) struct Writer {
    pub(crate) bytes: Vec<u8>,
}

impl Writer {
    pub(crate) fn u32(&mut self, value: u32) {
        self.bytes.extend(value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.bytes.extend(value.to_le_bytes());
    }
}

pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn take<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(head)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(*self.take()?))
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(*self.take()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(address: &str) -> Member {
        let address = address.parse().expect("an address");
        Member { address, process: 7, device: 3, job_rank: 9, color: -1, key: i32::MIN }
    }

    #[test]
    fn a_preamble_reads_back_as_it_was_written() {
        let cases = [
            Preamble::Join { key: 5, size: 2, rank: 1, member: member("10.1.2.3:65535") },
            Preamble::Join { key: u64::MAX, size: 8, rank: 0, member: member("[fe80::1]:1") },
            Preamble::Link { key: 1, from: 2, to: 3, purpose: Purpose::Pair },
        ];
        for case in cases {
            assert_eq!(Preamble::decode(&case.encode()), Some(case));
        }
    }

    #[test]
    fn noise_and_short_records_are_refused() {
        assert_eq!(Preamble::decode(&[0x55; PREAMBLE_BYTES]), None);
        let good = Preamble::Link { key: 1, from: 2, to: 3, purpose: Purpose::Ring }.encode();
        for length in 0..28 {
            assert_eq!(Preamble::decode(&good[..length]), None);
        }
    }
}
