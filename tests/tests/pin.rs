//! Abort from another thread while the interposer itself uses the communicator.

use airamp_tests::{CProgram, Run, interposer};
use std::os::unix::fs::symlink;

/// What the vendor noticed when the interposer's query of it takes that long.
fn abort_during_a_query_of(milliseconds: u32) -> String {
    let library = CProgram::unlinked("pin_vendor.c").shared_library().build();
    let dir = tempfile::tempdir().expect("a temporary folder");
    for name in ["libnccl.so.2", "libcuda.so.1"] {
        symlink(&library, dir.path().join(name)).expect("a link to the vendor");
    }
    let program = CProgram::linked_with_nccl_alone("pin.c").build();
    let run = Run::new(program).library_dir(dir.path()).env("PIN_QUERY_MS", milliseconds.to_string());
    let outcome = run.preload(interposer()).run();
    outcome.assert_success();
    outcome.stdout_text()
}

#[test]
fn an_abort_waits_for_our_own_use_of_the_communicator() {
    assert_eq!(abort_during_a_query_of(300), "queried=1 result=0 aborted=1 in_query=0\n");
}

#[test]
fn an_abort_does_not_wait_for_ever() {
    assert_eq!(abort_during_a_query_of(6000), "queried=1 result=0 aborted=1 in_query=1\n");
}
