//! Any bytes as a recorded trace: refused with a short reason, or a trace that is written as it was read.
#![no_main]

use airamp_trace::{MOST_COMMUNICATORS, read, write};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    match read(bytes) {
        Err(error) => assert!(error.to_string().len() < 2048),
        Ok(trace) => {
            assert!(trace.communicators.len() <= MOST_COMMUNICATORS);
            assert!(trace.calls.is_sorted_by_key(|call| call.at_ns));
            assert!(!trace.source.contains(char::is_control));
            let mut again = Vec::new();
            write(&trace, &mut again).expect("memory takes it");
            assert_eq!(read(&*again).expect("what we write we read"), trace);
        }
    }
});
