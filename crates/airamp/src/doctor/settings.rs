//! Settings and the files that they name.

use std::fs::OpenOptions;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use airamp_settings::{Loaded, Source};

use super::report::Check;

pub(super) fn checks(loaded: &Loaded) -> Vec<Check> {
    let mut checks = values(loaded);
    checks.extend(settings_file(&loaded.file));
    checks.push(log_file(loaded.settings.log_file.as_deref()));
    checks
}

fn values(loaded: &Loaded) -> Vec<Check> {
    if loaded.warnings.is_empty() {
        let set = loaded.effective().filter(|effective| effective.source != Source::Default).count();
        let found = format!("{set} set, the others have their defaults (`airamp config` shows them)");
        return vec![Check::ok("settings", found)];
    }
    let advice = "docs/settings.md says what is right; `airamp config` shows what holds";
    loaded.warnings.iter().map(|warning| Check::warning("settings", warning, advice)).collect()
}

/// Who may change the file may change every job on the machine.
fn settings_file(path: &Path) -> Option<Check> {
    let found = path.metadata().ok().filter(std::fs::Metadata::is_file)?;
    let shown = path.display();
    // SAFETY: geteuid has no preconditions and cannot fail.
    let user = unsafe { libc::geteuid() };
    Some(if found.mode() & 0o022 != 0 {
        let advice = format!("chmod go-w {shown}");
        Check::warning("settings file", format!("{shown} can be changed by others"), advice)
    } else if found.uid() != 0 && found.uid() != user {
        let found = format!("{shown} belongs to another user (id {})", found.uid());
        Check::warning("settings file", found, format!("chown root {shown}"))
    } else {
        Check::ok("settings file", format!("{shown} can be changed by its owner only"))
    })
}

fn log_file(path: Option<&Path>) -> Check {
    let Some(path) = path else { return Check::ok("log file", "none set: the log goes to stderr") };
    // Looking must not create the file.
    let writable = if path.exists() {
        // Opened as the library does, which waits for nobody: a FIFO that nobody reads cannot be written.
        OpenOptions::new().append(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path).map(drop)
    } else {
        may_create_in(path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")))
    };
    match writable {
        Ok(()) => Check::ok("log file", format!("{} can be written", path.display())),
        Err(error) => {
            let found = format!("{} cannot be written: {error}", path.display());
            Check::problem("log file", found, "set AIRAMP_LOG_FILE to a place where the job's user may write")
        }
    }
}

/// Makes nothing; a folder that cannot be looked at is an error, too.
pub(crate) fn may_create_in(folder: &Path) -> std::io::Result<()> {
    let name = std::ffi::CString::new(folder.as_os_str().as_bytes())?;
    // SAFETY: `name` is a C string that outlives the call.
    match unsafe { libc::access(name.as_ptr(), libc::W_OK | libc::X_OK) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::Status;
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_settings_file_that_others_may_write_is_a_warning() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("airamp.conf");
        fs::write(&path, "").expect("written");
        for (mode, status) in [(0o644, Status::Ok), (0o664, Status::Warning), (0o646, Status::Warning)] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).expect("changed");
            assert_eq!(settings_file(&path).map(|check| check.status), Some(status), "{mode:o}");
        }
        assert!(settings_file(&folder.path().join("absent")).is_none());
    }

    #[test]
    fn a_log_file_in_no_folder_is_a_problem_and_looking_creates_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("airamp.log");
        assert_eq!(log_file(Some(&path)).status, Status::Ok);
        assert!(!path.exists());
        assert_eq!(log_file(Some(&folder.path().join("absent/airamp.log"))).status, Status::Problem);
        assert_eq!(log_file(Some(folder.path())).status, Status::Problem, "a directory");
    }
}
