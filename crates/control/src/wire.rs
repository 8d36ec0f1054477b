//! What goes over a connection: frames, the opening of a connection, and what the listening side says. Whatever
//! is not exactly one of these is an error, and the connection ends. Lengths are checked before anything is kept.
//!
//! A frame is a header (magic, protocol version, length) and a body. The header and the first bytes of an opening are
//! the same in every version, so that libraries of different versions can tell each other apart and say so.

use airamp_agreement::{Hello, Rank, Term, ToMember};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::net::SocketAddr;
use thiserror::Error;

pub const HEADER_BYTES: usize = 8;
/// No body is longer.
pub const MOST_BODY_BYTES: usize = 64 << 10;
const MAGIC: u16 = 0xa1c5;
const PRELUDE_BYTES: usize = 40;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WireError {
    #[error("these bytes are not ours")]
    NotOurs,
    #[error("a frame of {0} bytes is too long")]
    TooLong(usize),
    #[error("a frame that makes no sense")]
    Malformed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub protocol: u16,
    pub body: Vec<u8>,
}

/// Bytes as they come, frames as they are complete.
#[derive(Debug, Default)]
pub struct Frames {
    bytes: Vec<u8>,
    taken: usize,
}

impl Frames {
    /// More bytes. Call `take` until it has nothing before there are more: so no more than one frame is kept.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..std::mem::take(&mut self.taken));
        self.bytes.extend_from_slice(bytes);
    }

    /// How many bytes wait for the rest of their frame.
    pub fn kept(&self) -> usize {
        self.bytes.len() - self.taken
    }

    pub fn take(&mut self) -> Result<Option<Frame>, WireError> {
        let bytes = self.bytes.get(self.taken..).unwrap_or_default();
        // A stranger is known by the first byte that is not ours.
        if bytes.iter().zip(MAGIC.to_le_bytes()).any(|(byte, expected)| *byte != expected) {
            return Err(WireError::NotOurs);
        }
        let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        let protocol = u16::from_le_bytes([header[2], header[3]]);
        let length = u32::from_le_bytes([header[4], header[5], header[6], header[7]]) as usize;
        if length > MOST_BODY_BYTES {
            return Err(WireError::TooLong(length));
        }
        let Some(body) = bytes.get(HEADER_BYTES..HEADER_BYTES + length) else { return Ok(None) };
        let frame = Frame { protocol, body: body.to_vec() };
        self.taken += HEADER_BYTES + length;
        Ok(Some(frame))
    }
}

/// A body with its header in front.
pub fn frame(protocol: u16, body: &[u8]) -> Result<Vec<u8>, WireError> {
    if body.len() > MOST_BODY_BYTES {
        return Err(WireError::TooLong(body.len()));
    }
    let mut bytes = Vec::with_capacity(HEADER_BYTES + body.len());
    bytes.extend_from_slice(&MAGIC.to_le_bytes());
    bytes.extend_from_slice(&protocol.to_le_bytes());
    bytes.extend_from_slice(&(body.len() as u32).to_le_bytes());
    bytes.extend_from_slice(body);
    Ok(bytes)
}

/// How a connection begins, in every version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prelude {
    pub token: [u8; 16],
    pub clique: u64,
    /// Random, the same each time this rank connects: tells a return from a second rank of the same number.
    pub seat: u64,
    pub rank: Rank,
    pub ranks: u32,
}

/// What follows the prelude, in this version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Purpose {
    /// To the maker of the id. Rank 0 says where it listens.
    Introduce { terms: Vec<Term>, listening: Option<SocketAddr> },
    /// To the leader.
    Link { terms: Vec<Term> },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    pub prelude: Prelude,
    pub purpose: Purpose,
}

impl Prelude {
    pub fn read(body: &[u8]) -> Result<Self, WireError> {
        let prelude: &[u8; PRELUDE_BYTES] = body.first_chunk().ok_or(WireError::Malformed)?;
        let (token, rest) = prelude.split_first_chunk::<16>().ok_or(WireError::Malformed)?;
        let (clique, rest) = rest.split_first_chunk().ok_or(WireError::Malformed)?;
        let (seat, rest) = rest.split_first_chunk().ok_or(WireError::Malformed)?;
        let (rank, rest) = rest.split_first_chunk().ok_or(WireError::Malformed)?;
        let ranks = rest.first_chunk().ok_or(WireError::Malformed)?;
        Ok(Self {
            token: *token,
            clique: u64::from_le_bytes(*clique),
            seat: u64::from_le_bytes(*seat),
            rank: Rank::from_le_bytes(*rank),
            ranks: u32::from_le_bytes(*ranks),
        })
    }

    fn write(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.token);
        to.extend_from_slice(&self.clique.to_le_bytes());
        to.extend_from_slice(&self.seat.to_le_bytes());
        to.extend_from_slice(&self.rank.to_le_bytes());
        to.extend_from_slice(&self.ranks.to_le_bytes());
    }
}

impl Opening {
    pub fn read(body: &[u8]) -> Result<Self, WireError> {
        let prelude = Prelude::read(body)?;
        let purpose = decode(body.get(PRELUDE_BYTES..).unwrap_or_default())?;
        Ok(Self { prelude, purpose })
    }

    pub fn body(&self) -> Result<Vec<u8>, WireError> {
        let mut body = Vec::new();
        self.prelude.write(&mut body);
        body.extend_from_slice(&encode(&self.purpose)?);
        Ok(body)
    }
}

/// What the listening side says. What the other side says after its opening is `ToLeader`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Down {
    /// The Hello, or the link, is accepted.
    Taken,
    /// This connection leads to the leader from now on.
    LeaderHere,
    LeaderAt(SocketAddr),
    /// To rank 0, from the maker of the id: somebody came.
    Came {
        hello: Hello,
        seat: u64,
    },
    Refused {
        reason: String,
    },
    Message(ToMember),
}

pub fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, WireError> {
    postcard::to_stdvec(value).map_err(|_| WireError::Malformed)
}

/// Strict: nothing may be left over.
pub fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, WireError> {
    match postcard::take_from_bytes(body) {
        Ok((value, [])) => Ok(value),
        _ => Err(WireError::Malformed),
    }
}

/// Text from elsewhere, fit for one line of a log.
pub fn plain(text: &str) -> String {
    const MOST: usize = 600;
    text.chars().take(MOST).map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
