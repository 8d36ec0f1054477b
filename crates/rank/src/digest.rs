//! A 64-bit digest of output bytes, so that two runs can be compared bit for bit
//! without keeping the bits. Not meant to resist an adversary.

const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// A running digest; the order of what is added matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Digest(u64);

impl Digest {
    pub(crate) fn new() -> Self {
        Self(MULTIPLIER)
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        let (words, tail) = bytes.as_chunks::<8>();
        for word in words {
            self.word(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..tail.len()].copy_from_slice(tail);
        self.word(u64::from_le_bytes(last));
        self.word(bytes.len() as u64);
    }

    fn word(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(MULTIPLIER).rotate_left(29);
    }

    pub(crate) fn hex(self) -> String {
        format!("{:016x}", self.0 ^ (self.0 >> 31))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(parts: &[&[u8]]) -> String {
        let mut digest = Digest::new();
        parts.iter().for_each(|part| digest.add(part));
        digest.hex()
    }

    #[test]
    fn one_changed_bit_length_or_order_changes_the_digest() {
        let plain = of(&[b"abcdefghij", b"k"]);
        assert_eq!(plain, of(&[b"abcdefghij", b"k"]));
        assert_ne!(plain, of(&[b"abcdefghik", b"k"]));
        assert_ne!(plain, of(&[b"k", b"abcdefghij"]));
        assert_ne!(of(&[b"a"]), of(&[b"a\0"]));
        assert_ne!(of(&[b""]), of(&[]));
    }
}
