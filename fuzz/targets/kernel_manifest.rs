//! Any text as the manifest of a folder of code objects (`AIRAMP_KERNEL_DIR`): refused with a reason, or read, and then what
//! is looked up is what was asked for.
#![no_main]

use airamp_kernels::Kind;
use airamp_kernels::manifest::Manifest;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let manifest = match Manifest::parse(text) {
        Ok(manifest) => manifest,
        Err(reason) => return assert!(!reason.to_string().is_empty()),
    };
    for entry in &manifest.blobs {
        for kind in [Kind::Cubin, Kind::Ptx, Kind::Hsaco] {
            let Some(found) = manifest.find(&entry.architecture, kind) else { continue };
            assert_eq!(found.architecture, entry.architecture);
            assert!(found.file.ends_with(&format!(".{}", kind.extension())), "{}", found.file);
        }
    }
});
