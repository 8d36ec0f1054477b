//! Any bytes as a code object of each kind, as the library's kernel loader looks at one before a driver may see it: what it
//! is, in a few words for a warning, and never a panic.
#![no_main]

use airamp_kernels::Kind;
use airamp_kernels::loader::image::{Image, inspect};
use libfuzzer_sys::fuzz_target;

const LONGEST_NAME: usize = 64;

fuzz_target!(|bytes: &[u8]| {
    for kind in [Kind::Cubin, Kind::Ptx, Kind::Hsaco] {
        let image = inspect(bytes, kind);
        if let Image::Whole(name) | Image::Unknown(name) = &image {
            assert!(name.len() <= LONGEST_NAME && !name.contains(char::is_control), "{name:?}");
        }
        // What an ELF file announces of itself does not depend on what lies behind it, and a text ends in its last byte.
        if let Image::Whole(_) = image {
            let longer = [bytes, b"\x01"].concat();
            let expected = if kind == Kind::Ptx { Image::Truncated } else { image };
            assert_eq!(inspect(&longer, kind), expected);
        }
    }
});
