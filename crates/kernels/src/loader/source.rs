//! Where code objects come from: embedded in this library, or a folder that has them
//! with a manifest of its own. Both are checked alike by the loader; nothing is checked
//! here but that a blob and its hash are there.

use std::borrow::Cow;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::{LoadError, file};
use crate::blob::Kind;
use crate::manifest::Manifest;

/// The name of a manifest in a folder of blobs.
const MANIFEST: &str = "manifest.toml";

/// Bytes that claim to be a code object, and the hash that they should have.
pub(super) struct Found {
    /// What messages call it.
    pub(super) name: String,
    pub(super) bytes: Cow<'static, [u8]>,
    pub(super) sha256: [u8; 32],
}

pub(super) fn embedded(architecture: &str, kind: Kind) -> Result<Found, LoadError> {
    let name = format!("the embedded {architecture}.{}", kind.extension());
    let blob = crate::blobs().iter().find(|blob| blob.architecture == architecture && blob.kind == kind);
    let blob = blob.ok_or_else(|| LoadError::Missing(name.clone()))?;
    Ok(Found { name, bytes: Cow::Borrowed(blob.bytes), sha256: blob.sha256 })
}

pub(super) fn in_folder(folder: &Path, architecture: &str, kind: Kind) -> Result<Found, LoadError> {
    let manifest = read_manifest(&folder.join(MANIFEST))?;
    let unlisted = || {
        let name = format!("{architecture}.{}", kind.extension());
        LoadError::Missing(format!("{name} (not listed in {})", folder.join(MANIFEST).display()))
    };
    let entry = manifest.find(architecture, kind).ok_or_else(unlisted)?;
    let path = folder.join(&entry.file);
    let bytes = file::code_object(&path).map_err(|error| unreadable(path.clone(), error))?;
    Ok(Found { name: path.display().to_string(), bytes: Cow::Owned(bytes), sha256: entry.sha256 })
}

fn read_manifest(path: &Path) -> Result<Manifest, LoadError> {
    let text = file::manifest(path).map_err(|error| unreadable(path.to_owned(), error))?;
    let bad = |reason: String| LoadError::Manifest { path: path.to_owned(), reason };
    Manifest::parse(&text).map_err(|error| bad(error.to_string()))
}

fn unreadable(path: PathBuf, error: std::io::Error) -> LoadError {
    match error.kind() {
        ErrorKind::NotFound => LoadError::Missing(path.display().to_string()),
        _ => LoadError::Unreadable { path, error },
    }
}
