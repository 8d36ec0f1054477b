//! The harness of the integration suites: where the built artifacts lie, how a
//! small C program is compiled, and how a program is run bounded in time.
//! It asserts only what every suite needs (a program ends, an artifact exists);
//! the claims live in `tests/tests/`.

pub mod account;
pub mod artifacts;
pub mod c_program;
pub mod callgrind;
pub mod chaos;
pub mod code_object;
pub mod comparison;
pub mod daemon;
pub mod gpu;
pub mod hosts;
pub mod http;
pub mod live;
pub mod made_up_rank;
pub mod packages;
pub mod process;
pub mod prometheus;
pub mod scenario;
pub mod stand_ins;
pub mod standstill;
pub mod tuned;

pub use artifacts::{airamp, airampd, emulator_dir, interposer, rank_program};
pub use c_program::CProgram;
pub use process::{End, Outcome, Run};

use std::io::Write;
use std::path::Path;

/// The package's own folder: `hazards/` and `include/` lie in it.
pub fn package_dir() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Says why a test proves nothing here, past the capture of a passing test's output.
pub fn skip(reason: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: {reason}");
}

/// The same for what CI has to provide: there it is a failure.
pub fn skip_outside_ci(reason: &str) {
    let in_ci = std::env::var_os("CI").is_some_and(|value| value == "true");
    assert!(!in_ci, "not to be skipped in CI: {reason}");
    skip(reason);
}
