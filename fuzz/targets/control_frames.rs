//! Any bytes from a connection, in pieces of any size: frames or an error, the same however they are cut, and no more
//! is kept than one frame.
#![no_main]

use airamp_control::wire::{Frame, Frames, HEADER_BYTES, MOST_BODY_BYTES, WireError, frame};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((piece, bytes)) = bytes.split_first() else { return };
    let whole = read(bytes, bytes.len().max(1));
    let pieces = read(bytes, usize::from(*piece) + 1);
    assert_eq!(whole, pieces);
    let again: Vec<u8> =
        whole.0.iter().flat_map(|one| frame(one.protocol, &one.body).expect("it came in a frame")).collect();
    assert!(bytes.starts_with(&again));
});

fn read(bytes: &[u8], piece: usize) -> (Vec<Frame>, Option<WireError>) {
    let mut frames = Frames::default();
    let mut seen = Vec::new();
    for part in bytes.chunks(piece) {
        frames.push(part);
        loop {
            match frames.take() {
                Ok(None) => break,
                Ok(Some(frame)) => seen.push(frame),
                Err(error) => return (seen, Some(error)),
            }
        }
        assert!(frames.kept() < HEADER_BYTES + MOST_BODY_BYTES);
    }
    (seen, None)
}
