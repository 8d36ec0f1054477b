//! Any bytes as what `airamp bench --json` printed, plain or packed by gzip: refused with a short reason of one line, or
//! read; where that is enough for a fit, it is found, and written and read again as the same.
#![no_main]

use std::io::Write;

use airamp_plan::{Fit, Measured, text_in};
use flate2::Compression;
use flate2::write::GzEncoder;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    check(bytes.to_vec());
    // Packed, so that what lies behind gzip's own sum is read too.
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(bytes).expect("memory takes it");
    let packed = packed.finish().expect("memory takes it");
    assert_eq!(text_in(packed).ok().as_deref(), str::from_utf8(bytes).ok());
});

fn check(bytes: Vec<u8>) {
    let measured = match text_in(bytes).and_then(|text| Measured::from_text(&text)) {
        Ok(measured) => measured,
        Err(reason) => return airamp_fuzz::check_reason(&reason),
    };
    assert!(!measured.source.contains(char::is_control), "{:?}", measured.source);
    match Fit::of(&measured) {
        Ok(fit) => assert_eq!(Fit::from_text(&fit.to_text()), Ok(fit)),
        Err(reason) => airamp_fuzz::check_reason(&reason),
    }
}
