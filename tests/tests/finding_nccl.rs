//! The steps by which the vendor is found, each in the situation that it is for,
//! told apart by the one line that the log has about it.

use std::fs;

use airamp_tests::artifacts::{emulated_nccl, emulator_dir, interposer};
use airamp_tests::comparison::interposer_as_nccl_dir;
use airamp_tests::{CProgram, Run};

/// The program succeeds and its log names the step that held, once.
#[track_caller]
fn finds_it_by(step: &str, run: Run) {
    finds_by(step, 1, run);
}

/// The same for several libraries.
#[track_caller]
fn finds_by(step: &str, libraries: usize, run: Run) {
    let outcome = run.env("AIRAMP_LOG", "info").run();
    outcome.assert_success();
    let lines = outcome.product_lines();
    let about: Vec<_> = lines.iter().filter(|line| line.contains(step)).collect();
    assert_eq!(about.len(), libraries, "lines with {step:?}:\n{outcome}");
    assert!(about.iter().all(|line| line.contains("emulated_cuda") || line.contains("libnccl")), "{outcome}");
}

fn linked() -> Run {
    Run::new(CProgram::linked("all_reduce.c").build())
}

#[test]
fn a_linked_program_by_the_next_object_in_the_search_order() {
    finds_it_by("RTLD_NEXT", linked().preload(interposer()).library_dir(emulator_dir()));
}

#[test]
fn preloaded_by_a_link_with_the_name_that_a_job_script_still_has() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let link = dir.path().join("libAIRamp-Accel-v132.so");
    std::os::unix::fs::symlink(interposer(), &link).expect("a link");
    finds_it_by("RTLD_NEXT", linked().preload(&link).library_dir(emulator_dir()));
}

#[test]
fn a_plugin_in_a_local_scope_among_the_mapped_libraries() {
    let plugin = CProgram::linked("plugin.c").shared_library().build();
    let host = Run::new(CProgram::unlinked("plugin_host.c").build()).arg(plugin);
    finds_it_by("already mapped", host.preload(interposer()).library_dir(emulator_dir()));
}

#[test]
fn in_the_place_of_nccl_by_the_configured_path() {
    let program = CProgram::linked_with_nccl_alone("real_nccl_id.c").build();
    let run =
        Run::new(program).library_dir(interposer_as_nccl_dir()).env("AIRAMP_NCCL_PATH", emulated_nccl());
    finds_it_by("AIRAMP_NCCL_PATH", run);
}

#[test]
fn opened_as_nccl_by_the_usual_name() {
    let run = Run::new(CProgram::unlinked("absent.c").build()).arg(interposer());
    finds_it_by("opened by name", run.library_dir(emulator_dir()));
}

#[test]
fn two_libraries_by_the_handles_of_the_application() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let copy = dir.path().join("libnccl.so.2");
    fs::copy(emulated_nccl(), &copy).expect("a copy of the emulator");
    let run = Run::new(CProgram::unlinked("two_libraries.c").build()).arg(emulated_nccl()).arg(copy);
    finds_by("own handle", 2, run.preload(interposer()).library_dir(emulator_dir()));
}
