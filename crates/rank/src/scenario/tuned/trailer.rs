//! What a `tuned-…` program does to the part of the unique id that the library wrote: the application passes the
//! id on, and what it passes on may be damaged. Every rank gets the same bytes, or the vendor would be the one to
//! complain.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use airamp_control::Trailer;
use airamp_vendor_abi::nccl::UniqueId;

use crate::error::RankError;

const NOISE: u64 = 0x2545_f491_4f6c_dd1d;

#[derive(Clone, Debug, Default)]
pub(crate) enum Change {
    #[default]
    Nothing,
    /// Any bytes.
    Noise,
    /// Zeros, as without the library.
    Removed,
    /// The right address and another token.
    Token,
    /// Another address, to be reached by nobody.
    Address(IpAddr),
    /// Nothing is changed; address and token go to a file.
    Leaked(PathBuf),
}

impl Change {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        Ok(match text.split_once('=') {
            None if text == "nothing" => Self::Nothing,
            None if text == "noise" => Self::Noise,
            None if text == "removed" => Self::Removed,
            None if text == "token" => Self::Token,
            Some(("address", address)) => {
                Self::Address(address.parse().map_err(|_| "no address".to_owned())?)
            }
            Some(("leaked", file)) => Self::Leaked(file.into()),
            _ => return Err("not one of nothing, noise, removed, token, address=IP, leaked=FILE".into()),
        })
    }

    pub(crate) fn apply(&self, id: &mut UniqueId) -> Result<(), RankError> {
        if matches!(self, Self::Nothing) {
            return Ok(());
        }
        let trailer = Trailer::read(&id.internal);
        let tail = &mut id.internal[128 - Trailer::BYTES..];
        tail.fill(0);
        match self {
            Self::Nothing | Self::Removed => return Ok(()),
            Self::Noise => {
                noise(tail);
                return Ok(());
            }
            _ => {}
        }
        let mut trailer = trailer.ok_or_else(|| RankError::Arguments("the id has no trailer".into()))?;
        match self {
            Self::Token => trailer.token[3] ^= 0x10,
            Self::Address(address) => trailer.address = SocketAddr::new(*address, trailer.address.port()),
            Self::Leaked(file) => leak(file, &trailer)?,
            _ => {}
        }
        trailer.write(&mut id.internal);
        Ok(())
    }
}

fn noise(bytes: &mut [u8]) {
    let mut word = NOISE;
    for byte in bytes {
        word = (word ^ (word >> 27)).wrapping_mul(NOISE).rotate_left(13);
        *byte = (word >> 40) as u8 | 1;
    }
}

fn leak(file: &PathBuf, trailer: &Trailer) -> Result<(), RankError> {
    let token: String = trailer.token.iter().map(|byte| format!("{byte:02x}")).collect();
    let written = std::fs::write(file, format!("{} {token}\n", trailer.address));
    written.map_err(|error| RankError::Arguments(format!("{}: {error}", file.display())))
}
