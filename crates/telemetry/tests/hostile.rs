//! Files that nobody's writer wrote, or that change under the reader: refused or read as far as they make sense,
//! without a panic, a signal or a length that is believed.

mod place;

use std::fs::File;
use std::io::{Seek, Write};
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

use airamp_telemetry::*;
use place::Place;
use proptest::prelude::*;

const HEADER: usize = 1024;

/// A file with something in every part.
fn template() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| {
        let place = Place::new();
        let writer = place.writer();
        for kind in Kind::ALL {
            writer.count(*kind, Path::Vendor, Datatype(6), 1, 1 << 20, 1, 1);
            writer.duration(*kind, Path::Trial, 5, 12345);
        }
        for name in 0..40 {
            let slot = writer.open(&CommunicatorFacts { name, ..Default::default() });
            let Some(slot) = slot else { continue };
            slot.issued(300, now());
            slot.agreement(AgreementState::Ready, "a reason");
            slot.pattern(PatternState::Drifting, 0.5, 1, 2, 3);
        }
        for n in 0..5000 {
            writer.call(&place::call(n as u8));
            writer.event(EventKind::Warning, None, n, 0, "an event");
            writer.decision("{}");
        }
        std::fs::read(place.file()).unwrap()
    })
}

fn file_of(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file.rewind().unwrap();
    file
}

fn read_all(bytes: &[u8]) -> Result<(), Unreadable> {
    ask_everything(file_of(bytes))
}

/// What a reader gets is bounded, whatever the file says.
fn ask_everything(file: File) -> Result<(), Unreadable> {
    let reader = Reader::from_file(file)?;
    reader.liveness();
    for cursor in [0, 4000, u64::MAX] {
        let rings = [
            reader.calls_since(cursor).map(|found| found.items.len()),
            reader.events_since(cursor).map(|found| found.items.len()),
            reader.decisions_since(cursor).map(|found| found.items.len()),
        ];
        assert!(
            rings
                .into_iter()
                .zip([4096, 512, 128])
                .all(|(found, most)| found.map_or(true, |items| items <= most))
        );
    }
    let snapshot = reader.snapshot()?;
    assert!(snapshot.communicators.len() <= 32 && snapshot.identity.job.len() <= 3 * 128);
    let times =
        snapshot.communicators.iter().flat_map(|one| one.arrivals.iter().map(|arrival| arrival.at_ns));
    assert!(times.chain([snapshot.active_ns, snapshot.started_ns]).all(|time| time <= snapshot.taken_ns));
    Ok(())
}

#[test]
fn the_template_itself_is_readable() {
    read_all(template()).unwrap();
}

#[test]
fn no_byte_of_the_header_can_be_turned_into_a_panic() {
    let file = file_of(template());
    for place in 0..HEADER {
        for flip in [0x01, 0x80, 0xff] {
            file.write_all_at(&[template()[place] ^ flip], place as u64).unwrap();
            let found = Reader::from_file(file.try_clone().unwrap()).and_then(|reader| {
                reader.liveness();
                reader.snapshot()
            });
            assert!(place >= 168 || found.is_err(), "byte {place} is not checked");
        }
        file.write_all_at(&template()[place..=place], place as u64).unwrap();
    }
}

#[test]
fn another_layout_is_named_and_contradicting_sizes_are_refused() {
    let with = |place: usize, value: u8| {
        let mut bytes = template().to_vec();
        bytes[place] = value;
        read_all(&bytes).unwrap_err()
    };
    assert!(matches!(with(0, b'X'), Unreadable::NotTelemetry));
    assert!(matches!(with(8, 9), Unreadable::Version { found: 9, known: 1 }));
    for place in (12..168).step_by(4) {
        assert!(matches!(with(place, 0xee), Unreadable::Damaged), "{place}");
    }
    assert!(matches!(read_all(&template()[..HEADER - 1]), Err(Unreadable::NotTelemetry)));
    assert!(matches!(read_all(&template()[..HEADER]), Err(Unreadable::Truncated)));
    let longer = [template(), &[0]].concat();
    assert!(matches!(read_all(&longer), Err(Unreadable::Truncated)));
    assert!(matches!(read_all(&[]), Err(Unreadable::NotTelemetry)));
}

#[test]
fn a_body_of_ones_or_of_noise_is_read_without_a_panic() {
    let mut noise = 88_172_645_463_325_252_u64;
    for fill in 0..8 {
        let mut bytes = template().to_vec();
        for byte in &mut bytes[HEADER..] {
            noise ^= noise << 13;
            noise ^= noise >> 7;
            noise ^= noise << 17;
            *byte = if fill == 0 { 0xff } else { noise as u8 };
        }
        // The state is the only word without which there is no snapshot.
        bytes[HEADER..HEADER + 8].fill(0);
        read_all(&bytes).unwrap();
    }
}

#[test]
fn a_file_that_shrinks_under_its_reader_gives_an_error() {
    let file = file_of(template());
    let reader = Reader::from_file(file.try_clone().unwrap()).unwrap();
    reader.snapshot().unwrap();
    for length in [900_000, 200_000, 1024 + 100, 10, 0] {
        file.set_len(length).unwrap();
        assert!(matches!(reader.calls_since(0), Err(Unreadable::Truncated)) || length > 800_000);
        assert!(matches!(reader.decisions_since(0), Err(Unreadable::Truncated)));
        reader.liveness();
    }
    assert!(matches!(reader.snapshot(), Err(Unreadable::Truncated)));
}

#[test]
fn a_slot_whose_version_stays_odd_is_left_out_and_counted() {
    let file = file_of(template());
    let reader = Reader::from_file(file.try_clone().unwrap()).unwrap();
    // The first communicator's generation, and the version of the newest event.
    let communicators = u64::from_le_bytes(template()[48..56].try_into().unwrap());
    let events = u64::from_le_bytes(template()[120..128].try_into().unwrap());
    file.write_all_at(&[3], communicators).unwrap();
    let version = events + 4999 % 512 * 256;
    file.write_all_at(&[1], version).unwrap();
    let snapshot = reader.snapshot().unwrap();
    assert_eq!((snapshot.torn, snapshot.communicators.len()), (1, 31));
    let found = reader.events_since(4990).unwrap();
    assert_eq!((found.items.len(), found.lost, found.next), (9, 1, 5000));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_patch_or_cut_of_a_file_makes_the_reader_panic(
        patches in prop::collection::vec((place(), any::<[u8; 8]>()), 1..40), length in prop::option::of(0..1usize << 20)
    ) {
        let mut bytes = template().to_vec();
        for (place, patch) in patches {
            let end = bytes.len().min(place + 8);
            let patch = &patch[..end - place];
            bytes[place..end].copy_from_slice(patch);
        }
        bytes.truncate(length.unwrap_or(bytes.len()));
        let _ = read_all(&bytes);
    }
}

/// Mostly the words that steer the reader: behind the sections' table, and where slots and rings begin.
fn place() -> impl Strategy<Value = usize> {
    let size = template().len();
    prop_oneof![168..HEADER, HEADER..HEADER + 1216, (0..size / 64).prop_map(|line| line * 64), 0..size]
}
