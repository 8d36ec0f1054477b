//! Whether the library can write its telemetry here, and who else could: the folder below the base folder, its
//! owner and rights, and the room that is left.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::report::Check;
use super::settings::may_create_in;

const NAME: &str = "telemetry";
/// Where containers give less, processes soon find no room for their file.
const LEAST_FREE: u64 = 16 << 20;
const ADVICE: &str = "set AIRAMP_TELEMETRY_DIR to a folder in memory where the job's user may write; until then \
                      `airamp status` and airampd do not see the job, which runs all the same";

pub(super) fn check(is_on: bool, given: Option<&Path>) -> Check {
    if !is_on {
        return Check::ok(
            NAME,
            "switched off (AIRAMP_TELEMETRY): `airamp status` and airampd see no job of this user",
        );
    }
    let bases = match given {
        Some(base) => vec![base.to_path_buf()],
        None => vec![PathBuf::from("/dev/shm"), PathBuf::from("/tmp")],
    };
    match bases.iter().find(|base| may_create_in(base).is_ok()) {
        Some(base) => folder(base),
        None => {
            let shown: Vec<String> = bases.iter().map(|base| base.display().to_string()).collect();
            Check::warning(NAME, format!("{} cannot be written", shown.join(" or ")), ADVICE)
        }
    }
}

fn folder(base: &Path) -> Check {
    // SAFETY: geteuid has no preconditions and cannot fail.
    let user = unsafe { libc::geteuid() };
    let path = base.join(format!("airamp-{user}"));
    let shown = path.display();
    if let Ok(found) = path.symlink_metadata() {
        if !found.is_dir() || found.uid() != user {
            let found = format!("{shown} is no folder of this user, and is not used");
            return Check::warning(NAME, found, format!("have its owner remove it (`ls -ld {shown}`)"));
        }
        if found.mode() & 0o077 != 0 {
            return Check::warning(NAME, format!("{shown} is open to others"), format!("chmod 700 {shown}"));
        }
    }
    match free_bytes(base) {
        Some(free) if free < LEAST_FREE => {
            let found = format!("{} has {} KiB left", base.display(), free >> 10);
            Check::warning(NAME, found, format!("give it more room (docker run --shm-size), or {ADVICE}"))
        }
        _ if path.is_dir() => Check::ok(NAME, format!("{shown} is this user's alone")),
        _ => Check::ok(NAME, format!("{shown} will be made by the first job")),
    }
}

fn free_bytes(folder: &Path) -> Option<u64> {
    let name = CString::new(folder.as_os_str().as_bytes()).ok()?;
    // SAFETY: an all-zero statvfs is a valid value of plain integers.
    let mut found: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: `name` is a C string and `found` a statvfs; both outlive the call, which writes only into `found`.
    let result = unsafe { libc::statvfs(name.as_ptr(), &raw mut found) };
    (result == 0).then(|| found.f_bavail.saturating_mul(found.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::super::report::Status;
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_folder_of_this_user_alone_is_well_and_looking_makes_none() {
        let base = tempfile::tempdir().expect("a folder");
        assert_eq!(check(true, Some(base.path())).status, Status::Ok);
        assert_eq!(fs::read_dir(base.path()).expect("listed").count(), 0);
    }

    #[test]
    fn a_folder_that_others_may_enter_or_that_is_none_is_a_warning() {
        let base = tempfile::tempdir().expect("a folder");
        // SAFETY: geteuid has no preconditions and cannot fail.
        let ours = base.path().join(format!("airamp-{}", unsafe { libc::geteuid() }));
        fs::create_dir(&ours).expect("made");
        for (mode, status) in [(0o700, Status::Ok), (0o755, Status::Warning)] {
            fs::set_permissions(&ours, Permissions::from_mode(mode)).expect("changed");
            assert_eq!(check(true, Some(base.path())).status, status, "{mode:o}");
        }
        fs::remove_dir(&ours).expect("removed");
        std::os::unix::fs::symlink("/tmp", &ours).expect("a link");
        assert_eq!(check(true, Some(base.path())).status, Status::Warning, "a link");
    }

    #[test]
    fn a_base_folder_that_is_not_there_is_a_warning() {
        let base = tempfile::tempdir().expect("a folder");
        let absent = base.path().join("absent");
        assert_eq!(check(true, Some(&absent)).status, Status::Warning);
        assert_eq!(check(false, Some(&absent)).status, Status::Ok, "where none is wanted, none is missed");
    }
}
