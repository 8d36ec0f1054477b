//! The bearer token: read from a file, kept and compared as a digest, so that the time of a comparison tells
//! nothing about the token, not even its length.

use std::path::Path;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::failure::Failure;
use crate::small_file;

const MOST_FILE_BYTES: u64 = 4096;

/// Shorter ones can be guessed at the rate at which a server answers.
const LEAST_CHARACTERS: usize = 16;

pub(crate) struct Token([u8; 32]);

impl Token {
    /// Of the first line; what surrounds the token on it is ignored.
    pub(crate) fn from_file(path: &Path) -> Result<Self, Failure> {
        let unusable = |why: String| {
            Failure::Setting(format!(
                "the token in {} (AIRAMP_METRICS_TOKEN_FILE) cannot be used: {why}; without it nothing is served. \
                 `openssl rand -hex 32` makes one",
                path.display()
            ))
        };
        let bytes = small_file::read(path, MOST_FILE_BYTES).map_err(|error| unusable(error.to_string()))?;
        let text = String::from_utf8(bytes).map_err(|_| unusable("it is not text".to_owned()))?;
        let word = text.lines().next().unwrap_or_default().trim();
        if word.len() < LEAST_CHARACTERS || !word.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(unusable(format!(
                "expected {LEAST_CHARACTERS} or more printable ASCII characters on the first line"
            )));
        }
        Ok(Self::of(word))
    }

    fn of(word: &str) -> Self {
        Self(Sha256::digest(word.as_bytes()).into())
    }

    /// Whether the value of an `Authorization` header carries this token.
    pub(crate) fn is_in(&self, authorization: &str) -> bool {
        let Some((scheme, word)) = authorization.split_once(' ') else { return false };
        let given = Self::of(word.trim());
        scheme.eq_ignore_ascii_case("bearer") && bool::from(self.0.ct_eq(&given.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(content: &str) -> Result<Token, Failure> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("token");
        std::fs::write(&path, content).expect("a file");
        Token::from_file(&path)
    }

    #[test]
    fn the_token_of_a_file_opens_and_no_other_does() {
        let token = from("correct-horse-battery\n").expect("a token");
        assert!(token.is_in("Bearer correct-horse-battery"));
        assert!(token.is_in("bearer  correct-horse-battery "));
        for wrong in ["", "Bearer", "Bearer ", "Bearer correct-horse-batter", "Basic correct-horse-battery"] {
            assert!(!token.is_in(wrong), "{wrong:?}");
        }
    }

    #[test]
    fn a_token_that_protects_nobody_is_refused() {
        for content in ["", "\n", "short", "sixteen letters and a blank", "\u{1}23456789abcdefgh"] {
            assert!(from(content).is_err(), "{content:?}");
        }
        assert!(Token::from_file(Path::new("/nonexistent")).is_err());
        assert!(Token::from_file(Path::new("/")).is_err());
    }
}
