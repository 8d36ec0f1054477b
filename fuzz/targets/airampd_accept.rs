//! Any text as the Accept header of a scrape: one of the two forms, whatever broken elements stand beside the others.
#![no_main]

use airampd::metrics::{Format, negotiate};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(accept) = str::from_utf8(bytes) else { return };
    let format = negotiate(accept);
    assert_eq!(negotiate(&format!(",;q=1,{accept},q=2;,")), format, "broken elements are passed over");
    if !accept.contains('/') {
        assert_eq!(format, Format::Text, "it names nothing");
    }
    // What asks for one form alone gets it.
    let only = format!("application/openmetrics-text;q=1, text/plain;q=0, {}", accept.replace('/', ""));
    assert_eq!(negotiate(&only), Format::OpenMetrics);
});
