//! What goes wrong around us or inside us costs the job nothing: result bits,
//! return codes and exit status are those of the run without the library, and
//! there is one line that says what is the matter.

use std::os::unix::fs::symlink;

use airamp_tests::artifacts::{emulated_nccl, interposer};
use airamp_tests::comparison::{
    Compared, Presence, assert_equal, assert_unchanged, assert_unchanged_when_preloaded,
    interposer_as_nccl_dir,
};
use airamp_tests::{CProgram, End, Outcome, Run};

fn all_reduce() -> Run {
    Run::new(CProgram::linked("all_reduce.c").build())
}

#[track_caller]
fn assert_one_warning(outcome: &Outcome, parts: &[&str]) {
    let lines = outcome.product_lines();
    assert_eq!(lines.len(), 1, "not one line:\n{outcome}");
    for part in parts {
        assert!(lines[0].contains(part), "{part:?} is not in {:?}", lines[0]);
    }
}

/// Unchanged, successful, and without a word from us, preloaded and as NCCL.
#[track_caller]
fn assert_unchanged_and_silent(run: &Run) {
    for presence in [Presence::Preloaded, Presence::NamedAsNccl] {
        let Compared { with, .. } = assert_unchanged(run, presence);
        with.assert_success();
        assert!(with.product_lines().is_empty(), "{with}");
    }
}

mod gpu_runtime {
    use super::*;

    /// A folder that has NCCL but neither driver nor runtime.
    fn nccl_alone() -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let target = emulated_nccl().canonicalize().expect("the emulator");
        symlink(target, dir.path().join("libnccl.so.2")).expect("a link");
        dir
    }

    #[test]
    fn a_missing_driver_makes_us_inert_with_one_warning() {
        let dir = nccl_alone();
        // The emulator is one file: the program finds the runtime's functions in it.
        let run = Run::new(CProgram::linked_with_nccl_alone("all_reduce.c").build()).library_dir(dir.path());
        let without = run.clone().run();
        let with = run.preload(interposer()).run();
        without.assert_success();
        assert_equal(&without, &with);
        assert_one_warning(&with, &["interposer inert", "libcuda.so.1"]);
    }

    #[test]
    fn a_runtime_that_lacks_a_function_makes_us_inert_with_one_warning() {
        let hidden = "cudaStreamIsCapturing,cuStreamIsCapturing,hipStreamIsCapturing";
        let run = all_reduce().env("AIRAMP_EMU_HIDE_SYMBOLS", hidden);
        let Compared { without, with } = assert_unchanged_when_preloaded(&run);
        without.assert_success();
        assert_one_warning(&with, &["interposer inert", "has no cudaStreamIsCapturing"]);
    }

    #[test]
    fn a_driver_without_a_device_fails_the_program_as_it_does_without_us() {
        let run = all_reduce().env("AIRAMP_EMU_NO_DEVICE", "1");
        let without = Presence::Absent.applied_to(run.clone()).run();
        assert_eq!(without.end, End::Code(99), "{without}");
        assert_equal(&without, &Presence::Preloaded.applied_to(run).run());
    }

    #[test]
    fn an_unknown_architecture_changes_nothing() {
        let run = all_reduce().env("AIRAMP_EMU_ARCH", "sm_999");
        assert_unchanged_and_silent(&run);
    }
}

mod nccl {
    use super::*;

    #[test]
    fn an_old_nccl_without_newer_functions_changes_nothing() {
        let tour = Run::new(CProgram::linked("tour.c").build()).env("AIRAMP_EMU_NCCL_VERSION", "21800");
        assert_unchanged_and_silent(&tour);
        let without = Presence::Absent.applied_to(tour).run();
        assert!(without.stdout_text().contains("ncclCommShrink is not there"), "{without}");
    }

    #[test]
    fn hidden_functions_look_absent_and_the_rest_works() {
        let tour = Run::new(CProgram::linked("tour.c").build())
            .env("AIRAMP_EMU_HIDE_SYMBOLS", "ncclRedOpDestroy,ncclGroupSimulateEnd");
        let Compared { without, .. } = assert_unchanged_when_preloaded(&tour);
        assert!(without.stdout_text().contains("ncclRedOpDestroy is not there"), "{without}");
    }

    #[test]
    fn a_program_that_finds_no_nccl_fails_as_it_does_without_us() {
        let run = Run::new(CProgram::unlinked("handle.c").build()).args(["libnccl.so.2", "libcudart.so.12"]);
        let without = run.clone().run();
        let with = run.preload(interposer()).run();
        assert_eq!(without.end, End::Code(98));
        assert_equal(&without, &with);
        assert!(with.product_lines().is_empty(), "{with}");
    }

    #[test]
    fn in_the_place_of_nccl_without_a_vendor_calls_return_an_error() {
        let program = CProgram::linked_with_nccl_alone("real_nccl_id.c").build();
        let outcome = Run::new(program).library_dir(interposer_as_nccl_dir()).run();
        assert_eq!(outcome.end, End::Code(99), "{outcome}");
        let lines = outcome.product_lines();
        let [nccl] = lines.as_slice() else { panic!("not one fault: {outcome}") };
        assert!(nccl.contains("no NCCL or RCCL library") && nccl.contains("libnccl.so.2"), "{outcome}");
    }

    #[test]
    fn a_path_that_is_no_library_is_named_and_the_next_step_is_taken() {
        let run = all_reduce().env("AIRAMP_NCCL_PATH", "/dev/null");
        let Compared { with, .. } = assert_unchanged_when_preloaded(&run);
        with.assert_success();
    }

    #[test]
    fn bad_arguments_get_the_vendors_answer() {
        assert_unchanged_and_silent(&Run::new(CProgram::linked("bad_arguments.c").build()));
    }

    #[test]
    fn null_buffers_and_absurd_counts_get_the_vendors_answer() {
        for how in ["null input", "null output", "absurd count"] {
            assert_unchanged_and_silent(&Run::new(CProgram::linked("bad_arguments.c").build()).arg(how));
        }
    }
}

mod panics {
    use super::*;

    macro_rules! typed_names {
        ($($name:ident / $other:ident ($($argument:ident: $type:ty),*) => $duty:ident($($fact:expr),*);)*) => {
            &[$(stringify!($name)),*]
        };
    }

    /// Every function in whose calls the interposer takes part.
    const TYPED: &[&str] = airamp_vendor_abi::for_each_typed_function!(typed_names);

    /// Functions of RCCL, which the tour on the emulated NCCL cannot call; they have one of their own.
    const RCCL_ONLY: [&str; 4] = ["ncclAllReduceWithBias", "ncclAllToAll", "ncclAlltoAllv", "ncclAllToAllv"];

    fn tour() -> Run {
        Run::new(CProgram::linked("tour.c").build()).env("AIRAMP_EMU_NCCL_VERSION", "23203")
    }

    fn with_a_panic(place: &str) -> Outcome {
        Presence::Preloaded.applied_to(tour()).env("AIRAMP_INJECT_PANIC", place).run()
    }

    #[track_caller]
    fn assert_harmless_at(moment: &str) {
        let without = Presence::Absent.applied_to(tour()).run();
        without.assert_success();
        for function in TYPED.iter().filter(|name| !RCCL_ONLY.contains(name)) {
            let with = with_a_panic(&format!("{function}:{moment}"));
            assert_equal(&without, &with);
            assert!(!with.product_lines().is_empty(), "no panic struck in {function}: {with}");
            assert_one_warning(&with, &["internal error", function]);
        }
    }

    #[test]
    fn a_panic_before_the_vendors_call_is_harmless_at_every_export() {
        assert_harmless_at("before");
    }

    #[test]
    fn a_panic_after_the_vendors_call_is_harmless_at_every_export() {
        assert_harmless_at("after");
    }

    #[test]
    fn a_panic_is_harmless_under_the_profiling_names_too() {
        for function in TYPED.iter().filter(|name| !RCCL_ONLY.contains(name)) {
            let name = format!("p{function}");
            let run = Run::new(CProgram::linked("zero_call.c").build()).arg(&name);
            let run = run.env("AIRAMP_EMU_NCCL_VERSION", "23203").library_dir(airamp_tests::emulator_dir());
            let without = run.clone().run();
            let with = run.preload(airamp_tests::interposer()).env("AIRAMP_INJECT_PANIC", &name).run();
            assert_equal(without.assert_success(), &with);
            assert_one_warning(&with, &["internal error", &name]);
        }
    }

    #[test]
    fn a_panic_is_harmless_at_the_exports_that_only_rccl_has() {
        let vendor = CProgram::unlinked("rccl_vendor.c").shared_library().build();
        let dir = tempfile::tempdir().expect("a temporary folder");
        for name in ["librccl.so.1", "libamdhip64.so"] {
            std::os::unix::fs::symlink(&vendor, dir.path().join(name)).expect("a link to the vendor");
        }
        let link =
            [format!("-L{}", dir.path().display()), "-Wl,--no-as-needed".into(), "-l:librccl.so.1".into()];
        let program = link.into_iter().fold(CProgram::unlinked("rccl_tour.c"), CProgram::flag).build();
        let tour = Run::new(program).library_dir(dir.path());
        let without = tour.clone().run();
        for function in RCCL_ONLY {
            for moment in ["before", "after"] {
                let with = tour.clone().preload(airamp_tests::interposer());
                let with = with.env("AIRAMP_INJECT_PANIC", format!("{function}:{moment}")).run();
                assert_equal(without.assert_success(), &with);
                assert_one_warning(&with, &["internal error", function]);
            }
        }
    }

    #[test]
    fn panics_in_every_call_are_reported_once() {
        let without = Presence::Absent.applied_to(tour()).run();
        for place in ["all", "all:before", "all:after"] {
            let with = with_a_panic(place);
            assert_equal(&without, &with);
            assert_one_warning(&with, &["internal error"]);
        }
    }

    #[test]
    fn panics_in_a_process_with_several_ranks_are_harmless() {
        let Compared { with, .. } =
            assert_unchanged_when_preloaded(&all_reduce().env("AIRAMP_INJECT_PANIC", "all"));
        with.assert_success();
        assert_one_warning(&with, &["internal error"]);
    }
}
