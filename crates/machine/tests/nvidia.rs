//! Claims about NVIDIA's devices, on a small library in place of NVML.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use airamp_machine::{Device, Machine, Maker, Options, Reading, Roots};
use tempfile::TempDir;

const LONG: Duration = Duration::from_secs(60);

/// The made-up library, in a folder of its own with the file that holds its state.
struct Library {
    folder: TempDir,
}

impl Library {
    fn new(state: &str) -> Self {
        let library = Self { folder: tempfile::tempdir().expect("a folder") };
        library.set(state);
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake/nvml.c");
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
        let done = Command::new(compiler)
            .args(["-shared", "-fPIC", "-Wall", "-Werror", "-o"])
            .arg(library.path())
            .arg(format!("-DSTATE=\"{}\"", library.state().display()))
            .arg(source)
            .status();
        assert!(done.expect("a C compiler").success());
        library
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("libnvidia-ml.so.1")
    }

    fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    /// By renaming, so that the library never reads half a word.
    fn set(&self, state: &str) {
        let new = self.folder.path().join("new");
        fs::write(&new, state).expect("the state is written");
        fs::rename(new, self.state()).expect("the state is in its place");
    }

    fn machine(&self) -> Machine {
        let nowhere = self.folder.path().join("nowhere");
        let roots = Roots { sys: nowhere.clone(), proc: nowhere, nvml: Some(self.path()) };
        Machine::watch(Options { roots, nics: false, fresh_for: Duration::ZERO, ..Options::default() })
    }
}

fn nothing_but(index: u32) -> Device {
    Device {
        maker: Maker::Nvidia,
        index,
        uuid: format!("GPU-0000000{index}"),
        name: format!("Fake {index}"),
        pci: None,
        lost: false,
        memory_used_bytes: None,
        memory_total_bytes: None,
        sm_clock_hz: None,
        memory_clock_hz: None,
        power_w: None,
        power_limit_w: None,
        temperature_c: None,
        throttle: None,
        ecc_corrected: None,
        ecc_uncorrected: None,
        last_xid: None,
        // Device 1 refuses to be watched.
        xids: (index == 0).then_some(0),
        nvlink_sent_bytes: None,
        nvlink_received_bytes: None,
        nvlink_errors: None,
        nvlinks_active: None,
        utilisation: None,
        memory_utilisation: None,
        pcie_sent_bytes: None,
        pcie_received_bytes: None,
        pcie_replays: None,
    }
}

fn everything_of(index: u32) -> Device {
    Device {
        memory_used_bytes: Some(300 + u64::from(index)),
        memory_total_bytes: Some(1000),
        sm_clock_hz: Some(1_410_000_000),
        memory_clock_hz: Some(2_619_000_000),
        power_w: Some(123.456),
        power_limit_w: Some(700.0),
        temperature_c: Some(61.0),
        throttle: Some(vec!["sw_power_cap".into(), "hw_thermal_slowdown".into()]),
        ecc_corrected: Some(5),
        ecc_uncorrected: Some(1),
        nvlink_sent_bytes: Some(10 << 10),
        nvlink_received_bytes: Some(20 << 10),
        nvlink_errors: Some(11),
        nvlinks_active: Some(3),
        utilisation: Some(0.87),
        memory_utilisation: Some(0.4),
        pcie_sent_bytes: Some(5_000_000_000),
        pcie_replays: Some(3),
        ..nothing_but(index)
    }
}

fn without_age(machine: &Machine) -> (Vec<Device>, Vec<String>) {
    let reading = machine.reading(LONG);
    assert!(reading.devices_age_s.is_some(), "nothing was read: {reading:?}");
    let other = |note: &&String| !note.contains("interfaces");
    (reading.devices, reading.notes.iter().filter(other).cloned().collect())
}

#[test]
fn a_machine_without_nvml_has_no_devices_and_one_reason() {
    let library = Library::new("well");
    fs::remove_file(library.path()).expect("it was there");
    let (devices, notes) = without_age(&library.machine());
    assert_eq!(devices, []);
    assert_eq!(notes, ["no NVIDIA devices: NVML (libnvidia-ml.so.1) is not on this machine"]);
}

#[test]
fn a_library_without_a_driver_is_a_reason_and_not_an_error() {
    let (devices, notes) = without_age(&Library::new("no-driver").machine());
    assert_eq!(devices, []);
    assert_eq!(notes, ["no NVIDIA devices: the driver is not loaded"]);
}

#[test]
fn a_file_that_is_no_library_is_a_reason_and_not_an_error() {
    let library = Library::new("well");
    fs::write(library.path(), "no library").expect("it is written");
    let (devices, notes) = without_age(&library.machine());
    assert_eq!((devices.len(), notes.len()), (0, 1), "{notes:?}");
}

#[test]
fn every_value_of_a_device_arrives_in_its_unit() {
    let (devices, notes) = without_age(&Library::new("well").machine());
    assert_eq!(devices, [everything_of(0), everything_of(1)]);
    assert_eq!(notes, [""; 0]);
}

#[test]
fn a_question_that_is_not_supported_is_none_in_its_field_alone() {
    let (devices, _) = without_age(&Library::new("bare").machine());
    let known = |index| Device {
        memory_used_bytes: Some(300 + u64::from(index)),
        memory_total_bytes: Some(1000),
        temperature_c: Some(61.0),
        ..nothing_but(index)
    };
    assert_eq!(devices, [known(0), known(1)]);
}

#[test]
fn a_device_that_is_lost_keeps_its_name_and_the_others_their_values() {
    let library = Library::new("well");
    let machine = library.machine();
    assert_eq!(without_age(&machine).0[1], everything_of(1));
    library.set("second-lost");
    let (devices, _) = without_age(&machine);
    assert_eq!(devices, [everything_of(0), Device { lost: true, ..nothing_but(1) }]);
    library.set("well");
    assert_eq!(without_age(&machine).0[1], everything_of(1));
}

#[test]
fn an_xid_is_counted_and_stays_the_last_one() {
    let library = Library::new("well");
    let machine = library.machine();
    assert_eq!(without_age(&machine).0[0].xids, Some(0));
    library.set("xid");
    for _ in 0..2 {
        let (devices, _) = without_age(&machine);
        assert_eq!((devices[0].xids, devices[0].last_xid), (Some(1), Some(79)));
        assert_eq!((devices[1].xids, devices[1].last_xid), (None, None));
    }
}

#[test]
fn a_connection_that_no_longer_works_is_given_up_with_its_reason() {
    let library = Library::new("well");
    let machine = library.machine();
    assert_eq!(without_age(&machine).0.len(), 2);
    library.set("shut");
    let (devices, notes) = without_age(&machine);
    assert_eq!((devices.len(), notes.len()), (0, 1), "{notes:?}");
    assert!(notes[0].starts_with("no NVIDIA devices: NVML says: "), "{notes:?}");
}

#[test]
fn a_driver_that_hangs_leaves_the_last_values_with_their_age_and_holds_up_nobody() {
    let library = Library::new("well");
    let machine = library.machine();
    assert_eq!(machine.reading(LONG).devices, [everything_of(0), everything_of(1)]);
    library.set("hanging");
    let noted = |reading: &Reading| reading.notes.iter().any(|note| note.contains("has not answered for"));
    let deadline = Instant::now() + LONG;
    let mut reading = machine.reading(Duration::ZERO);
    while !noted(&reading) {
        assert!(Instant::now() < deadline, "the silence is not named: {reading:?}");
        reading = machine.reading(Duration::from_millis(50));
    }
    assert_eq!(reading.devices, [everything_of(0), everything_of(1)]);
    assert!(reading.devices_age_s > Some(4.0), "{:?}", reading.devices_age_s);

    library.set("bare");
    let deadline = Instant::now() + LONG;
    while machine.reading(LONG).devices[0].power_w.is_some() {
        assert!(Instant::now() < deadline, "nothing new after the driver came back");
        thread::sleep(Duration::from_millis(10));
    }
    assert!(!noted(&machine.reading(LONG)));
}

#[test]
fn a_machine_is_dropped_while_its_driver_hangs() {
    let library = Library::new("hanging");
    let machine = library.machine();
    let reading = machine.reading(Duration::from_millis(50));
    assert_eq!((reading.devices.len(), reading.devices_age_s.is_some()), (0, false));
    drop(machine);
    library.set("well");
}

#[test]
fn a_young_reading_is_not_taken_again() {
    let library = Library::new("well");
    let roots = Roots { sys: "/nowhere".into(), proc: "/nowhere".into(), nvml: Some(library.path()) };
    let machine = Machine::watch(Options {
        roots,
        nics: false,
        fresh_for: Duration::from_secs(3600),
        ..Options::default()
    });
    assert_eq!(machine.reading(LONG).devices[1], everything_of(1));
    library.set("second-lost");
    assert_eq!(machine.reading(LONG).devices[1], everything_of(1));
}
