//! Any bytes as an id: a trailer is read as it was written, or not at all.
#![no_main]

use airamp_control::{ID_BYTES, Trailer, address_in_id, every_rank_makes_this_id};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut id = [0; ID_BYTES];
    let length = bytes.len().min(ID_BYTES);
    id[..length].copy_from_slice(&bytes[..length]);
    let _ = (address_in_id(&id), every_rank_makes_this_id(&id));
    if let Some(trailer) = Trailer::read(&id) {
        let mut again = id;
        again[ID_BYTES - Trailer::BYTES..].fill(0);
        assert!(trailer.write(&mut again));
        assert_eq!(again, id, "one trailer has one form");
    }
    // What we write over zeros, we read.
    if let Some(ip) = address_in_id(&id) {
        let port = u16::from_le_bytes([id[0], id[1]]).max(1);
        let token = std::array::from_fn(|at| id[at]);
        let trailer = Trailer { address: (ip, port).into(), token };
        id[ID_BYTES - Trailer::BYTES..].fill(0);
        assert!(trailer.write(&mut id));
        assert_eq!(Trailer::read(&id), Some(trailer));
    }
});
