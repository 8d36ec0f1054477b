//! What the built files are like, apart from what they do: the library exports nothing but what it stands in for and its own few
//! questions, nothing in it is writable and executable, its tables are read-only after loading; and the threat model
//! (docs/SECURITY.md) names only tests that there are.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use airamp_tests::{airamp, airampd, interposer, package_dir, rank_program};
use object::elf::{
    DF_1_NOW, DF_BIND_NOW, DT_FLAGS, DT_FLAGS_1, DT_NEEDED, DT_RPATH, DT_RUNPATH, DT_TEXTREL, ET_DYN,
    FileHeader64, PF_W, PF_X, PT_GNU_RELRO, PT_GNU_STACK, PT_LOAD,
};
use object::read::elf::{Dyn, ElfFile64, FileHeader, ProgramHeader};
use object::{Endianness, Object, ObjectSymbol};

/// Our own: docs/airamp.md and tests ask them.
const OWN: [&str; 5] =
    ["airampCallIndex", "airampCompressedCalls", "airampCompressionStats", "airampPlan", "airampTrialCalls"];

fn root() -> PathBuf {
    package_dir().parent().expect("the repository").to_path_buf()
}

struct Built {
    name: String,
    bytes: Vec<u8>,
}

impl Built {
    fn of(path: &Path) -> Self {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Self { name, bytes: fs::read(path).expect("a built file") }
    }

    fn file(&self) -> ElfFile64<'_> {
        ElfFile64::parse(&*self.bytes).expect("a 64-bit ELF file")
    }

    fn segments(&self) -> Vec<(u32, u32)> {
        let header = FileHeader64::<Endianness>::parse(&*self.bytes).expect("a header");
        let endian = header.endian().expect("an order of bytes");
        let segments = header.program_headers(endian, &*self.bytes).expect("segments");
        segments.iter().map(|segment| (segment.p_type(endian), segment.p_flags(endian))).collect()
    }

    /// The entries of the dynamic section: tag and value.
    fn dynamic(&self) -> Vec<(u32, u64)> {
        let file = self.file();
        let endian = file.endian();
        let header = file.elf_header();
        let segments = header.program_headers(endian, &*self.bytes).expect("segments");
        let found = segments.iter().find_map(|segment| segment.dynamic(endian, &*self.bytes).ok().flatten());
        let entries = found.expect("a dynamic section");
        entries.iter().filter_map(|entry| Some((entry.tag32(endian)?, entry.d_val(endian)))).collect()
    }
}

fn built() -> Vec<Built> {
    [interposer(), airamp(), airampd(), rank_program()].iter().map(|path| Built::of(path.as_ref())).collect()
}

/// The names of the vendors' functions, from the tables that the library's exports are made of.
macro_rules! typed {
    ($($name:ident / $profiled:ident ($($signature:tt)*) => $duty:ident($($facts:tt)*);)*) => {
        &[$(stringify!($name), stringify!($profiled)),*]
    };
}
macro_rules! forwarded {
    ($($name:ident / $profiled:ident => $returns:ident;)*) => {
        &[$(stringify!($name), stringify!($profiled)),*]
    };
}
const TYPED: &[&str] = airamp_vendor_abi::for_each_typed_function!(typed);
const FORWARDED: &[&str] = airamp_vendor_abi::for_each_forwarded_function!(forwarded);

#[test]
fn the_library_exports_what_it_stands_in_for_and_its_own_questions() {
    let library = Built::of(interposer().as_ref());
    let file = library.file();
    let defined = file.dynamic_symbols().filter(|symbol| symbol.is_definition());
    let exported: BTreeSet<_> = defined.filter_map(|symbol| symbol.name().ok()).collect();
    let meant: BTreeSet<_> = [TYPED, FORWARDED, &OWN, &["dlsym"]].concat().into_iter().collect();
    let strange: Vec<_> = exported.difference(&meant).collect();
    let missing: Vec<_> = meant.difference(&exported).collect();
    assert!(strange.is_empty(), "exported without being meant: {strange:?}");
    assert!(missing.is_empty(), "meant and not exported: {missing:?}");
}

#[test]
fn nothing_is_writable_and_executable_and_the_stack_is_not_executable() {
    for built in built() {
        for (kind, flags) in built.segments() {
            if kind == PT_LOAD {
                assert_ne!(flags & (PF_W | PF_X), PF_W | PF_X, "{}: a segment is both", built.name);
            }
        }
        let stack = built.segments().into_iter().find(|(kind, _)| *kind == PT_GNU_STACK);
        let (_, flags) = stack.unwrap_or_else(|| panic!("{}: does not say what its stack is", built.name));
        assert_eq!(flags & PF_X, 0, "{}: wants an executable stack", built.name);
    }
}

#[test]
fn every_table_is_bound_at_loading_and_read_only_after_it() {
    for built in built() {
        let kinds: Vec<_> = built.segments().into_iter().map(|(kind, _)| kind).collect();
        assert!(kinds.contains(&PT_GNU_RELRO), "{}: no relro", built.name);
        let dynamic = built.dynamic();
        let has =
            |tag, bit| dynamic.iter().any(|(found, value)| *found == tag && value & u64::from(bit) != 0);
        assert!(has(DT_FLAGS, DF_BIND_NOW) || has(DT_FLAGS_1, DF_1_NOW), "{}: binds lazily", built.name);
        for tag in [DT_TEXTREL, DT_RPATH, DT_RUNPATH] {
            assert!(!dynamic.iter().any(|(found, _)| *found == tag), "{}: has tag {tag}", built.name);
        }
        assert_eq!(
            built.file().elf_header().e_type(built.file().endian()),
            ET_DYN,
            "{}: not relocatable",
            built.name
        );
    }
}

#[test]
fn the_library_needs_the_c_library_and_nothing_of_the_gpu() {
    let library = Built::of(interposer().as_ref());
    let needed = library.dynamic().iter().filter(|(tag, _)| *tag == DT_NEEDED).count();
    assert!(needed <= 4, "{needed} libraries are needed");
    let file = library.file();
    let imported: Vec<_> = file
        .dynamic_symbols()
        .filter(|symbol| symbol.is_undefined())
        .filter_map(|symbol| symbol.name().ok())
        .filter(|name| ["cu", "hip", "nccl", "nvml"].iter().any(|vendor| name.starts_with(vendor)))
        .collect();
    assert!(imported.is_empty(), "linked against the GPU: {imported:?}");
}

/// Lines of the threat model's tables end in `path::test`, in `fuzz: target`, or in `none` and why.
#[test]
fn every_line_of_the_threat_model_names_a_test_and_every_test_that_it_names_exists() {
    let page = fs::read_to_string(root().join("docs/SECURITY.md")).expect("the threat model");
    let is_row = |line: &&str| line.starts_with("| ") && !line.contains("| test");
    let rows: Vec<&str> = page.lines().filter(is_row).collect();
    assert!(rows.len() > 20, "{} lines", rows.len());
    for row in rows {
        let last = row.trim_end_matches([' ', '|']).rsplit(" | ").next().unwrap_or_default();
        assert!(tests_named_in(last) > 0 || last.starts_with("none: "), "no test: {row}");
    }
    assert!(tests_named_in(&page) > 20);
}

/// A function of that name that is marked as a test, whatever else it is marked with.
fn is_test(text: &str, name: &str) -> bool {
    let head = format!("fn {name}(");
    let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
    let place = lines.iter().position(|line| line.starts_with(&head));
    let above = lines[..place.unwrap_or(0)].iter().rev();
    above.take_while(|line| line.starts_with("#[") || line.starts_with("//")).any(|line| *line == "#[test]")
}

/// How many, each of which exists.
fn tests_named_in(text: &str) -> usize {
    let mut named = 0;
    for quoted in text.split('`').skip(1).step_by(2) {
        if let Some((file, test)) = quoted.split_once("::") {
            let text =
                fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
            assert!(is_test(&text, test), "{file} has no test {test}");
            named += 1;
        } else if let Some(target) = quoted.strip_prefix("fuzz: ") {
            assert!(
                root().join(format!("fuzz/targets/{target}.rs")).exists(),
                "there is no fuzz target {target}"
            );
            named += 1;
        }
    }
    named
}
