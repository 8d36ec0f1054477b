//! What is no settings file, and what becomes of one that is very large, or no file at all.

use super::*;

#[test]
fn another_file_can_be_named_and_must_then_exist() {
    let folder = Folder::holding("log = \"info\"");
    let path = folder.path();
    let named = path.to_str().expect("UTF-8");
    assert_eq!(from_environment(&[("AIRAMP_CONFIG", named)]).settings.log, LogLevel::Info);
    let missing = from_environment(&[("AIRAMP_CONFIG", "/nonexistent/other.conf")]);
    assert_only_warning(&missing, &["settings file /nonexistent/other.conf: there is no such file"]);
}

#[test]
fn a_directory_in_its_place_is_named() {
    let folder = Folder::new();
    fs::create_dir(folder.path()).expect("made");
    assert_only_warning(&folder.resolve(&[]), &["airamp.conf is a directory, not a regular file"]);
}

#[test]
fn a_fifo_and_a_device_do_not_block() {
    let folder = Folder::new();
    let made = std::process::Command::new("mkfifo").arg(folder.path()).status().expect("mkfifo runs");
    assert!(made.success());
    assert_only_warning(&folder.resolve(&[]), &["is a FIFO"]);
    assert_only_warning(&resolve(&environment(&[]), Path::new("/dev/zero")), &["/dev/zero is a device"]);
}

#[test]
fn a_file_without_permission_is_named() {
    let folder = Folder::holding("log = \"info\"");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o000)).expect("changed");
    if fs::File::open(folder.path()).is_ok() {
        // Root may read everything; then there is no refusal to report, and the file holds.
        assert_eq!(folder.resolve(&[]).settings.log, LogLevel::Info);
        return;
    }
    assert_only_warning(&folder.resolve(&[]), &["cannot be read", "ermission denied"]);
}

#[test]
fn a_hundred_megabytes_are_refused_by_their_size_alone() {
    let folder = Folder::new();
    fs::File::create(folder.path()).and_then(|file| file.set_len(100 << 20)).expect("a sparse file");
    assert_only_warning(&folder.resolve(&[]), &["larger than 65536 bytes"]);
}

#[test]
fn a_file_that_hides_its_size_is_still_read_only_to_the_bound() {
    // Files under /proc claim to be empty; the kernel's symbols fill megabytes where they may be read.
    let symbols = Path::new("/proc/kallsyms");
    let Ok(true) = fs::read(symbols).map(|bytes| bytes.len() as u64 > MAX_FILE_BYTES) else { return };
    assert_only_warning(&resolve(&environment(&[]), symbols), &["larger than 65536 bytes"]);
}

#[test]
fn invalid_text_and_invalid_toml_are_named_by_line() {
    assert_only_warning(
        &Folder::holding(b"log = 1\nx = \"\xff\"").resolve(&[]),
        &["invalid UTF-8 on line 2"],
    );
    assert_only_warning(
        &Folder::holding("log = \"info\"\n\nmode = = 1\n").resolve(&[]),
        &["not valid TOML: line 3"],
    );
    assert_only_warning(
        &Folder::holding("log = \"info\"\nlog = \"warn\"\n").resolve(&[]),
        &["not valid TOML: line 2"],
    );
}

#[test]
fn a_file_that_broke_a_parser_once_is_only_invalid() {
    // Found by fuzzing: an older parser panicked at it.
    assert_only_warning(&Folder::holding("==\n.=").resolve(&[]), &["not valid TOML: line 1"]);
}

#[test]
fn keys_in_a_table_with_a_long_name_do_not_each_repeat_it() {
    let folder = |keys: usize| {
        let lines: String = (0..keys).map(|i| format!("k{i}=1\n")).collect();
        Folder::holding(format!("[{}.\"a.b\"]\n{lines}", "x".repeat(32 << 10)))
    };
    let loaded = folder(900).resolve(&[]);
    assert_eq!(loaded.unknown.len(), 900);
    assert!(loaded.unknown.iter().all(|unknown| unknown.name.len() < 100), "{:?}", loaded.unknown[0]);
    assert!(loaded.unknown[899].name.ends_with(".a.b.k899"), "{:?}", loaded.unknown[899]);
    assert_only_warning(&folder(3600).resolve(&[]), &["has more than 1000 keys"]);
}

#[test]
fn a_file_of_very_many_keys_is_no_settings_file() {
    let plain: String = (0..1001).map(|i| format!("k{i}=1\n")).collect();
    let listed = format!("a = [{}]\n", "{b=1},".repeat(1001));
    for text in [&plain, &listed] {
        let loaded = Folder::holding(text).resolve(&[]);
        assert_only_warning(&loaded, &["has more than 1000 keys", "ignored"]);
        assert!(loaded.file_ignored.is_some() && loaded.unknown.is_empty());
    }
}
