//! The manifest, the code objects and the sources in the repository agree. `airamp kernels verify` checks
//! the same of any folder.

use std::collections::BTreeSet;
use std::path::Path;

use airamp_kernels::manifest::Manifest;
use airamp_kernels::{MAIN_SOURCE, MANIFEST, blobs, sources};
use sha2::{Digest, Sha256};

const REBUILD: &str = "after a change of the sources: airamp kernels build --out crates/kernels/blobs";

fn files_in(folder: &str) -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    let files = entries.filter(|entry| entry.file_type().unwrap().is_file());
    files.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

#[test]
fn every_code_object_has_the_hash_that_the_manifest_gives() {
    let manifest = Manifest::parse(MANIFEST).unwrap();
    assert_eq!(manifest.blobs.len(), blobs().len());
    for blob in blobs() {
        assert_eq!(Sha256::digest(blob.bytes)[..], blob.sha256, "{} was changed", blob.architecture);
    }
}

#[test]
fn every_source_has_the_hash_that_the_manifest_gives() {
    let manifest = Manifest::parse(MANIFEST).unwrap();
    let listed: Vec<_> = manifest.sources.iter().map(|entry| (entry.file.as_str(), entry.sha256)).collect();
    let found: Vec<_> =
        sources().iter().map(|source| (source.file, Sha256::digest(source.text).into())).collect();
    assert_eq!(listed, found, "{REBUILD}");
}

#[test]
fn no_source_and_no_code_object_is_forgotten() {
    let embedded: BTreeSet<String> = sources().iter().map(|source| source.file.into()).collect();
    assert_eq!(embedded, files_in("kernels"));
    assert!(embedded.contains(MAIN_SOURCE));

    let mut listed: BTreeSet<String> =
        Manifest::parse(MANIFEST).unwrap().blobs.into_iter().map(|entry| entry.file).collect();
    listed.insert("manifest.toml".into());
    assert_eq!(listed, files_in("blobs"));
}
