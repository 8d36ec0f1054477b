//! The tree of a release, made here from a plain build: it is complete, runs from wherever it lies, says what it is made
//! of, and is the same bytes each time. What the release build itself adds (glibc 2.28) is checked by the same program.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use airamp_tests::packages::{LIMIT, deploy, have, listed, make_tree, package, repository, tree};
use airamp_tests::{End, Run, skip};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _};
use serde_json::Value;

#[test]
fn the_tree_has_programs_library_pages_completions_settings_and_documents() {
    if !have(&["objcopy", "python3"]) {
        return;
    }
    let names = listed(tree());
    let version = env!("CARGO_PKG_VERSION");
    let library = format!("lib/libairamp_accel.so.{version}");
    for name in [
        "bin/airamp",
        "bin/airampd",
        "bin/airamp-rank",
        "bin/airamp-srun",
        "bin/airamp-node",
        "lib/libairamp_accel.so",
        library.as_str(),
        "lib/airamp/libairamp_emulated_cuda.so",
        "lib/airamp/libairamp_emulated_hip.so",
        "etc/airamp.conf",
        "share/man/man1/airamp.1",
        "share/man/man1/airamp-run.1",
        "share/man/man1/airamp-srun.1",
        "share/man/man1/airamp-node.1",
        "share/man/man5/airamp.conf.5",
        "share/man/man8/airampd.8",
        "share/bash-completion/completions/airamp",
        "share/bash-completion/completions/airampd",
        "share/zsh/site-functions/_airamp",
        "share/zsh/site-functions/_airampd",
        "share/fish/vendor_completions.d/airamp.fish",
        "share/fish/vendor_completions.d/airampd.fish",
        "share/airamp/prometheus/airamp.rules.yml",
        "share/airamp/grafana/airamp.json",
        "share/airamp/systemd/airampd.service",
        "share/airamp/slurm/airamp-epilog",
        "share/airamp/slurm/examples/ddp.sbatch",
        "share/doc/airamp/LICENSE",
        "share/doc/airamp/THIRD-PARTY-LICENCES.txt",
        "share/doc/airamp/airamp-accel.cdx.json",
    ] {
        assert!(names.contains(name), "{name} is not in the tree");
    }
    let link = fs::read_link(tree().join("lib/libairamp_accel.so")).expect("a link");
    assert_eq!(link, Path::new(library.strip_prefix("lib/").expect("below lib")));
}

/// Programs of a tree somewhere else, with nothing of this machine's settings.
fn moved() -> tempfile::TempDir {
    let out = tempfile::tempdir().expect("a temporary folder");
    let archive = package("tar", tree(), out.path());
    Run::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(out.path()).run().assert_success();
    let version = env!("CARGO_PKG_VERSION");
    fs::rename(out.path().join(format!("airamp-accel-{version}-x86_64")), out.path().join("elsewhere"))
        .expect("a rename");
    out
}

#[test]
fn the_archive_runs_from_whatever_folder_it_is_unpacked_into_and_writes_nothing_there() {
    if !have(&["objcopy", "python3"]) {
        return;
    }
    let out = moved();
    let home = out.path().join("elsewhere");
    let before = listed(&home);
    let run = |words: &[&str]| {
        let program = Run::new(home.join("bin/airamp")).args(words).env("AIRAMP_CONFIG", "/dev/null");
        program.env("XDG_RUNTIME_DIR", out.path()).run()
    };
    let outcome = run(&["run", "--", "sh", "-c", "echo $LD_PRELOAD"]);
    let library = home.join("lib/libairamp_accel.so");
    assert_eq!(outcome.assert_success().stdout_text().trim_end(), library.to_string_lossy());
    let words = ["bench", "--sizes", "64KiB", "--datatypes", "float32", "--iterations", "1", "--warmup", "1"];
    let table = run(&words);
    assert!(table.assert_success().stdout_text().contains("vNMSE"), "{table}");
    assert_eq!(listed(&home), before, "an installed tree was written to");
}

#[test]
fn every_program_of_the_slurm_examples_is_installed_where_programs_are_looked_for() {
    if !have(&["objcopy", "python3"]) {
        return;
    }
    let out = moved();
    let home = out.path().join("elsewhere");
    for name in ["ddp.sbatch", "tasks.sbatch", "vllm.sbatch"] {
        let text =
            fs::read_to_string(home.join("share/airamp/slurm/examples").join(name)).expect("an example");
        assert!(text.lines().any(|line| line.split_whitespace().any(|word| word == "airamp-srun")), "{name}");
    }
    // Outside of a job it is srun with the library: a program that says what it was given stands for srun.
    fs::write(out.path().join("srun"), "#!/bin/sh\necho \"$LD_PRELOAD $*\"\n").expect("a program");
    Run::new("chmod").arg("+x").arg(out.path().join("srun")).run().assert_success();
    let path = format!("{}:{}:/usr/bin:/bin", home.join("bin").display(), out.path().display());
    let script = Run::new("bash").args(["-c", "airamp-srun hostname"]).env("PATH", &path);
    let outcome = script.env("AIRAMP_CONFIG", "/dev/null").run();
    let library = home.join("lib/libairamp_accel.so");
    assert_eq!(
        outcome.assert_success().stdout_text().trim_end(),
        format!("{} hostname", library.display()),
        "{outcome}"
    );
    Run::new("bash").args(["-c", "airamp-node --help"]).env("PATH", &path).run().assert_success();
}

#[test]
fn everything_that_the_image_copies_is_in_the_tree() {
    if !have(&["objcopy", "python3"]) {
        return;
    }
    let file =
        fs::read_to_string(tree().join("share/airamp/kubernetes/Containerfile")).expect("the Containerfile");
    let mut copied = 0;
    for line in file.lines().filter_map(|line| line.strip_prefix("COPY ")) {
        let words: Vec<_> = line.split_whitespace().filter(|word| !word.starts_with("--")).collect();
        let (_, sources) = words.split_last().expect("a target");
        for source in sources {
            copied += 1;
            let path = source.strip_prefix("${TREE}/").map(|path| tree().join(path));
            assert!(path.is_some_and(|path| path.exists()), "{source} is not in the tree");
        }
    }
    assert!(copied >= 3, "{file}");
}

#[test]
fn the_same_files_give_the_same_tree_and_archive() {
    if !have(&["objcopy", "python3"]) {
        return;
    }
    let out = tempfile::tempdir().expect("a temporary folder");
    let again = make_tree(&out.path().join("another/tree"));
    let [first, second] = [(tree(), "a"), (again.as_path(), "b")].map(|(tree, folder)| {
        let archive = package("tar", tree, &out.path().join(folder));
        fs::read(archive).expect("an archive")
    });
    assert!(first == second, "two archives differ");
}

/// The sum by which a debugger knows the file that belongs to a binary.
fn checksum(file: &Path) -> u32 {
    let script = "import sys, zlib; print(zlib.crc32(open(sys.argv[1], 'rb').read()))";
    let sum = Run::new("python3").args(["-c", script]).arg(file).run().assert_success().stdout_text();
    sum.trim_end().parse().expect("a number")
}

#[test]
fn a_debugger_finds_what_was_stripped_from_each_file_by_name_and_checksum() {
    if !have(&["objcopy", "python3"]) {
        return;
    }
    let debug = tree().with_file_name("debug");
    let mut linked = 0;
    for name in listed(tree()) {
        let path = tree().join(&name);
        let Some(bytes) = fs::read(&path).ok().filter(|bytes| bytes.starts_with(b"\x7fELF")) else {
            continue;
        };
        let file = object::File::parse(&*bytes).expect("an ELF file");
        let (beside, sum) = file.gnu_debuglink().expect("a section").expect("a link to what was stripped");
        let beside = debug.join(std::str::from_utf8(beside).expect("a name"));
        assert_eq!(checksum(&beside), sum, "{name}: {}", beside.display());
        let aside = fs::read(&beside).expect("the other file");
        let aside = object::File::parse(&*aside).expect("an ELF file");
        assert!(aside.has_debug_symbols() && !file.has_debug_symbols(), "{name}");
        linked += 1;
    }
    // Six binaries, and the link to the library.
    assert_eq!(linked, 7);
}

/// A repository with `deploy/release/reproduce`, whose build copies a page into each of its files and commits another page.
const BUSY_REPOSITORY: &str = r#"
set -eu
mkdir -p "$1/deploy/release" "$1-built" && cd "$1"
cp "$2"/deploy/release/reproduce "$2"/deploy/release/epoch deploy/release
cat >deploy/release/build <<'BUILD'
#!/usr/bin/env bash
set -eu
cd "$(dirname "$0")/../.." && mkdir built
for file in airamp airampd airamp-rank libairamp_accel.so libairamp_emulated_{cuda,hip}.so; do cp page built/$file; done
echo more >>"$REPOSITORY/page"
git -C "$REPOSITORY" commit -qam more
echo "$PWD/built"
BUILD
chmod +x deploy/release/build
echo first >page
git init -q && git add . && git commit -qm first
REPOSITORY=$1 deploy/release/reproduce x86_64 "$1-built"
"#;

#[test]
fn builds_that_are_compared_are_of_one_commit_whatever_is_committed_meanwhile() {
    if !have(&["git"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut run =
        Run::new("bash").args(["-c", BUSY_REPOSITORY, "bash"]).arg(folder.path().join("a")).arg(repository());
    for name in ["GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"] {
        run = run.env(name, "somebody");
    }
    let outcome = run.time_limit(LIMIT).run();
    assert_eq!(outcome.assert_success().stdout_text().matches(", twice").count(), 6, "{outcome}");
}

/// The glibc of the machine on which plain cargo built the tree may be newer than what a release asks for.
const ANY: &str = "2.99";

#[test]
fn every_binary_is_protected_and_a_symbol_above_the_floor_is_named() {
    if !have(&["objcopy", "python3"]) {
        return;
    }
    let check = |glibc: &str| deploy("release/check-binaries").arg(tree()).args(["--glibc", glibc]).run();
    let report = check(ANY);
    let text = report.assert_success().stdout_text();
    assert_eq!(text.lines().filter(|line| line.contains("versioned symbols")).count(), 6, "{text}");
    let refused = check("2.4");
    assert_eq!(refused.end, End::Code(1), "{refused}");
    assert!(refused.stderr_text().contains(" takes GLIBC_2."), "{refused}");
}

#[test]
fn a_binary_without_protections_or_with_a_foreign_library_is_refused() {
    if !have(&["cc", "python3"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("tree")).expect("a folder");
    fs::write(path("foreign.c"), "int foreign(void) { return 1; }").expect("a source");
    fs::write(path("main.c"), "int foreign(void); int main(void) { return foreign(); }").expect("a source");
    let cc = |words: &[&str]| Run::new("cc").args(words).run().assert_success().end;
    let (foreign, main) = (path("libforeign.so"), path("tree/main"));
    let of = |path: &Path| path.to_string_lossy().into_owned();
    cc(&["-shared", "-Wl,-soname,libforeign.so", "-o", &of(&foreign), &of(&path("foreign.c"))]);
    let flags = ["-Wl,-z,execstack", "-Wl,-z,lazy", "-Wl,-z,norelro", "-Wl,-rpath,/somewhere"];
    cc(&[&["-o", &of(&main), &of(&path("main.c")), &of(&foreign)], flags.as_slice()].concat());
    let refused = deploy("release/check-binaries").arg(path("tree")).args(["--glibc", ANY]).run();
    assert_eq!(refused.end, End::Code(1), "{refused}");
    let said = refused.stderr_text();
    for fault in
        ["needs libforeign.so", "no RELRO", "not bound", "executable stack", "not stripped", "search path"]
    {
        assert!(said.contains(fault), "{fault}: {refused}");
    }
}

/// A copy of the tree whose files claim to be for aarch64, all of them or only those below a folder.
fn claimed_for_aarch64(folder: &Path, below: &str) -> PathBuf {
    const MACHINE: Range<usize> = 18..20;
    let copy = folder.join("tree");
    Run::new("cp").arg("-a").arg(tree()).arg(&copy).run().assert_success();
    for name in listed(&copy).iter().filter(|name| name.starts_with(below)) {
        let path = copy.join(name);
        let Ok(mut bytes) = fs::read(&path) else { continue };
        if path.is_symlink() || !bytes.starts_with(b"\x7fELF") {
            continue;
        }
        bytes[MACHINE].copy_from_slice(&object::elf::EM_AARCH64.to_le_bytes());
        let date = fs::metadata(&path).and_then(|data| data.modified()).expect("a date");
        fs::write(&path, bytes).expect("written");
        fs::File::options().write(true).open(&path).and_then(|file| file.set_modified(date)).expect("a date");
    }
    copy
}

#[test]
fn packages_are_for_the_processor_that_the_files_are_for() {
    if !have(&["dpkg-deb", "rpmbuild", "python3"]) {
        return;
    }
    let out = tempfile::tempdir().expect("a temporary folder");
    let tree = claimed_for_aarch64(out.path(), "");
    let made = ["tar", "deb", "rpm", "wheel"].map(|kind| package(kind, &tree, out.path()));
    let ends = ["-aarch64.tar.gz", "_arm64.deb", ".aarch64.rpm", "_aarch64.whl"];
    for (path, end) in made.iter().zip(ends) {
        assert!(path.to_string_lossy().ends_with(end), "{}", path.display());
    }
    let field = Run::new("dpkg-deb").arg("--field").arg(&made[1]).arg("Architecture").run();
    assert_eq!(field.assert_success().stdout_text().trim_end(), "arm64");
    let files = Run::new("dpkg-deb").arg("--contents").arg(&made[1]).run().assert_success().stdout_text();
    assert!(files.contains("./usr/lib/aarch64-linux-gnu/libairamp_accel.so"), "{files}");
    let asked =
        Run::new("rpm").args(["-qp", "--queryformat", "%{ARCH}"]).arg(&made[2]).env("HOME", out.path());
    assert_eq!(asked.run().assert_success().stdout_text(), "aarch64");
}

#[test]
fn a_tree_of_two_processors_and_one_that_large_pages_cannot_load_are_refused() {
    if !have(&["python3"]) {
        return;
    }
    for (below, fault) in [("bin/", "several processors: aarch64, x86_64"), ("", "pages of 65536 bytes")] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let tree = claimed_for_aarch64(folder.path(), below);
        let refused = deploy("release/check-binaries").arg(tree).args(["--glibc", ANY]).run();
        assert_eq!(refused.end, End::Code(1), "{refused}");
        assert!(refused.stderr_text().contains(fault), "{fault}: {refused}");
    }
}

/// Stands around the two files with aarch64's instructions as the interposer does.
const AROUND: &str = r#"#![crate_type = "lib"]
mod forward {
    #[path = "@SOURCES@/forward/aarch64.rs"]
    mod processor;
    use std::sync::atomic::AtomicUsize;
    #[allow(non_camel_case_types)]
    enum Name { ncclFirst, ncclLast = 4000 }
    static TARGETS: [AtomicUsize; 4001] = [const { AtomicUsize::new(0) }; 4001];
    processor::jump!(ncclFirst);
    processor::jump!(ncclLast);
    extern "C" fn find(index: usize) -> usize { TARGETS[index].as_ptr() as usize }
}
mod dlsym {
    #[path = "@SOURCES@/dlsym/aarch64.rs"]
    mod processor;
    use std::{ffi::{c_char, c_void}, sync::atomic::{AtomicUsize, Ordering}};
    static REAL: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn find_real() -> usize { REAL.load(Ordering::Acquire) }
    unsafe extern "C" fn is_absent(_: *mut c_void, name: *const c_char) -> bool { name.is_null() }
    unsafe extern "C" fn by_handle(handle: *mut c_void, _: *const c_char) -> *mut c_void { handle }
}
"#;

#[test]
fn the_instructions_for_aarch64_assemble() {
    const TARGET: &str = "aarch64-unknown-linux-gnu";
    let asked = Run::new("rustc").args(["--print", "target-libdir", "--target", TARGET]).run();
    let libraries = asked.assert_success().stdout_text();
    if !Path::new(libraries.trim_end()).is_dir() {
        return skip(&format!("no standard library of Rust for it: rustup target add {TARGET}"));
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (source, object) = (folder.path().join("around.rs"), folder.path().join("around.o"));
    let sources = repository().join("crates/interposer/src");
    fs::write(&source, AROUND.replace("@SOURCES@", &sources.to_string_lossy())).expect("a source");
    let words = ["--edition", "2024", "--target", TARGET, "-O", "--emit", "obj", "-o"];
    let rustc = Run::new("rustc").args(words).arg(&object).arg(&source).time_limit(LIMIT);
    rustc.run().assert_success();
    let bytes = fs::read(&object).expect("an object file");
    let file = object::File::parse(&*bytes).expect("an ELF file");
    for name in ["dlsym", "ncclFirst", "ncclLast"] {
        let symbol = file.symbol_by_name(name).unwrap_or_else(|| panic!("{name} is not exported"));
        let section = symbol.section_index().and_then(|index| file.section_by_index(index).ok());
        let code = section.expect("a section").data().expect("instructions");
        let start = usize::try_from(symbol.address()).expect("an offset");
        // Who jumps here by a register lands on `bti c`.
        assert_eq!(code[start..start + 4], 0xd503_245f_u32.to_le_bytes(), "{name}");
    }
}

fn bill() -> Value {
    let text = fs::read_to_string(tree().join("share/doc/airamp/airamp-accel.cdx.json")).expect("the list");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn the_list_of_dependencies_is_whole_and_each_has_a_licence_and_its_text() {
    if !have(&["objcopy", "python3"]) {
        return;
    }
    let bill = bill();
    assert_eq!((bill["bomFormat"].as_str(), bill["specVersion"].as_str()), (Some("CycloneDX"), Some("1.5")));
    let components = bill["components"].as_array().expect("components");
    let names: Vec<&str> = components.iter().filter_map(|one| one["name"].as_str()).collect();
    for name in ["airamp-interposer", "clap", "hyper", "libc", "ring", "rust-std", "serde"] {
        assert!(names.contains(&name), "{name} is not in the list");
    }
    for name in ["airamp-tests", "loom", "proptest", "stateright", "vt100"] {
        assert!(!names.contains(&name), "{name} is not shipped");
    }
    let texts =
        fs::read_to_string(tree().join("share/doc/airamp/THIRD-PARTY-LICENCES.txt")).expect("the texts");
    for component in components {
        let expression = component["licenses"][0]["expression"].as_str().unwrap_or_default();
        let called =
            format!("{} {}", component["name"].as_str().unwrap(), component["version"].as_str().unwrap());
        assert!(!expression.is_empty(), "{called} has no licence");
        let is_ours = called.starts_with("airamp");
        assert!(
            is_ours || component["hashes"].is_array() || called.starts_with("rust-std"),
            "{called} has no sum"
        );
        assert!(is_ours || texts.contains(&format!("\n{called} (")), "{called} has no licence text");
    }
    let known = |name: &Value| components.iter().any(|one| one["bom-ref"] == *name);
    for entry in bill["dependencies"].as_array().expect("a graph") {
        let uses = entry["dependsOn"].as_array().expect("a list");
        assert!(uses.iter().all(known), "{entry}");
    }
}

/// Of which the texts suffice: none asks for sources. What another one asks is to be read before it is added.
const LICENCES: [&str; 6] = ["Apache-2.0", "BSD-3-Clause", "ISC", "MIT", "Unicode-3.0", "Zlib"];

/// Whether a licence expression of SPDX can be met with those alone. What comes after WITH only permits more.
fn is_allowed(expression: &str) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ");
    let mut words = spaced.split_whitespace().peekable();
    any_allowed(&mut words) && words.next().is_none()
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn any_allowed(words: &mut Words<'_>) -> bool {
    let mut is_allowed = all_allowed(words);
    while words.next_if_eq(&"OR").is_some() {
        is_allowed |= all_allowed(words);
    }
    is_allowed
}

fn all_allowed(words: &mut Words<'_>) -> bool {
    let mut is_allowed = one_allowed(words);
    while words.next_if_eq(&"AND").is_some() {
        is_allowed &= one_allowed(words);
    }
    is_allowed
}

fn one_allowed(words: &mut Words<'_>) -> bool {
    if words.next_if_eq(&"(").is_some() {
        return any_allowed(words) & (words.next() == Some(")"));
    }
    let is_allowed = words.next().is_some_and(|name| LICENCES.contains(&name));
    if words.next_if_eq(&"WITH").is_some() {
        words.next();
    }
    is_allowed
}

#[test]
fn every_licence_of_what_is_linked_in_is_one_that_we_know_and_none_is_copyleft() {
    for expression in
        ["MIT", "GPL-2.0-only OR MIT", "(MIT OR MPL-2.0) AND ISC", "Apache-2.0 WITH LLVM-exception"]
    {
        assert!(is_allowed(expression), "{expression}");
    }
    for expression in ["", "GPL-3.0-or-later", "MIT AND MPL-2.0", "(LGPL-2.1 OR EPL-2.0) AND MIT", "MIT/GPL"]
    {
        assert!(!is_allowed(expression), "{expression}");
    }
    if !have(&["objcopy", "python3"]) {
        return;
    }
    for component in bill()["components"].as_array().expect("components") {
        let expression = component["licenses"][0]["expression"].as_str().unwrap_or_default();
        assert!(is_allowed(expression), "{}: {expression}", component["name"]);
    }
}

#[test]
fn a_crate_without_a_licence_text_fails_the_release() {
    if !have(&["python3"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let asked = |licence: &str| {
        let manifest = folder.path().join("Cargo.toml");
        let script = format!(
            "import dependencies\nprint(dependencies.texts_of({{'name': 'none', 'version': '1', 'license': '{licence}', \
             'manifest_path': '{}'}}))",
            manifest.display()
        );
        let path = repository().join("deploy/release");
        Run::new("python3").args(["-B", "-c", &script]).env("PYTHONPATH", path).run()
    };
    assert!(asked("MIT").stderr_text().contains("none 1 (MIT) brings no licence text"), "{}", asked("MIT"));
    assert!(asked("MIT OR Apache-2.0").assert_success().stdout_text().contains("LICENSE"));
    fs::write(folder.path().join("LICENSE-MIT"), "text").expect("a file");
    assert!(asked("MIT").assert_success().stdout_text().contains("LICENSE-MIT"));
}
