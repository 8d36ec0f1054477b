//! Whether code objects, manifest and embedded sources agree. Says every difference, not only the first.

use std::io::{self, ErrorKind};
use std::path::Path;

use airamp_kernels::loader::file;
use airamp_kernels::manifest::Manifest;
use airamp_kernels::sources;
use sha2::{Digest, Sha256};

use super::KernelsError;
use super::build::MANIFEST;
use crate::cli::CommandError;
use crate::streams;

/// 0 if all agree, 1 if not.
pub(super) fn execute(dir: Option<&Path>) -> Result<u8, CommandError> {
    let set = Set::open(dir)?;
    let differences = set.differences();
    if differences.is_empty() {
        let (objects, sources) = (set.manifest.blobs.len(), sources().len());
        streams::print(&format!(
            "{objects} code objects and {sources} sources are what the manifest says\n"
        ))?;
        return Ok(0);
    }
    streams::print(&format!("{}\n", differences.join("\n")))?;
    Ok(1)
}

/// A manifest and what lies beside it.
pub(super) struct Set {
    pub(super) manifest: Manifest,
    /// As the manifest's entries, as far as they can be read.
    pub(super) blobs: Vec<io::Result<Vec<u8>>>,
}

impl Set {
    /// The embedded one, or that of a folder.
    pub(super) fn open(dir: Option<&Path>) -> Result<Self, KernelsError> {
        let path = dir.map_or_else(|| "the embedded manifest".into(), |dir| dir.join(MANIFEST));
        let text = match dir {
            Some(_) => file::manifest(&path).map_err(KernelsError::io(&path))?,
            None => airamp_kernels::MANIFEST.to_owned(),
        };
        let manifest = Manifest::parse(&text)
            .map_err(|error| KernelsError::Manifest { path, reason: error.to_string() })?;
        let blob = |name: &str| match dir {
            Some(dir) => file::code_object(&dir.join(name)),
            None => embedded(name).ok_or_else(|| ErrorKind::NotFound.into()),
        };
        let blobs = manifest.blobs.iter().map(|entry| blob(&entry.file)).collect();
        Ok(Self { manifest, blobs })
    }

    pub(super) fn differences(&self) -> Vec<String> {
        let mut found = Vec::new();
        if self.manifest.blobs.is_empty() {
            found.push("the manifest lists no code object".into());
        }
        for (entry, bytes) in self.manifest.blobs.iter().zip(&self.blobs) {
            match bytes {
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    found.push(format!("{}: listed, but not there", entry.file));
                }
                Err(error) => found.push(format!("{}: cannot be read: {error}", entry.file)),
                Ok(bytes) if Sha256::digest(bytes)[..] != entry.sha256 => {
                    found.push(format!("{}: not the bytes that the manifest gives the hash of", entry.file));
                }
                Ok(_) => {}
            }
        }
        found.extend(self.differing_sources());
        found
    }

    fn differing_sources(&self) -> Vec<String> {
        let mut found = Vec::new();
        for source in sources() {
            match self.manifest.sources.iter().find(|entry| entry.file == source.file) {
                None => found.push(format!("{}: a source that the manifest does not list", source.file)),
                Some(entry) if Sha256::digest(source.text)[..] != entry.sha256 => {
                    found.push(format!("{}: changed since the code objects were built", source.file));
                }
                Some(_) => {}
            }
        }
        for entry in &self.manifest.sources {
            if !sources().iter().any(|source| source.file == entry.file) {
                found.push(format!("{}: built from, but no source any more", entry.file));
            }
        }
        found
    }
}

fn embedded(file: &str) -> Option<Vec<u8>> {
    let named =
        |blob: &&airamp_kernels::Blob| format!("{}.{}", blob.architecture, blob.kind.extension()) == file;
    airamp_kernels::blobs().iter().find(named).map(|blob| blob.bytes.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_embedded_code_objects_manifest_and_sources_agree() {
        assert_eq!(Set::open(None).unwrap().differences(), [""; 0]);
    }

    #[test]
    fn each_difference_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let manifest = airamp_kernels::MANIFEST.replacen("file = \"tile.h\"", "file = \"gone.h\"", 1);
        fs::write(folder.path().join(MANIFEST), manifest).unwrap();
        for blob in &airamp_kernels::blobs()[1..] {
            let name = format!("{}.{}", blob.architecture, blob.kind.extension());
            let mut bytes = blob.bytes.to_vec();
            bytes[1000] ^= u8::from(name == "gfx942.hsaco");
            fs::write(folder.path().join(name), bytes).unwrap();
        }
        let differences = Set::open(Some(folder.path())).unwrap().differences().join("\n");
        for expected in [
            "sm_80.cubin: listed, but not there",
            "gfx942.hsaco: not the bytes",
            "tile.h: a source",
            "gone.h: built",
        ] {
            assert!(differences.contains(expected), "{expected} is not in\n{differences}");
        }
        assert_eq!(differences.lines().count(), 4, "{differences}");
    }
}
