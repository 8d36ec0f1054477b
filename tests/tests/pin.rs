//! Abort from another thread while the interposer itself uses the communicator.

use airamp_tests::c_program::vendor_dir;
use airamp_tests::{CProgram, Run, interposer};

/// What the vendor noticed when the interposer's query of it takes that long.
fn abort_during_a_query_of(milliseconds: u32) -> String {
    let library = CProgram::unlinked("pin_vendor.c").shared_library().build();
    let dir = vendor_dir(&library);
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
