//! The real NCCL of the PyPI package, without a GPU: every function that it
//! exports is exported by us, and what it answers without a GPU it answers the
//! same with us, however a program gets at it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use airamp_tests::comparison::{assert_equal, interposer_as_nccl_dir};
use airamp_tests::{CProgram, Run, interposer, package_dir, skip_outside_ci};
use object::{Object, ObjectSymbol};

/// The folder of the real library, fetched once; `None` after a loud skip.
fn real_nccl_dir() -> Option<&'static Path> {
    static DIR: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let fetched = DIR.get_or_init(|| {
        let output = Command::new(package_dir().join("real-nccl"))
            .output()
            .map_err(|error| format!("tests/real-nccl cannot be run: {error}"))?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        let dir = String::from_utf8_lossy(&output.stdout);
        Ok(PathBuf::from(dir.trim_end()))
    });
    match fetched {
        Ok(dir) => Some(dir),
        Err(reason) => {
            skip_outside_ci(reason);
            None
        }
    }
}

/// An id then shows a known address, and its bits can be compared.
fn on_loopback(run: Run) -> Run {
    run.env("NCCL_SOCKET_IFNAME", "lo")
}

fn python(library: impl AsRef<Path>) -> Run {
    let questions = package_dir().join("hazards/real_nccl.py");
    on_loopback(Run::new("python3").arg(questions).arg(library.as_ref()))
}

fn exported_functions(library: &Path) -> BTreeSet<String> {
    let bytes = fs::read(library).expect("a readable library");
    let file = object::File::parse(&*bytes).expect("an ELF file");
    file.dynamic_symbols()
        .filter(|symbol| symbol.is_definition())
        .filter_map(|symbol| symbol.name().ok())
        .filter(|name| name.starts_with("nccl") || name.starts_with("pnccl"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_function_that_nccl_exports_is_exported_by_us() {
    let Some(dir) = real_nccl_dir() else { return };
    let theirs = exported_functions(&dir.join("libnccl.so.2"));
    assert_eq!(theirs.len(), 193, "the pinned package has 193 functions");
    let ours = exported_functions(&interposer());
    let missing: Vec<_> = theirs.difference(&ours).collect();
    assert!(missing.is_empty(), "we do not export {missing:?}");
}

#[test]
fn ctypes_by_name_answers_the_same() {
    let Some(dir) = real_nccl_dir() else { return };
    let run = python("libnccl.so.2").library_dir(dir);
    let without = run.clone().run();
    without.assert_success();
    assert_equal(&without, &run.preload(interposer()).run());
}

#[test]
fn ctypes_by_absolute_path_answers_the_same() {
    let Some(dir) = real_nccl_dir() else { return };
    let run = python(dir.join("libnccl.so.2"));
    let without = run.clone().run();
    without.assert_success();
    assert_equal(&without, &run.preload(interposer()).run());
}

#[test]
fn ctypes_on_our_library_in_place_of_nccl_answers_the_same() {
    let Some(dir) = real_nccl_dir() else { return };
    let real = dir.join("libnccl.so.2");
    let without = python(&real).run();
    without.assert_success();
    let with = python(interposer()).env("AIRAMP_NCCL_PATH", &real).run();
    assert_equal(&without, &with);
}

#[test]
fn a_c_program_that_needs_nccl_gets_the_same_answers() {
    let Some(dir) = real_nccl_dir() else { return };
    let program = CProgram::linked_with_nccl_alone("real_nccl.c").build();
    let run = on_loopback(Run::new(program));
    let without = run.clone().library_dir(dir).run();
    without.assert_success();
    let preloaded = run.clone().library_dir(dir).preload(interposer());
    assert_equal(&without, &preloaded.run());
    let in_its_place =
        run.library_dir(interposer_as_nccl_dir()).env("AIRAMP_NCCL_PATH", dir.join("libnccl.so.2"));
    assert_equal(&without, &in_its_place.run());
}

/// With the root's address given, NCCL makes the same id every time: all of
/// its 128 bytes can be compared.
#[test]
fn an_id_made_from_a_given_address_is_the_vendors_to_the_last_bit() {
    let Some(dir) = real_nccl_dir() else { return };
    let program = CProgram::linked_with_nccl_alone("real_nccl_id.c").build();
    let run = on_loopback(Run::new(program)).library_dir(dir).env("NCCL_COMM_ID", "127.0.0.1:34567");
    let without = run.clone().run();
    without.assert_success();
    assert_equal(&without, &run.preload(interposer()).run());
}

/// The warning about the missing GPU is the only thing that we add.
#[test]
fn without_a_gpu_we_say_so_once() {
    let Some(dir) = real_nccl_dir() else { return };
    let program = CProgram::linked_with_nccl_alone("real_nccl.c").build();
    let outcome = on_loopback(Run::new(program)).library_dir(dir).preload(interposer()).run();
    outcome.assert_success();
    let lines = outcome.product_lines();
    assert_eq!(lines.len(), 1, "{outcome}");
    assert!(lines[0].contains("interposer inert"), "{outcome}");
}
