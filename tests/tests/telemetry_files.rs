//! The telemetry files of real jobs on the emulator: killed, planted against, out of space; and what another user can do
//! with them. What needs a second user or a mount runs as root only, and says so elsewhere.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use airamp_telemetry::{Identity, Kind, Liveness, Reader, Unreadable, create, folders};
use airamp_tests::comparison::Presence;
use airamp_tests::live::LiveJob;
use airamp_tests::{Run, airampd, rank_program, skip_outside_ci};

const STRANGER: u32 = 4242;
const LIMIT: Duration = Duration::from_secs(90);

#[test]
fn a_job_killed_in_the_middle_leaves_a_readable_file_of_each_rank() {
    let base = tempfile::tempdir().unwrap();
    let mut job = LiveJob::start(base.path(), "killed", 2, &["--bytes", "16384"]);
    job.await_first_step();
    let readers = until(|| Some(readers(base.path())).filter(|found| found.len() == 2));
    until(|| readers.iter().all(|one| calls(one) > 100).then_some(()));
    assert!(readers.iter().all(|one| one.liveness() == Liveness::Alive));
    (0..2).for_each(|rank| job.signal(rank, libc::SIGKILL));
    until(|| readers.iter().all(|one| one.liveness() == Liveness::Gone).then_some(()));
    drop(job);
    let mut ranks = Vec::new();
    for reader in &readers {
        let snapshot = reader.snapshot().unwrap();
        assert_eq!((snapshot.identity.job.as_str(), snapshot.torn), ("killed", 0));
        ranks.push(snapshot.identity.world_rank);
        let reduced = snapshot.counts.iter().find(|count| count.kind == Kind::AllReduce).unwrap();
        assert_eq!(reduced.logical_bytes, reduced.calls * 16384);
        let found = reader.calls_since(0).unwrap();
        assert_eq!(found.items.len() as u64 + found.lost, snapshot.calls_written);
        assert!(!snapshot.communicators.is_empty());
    }
    ranks.sort_unstable();
    assert_eq!(ranks, [0, 1]);
}

#[test]
fn a_link_in_place_of_the_folder_costs_the_telemetry_and_nothing_else() {
    let (base, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    symlink(elsewhere.path(), base.path().join(own_folder())).unwrap();
    short_job_succeeds(base.path());
    assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 0);
}

#[test]
fn a_folder_of_another_user_costs_the_telemetry_and_nothing_else() {
    if !is_root() {
        return skip_outside_ci("only root can give a folder away");
    }
    let base = tempfile::tempdir().unwrap();
    let planted = base.path().join(own_folder());
    std::fs::create_dir(&planted).unwrap();
    chown(&planted, Some(STRANGER), Some(STRANGER)).unwrap();
    short_job_succeeds(base.path());
    assert_eq!(std::fs::read_dir(&planted).unwrap().count(), 0);
    assert!(folders(Some(base.path())).is_empty(), "a reader does not look into it either");
}

#[test]
fn a_job_without_room_for_its_file_runs_on() {
    if !is_root() {
        return skip_outside_ci("only root can mount");
    }
    let base = tempfile::tempdir().unwrap();
    let mounting = r#"mount -t tmpfs -o size=256k none "$AIRAMP_TELEMETRY_DIR" && "$0" "$@" && ls -A "$AIRAMP_TELEMETRY_DIR"/*"#;
    let run = Run::new("unshare").args(["--mount", "sh", "-c", mounting]).arg(rank_program());
    let outcomes = applied(run.args(["steps", "--steps", "5"]), base.path()).run_ranks(2);
    for outcome in &outcomes {
        outcome.assert_success();
        assert!(!outcome.stdout_text().contains(".airamp"), "half a file is left: {}", outcome.stdout_text());
    }
}

#[test]
fn another_user_can_neither_read_nor_change_nor_replace_the_files() {
    if !is_root() {
        return skip_outside_ci("only root can act as a second user");
    }
    let base = tempfile::tempdir().unwrap();
    std::fs::set_permissions(base.path(), Permissions::from_mode(0o1777)).unwrap();
    create(Some(base.path()), &Identity::of_this_process("0", 0)).unwrap();
    let folder = folders(Some(base.path())).pop().unwrap();
    let file = folder.path().join(&folder.files()[0]);
    let (file, folder_path) = (file.to_str().unwrap(), folder.path().to_str().unwrap());
    let tries = [
        format!("ls {folder_path}"),
        format!("cat {file}"),
        format!("echo x >> {file}"),
        format!("rm -f {file} && test ! -e {file}"),
        format!("echo x > {folder_path}/1-0000000000000000.airamp"),
        format!("mv {folder_path} {folder_path}-away"),
        format!("rmdir {folder_path}"),
    ];
    as_stranger("true").status.success().then_some(()).expect("a stranger can run something");
    for attempt in &tries[..3] {
        assert!(!as_stranger(attempt).status.success(), "{attempt}");
    }
    for attempt in &tries[3..] {
        as_stranger(attempt);
    }
    assert!(Path::new(file).exists() && folder.files().len() == 1);
    assert!(Reader::open(&folder, &folder.files()[0]).is_ok());
}

#[test]
fn what_another_user_forges_in_its_own_folder_speaks_for_nobody_else() {
    if !is_root() {
        return skip_outside_ci("only root can act as a second user");
    }
    let base = tempfile::tempdir().unwrap();
    create(Some(base.path()), &Identity::of_this_process("0", 0)).unwrap();
    let genuine = folders(Some(base.path())).pop().unwrap();
    let forged = base.path().join(format!("airamp-{STRANGER}"));
    std::fs::create_dir(&forged).unwrap();
    let file = forged.join("1-00000000000000ab.airamp");
    std::fs::copy(genuine.path().join(&genuine.files()[0]), &file).unwrap();
    chown(&forged, Some(STRANGER), None).unwrap();
    let strangers = folders(Some(base.path())).into_iter().find(|folder| folder.uid() == STRANGER).unwrap();
    let open = || Reader::open(&strangers, &strangers.files()[0]);
    assert!(matches!(open(), Err(Unreadable::NotOurs)), "another's file in the folder");
    chown(&file, Some(STRANGER), None).unwrap();
    assert!(matches!(open(), Err(Unreadable::NotOurs)), "the folder's owner, in the name of another");
    std::os::unix::fs::FileExt::write_all_at(
        &std::fs::File::options().write(true).open(&file).unwrap(),
        &STRANGER.to_le_bytes(),
        172,
    )
    .unwrap();
    assert_eq!(open().unwrap().snapshot().unwrap().uid, STRANGER);
    std::fs::set_permissions(&forged, Permissions::from_mode(0o777)).unwrap();
    let found = folders(Some(base.path()));
    assert!(found.iter().all(|folder| folder.uid() != STRANGER), "anybody could have written into it");
}

#[test]
fn another_users_process_that_proc_hides_is_shown_while_it_lives() {
    if !is_root() {
        return skip_outside_ci("only root can mount and act as a second user");
    }
    let base = tempfile::tempdir().unwrap();
    std::fs::set_permissions(base.path(), Permissions::from_mode(0o1777)).unwrap();
    let writer = Writing::start(base.path());
    until(|| (readers(base.path()).len() == 1).then_some(()));
    assert_eq!(processes_shown_where_proc_hides(base.path()), 1);
    drop(writer);
    assert_eq!(processes_shown_where_proc_hides(base.path()), 0);
}

/// By the daemon with the capabilities that its unit leaves it. Without `gid=`, root's own group would see everything.
fn processes_shown_where_proc_hides(base: &Path) -> u64 {
    let hiding = r#"mount -t proc -o hidepid=2,gid=4243 none /proc && exec setpriv --bounding-set -all,+dac_read_search "$@""#;
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", hiding, "sh"]).arg(airampd()).arg("--once");
    let output = command.arg("--telemetry-dir").arg(base).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let shown = text.lines().find_map(|line| line.strip_prefix("airamp_processes "));
    shown.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{output:?}"))
}

/// A process of another user that has a telemetry file and waits to be killed.
struct Writing(libc::pid_t);

impl Writing {
    fn start(base: &Path) -> Self {
        // SAFETY: the child makes its file and waits; the C library keeps its allocator usable in it.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: as root, in a process of its own.
            let is_stranger = unsafe { libc::setgid(STRANGER) == 0 && libc::setuid(STRANGER) == 0 };
            let has_file = is_stranger && create(Some(base), &Identity::of_this_process("0", 0)).is_ok();
            // SAFETY: waits for a signal, or leaves without running anything of the parent's.
            unsafe {
                libc::alarm(LIMIT.as_secs() as u32);
                if has_file {
                    libc::pause();
                }
                libc::_exit(1)
            };
        }
        assert!(child > 0);
        Self(child)
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        // SAFETY: a child that was not waited for, so the number is still its own.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, std::ptr::null_mut(), 0);
        }
    }
}

fn short_job_succeeds(base: &Path) {
    let outcomes = applied(Run::new(rank_program()).args(["steps", "--steps", "5"]), base).run_ranks(2);
    for outcome in outcomes {
        outcome.assert_success();
    }
}

fn applied(run: Run, base: &Path) -> Run {
    let run = Presence::Preloaded.applied_to(run).env("NCCL_SOCKET_IFNAME", "lo");
    run.env("AIRAMP_TELEMETRY_DIR", base)
}

fn readers(base: &Path) -> Vec<Reader> {
    let found = folders(Some(base)).into_iter().flat_map(|folder| {
        let open = |name: &String| Reader::open(&folder, name).ok();
        folder.files().iter().filter_map(open).collect::<Vec<_>>()
    });
    found.collect()
}

fn calls(reader: &Reader) -> u64 {
    reader.snapshot().unwrap().calls_written
}

#[track_caller]
fn until<T>(mut found: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + LIMIT;
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < end, "waited in vain");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn as_stranger(command: &str) -> Output {
    Command::new("sh").args(["-c", command]).uid(STRANGER).gid(STRANGER).output().unwrap()
}

fn own_folder() -> String {
    // SAFETY: asks for a number.
    format!("airamp-{}", unsafe { libc::geteuid() })
}

fn is_root() -> bool {
    // SAFETY: asks for a number.
    unsafe { libc::geteuid() == 0 }
}
