//! The bundle as a file: a compressed archive of a few bounded documents. It knows nothing of what they hold.

use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use flate2::Compression;
use flate2::write::GzEncoder;

/// One file of the bundle, and one line that says what it is.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) text: String,
    /// Bytes that were left out because there were too many.
    pub(super) left_out: usize,
}

/// A document that is longer is cut: a bundle is sent by mail.
pub(super) const LONGEST: usize = 4 << 20;

impl Document {
    pub(super) fn new(name: &'static str, about: &'static str, text: String) -> Self {
        Self::bounded(name, about, text, LONGEST)
    }

    fn bounded(name: &'static str, about: &'static str, mut text: String, longest: usize) -> Self {
        let length = text.len();
        if length > longest {
            let end = (0..=longest).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
            text.truncate(end);
        }
        let left_out = length - text.len();
        Self { name, about, text, left_out }
    }
}

/// Writes all of them below one folder of this name.
pub(super) fn write(to: impl Write, folder: &str, documents: &[Document]) -> io::Result<()> {
    let mut archive = tar::Builder::new(GzEncoder::new(to, Compression::default()));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    for document in documents {
        let mut header = tar::Header::new_gnu();
        header.set_size(document.text.len() as u64);
        header.set_mode(0o600);
        header.set_mtime(now);
        header.set_entry_type(tar::EntryType::Regular);
        archive.append_data(&mut header, format!("{folder}/{}", document.name), document.text.as_bytes())?;
    }
    archive.into_inner()?.finish()?.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn what_was_put_in_comes_out() {
        let document = |name, text: &str| Document::new(name, "about", text.to_owned());
        let mut bytes = Vec::new();
        write(&mut bytes, "bundle", &[document("a.txt", "one"), document("b.txt", "two")]).expect("written");
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(&bytes[..]));
        let read = |entry: io::Result<tar::Entry<'_, _>>| -> (String, String) {
            let mut entry: tar::Entry<'_, flate2::read::GzDecoder<&[u8]>> = entry.expect("an entry");
            let mut text = String::new();
            entry.read_to_string(&mut text).expect("text");
            (entry.path().expect("a path").display().to_string(), text)
        };
        let found: Vec<(String, String)> = archive.entries().expect("entries").map(read).collect();
        let expected = [("bundle/a.txt", "one"), ("bundle/b.txt", "two")];
        assert_eq!(found, expected.map(|(name, text)| (name.to_owned(), text.to_owned())));
    }

    #[test]
    fn a_document_that_is_too_long_is_cut_between_letters_and_says_so() {
        let cut = Document::bounded("a", "", "ééé".to_owned(), 3);
        assert_eq!((cut.text.as_str(), cut.left_out), ("é", 4));
    }
}
