//! Any text as the Host header of a question: whoever names a host of its own is not loopback, whatever stands around it.
#![no_main]

use airampd::host::is_of_loopback;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(host) = str::from_utf8(bytes) else { return };
    let is = is_of_loopback(host);
    assert_eq!(is_of_loopback(&host.to_ascii_uppercase()), is_of_loopback(&host.to_ascii_lowercase()));
    assert!(!is_of_loopback(&format!("{host}.evil.example")), "a name of theirs at the end");
    assert!(!is_of_loopback(&format!("{host}@evil.example")), "a name of theirs behind a user");
    if is {
        assert!(host.is_ascii() && !host.contains(['/', '@', ' ', '%']), "{host:?}");
    }
});
