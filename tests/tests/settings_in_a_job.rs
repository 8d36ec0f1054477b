//! Settings and logging seen from a job of two ranks: bad settings cost a warning
//! that names what and where, and nothing else; the log has one line per event
//! with the rank and the process in it.

use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use airamp_tests::comparison::{Presence, assert_equal, assert_unchanged_when_preloaded};
use airamp_tests::{CProgram, Outcome, Run, interposer, skip};
use tempfile::TempDir;

const RANKS: u32 = 2;

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// A run of the job with the library, changed by `with`, ends as one without it.
#[track_caller]
fn job_is_unchanged(with: impl FnOnce(Run) -> Run) -> Vec<Outcome> {
    let dir = folder();
    let program = CProgram::linked("job.c").build();
    let job = |id: &str| Run::new(&program).arg(dir.path().join(id));
    let without = Presence::Absent.applied_to(job("id-without")).run_ranks(RANKS);
    let outcomes = with(Presence::Preloaded.applied_to(job("id-with"))).run_ranks(RANKS);
    for (without, with) in without.iter().zip(&outcomes) {
        without.assert_success();
        assert_equal(without, with);
    }
    outcomes
}

/// Each rank prints exactly these warnings, each containing all its parts.
#[track_caller]
fn assert_warnings(outcomes: &[Outcome], expected: &[&[&str]]) {
    for outcome in outcomes {
        let lines = outcome.product_lines();
        assert_eq!(lines.len(), expected.len(), "{outcome}");
        for (line, parts) in lines.iter().zip(expected) {
            for part in *parts {
                assert!(line.contains(part), "{part:?} is not in {line:?}");
            }
        }
    }
}

fn settings_file(dir: &Path, content: &[u8]) -> PathBuf {
    let path = dir.join("airamp.conf");
    fs::write(&path, content).expect("a settings file");
    path
}

mod bad_files {
    use super::*;

    #[test]
    fn wrong_types_are_named_with_file_line_and_key() {
        let dir = folder();
        let file = settings_file(dir.path(), b"min_bytes = true\n\nmetrics_port = \"many\"\n");
        let name = file.display().to_string();
        let outcomes = job_is_unchanged(|run| run.env("AIRAMP_CONFIG", &file));
        let [first, third] = [1, 3].map(|line| format!("{name}:{line}:"));
        assert_warnings(
            &outcomes,
            &[&["airamp warn", &first, "min_bytes"], &[&third, "metrics_port", "many"]],
        );
    }

    #[test]
    fn unknown_keys_are_named() {
        let dir = folder();
        let file = settings_file(dir.path(), b"log = \"warn\"\nmin_byte = 5\n");
        let place = format!("{}:2:", file.display());
        let outcomes = job_is_unchanged(|run| run.env("AIRAMP_CONFIG", &file));
        assert_warnings(&outcomes, &[&[&place, "unknown key", "min_byte", "min_bytes"]]);
    }

    #[test]
    fn a_directory_in_its_place_is_named() {
        let dir = folder();
        let name = dir.path().display().to_string();
        let outcomes = job_is_unchanged(|run| run.env("AIRAMP_CONFIG", dir.path()));
        assert_warnings(&outcomes, &[&[&name, "a directory"]]);
    }

    #[test]
    fn a_file_that_does_not_exist_is_named() {
        let outcomes = job_is_unchanged(|run| run.env("AIRAMP_CONFIG", "/nowhere/airamp.conf"));
        assert_warnings(&outcomes, &[&["/nowhere/airamp.conf", "no such file"]]);
    }

    #[test]
    fn broken_text_is_named_with_its_line() {
        let dir = folder();
        let file = settings_file(dir.path(), b"mode = \"observe\"\nthis is not TOML\n");
        let name = file.display().to_string();
        let outcomes = job_is_unchanged(|run| run.env("AIRAMP_CONFIG", &file));
        assert_warnings(&outcomes, &[&[&name, "line 2"]]);
    }

    #[test]
    fn a_hundred_megabytes_of_noise_are_refused_unread() {
        let dir = folder();
        let file = dir.path().join("airamp.conf");
        write_noise(&file, 100 << 20);
        let name = file.display().to_string();
        let outcomes = job_is_unchanged(|run| run.env("AIRAMP_CONFIG", &file));
        assert_warnings(&outcomes, &[&[&name, "larger than"]]);
    }

    fn write_noise(path: &Path, bytes: usize) {
        let mut state = 0x2545_f491_u32;
        let block: Vec<u8> = (0..1 << 20)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            })
            .collect();
        let mut file = File::create(path).expect("a file for noise");
        for _ in 0..bytes / block.len() {
            file.write_all(&block).expect("room for noise");
        }
    }

    /// Root may read everything, so the job is run as somebody else.
    #[test]
    fn a_file_without_permission_is_named() {
        // SAFETY: geteuid has no preconditions and cannot fail.
        let root = unsafe { libc::geteuid() } == 0;
        let dir = folder();
        let file = settings_file(dir.path(), b"log = \"debug\"\n");
        fs::set_permissions(&file, Permissions::from_mode(if root { 0o600 } else { 0o000 })).expect("mode");
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).expect("mode");
        if !root {
            let name = file.display().to_string();
            let outcomes = job_is_unchanged(|run| run.env("AIRAMP_CONFIG", &file));
            return assert_warnings(&outcomes, &[&[&name, "cannot be read"]]);
        }
        job_of_somebody_else(dir.path(), &file);
    }

    fn job_of_somebody_else(dir: &Path, settings: &Path) {
        const NOBODY: u32 = 65_534;
        let exchange = dir.join("exchange");
        fs::create_dir(&exchange).expect("a folder for the id");
        chown(&exchange, Some(NOBODY), Some(NOBODY)).expect("an owner");
        let job = |id: &str| {
            Run::new("setpriv")
                .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
                .arg(CProgram::linked("job.c").build())
                .arg(exchange.join(id))
        };
        let without = Presence::Absent.applied_to(job("without")).run_ranks(RANKS);
        if without.iter().any(|outcome| outcome.stderr_text().contains("ermission denied")) {
            return skip("the build lies where nobody else may look");
        }
        let with =
            Presence::Preloaded.applied_to(job("with")).env("AIRAMP_CONFIG", settings).run_ranks(RANKS);
        for (without, with) in without.iter().zip(&with) {
            without.assert_success();
            assert_equal(without, with);
        }
        let name = settings.display().to_string();
        // setpriv, still root, is preloaded too but never uses NCCL: it says nothing.
        assert_warnings(&with, &[&[&name, "cannot be read"]]);
    }
}

mod environment {
    use super::*;

    #[test]
    fn a_bad_value_and_an_unknown_variable_are_named() {
        let outcomes =
            job_is_unchanged(|run| run.env("AIRAMP_MIN_BYTES", "plenty").env("AIRAMP_MIN_SPEDUP", "2"));
        assert_warnings(
            &outcomes,
            &[&["AIRAMP_MIN_BYTES", "plenty"], &["AIRAMP_MIN_SPEDUP", "AIRAMP_MIN_SPEEDUP"]],
        );
    }

    #[test]
    fn a_relative_folder_of_telemetry_is_named() {
        let outcomes = job_is_unchanged(|run| run.env("AIRAMP_TELEMETRY_DIR", "telemetry"));
        assert_warnings(&outcomes, &[&["AIRAMP_TELEMETRY_DIR", "an absolute path", "telemetry"]]);
    }

    #[test]
    fn a_good_file_is_read_in_silence() {
        let dir = folder();
        let file = settings_file(dir.path(), b"mode = \"observe\"\nmin_bytes = \"4 MiB\"\n");
        let outcomes = job_is_unchanged(|run| run.env("AIRAMP_CONFIG", &file));
        assert_warnings(&outcomes, &[]);
    }

    #[test]
    fn disabled_we_say_nothing() {
        assert_warnings(&job_is_unchanged(|run| run.env("AIRAMP_DISABLE", "1")), &[]);
    }

    #[test]
    fn disabled_we_follow_no_communicator() {
        let run = Run::new(CProgram::linked("all_reduce.c").build()).env("AIRAMP_DISABLE", "1");
        let compared = assert_unchanged_when_preloaded(&run);
        assert!(compared.with.stderr_text().contains("plain index unknown"), "{}", compared.with);
    }
}

mod log {
    use super::*;

    fn lines_at(level: &str) -> Vec<Vec<String>> {
        let outcomes = job_is_unchanged(|run| run.env("AIRAMP_LOG", level));
        outcomes.iter().map(Outcome::product_lines).collect()
    }

    #[track_caller]
    fn assert_well_formed(line: &str, levels: &[&str]) {
        let mut words = line.split(' ');
        assert_eq!(words.next(), Some("airamp"), "{line}");
        let level = words.next().unwrap_or_default();
        assert!(levels.contains(&level), "{line}");
        let pid = words.next().and_then(|word| word.strip_prefix("pid="));
        assert!(pid.is_some_and(|pid| pid.parse::<u32>().is_ok()), "{line}");
        let rank =
            words.next().and_then(|word| word.strip_prefix("rank=")).and_then(|word| word.strip_suffix(':'));
        assert!(rank.is_some_and(|rank| rank == "-" || rank.parse::<u32>().is_ok()), "{line}");
    }

    #[test]
    fn nothing_is_logged_by_default() {
        assert_warnings(&job_is_unchanged(|run| run), &[]);
    }

    #[test]
    fn errors_and_warnings_are_silent_in_a_good_job() {
        for level in ["error", "warn"] {
            assert_eq!(lines_at(level), vec![Vec::<String>::new(); RANKS as usize]);
        }
    }

    #[test]
    fn info_says_how_nccl_was_found_with_rank_and_pid() {
        for lines in lines_at("info") {
            lines.iter().for_each(|line| assert_well_formed(line, &["warn", "info"]));
            let found: Vec<_> = lines.iter().filter(|line| line.contains("RTLD_NEXT")).collect();
            assert_eq!(found.len(), 1, "{lines:?}");
            assert!(found[0].contains("emulated_cuda") || found[0].contains("libnccl"), "{lines:?}");
        }
    }

    #[test]
    fn debug_says_more_and_names_the_rank() {
        let [info, debug] = ["info", "debug"].map(lines_at);
        for (rank, (info, debug)) in info.iter().zip(&debug).enumerate() {
            debug.iter().for_each(|line| assert_well_formed(line, &["warn", "info", "debug"]));
            assert!(debug.len() > info.len(), "{debug:?}");
            let with_rank = format!("rank={rank}:");
            assert!(debug.iter().any(|line| line.contains(&with_rank)), "{debug:?}");
        }
    }

    #[test]
    fn a_log_file_gets_every_line_of_every_rank_and_stderr_none() {
        let dir = folder();
        let file = dir.path().join("airamp.log");
        let outcomes = job_is_unchanged(|run| run.env("AIRAMP_LOG", "debug").env("AIRAMP_LOG_FILE", &file));
        assert_warnings(&outcomes, &[]);
        let text = fs::read_to_string(&file).expect("the log file");
        text.lines().for_each(|line| assert_well_formed(line, &["info", "debug"]));
        for rank in 0..RANKS {
            assert!(text.contains(&format!("rank={rank}:")), "{text}");
        }
    }

    #[test]
    fn a_log_file_that_cannot_be_written_is_named_once_and_stderr_takes_over() {
        let dir = folder();
        let outcomes = job_is_unchanged(|run| run.env("AIRAMP_LOG_FILE", dir.path()));
        let name = dir.path().display().to_string();
        assert_warnings(&outcomes, &[&[&name]]);
    }

    #[test]
    fn a_program_that_never_uses_nccl_logs_nothing_even_when_asked() {
        let outcome = Run::new(CProgram::unlinked("never.c").build())
            .preload(interposer())
            .env("AIRAMP_LOG", "info")
            .run();
        outcome.assert_success();
        assert!(outcome.product_lines().is_empty(), "{outcome}");
    }
}
