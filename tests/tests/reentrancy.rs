//! A vendor's calls of its own exports come back to us, and are no calls of the application's.

use airamp_tests::c_program::vendor_dir;
use airamp_tests::{CProgram, Run, interposer};

#[test]
fn a_call_that_the_vendor_makes_of_its_own_export_counts_once() {
    let vendor = CProgram::unlinked("reentrant_vendor.c").shared_library().build();
    let dir = vendor_dir(&vendor);
    let program = CProgram::linked_with_nccl_alone("reentrant.c").build();
    let run = Run::new(program).library_dir(dir.path());
    let bare = run.clone().run();
    let with = run.preload(interposer()).run();
    let expected = "init 0\ncall 0\ncall 0\ncall 0\n";
    assert_eq!(bare.assert_success().stdout_text(), expected);
    let counted = "known 0 reserved 3 committed 3\nother 0 reserved 0 committed 0\n";
    assert_eq!(with.assert_success().stdout_text(), format!("{expected}{counted}"));
}
