//! Programs that do unusual things which work without the library, and must work with it.

use airamp_tests::c_program::vendor_dir;
use airamp_tests::{CProgram, Outcome, Run, artifacts, interposer, skip_outside_ci};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

fn vendor() -> tempfile::TempDir {
    vendor_dir(&CProgram::unlinked("null_nccl.c").shared_library().build())
}

fn odd_host(mode: &str, dir: &Path) -> Run {
    Run::new(CProgram::linked_with_nccl_alone("odd_host.c").build()).arg(mode).library_dir(dir)
}

fn with(run: &Run) -> Outcome {
    run.clone().preload(interposer()).run()
}

#[track_caller]
fn assert_same(run: &Run) {
    let (bare, with) = (run.clone().run(), with(run));
    assert_eq!(bare.assert_success().stdout_text(), with.assert_success().stdout_text(), "{with}");
}

#[test]
fn the_place_of_a_handle_may_be_gone_before_the_group_ends() {
    let dir = vendor();
    assert_eq!(with(&odd_host("slot", dir.path())).assert_success().stdout_text(), "slot: 1/1\nresult 0\n");
}

#[test]
fn a_simulated_end_without_a_place_for_the_estimate_launches() {
    let dir = vendor();
    let outcome = with(&odd_host("simulate", dir.path()));
    assert_eq!(outcome.assert_success().stdout_text(), "launched: 1/1\nsimulated: 1/1\nresult 0\n");
}

#[test]
fn what_cannot_be_counted_exactly_is_not_counted_again() {
    let dir = vendor();
    let outcome = with(&odd_host("many", dir.path()));
    assert_eq!(outcome.assert_success().stdout_text(), "first: 2/2\nlast: not counted\nresult 0\n");
    assert_eq!(outcome.product_lines().len(), 1, "{outcome}");
}

/// A library of version 11111 that no name gives away, and a plugin linked with the usual one.
fn custom_library_and_plugin() -> (PathBuf, PathBuf) {
    let custom = CProgram::unlinked("null_nccl.c").flag("-DVERSION=11111").shared_library().build();
    (custom, CProgram::linked_with_nccl_alone("version_plugin.c").shared_library().build())
}

#[test]
fn a_handle_does_not_decide_what_the_exported_names_lead_to() {
    let dir = vendor();
    let (custom, plugin) = custom_library_and_plugin();
    let program = CProgram::unlinked("odd_handle.c").build();
    for mode in ["handle", "namespace"] {
        let run = Run::new(&program).arg(mode).arg(&custom).arg(&plugin).library_dir(dir.path());
        assert_same(&run);
        assert!(run.run().stdout_text().contains("22809"));
    }
}

#[test]
fn a_warning_that_nobody_reads_neither_kills_nor_stops_the_program() {
    let library = CProgram::unlinked("null_nccl.c").flag("-DNO_GPU").shared_library().build();
    let dir = tempfile::tempdir().expect("a temporary folder");
    symlink(library, dir.path().join("libnccl.so.2")).expect("a link to the vendor");
    assert_same(&odd_host("deaf", dir.path()));
    assert_same(&odd_host("stuffed", dir.path()));
}

#[test]
fn two_copies_of_the_library_do_not_chase_each_other() {
    let dir = vendor();
    let copy = dir.path().join("libairamp_copy.so");
    fs::copy(interposer(), &copy).expect("a copy of the library");
    for order in [[interposer(), copy.clone()], [copy.clone(), interposer()]] {
        let run = order.iter().fold(odd_host("slot", dir.path()), |run, library| run.preload(library));
        assert!(run.run().assert_success().stdout_text().ends_with("result 0\n"));
    }
    let (_, plugin) = custom_library_and_plugin();
    let program = CProgram::unlinked("odd_handle.c").build();
    let named = Run::new(program).arg("handle").arg(&copy).arg(plugin).library_dir(dir.path());
    named.preload(interposer()).run().assert_success();
}

#[test]
fn another_hook_of_dlsym_ahead_of_us_does_not_make_us_open_nccl() {
    let dir = vendor();
    let hook = CProgram::unlinked("dlsym_hook.c").flag("-O2").shared_library().build();
    for order in [[hook.clone(), interposer()], [interposer(), hook]] {
        let run = Run::new("/bin/cat").arg("/proc/self/maps").library_dir(dir.path());
        let outcome = order.iter().fold(run, |run, library| run.preload(library)).run();
        assert!(!outcome.assert_success().stdout_text().contains("nccl"), "{outcome}");
        assert!(outcome.stderr_text().is_empty(), "{outcome}");
    }
}

#[test]
fn an_exception_of_the_vendor_reaches_the_program() {
    let out = artifacts::folder().join("hazard-programs");
    fs::create_dir_all(&out).expect("a folder beside the artifacts");
    let source = airamp_tests::package_dir().join("hazards/throwing.cc");
    let (library, program) = (out.join("libthrowing.so"), out.join("throwing"));
    let compile = |to: &Path, arguments: &[&str]| {
        Command::new("c++").arg(&source).arg("-o").arg(to).args(arguments).output()
    };
    let Ok(built) = compile(&library, &["-shared", "-fPIC", "-DVENDOR"]) else {
        return skip_outside_ci("there is no C++ compiler");
    };
    assert!(built.status.success(), "{built:?}");
    let dir = vendor_dir(&library);
    let folder = format!("-L{}", dir.path().display());
    let linked = compile(&program, &[&folder, "-l:libnccl.so.2", "-ldl"]).expect("the compiler ran before");
    assert!(linked.status.success(), "{linked:?}");
    let run = Run::new(&program).library_dir(dir.path());
    assert_same(&run);
    assert!(with(&run).stderr_text().contains("index 1/1"), "the call that threw does not count");
}

#[test]
fn a_forwarded_call_keeps_all_its_arguments_and_the_place_of_its_result() {
    let library = CProgram::unlinked("forwarded.c").flag("-DVENDOR").shared_library().build();
    let program = CProgram::linked_with_nccl_alone("forwarded.c").build();
    assert_same(&Run::new(program).library_dir(vendor_dir(&library).path()));
}
