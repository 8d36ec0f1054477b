//! What a newcomer does, on a Debian as debootstrap makes it: the .deb installed, tried, upgraded and purged
//! (deploy/packages/newcomer). Other tests of packages are in packages.rs.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use airamp_tests::packages::{
    deploy, have, listed, next_tree, package, package_of_version, repository, tree,
};
use airamp_tests::{Run, skip_outside_ci};

fn temporary() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn words(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

/// A folder with a package in it and, first in PATH, programs that stand in for debootstrap and unshare: a Debian is a file, and what
/// would be done in it is told by the name of the package.
fn newcomer(folder: &Path, arguments: &[&str], root: &str) -> airamp_tests::Outcome {
    let programs = folder.join("programs");
    fs::create_dir_all(&programs).expect("a folder");
    let made = "#!/bin/sh\nfor root; do :; done\nmkdir -p \"$root\" && touch \"$root/debian\"\n";
    for (name, script) in
        [("debootstrap", made), ("unshare", "#!/bin/sh\ncd \"$root\" && echo \"$package\" *\n")]
    {
        fs::write(programs.join(name), script).expect("a script");
        fs::set_permissions(programs.join(name), fs::Permissions::from_mode(0o755)).expect("an executable");
    }
    let path = std::env::var("PATH").unwrap_or_default();
    let script = "cd \"$0\" && exec \"$@\"";
    let run =
        Run::new("sh").args(["-c", script]).arg(folder).arg(repository().join("deploy/packages/newcomer"));
    let run = run.args(arguments).env("PATH", format!("{}:{path}", programs.display()));
    run.env("AIRAMP_NEWCOMER_ROOT", root).run()
}

#[test]
fn a_clean_debian_has_it_installed_upgraded_and_purged_and_is_as_it_was() {
    if !is_root() || !have(&["debootstrap", "dpkg-deb", "unshare"]) {
        return;
    }
    let out = temporary();
    let first = package("deb", tree(), out.path());
    let second = package_of_version("deb", &next_tree(out.path()), out.path(), Some("99.0"));
    let run = deploy("packages/newcomer").arg(&first).arg(&second).time_limit(Duration::from_secs(900));
    // Kept beside what is built, as packages from PyPI are.
    let run =
        run.env("AIRAMP_NEWCOMER_ROOT", airamp_tests::artifacts::folder().join("packages/debian-bookworm"));
    let outcome = run.run();
    if outcome.end == airamp_tests::End::Code(4) {
        return skip_outside_ci("debootstrap makes no Debian 12 here");
    }
    let said = outcome.assert_success().stdout_text();
    for line in ["upgraded to 99.0", "purged: every file is as it was"] {
        assert!(said.contains(line), "{line}: {outcome}");
    }
    // The table of the last command.
    assert!(said.contains("speedup"), "{outcome}");
    // The one time that is a promise: ten minutes. It takes seconds, on a machine with other work too.
    assert!(seconds_to_the_first_table(&said).is_some_and(|seconds| seconds < 600.0), "{outcome}");
}

fn seconds_to_the_first_table(said: &str) -> Option<f64> {
    let line = said.lines().find_map(|line| line.strip_prefix("from the package to the first table: "))?;
    line.strip_suffix(" s")?.parse().ok()
}

/// It needs root, and says so.
fn is_root() -> bool {
    // SAFETY: geteuid has no preconditions and cannot fail.
    let is = unsafe { libc::geteuid() } == 0;
    if !is {
        skip_outside_ci("newcomer takes root");
    }
    is
}

#[test]
fn a_newcomers_package_and_debian_are_those_that_the_caller_names() {
    if !is_root() {
        return;
    }
    let folder = temporary();
    let folder = fs::canonicalize(folder.path()).expect("its real name");
    fs::write(folder.join("a.deb"), "").expect("a file");
    let expected = format!("{} complete debian\n", words(&folder.join("a.deb")));
    for time in ["made", "there already"] {
        let outcome = newcomer(&folder, &["a.deb"], "root");
        assert_eq!(outcome.assert_success().stdout_text(), expected, "{time}: {outcome}");
    }
    let left: BTreeSet<_> =
        listed(&folder).into_iter().filter(|name| !name.starts_with("programs")).collect();
    assert_eq!(left, BTreeSet::from(["a.deb", "root", "root/complete", "root/debian"].map(str::to_owned)));

    let outcome = newcomer(&folder, &["b.deb"], "root");
    assert!(
        outcome.stderr_text().contains("b.deb: No such file") && outcome.stdout_text().is_empty(),
        "{outcome}"
    );
}

#[test]
fn a_folder_of_somebodys_that_is_named_as_a_newcomers_debian_is_left_alone() {
    if !is_root() {
        return;
    }
    let folder = temporary();
    fs::write(folder.path().join("a.deb"), "").expect("a file");
    let (theirs, empty) = (folder.path().join("theirs"), folder.path().join("empty"));
    fs::create_dir_all(theirs.join("thesis")).expect("a folder");
    fs::create_dir(&empty).expect("a folder");
    let outcome = newcomer(folder.path(), &["a.deb"], words(&theirs));
    assert_eq!(
        (outcome.end, theirs.join("thesis").is_dir()),
        (airamp_tests::End::Code(1), true),
        "{outcome}"
    );
    assert!(outcome.stderr_text().contains("is neither empty nor a Debian"), "{outcome}");
    newcomer(folder.path(), &["a.deb"], words(&empty)).assert_success();
}
