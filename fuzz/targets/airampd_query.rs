//! Any text as the query of a URI that airampd is asked for: no value, one that is no text, or a text; and what is encoded
//! is decoded as what it was.
#![no_main]

use airampd::query::value;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // hyper hands in text only.
    let Ok(query) = str::from_utf8(bytes) else { return };
    for name in ["job", "since", ""] {
        if let Some(Some(text)) = value(Some(query), name) {
            assert!(text.len() <= query.len());
        }
    }
    let encoded: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let one_of_several = format!("since=1&job={encoded}&job=another");
    assert_eq!(value(Some(&one_of_several), "job"), Some(Some(query.to_owned())));
});
