//! What `airamp record` leaves behind where there was nothing to record.

mod support;

use support::{airamp, run, stderr};

#[test]
fn a_folder_that_was_made_for_nothing_goes_and_the_users_own_stays() {
    let base = tempfile::tempdir().expect("a folder");
    let own = base.path().join("own");
    std::fs::create_dir(&own).expect("made");
    for folder in [own.clone(), base.path().join("made")] {
        // No process has such a number.
        let mut command = airamp(&["record", "--pid", "2147483647", "-o"]);
        let output = run(command.arg(&folder).arg("--telemetry-dir").arg(base.path()));
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        assert!(stderr(&output).contains("no process 2147483647"), "{}", stderr(&output));
        assert_eq!(folder.exists(), folder == own, "{}", folder.display());
    }
}
