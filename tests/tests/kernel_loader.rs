//! The kernel loader on the emulator, through `airamp-rank kernels`: good blobs load on
//! every architecture, and whatever is wrong is named, with all device memory given back.

use airamp_tests::code_object::{BlobFolder, kernel_symbols};
use airamp_tests::{End, Outcome, Run, emulator_dir, rank_program};
use serde::Deserialize;

/// What `airamp-rank kernels` prints.
#[derive(Deserialize)]
struct Report {
    architecture: String,
    blob: Option<String>,
    error: Option<String>,
    free_before: usize,
    free_loaded: Option<usize>,
    free_after: usize,
}

fn load_on(architecture: &str) -> Run {
    let run = Run::new(rank_program()).library_dir(emulator_dir()).arg("kernels");
    let run = if architecture.starts_with("gfx") { run.arg("--hip") } else { run };
    run.env("AIRAMP_EMU_ARCH", architecture)
}

fn from(folder: &BlobFolder, run: Run) -> Run {
    run.env("AIRAMP_KERNEL_DIR", folder.path())
}

#[track_caller]
fn report(outcome: &Outcome) -> Report {
    let report: Report = serde_json::from_slice(&outcome.stdout)
        .unwrap_or_else(|error| panic!("no report ({error}): {outcome}"));
    assert_eq!(report.free_before, report.free_after, "device memory is left behind: {outcome}");
    report
}

#[track_caller]
fn assert_loads(run: Run, blob: &str) -> Report {
    let outcome = run.run();
    let report = report(outcome.assert_success());
    assert!(report.blob.as_deref().is_some_and(|name| name.ends_with(blob)), "{outcome}");
    assert_eq!(report.error, None);
    // So that the memory afterwards shows that they were unloaded.
    assert!(report.free_loaded.is_some_and(|free| free < report.free_before), "{outcome}");
    report
}

#[track_caller]
fn assert_refused(run: Run, parts: &[&str]) {
    assert_says(&run.run(), parts);
}

/// Loading ended in an error that contains all of `parts`.
#[track_caller]
fn assert_says(outcome: &Outcome, parts: &[&str]) {
    assert_eq!(outcome.end, End::Code(1), "{outcome}");
    let error = report(outcome).error.unwrap_or_default();
    for part in parts {
        assert!(error.contains(part), "{part:?} is not in {error:?}");
    }
}

const ARCHITECTURES: [(&str, &str); 9] = [
    ("sm_80", "sm_80.cubin"),
    ("sm_89", "sm_80.cubin"),
    ("sm_90", "sm_90.cubin"),
    ("sm_100", "sm_100.cubin"),
    ("sm_103", "sm_100.cubin"),
    ("sm_120", "compute_80.ptx"),
    ("gfx90a", "gfx90a.hsaco"),
    ("gfx942", "gfx942.hsaco"),
    ("gfx950", "gfx950.hsaco"),
];

mod good_blobs {
    use super::*;

    #[test]
    fn the_embedded_kernels_load_and_pass_their_test_on_every_architecture() {
        for (architecture, blob) in ARCHITECTURES {
            let report = assert_loads(load_on(architecture), blob);
            assert_eq!(report.architecture, architecture);
        }
    }

    #[test]
    fn a_folder_of_blobs_takes_the_place_of_the_embedded_ones() {
        let folder = BlobFolder::whole();
        for (architecture, blob) in ARCHITECTURES {
            let report = assert_loads(from(&folder, load_on(architecture)), blob);
            assert!(report.blob.unwrap().contains(folder.path().to_str().unwrap()));
        }
    }
}

mod bad_blobs {
    use super::*;

    #[test]
    fn a_missing_folder_manifest_or_blob_is_named() {
        let missing = load_on("sm_90").env("AIRAMP_KERNEL_DIR", "/nonexistent");
        assert_refused(missing, &["missing", "/nonexistent/manifest.toml"]);
        let folder = BlobFolder::whole();
        std::fs::remove_file(folder.file("sm_90.cubin")).unwrap();
        assert_refused(from(&folder, load_on("sm_90")), &["missing", "sm_90.cubin"]);
        std::fs::remove_file(folder.file("manifest.toml")).unwrap();
        assert_refused(from(&folder, load_on("sm_80")), &["missing", "manifest.toml"]);
    }

    #[test]
    fn a_blob_that_the_manifest_does_not_list_is_missing() {
        let mut folder = BlobFolder::whole();
        folder.unlist("gfx942.hsaco");
        assert_refused(from(&folder, load_on("gfx942")), &["missing", "gfx942.hsaco", "not listed"]);
    }

    #[test]
    fn a_manifest_that_cannot_be_read_is_named() {
        let folder = BlobFolder::whole();
        folder.spoil("manifest.toml", |text| text.extend(b"nonsense"));
        assert_refused(from(&folder, load_on("sm_90")), &["manifest.toml", "cannot be used"]);
    }

    #[test]
    fn a_blob_that_cannot_be_read_is_named() {
        let folder = BlobFolder::whole();
        std::fs::remove_file(folder.file("sm_90.cubin")).unwrap();
        std::fs::create_dir(folder.file("sm_90.cubin")).unwrap();
        assert_refused(from(&folder, load_on("sm_90")), &["sm_90.cubin", "cannot be read"]);
    }

    #[test]
    fn a_fifo_in_the_place_of_manifest_or_blob_is_named_and_not_waited_for() {
        for file in ["sm_90.cubin", "manifest.toml"] {
            let folder = BlobFolder::whole();
            std::fs::remove_file(folder.file(file)).unwrap();
            let made = std::process::Command::new("mkfifo").arg(folder.file(file)).status();
            assert!(made.expect("mkfifo runs").success());
            assert_refused(from(&folder, load_on("sm_90")), &[file, "no regular file"]);
        }
    }

    #[test]
    fn a_truncated_blob_is_called_so_at_any_length() {
        for (architecture, file) in
            [("sm_90", "sm_90.cubin"), ("gfx950", "gfx950.hsaco"), ("sm_120", "compute_80.ptx")]
        {
            let len = std::fs::metadata(BlobFolder::whole().file(file)).unwrap().len() as usize;
            for kept in [0, 3, 40, len / 2, len - 1] {
                let folder = BlobFolder::whole();
                folder.spoil(file, |bytes| bytes.truncate(kept));
                assert_refused(from(&folder, load_on(architecture)), &["truncated", file]);
            }
        }
    }

    #[test]
    fn damage_to_the_repositorys_blobs_is_found() {
        let last_of_each_kind =
            [("sm_100", "sm_100.cubin"), ("gfx90a", "gfx90a.hsaco"), ("sm_120", "compute_80.ptx")];
        for (architecture, file) in last_of_each_kind {
            let folder = BlobFolder::real();
            let whole = std::fs::read(folder.file(file)).unwrap();
            for kept in [whole.len() / 3, whole.len() - 1] {
                folder.spoil(file, |bytes| bytes.truncate(kept));
                assert_refused(from(&folder, load_on(architecture)), &["truncated", file]);
                folder.spoil(file, |bytes| bytes.clone_from(&whole));
            }
            folder.spoil(file, |bytes| bytes[whole.len() / 2] ^= 1);
            assert_refused(from(&folder, load_on(architecture)), &["damaged", file]);
        }
    }

    #[test]
    fn a_truncated_blob_with_a_fitting_manifest_does_not_reach_the_driver() {
        let mut folder = BlobFolder::whole();
        let mut bytes = std::fs::read(folder.file("sm_90.cubin")).unwrap();
        bytes.truncate(bytes.len() - 10);
        folder.put("sm_90", "sm_90.cubin", &bytes);
        assert_refused(from(&folder, load_on("sm_90")), &["truncated", "sm_90.cubin"]);
    }

    #[test]
    fn a_flipped_bit_is_found_wherever_it_is() {
        for (architecture, file) in [("sm_90", "sm_90.cubin"), ("sm_120", "compute_80.ptx")] {
            for at in [70, 200, 400] {
                let folder = BlobFolder::whole();
                folder.spoil(file, |bytes| bytes[at] ^= 0x04);
                assert_refused(from(&folder, load_on(architecture)), &["damaged", file, "SHA-256"]);
            }
        }
    }

    #[test]
    fn a_foreign_blob_says_what_it_is_whether_the_manifest_knows_it_or_not() {
        let mut folder = BlobFolder::whole();
        let other = std::fs::read(folder.file("sm_80.cubin")).unwrap();
        folder.spoil("sm_90.cubin", |bytes| *bytes = other.clone());
        assert_refused(from(&folder, load_on("sm_90")), &["foreign", "is sm_80", "for sm_90"]);
        folder.put("sm_90", "sm_90.cubin", &other);
        assert_refused(from(&folder, load_on("sm_90")), &["foreign", "is sm_80", "for sm_90"]);
        folder.put("sm_90", "sm_90.cubin", b"something else entirely");
        assert_refused(from(&folder, load_on("sm_90")), &["foreign", "not an ELF file"]);
        let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        folder.put("gfx942", "gfx942.hsaco", &program);
        assert_refused(from(&folder, load_on("gfx942")), &["foreign", "machine 62"]);
    }

    #[test]
    fn each_kernel_that_a_blob_lacks_is_named() {
        for symbol in kernel_symbols() {
            for (architecture, file) in [("sm_90", "sm_90.cubin"), ("gfx942", "gfx942.hsaco")] {
                let mut folder = BlobFolder::whole();
                folder.put_without(architecture, file, &symbol);
                assert_refused(from(&folder, load_on(architecture)), &["has no kernel", &symbol]);
            }
        }
    }
}

mod devices {
    use super::*;

    #[test]
    fn an_unknown_architecture_is_named() {
        for architecture in ["sm_75", "sm_999", "gfx908", "gfx1100"] {
            assert_refused(load_on(architecture), &["unknown architecture", architecture]);
        }
    }

    #[test]
    fn a_kernel_that_computes_wrongly_is_named() {
        let folder = BlobFolder::whole();
        for symbol in kernel_symbols() {
            let run = from(&folder, load_on("sm_90")).env("AIRAMP_EMU_WRONG_KERNEL", &symbol);
            assert_refused(run, &["self-test mismatch", &symbol]);
        }
    }

    #[test]
    fn running_out_of_memory_at_any_allocation_is_an_error_that_leaves_nothing() {
        let folder = BlobFolder::whole();
        for architecture in ["sm_90", "gfx942"] {
            let failures = fail_at_each("AIRAMP_EMU_FAIL_ALLOC", architecture, &folder, "out of memory");
            assert!(failures >= 1);
        }
    }

    #[test]
    fn a_failure_of_any_launch_is_an_error_that_leaves_nothing() {
        let folder = BlobFolder::whole();
        let failures = fail_at_each("AIRAMP_EMU_FAIL_LAUNCH", "sm_90", &folder, "launch fail");
        assert_eq!(failures, kernel_symbols().len());
    }

    /// Lets the first, the second and each further one fail until loading succeeds.
    #[track_caller]
    fn fail_at_each(fault: &str, architecture: &str, folder: &BlobFolder, part: &str) -> usize {
        for nth in 1..=200 {
            let outcome = from(folder, load_on(architecture)).env(fault, nth.to_string()).run();
            if outcome.end == End::Code(0) {
                report(&outcome);
                return nth - 1;
            }
            assert_says(&outcome, &[part]);
        }
        panic!("{fault}: loading never succeeds");
    }

    #[test]
    fn a_device_without_room_for_the_code_is_an_error() {
        let folder = BlobFolder::whole();
        let run = from(&folder, load_on("sm_90")).env("AIRAMP_EMU_MEMORY_BYTES", "512");
        assert_refused(run, &["refuses", "out of memory"]);
    }

    #[test]
    fn functions_that_an_old_driver_lacks_are_named() {
        let folder = BlobFolder::whole();
        for function in ["cuModuleLoadData", "cuModuleGetFunction", "cuLaunchKernel"] {
            let run = from(&folder, load_on("sm_90")).env("AIRAMP_EMU_HIDE_SYMBOLS", function);
            assert_refused(run, &["has no function", function]);
        }
    }
}
