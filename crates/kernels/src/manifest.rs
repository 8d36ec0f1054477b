//! The manifest of a set of code objects: each file with its architecture and SHA-256, and the
//! SHA-256 of the sources that they were built from. Reads text; opens no file.

use serde::de::Error;
use serde::{Deserialize, Deserializer};

use crate::blob::Kind;

/// What `manifest.toml` holds: tables `[[blob]]` and `[[source]]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Manifest {
    #[serde(default, rename = "blob")]
    pub blobs: Vec<BlobEntry>,
    #[serde(default, rename = "source")]
    pub sources: Vec<SourceEntry>,
}

/// A code object.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct BlobEntry {
    /// Relative to the manifest's folder.
    pub file: String,
    pub architecture: String,
    #[serde(deserialize_with = "digest")]
    pub sha256: [u8; 32],
}

/// A source file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct SourceEntry {
    pub file: String,
    #[serde(deserialize_with = "digest")]
    pub sha256: [u8; 32],
}

impl Manifest {
    /// The error says line and reason.
    pub fn parse(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }

    pub fn find(&self, architecture: &str, kind: Kind) -> Option<&BlobEntry> {
        let extension = kind.extension();
        self.blobs.iter().find(|entry| {
            let ending = entry.file.rsplit_once('.').map(|(_, ending)| ending);
            entry.architecture == architecture && ending == Some(extension)
        })
    }
}

/// 64 hexadecimal digits.
fn digest<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; 32], D::Error> {
    let text = String::deserialize(deserializer)?;
    let bad = || D::Error::custom("a SHA-256 has 64 hexadecimal digits");
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(bad());
    }
    let mut digest = [0; 32];
    for (index, byte) in digest.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).map_err(|_| bad())?;
    }
    Ok(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

    fn blob(hash: &str) -> String {
        format!("[[blob]]\nfile = \"blobs/a.ptx\"\narchitecture = \"compute_80\"\nsha256 = \"{hash}\"\n")
    }

    #[test]
    fn a_blob_is_found_by_architecture_and_kind() {
        let manifest = Manifest::parse(&blob(HASH)).unwrap();
        let entry = manifest.find("compute_80", Kind::Ptx).unwrap();
        assert_eq!((entry.file.as_str(), entry.sha256[1]), ("blobs/a.ptx", 0x11));
        assert_eq!(manifest.find("compute_80", Kind::Cubin), None);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for hash in ["0011".to_owned(), HASH.replace('0', "x"), HASH.replace("00", "+0")] {
            let error = Manifest::parse(&blob(&hash)).unwrap_err().to_string();
            assert!(error.contains("line 4") && error.contains("SHA-256"), "{error}");
        }
        assert!(Manifest::parse("[[blob]]\nfile = 3").is_err());
    }
}
