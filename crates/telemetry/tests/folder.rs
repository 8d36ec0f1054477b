//! Whose folder and whose file: planted links, pipes, second names and strangers are refused; what is stale goes.

mod place;

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use airamp_telemetry::*;
use place::{Place, identity};

fn own_name() -> String {
    // SAFETY: asks for a number.
    format!("airamp-{}", unsafe { libc::geteuid() })
}

#[test]
fn a_link_in_place_of_the_folder_is_refused() {
    let (place, elsewhere) = (Place::new(), Place::new());
    symlink(elsewhere.base(), place.base().join(own_name())).unwrap();
    assert!(create(Some(place.base()), &identity()).is_err());
    assert_eq!(std::fs::read_dir(elsewhere.base()).unwrap().count(), 0);
    assert!(folders(Some(place.base())).is_empty());
}

#[test]
fn a_file_in_place_of_the_folder_or_no_base_at_all_is_an_error() {
    let place = Place::new();
    std::fs::write(place.base().join(own_name()), "").unwrap();
    assert!(create(Some(place.base()), &identity()).is_err());
    assert!(create(Some(&place.base().join("absent")), &identity()).is_err());
    for relative in ["", ".", "tmp"] {
        assert!(
            create(Some(Path::new(relative)), &identity()).is_err(),
            "it would lie wherever a program happens to be"
        );
    }
    assert!(folders(Some(&place.base().join("absent"))).is_empty());
}

#[test]
fn a_folder_that_others_could_enter_is_closed_again() {
    let place = Place::new();
    let folder = place.base().join(own_name());
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).unwrap();
    place.writer();
    assert_eq!(std::fs::metadata(&folder).unwrap().mode() & 0o7777, 0o700);
}

#[test]
fn a_folder_named_after_another_user_is_not_read() {
    let place = Place::new();
    std::fs::create_dir(place.base().join("airamp-4242")).unwrap();
    std::fs::create_dir(place.base().join("airamp-x")).unwrap();
    place.writer();
    let found = folders(Some(place.base()));
    assert_eq!(found.len(), 1);
    assert!(found[0].path().ends_with(own_name()));
}

#[test]
fn a_pipe_a_link_a_second_name_and_a_folder_are_no_telemetry_files() {
    let place = Place::new();
    place.writer();
    let (folder, original) = (place.folder(), place.file());
    let planted = |number: u64| format!("1-{number:016x}.airamp");
    let pipe =
        std::ffi::CString::new(folder.path().join(planted(1)).into_os_string().into_encoded_bytes()).unwrap();
    // SAFETY: a path that ends in zero.
    assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);
    symlink(&original, folder.path().join(planted(2))).unwrap();
    std::fs::create_dir(folder.path().join(planted(3))).unwrap();
    std::fs::copy(&original, folder.path().join(planted(4))).unwrap();
    std::fs::hard_link(folder.path().join(planted(4)), folder.path().join("second")).unwrap();
    for number in 1..=4 {
        assert!(Reader::open(&folder, &planted(number)).is_err(), "{number}");
    }
    assert!(matches!(Reader::open(&folder, &planted(4)), Err(Unreadable::NotOurs)));
    std::fs::remove_file(folder.path().join("second")).unwrap();
    assert!(Reader::open(&folder, &planted(4)).is_ok());
    assert_eq!(folder.files().len(), 5, "they are named, so that a reader can say why it does not read them");
}

#[test]
fn a_listing_that_names_not_all_says_so() {
    let place = Place::new();
    place.writer();
    let folder = place.folder();
    assert_eq!(folder.list(), Listing { names: vec![place.name()], is_whole: true });
    for number in 0..4096 {
        std::fs::write(folder.path().join(format!("1-{number:016x}.airamp")), "").unwrap();
    }
    let listing = folder.list();
    assert_eq!((listing.names.len(), listing.is_whole), (4096, false));
}

#[test]
fn a_file_that_speaks_for_another_user_is_refused() {
    let place = Place::new();
    place.writer();
    patch(&place.file(), UID, &4242_u32.to_le_bytes());
    assert!(matches!(Reader::open(&place.folder(), &place.name()), Err(Unreadable::NotOurs)));
}

#[test]
fn files_of_the_dead_go_after_a_minute_and_those_of_the_living_stay() {
    let place = Place::new();
    place.writer();
    let living = place.name();
    let copy = |number: u64, started: &[u8; 8], old: bool| {
        let name = format!("77-{number:016x}.airamp");
        let path = place.folder().path().join(&name);
        std::fs::copy(place.folder().path().join(&living), &path).unwrap();
        patch(&path, STARTED, started);
        if old {
            // Last active just after the boot.
            patch(&path, ANCHOR, &[1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
            patch(&path, ACTIVE, &[1, 0, 0, 0, 0, 0, 0, 0]);
        }
        name
    };
    let reused_pid = [1, 0, 0, 0, 0, 0, 0, 0];
    let dead_long = copy(1, &reused_pid, true);
    let dead_now = copy(2, &reused_pid, false);
    let removed = place.folder().remove_stale();
    assert_eq!((removed, place.folder().files().len()), (1, 2));
    let left = place.folder().files();
    assert!(left.contains(&living) && left.contains(&dead_now) && !left.contains(&dead_long));
}

#[test]
fn of_a_job_that_dies_again_and_again_the_last_files_are_kept() {
    let place = Place::new();
    place.writer();
    let living = place.name();
    let folder = place.folder();
    for number in 0..30_u64 {
        let path = folder.path().join(format!("77-{number:016x}.airamp"));
        std::fs::copy(folder.path().join(&living), &path).unwrap();
        patch(&path, STARTED, &[1, 0, 0, 0, 0, 0, 0, 0]);
    }
    create(Some(place.base()), &identity()).unwrap();
    assert_eq!(folder.files().len(), 16 + 2, "sixteen of the dead, and the two that live");
}

#[test]
fn an_open_reader_keeps_reading_when_the_file_is_removed() {
    let place = Place::new();
    let writer = place.writer();
    let reader = place.only();
    std::fs::remove_file(place.file()).unwrap();
    writer.fallback(Reason::Size, 3);
    assert_eq!(reader.snapshot().unwrap().fallbacks, [(Reason::Size, 3)]);
}

#[test]
fn what_never_got_its_name_goes_after_an_hour() {
    let place = Place::new();
    place.writer();
    let folder = place.folder();
    for (name, age) in [(".1-0.airamp.new", 7200), (".2-0.airamp.new", 10), ("notes.txt", 7200)] {
        let file = std::fs::File::create(folder.path().join(name)).unwrap();
        let changed = std::time::SystemTime::now() - std::time::Duration::from_secs(age);
        file.set_modified(changed).unwrap();
    }
    assert_eq!(folder.remove_stale(), 1);
    assert!(!folder.path().join(".1-0.airamp.new").exists() && folder.path().join("notes.txt").exists());
}

/// Places in the header, and in the section behind it; docs/telemetry.md has them all.
const UID: u64 = 172;
const STARTED: u64 = 184;
const ANCHOR: u64 = 216;
const ACTIVE: u64 = 1032;

fn patch(path: &Path, place: u64, bytes: &[u8]) {
    use std::os::unix::fs::FileExt;
    std::fs::File::options().write(true).open(path).unwrap().write_all_at(bytes, place).unwrap();
}
