//! Text in words: packed by the writer, cut between characters; unpacked by readers, who get no control characters,
//! since what they read may end on a terminal.

/// The words and how many bytes of them are text.
pub(crate) fn pack<const N: usize>(text: &str) -> ([u64; N], u64) {
    let mut words = [0; N];
    let length = fill(&mut words, text);
    (words, length)
}

/// The first word is the length.
pub(crate) fn put_text(words: &mut [u64], text: &str) {
    if let Some((length, rest)) = words.split_first_mut() {
        *length = fill(rest, text);
    }
}

fn fill(words: &mut [u64], text: &str) -> u64 {
    let text = cut(text, words.len() * 8).as_bytes();
    for (word, bytes) in words.iter_mut().zip(text.chunks(8)) {
        let mut whole = [0; 8];
        for (to, from) in whole.iter_mut().zip(bytes) {
            *to = *from;
        }
        *word = u64::from_le_bytes(whole);
    }
    text.len() as u64
}

/// The longest beginning of at most so many bytes that ends between two characters.
pub(crate) fn cut(text: &str, most: usize) -> &str {
    let most = most.min(text.len());
    let end = (0..=most).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    text.get(..end).unwrap_or_default()
}

/// Text of somebody else's: any bytes, of which at most `length` are meant.
pub(crate) fn unpack(words: impl Iterator<Item = u64>, length: u64) -> String {
    let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    let length = usize::try_from(length).unwrap_or(usize::MAX).min(bytes.len());
    clean(&bytes[..length])
}

/// Up to the first zero byte.
pub(crate) fn unpack_padded(bytes: &[u8]) -> String {
    clean(bytes.split(|byte| *byte == 0).next().unwrap_or_default())
}

fn clean(bytes: &[u8]) -> String {
    let harmless = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
    String::from_utf8_lossy(bytes).chars().map(harmless).collect()
}
