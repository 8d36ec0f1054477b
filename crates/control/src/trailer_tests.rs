use super::*;

fn id() -> [u8; ID_BYTES] {
    let mut id = [0; ID_BYTES];
    id[..8].copy_from_slice(&0x1234_5678_9abc_def0_u64.to_ne_bytes());
    id[8..10].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
    id[12..16].copy_from_slice(&[10, 1, 2, 3]);
    id
}

fn trailer(address: &str) -> Trailer {
    Trailer { address: address.parse().unwrap(), token: std::array::from_fn(|at| at as u8) }
}

#[test]
fn what_is_written_is_read_again() {
    for address in ["10.1.2.3:4567", "[2001:db8::7]:65535", "127.0.0.1:1"] {
        let mut id = id();
        assert!(trailer(address).write(&mut id));
        assert_eq!(Trailer::read(&id), Some(trailer(address)));
    }
}

#[test]
fn a_trailer_is_written_over_zeros_only_and_leaves_the_rest_alone() {
    for at in START..ID_BYTES {
        let mut used = id();
        used[at] = 1;
        let before = used;
        assert!(!trailer("10.1.2.3:4567").write(&mut used));
        assert_eq!(used, before);
    }
    let mut written = id();
    assert!(trailer("10.1.2.3:4567").write(&mut written));
    assert_eq!(written[..START], id()[..START]);
}

#[test]
fn a_trailer_with_any_bit_changed_is_none() {
    let mut written = id();
    assert!(trailer("10.1.2.3:4567").write(&mut written));
    for bit in 0..ID_BYTES * 8 {
        let mut noise = written;
        noise[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(Trailer::read(&noise), None, "bit {bit}");
    }
}

#[test]
fn an_id_as_the_vendor_makes_it_has_no_trailer() {
    assert_eq!(Trailer::read(&id()), None);
    assert_eq!(Trailer::read(&[0; ID_BYTES]), None);
    assert_eq!(Trailer::read(&[0xff; ID_BYTES]), None);
}

#[test]
fn a_trailer_that_names_nobody_is_none() {
    for address in ["0.0.0.0:4567", "10.1.2.3:0", "224.0.0.1:5", "[::]:5"] {
        let mut id = id();
        assert!(trailer(address).write(&mut id));
        assert_eq!(Trailer::read(&id), None, "{address}");
    }
}

#[test]
fn the_vendors_interface_is_read_from_the_id() {
    assert_eq!(address_in_id(&id()), Some("10.1.2.3".parse().unwrap()));
    let mut six = [0; ID_BYTES];
    six[8..10].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
    six[16..32].copy_from_slice(&"2001:db8::7".parse::<Ipv6Addr>().unwrap().octets());
    assert_eq!(address_in_id(&six), Some("2001:db8::7".parse().unwrap()));
    assert_eq!(address_in_id(&[0; ID_BYTES]), None);
    assert_eq!(address_in_id(&[0xff; ID_BYTES]), None);
}

#[test]
fn an_id_that_every_rank_makes_is_known_by_its_magic() {
    let mut shared = id();
    shared[..8].copy_from_slice(&SHARED_MAGIC.to_ne_bytes());
    assert!(every_rank_makes_this_id(&shared));
    assert!(!every_rank_makes_this_id(&id()));
}
