//! One small C program per hazard of living in someone else's process. Each is
//! run without the library and with it, and ends the same way with the same
//! output, into which it prints its result bits.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use airamp_tests::artifacts::{emulated_nccl, emulator_dir, interposer};
use airamp_tests::comparison::{
    Compared, Presence, assert_equal, assert_unchanged, assert_unchanged_in_every_way,
    assert_unchanged_when_preloaded, interposer_as_nccl_dir,
};
use airamp_tests::{CProgram, End, Run, skip, skip_outside_ci};

/// The program, linked with NCCL, told which scenario to play.
fn linked(source: &'static str, scenario: &str) -> Run {
    Run::new(CProgram::linked(source).build()).arg(scenario)
}

fn unlinked(source: &'static str) -> Run {
    Run::new(CProgram::unlinked(source).build())
}

fn cuda_runtime() -> String {
    emulator_dir().join("libcudart.so.12").display().to_string()
}

/// Other threads may write to the same terminal, so the words need not be a line.
#[track_caller]
fn assert_stderr_has(compared: &Compared, words: &str) {
    assert!(compared.with.stderr_text().contains(words), "no {words:?} with the library:\n{}", compared.with);
}

mod fork {
    use super::*;

    #[test]
    fn a_child_may_start_afresh_after_the_parent_asked_for_the_version() {
        assert_unchanged_in_every_way(&linked("fork.c", "afresh"));
    }

    #[test]
    fn a_child_that_touches_nothing_leaves_the_parent_alone() {
        let compared = assert_unchanged_when_preloaded(&linked("fork.c", "untouched"));
        assert_stderr_has(&compared, "parent index 2/2");
    }

    #[test]
    fn a_child_does_not_know_the_communicators_of_its_parent() {
        let compared = assert_unchanged_when_preloaded(&linked("fork.c", "questions"));
        assert_stderr_has(&compared, "inherited index unknown");
        assert_stderr_has(&compared, "parent index 2/2");
    }

    #[test]
    fn a_child_that_makes_its_own_communicator_is_treated_as_the_vendor_treats_it() {
        assert_unchanged_in_every_way(&linked("fork.c", "own"));
    }

    #[test]
    fn a_fork_in_the_middle_of_a_group_leaves_the_group_to_the_parent() {
        let compared = assert_unchanged_when_preloaded(&linked("fork.c", "group"));
        assert_stderr_has(&compared, "inherited index unknown");
        assert_stderr_has(&compared, "parent index 1/1");
    }
}

mod exit {
    use super::*;

    fn ends_the_same(scenario: &str, end: End) {
        let run = linked("exit_in_the_middle.c", scenario);
        for presence in [Presence::Preloaded, Presence::NamedAsNccl] {
            let compared = assert_unchanged(&run, presence);
            assert_eq!(compared.with.end, end, "{}", compared.with);
            assert!(compared.with.product_lines().is_empty(), "{}", compared.with);
        }
    }

    #[test]
    fn exit_inside_a_group_keeps_its_status() {
        ends_the_same("group", End::Code(7));
    }

    #[test]
    fn exit_from_another_thread_with_work_in_flight_keeps_its_status() {
        ends_the_same("thread", End::Code(3));
    }

    #[test]
    fn an_immediate_exit_with_work_in_flight_keeps_its_status() {
        ends_the_same("_exit", End::Code(5));
    }

    #[test]
    fn main_may_return_with_communicators_alive() {
        ends_the_same("return", End::Code(4));
    }

    #[test]
    fn an_exit_handler_may_call_nccl() {
        ends_the_same("atexit", End::Code(6));
    }

    #[test]
    fn a_destructor_of_the_program_may_call_nccl() {
        ends_the_same("destructor", End::Code(6));
    }
}

mod loading {
    use super::*;

    #[test]
    fn a_plugin_in_a_local_scope_reaches_us_and_the_vendor() {
        let plugin = CProgram::linked("plugin.c").shared_library().build();
        let compared = assert_unchanged_when_preloaded(&unlinked("plugin_host.c").arg(plugin));
        assert_stderr_has(&compared, "plugin index 1/1");
    }

    #[test]
    fn a_handle_by_name_gets_our_functions() {
        let run = unlinked("handle.c").args(["libnccl.so.2", "libcudart.so.12"]);
        let compared = assert_unchanged_when_preloaded(&run);
        assert_stderr_has(&compared, "handle index 1/1");
    }

    #[test]
    fn a_handle_by_absolute_path_gets_our_functions() {
        let run = unlinked("handle.c").arg(emulated_nccl()).arg(cuda_runtime());
        let compared = assert_unchanged_when_preloaded(&run);
        assert_stderr_has(&compared, "handle index 1/1");
    }

    #[test]
    fn the_library_works_when_it_is_named_as_nccl_itself() {
        let run = unlinked("handle.c");
        let vendor = run.clone().arg(emulated_nccl()).arg(cuda_runtime());
        let ours = run.arg(interposer()).arg(cuda_runtime()).env("AIRAMP_NCCL_PATH", emulated_nccl());
        assert_equal(&vendor.run(), &ours.run());
    }

    #[test]
    fn the_library_named_as_nccl_may_be_closed_and_opened_again() {
        let run = unlinked("dlclose.c");
        let vendor = run.clone().arg(emulated_nccl()).arg(cuda_runtime());
        let ours = run.arg(interposer()).arg(cuda_runtime()).env("AIRAMP_NCCL_PATH", emulated_nccl());
        let without = vendor.clone().run();
        assert_equal(&without, &ours.run());
        assert_equal(&without, &vendor.preload(interposer()).run());
    }

    #[test]
    fn two_nccl_libraries_in_one_process_keep_apart() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let copy = dir.path().join("libnccl.so.2");
        fs::copy(emulated_nccl(), &copy).expect("a copy of the emulator");
        let run = unlinked("two_libraries.c").arg(emulated_nccl()).arg(copy);
        let compared = assert_unchanged_when_preloaded(&run);
        assert!(compared.with.stdout_text().contains("two libraries: yes"));
        assert_stderr_has(&compared, "first index 2/2");
        assert_stderr_has(&compared, "second index 2/2");
    }

    #[test]
    fn dlsym_with_pseudo_handles_answers_as_it_does_without_us() {
        let compared = assert_unchanged_when_preloaded(&linked("lookup.c", ""));
        assert_stderr_has(&compared, "default index 1/1");
        assert_stderr_has(&compared, "next index 1/1");
    }

    #[test]
    fn another_preloaded_library_sees_its_own_next_in_both_orders() {
        let other = CProgram::unlinked("wrapper.c").shared_library().build();
        let run = linked("wrapped.c", "").library_dir(emulator_dir());
        let without = run.clone().preload(&other).run();
        without.assert_success();
        for order in [[&interposer(), &other], [&other, &interposer()]] {
            let with = order.iter().fold(run.clone(), |run, library| run.preload(library)).run();
            assert_equal(&without, &with);
            assert!(with.stderr_text().contains("wrapped index 2/2"), "{with}");
        }
    }
}

mod absent_symbols {
    use super::*;

    const OLD: &str = "21800";

    fn asked(whom: impl AsRef<Path>) -> Run {
        unlinked("absent.c").arg(whom.as_ref()).env("AIRAMP_EMU_NCCL_VERSION", OLD)
    }

    #[test]
    fn a_function_that_an_old_vendor_lacks_looks_absent_through_its_handle() {
        let compared = assert_unchanged_when_preloaded(&asked("libnccl.so.2"));
        let text = compared.without.stdout_text();
        assert!(text.contains("ncclAllReduceConfig absent, dlerror speaks"), "{text}");
        assert!(text.contains("ncclCommSplit present, dlerror is silent"), "{text}");
    }

    #[test]
    fn a_function_that_an_old_vendor_lacks_looks_absent_in_the_global_scope() {
        let program = CProgram::linked("absent.c").build();
        let run = Run::new(program).arg("default").env("AIRAMP_EMU_NCCL_VERSION", OLD);
        assert_unchanged_in_every_way(&run);
    }

    #[test]
    fn a_function_that_an_old_vendor_lacks_looks_absent_in_the_library_named_as_nccl() {
        let without = asked(emulated_nccl()).run();
        let with = asked(interposer()).env("AIRAMP_NCCL_PATH", emulated_nccl()).run();
        assert_equal(&without, &with);
        let with = asked("libnccl.so.2")
            .library_dir(interposer_as_nccl_dir())
            .env("AIRAMP_NCCL_PATH", emulated_nccl())
            .run();
        assert_equal(&without, &with);
    }
}

mod threads {
    use super::*;

    #[test]
    fn eight_threads_with_their_own_communicators_and_groups_do_not_meet() {
        let run = linked("threads.c", "").env("AIRAMP_EMU_DEVICES", "16");
        let compared = assert_unchanged_when_preloaded(&run);
        let stderr = compared.with.stderr_text();
        assert_eq!(stderr.matches("thread index 20/20").count(), 8, "{stderr}");
        assert_unchanged(&run, Presence::NamedAsNccl);
    }

    #[test]
    fn a_thread_with_the_smallest_stack_starts() {
        let compared = assert_unchanged_when_preloaded(&unlinked("small_stack.c"));
        assert_eq!(compared.with.stdout_text().matches("started").count(), 3, "{}", compared.with);
    }

    #[test]
    fn a_key_destructor_may_call_nccl() {
        assert_unchanged_in_every_way(&linked("tls_teardown.c", "key"));
    }

    #[test]
    fn a_thread_local_destructor_may_call_nccl() {
        assert_unchanged_in_every_way(&linked("tls_teardown.c", "thread-local"));
    }

    #[test]
    fn a_thread_local_destructor_of_the_main_thread_may_call_nccl() {
        assert_unchanged_in_every_way(&linked("tls_teardown.c", "main"));
    }

    #[test]
    fn an_abort_from_another_thread_ends_a_blocked_call() {
        let compared = assert_unchanged_when_preloaded(&linked("abort.c", "call"));
        assert_stderr_has(&compared, "aborted index unknown");
    }

    #[test]
    fn an_abort_from_another_thread_ends_a_wait_for_the_stream() {
        let compared = assert_unchanged_when_preloaded(&linked("abort.c", "wait"));
        assert_stderr_has(&compared, "aborted index unknown");
    }
}

mod bystanders {
    use super::*;

    fn libraries(stderr: &str) -> Vec<String> {
        stderr
            .lines()
            .filter_map(|line| line.strip_prefix("library "))
            .filter_map(|path| path.rsplit('/').next())
            .map(str::to_owned)
            .collect()
    }

    /// The compiler's unwinder, which any C++ program and Python extension has
    /// mapped already; Rust code cannot be linked without it.
    const UNWINDER: &str = "libgcc_s.so.1";

    #[test]
    fn a_program_that_never_touches_nccl_pays_one_mapped_library() {
        let Compared { without, with } = assert_unchanged_when_preloaded(&unlinked("never.c"));
        let before = libraries(&without.stderr_text());
        let added: Vec<_> = libraries(&with.stderr_text())
            .into_iter()
            .filter(|library| !before.contains(library) && library != UNWINDER)
            .collect();
        assert_eq!(added, ["libairamp_accel.so"], "{with}");
        assert!(with.product_lines().is_empty(), "{with}");
    }

    #[test]
    fn a_static_program_never_sees_us() {
        for flag in ["-static", "-static-pie"] {
            let program = match CProgram::unlinked("never.c").flag(flag).try_build() {
                Ok(program) => program,
                Err(error) => return skip(&format!("no static C library here: {error}")),
            };
            let Compared { with, .. } = assert_unchanged_when_preloaded(&Run::new(program));
            assert!(libraries(&with.stderr_text()).is_empty(), "{with}");
        }
    }

    #[test]
    fn a_setuid_program_never_sees_us() {
        let Some(program) = setuid_copy(&CProgram::unlinked("never.c").build()) else {
            return skip_outside_ci("making a setuid program takes root");
        };
        let run = Run::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(program.path().join("never"));
        let without = run.clone().run();
        let with = run.preload(interposer()).run();
        without.assert_success();
        if !without.stdout_text().contains("secure 1") {
            return skip("the temporary folder does not honour setuid");
        }
        assert_equal(&without, &with);
        assert_eq!(libraries(&without.stderr_text()), libraries(&with.stderr_text()));
    }

    /// A root-owned copy that runs as root whoever starts it, in a folder that
    /// goes when the test ends. It prints facts about itself and does nothing else.
    fn setuid_copy(program: &Path) -> Option<tempfile::TempDir> {
        // SAFETY: geteuid has no preconditions and cannot fail.
        if unsafe { libc::geteuid() } != 0 {
            return None;
        }
        let dir = tempfile::tempdir().expect("a temporary folder");
        let copy = dir.path().join("never");
        // By a child: while this process held it open for writing, a child of another test could, and it would not be executed.
        let copied = Command::new("cp").arg(program).arg(&copy).status().expect("cp");
        assert!(copied.success(), "{copied}");
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("mode");
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o4755)).expect("mode");
        Some(dir)
    }
}

mod address_sanitizer {
    use super::*;

    fn instrumented() -> Option<Run> {
        let program = CProgram::linked("all_reduce.c").flag("-fsanitize=address");
        match program.try_build() {
            Ok(path) => Some(Run::new(path)),
            Err(error) => {
                skip(&format!("the compiler has no address sanitizer: {error}"));
                None
            }
        }
    }

    fn runtime() -> String {
        let output = Command::new("cc").arg("-print-file-name=libasan.so").output().expect("running cc");
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// The sanitizer insists on coming first, so it is preloaded before us.
    #[test]
    fn an_instrumented_program_runs_with_us_behind_its_runtime() {
        let Some(run) = instrumented() else { return };
        let without = Presence::Absent.applied_to(run.clone()).run();
        let with = Presence::Preloaded.applied_to(run.preload(runtime())).run();
        without.assert_success();
        assert_equal(&without, &with);
    }

    #[test]
    fn an_instrumented_program_runs_with_us_first_if_the_order_is_not_checked() {
        let Some(run) = instrumented() else { return };
        let run = run.env("ASAN_OPTIONS", "verify_asan_link_order=0");
        let compared = assert_unchanged_when_preloaded(&run);
        compared.with.assert_success();
    }
}
