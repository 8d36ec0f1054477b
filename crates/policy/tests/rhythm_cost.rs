//! What a call costs once a step is known, counted by callgrind over `examples/rhythm_cost.rs`, without the loop around it.
//! The budget is that of an optimised build; the one that tests get may take a quarter more.

use std::path::PathBuf;
use std::process::Command;

/// Per call. In `one` every call begins a step and ends it, 20 ms after the last, and the library is told so: it asks for
/// that once in 10 ms at most, so that no more than a hundred calls in a second cost that much, however many there are.
const MOST: [(&str, u64); 4] = [("ddp", 100), ("decode", 100), ("token", 100), ("one", 180)];

/// Cargo builds examples beside the tests.
fn program() -> Option<PathBuf> {
    let deps = std::env::current_exe().ok()?;
    let path = deps.parent()?.parent()?.join("examples/rhythm_cost");
    path.is_file().then_some(path)
}

fn instructions(program: &PathBuf, step: &str, calls: u64) -> u64 {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no"])
        .arg("--toggle-collect=*measured*")
        .arg(program)
        .args([step, &calls.to_string()])
        .output()
        .expect("valgrind runs");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}");
    let collected = text.lines().find_map(|line| line.split("Collected : ").nth(1));
    collected.and_then(|count| count.trim().parse().ok()).unwrap_or_else(|| panic!("no count in: {text}"))
}

#[test]
fn a_call_of_a_known_step_costs_less_than_a_hundred_instructions_unless_a_slow_step_begins_with_it() {
    let (Some(program), true) = (program(), Command::new("valgrind").arg("--version").output().is_ok())
    else {
        // CI has both; elsewhere `cargo test --test rhythm_cost` alone does not build the example.
        assert!(std::env::var_os("CI").is_none(), "valgrind or the example is not there");
        return println!("skipped: valgrind or the example is not there");
    };
    // So many that what is counted before the first and after the last is nothing beside them.
    let each = |step: &str| instructions(&program, step, 10_000) / 10_000;
    let around = each("nothing");
    for (step, most) in MOST {
        let each = each(step).saturating_sub(around);
        println!("{step}: {each} instructions per call");
        let most = if cfg!(debug_assertions) { most * 5 / 4 } else { most };
        assert!((1..=most).contains(&each), "{step}: {each}");
    }
}
