//! What a packet says about itself: which call it belongs to, and which part of it. A packet that says
//! anything else than what its reader expects is foreign, and is not read as numbers.

/// Bytes of a tag at the beginning of a packet.
pub(crate) const TAG_BYTES: usize = 16;

/// The first 16 bytes of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tag {
    pub call: u64,
    pub part: u64,
}

impl Tag {
    /// The tag of that rank's packet, among packets of all ranks of which this is rank 0's.
    pub fn of_rank(self, rank: usize) -> Tag {
        Tag { part: self.part.wrapping_add(rank as u64), ..self }
    }

    pub(crate) fn to_bytes(self) -> [u8; TAG_BYTES] {
        let mut bytes = [0; TAG_BYTES];
        bytes[..8].copy_from_slice(&self.call.to_le_bytes());
        bytes[8..].copy_from_slice(&self.part.to_le_bytes());
        bytes
    }

    pub(crate) fn is_of(self, packet: &[u8]) -> bool {
        packet.starts_with(&self.to_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_words_are_little_endian_and_the_call_comes_first() {
        let bytes = Tag { call: 0x0102, part: 0x0304 }.to_bytes();
        assert_eq!(bytes, [2, 1, 0, 0, 0, 0, 0, 0, 4, 3, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn ranks_differ_in_their_part_alone() {
        let tag = Tag { call: 7, part: 10 };
        assert_eq!(tag.of_rank(0), tag);
        assert_eq!(tag.of_rank(3), Tag { call: 7, part: 13 });
        assert_eq!(Tag { call: 7, part: u64::MAX }.of_rank(1), Tag { call: 7, part: 0 });
    }
}
