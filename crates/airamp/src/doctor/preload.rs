//! Whether the library can be preloaded here: a fresh process is started with it and asked what is mapped
//! into it. The process is `airamp` itself, so that nothing else needs to be installed.

use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::child::{Finished, run_within};
use super::report::Check;
use crate::artifacts::{self, Artifact, MissingArtifact};
use crate::cli::CommandError;

/// The hidden command that prints what is mapped.
pub(crate) const PRINT_MAPS: &str = "print-maps";

const NAME: &str = "preload";
const LIMIT: Duration = Duration::from_secs(20);

pub(crate) fn print_maps() -> Result<u8, CommandError> {
    std::io::copy(&mut File::open("/proc/self/maps")?, &mut std::io::stdout())?;
    Ok(0)
}

pub(super) fn checks() -> Vec<Check> {
    match artifacts::find(Artifact::Library) {
        Ok(library) => vec![try_to_preload(&library)],
        Err(error) => vec![Check::problem(NAME, error.found(), MissingArtifact::ADVICE)],
    }
}

fn try_to_preload(library: &Path) -> Check {
    if library.to_string_lossy().contains([' ', ':']) {
        let found = format!("{}: the loader splits LD_PRELOAD at spaces and colons", library.display());
        return Check::problem(NAME, found, "move the library to a path without them");
    }
    let finished = std::env::current_exe().map_err(Into::into).and_then(|program| {
        run_within(LIMIT, Command::new(program).arg(PRINT_MAPS).env("LD_PRELOAD", library))
    });
    match finished {
        Ok(finished) => verdict(library, &finished),
        Err(error) => {
            Check::problem(NAME, format!("a process with the library {error}"), "report this with its text")
        }
    }
}

fn verdict(library: &Path, finished: &Finished) -> Check {
    // The kernel names the file itself, not the link by which it was found.
    let file = std::fs::canonicalize(library).unwrap_or_else(|_| library.to_path_buf());
    let is_mapped = finished.stdout.lines().any(|line| line.ends_with(&*file.to_string_lossy()));
    match (is_mapped, finished.status.success()) {
        (true, true) => Check::ok(NAME, format!("{} loads into a new process", library.display())),
        (_, false) => {
            let found =
                format!("a process with the library ended with {}: {}", finished.status, finished.stderr);
            Check::problem(NAME, found, "report this with its text")
        }
        (false, true) => {
            let found = format!("the loader did not take {}: {}", library.display(), finished.stderr.trim());
            Check::problem(
                NAME,
                found,
                "check that it is readable and built for this machine (`file`, `ldd`)",
            )
        }
    }
}
