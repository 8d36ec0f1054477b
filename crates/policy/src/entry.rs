//! What a plan says about a class, as one byte. Every rank of a communicator runs the same version of this
//! library, so that a byte means the same on all of them.

/// As many bytes as the agreement carries. Those from `PLACES` on are no class's: the tuner leaves them zero, and who hands
/// its plan to the agreement may keep something there.
pub const PLAN_BYTES: usize = 64;

/// One byte per class at `Class::place`. All zero: everything to the vendor.
pub type Plan = [u8; PLAN_BYTES];

/// More ways to compress a class than this cannot be told apart in a plan.
pub const VARIANTS: u8 = 16;

/// Rounds of trials are counted up to here and then from 0 again.
pub(crate) const ROUNDS: u8 = 8;
const SETTLED: u8 = 0x01;
const COMPRESSED: u8 = 0x40;
const TRIAL: u8 = 0x80;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Entry {
    /// The vendor's function. Settled: it was measured, and compression did not pay or was not exact enough.
    Vendor {
        settled: bool,
    },
    Compressed {
        variant: u8,
    },
    /// A dry run and then the vendor's function, for the first `TRIALS` calls of the round; the round's number
    /// tells it from the one before, whatever else has changed in the plan meanwhile.
    Trial {
        variant: u8,
        round: u8,
    },
}

impl Entry {
    /// A byte that no version has written is the vendor's.
    pub fn from_byte(byte: u8) -> Self {
        let variant = byte & (VARIANTS - 1);
        match byte {
            TRIAL.. => Self::Trial { variant, round: (byte & !TRIAL) / VARIANTS },
            _ if byte & !(VARIANTS - 1) == COMPRESSED => Self::Compressed { variant },
            _ => Self::Vendor { settled: byte == SETTLED },
        }
    }

    /// Variants and rounds wrap around at what the byte can hold.
    pub fn byte(self) -> u8 {
        match self {
            Self::Vendor { settled } => u8::from(settled) * SETTLED,
            Self::Compressed { variant } => COMPRESSED | (variant % VARIANTS),
            Self::Trial { variant, round } => TRIAL | ((round % ROUNDS) * VARIANTS) | (variant % VARIANTS),
        }
    }
}
