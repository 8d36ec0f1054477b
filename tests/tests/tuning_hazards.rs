//! Calls that have no effect on one rank alone, and groups on one rank alone, while calls are tried: the ranks
//! still try the same calls, and results stay exact.

use std::time::Duration;

use airamp_tests::comparison::Presence;
use airamp_tests::{CProgram, Run};

#[test]
fn ranks_that_undo_or_group_calls_alone_still_try_the_same_ones() {
    let program = CProgram::linked("trials.c").build();
    let run = Run::new(program).arg("400").time_limit(Duration::from_secs(120));
    let run = run.env("AIRAMP_MODE", "shadow").env("AIRAMP_MIN_BYTES", "4096");
    let outcome = Presence::Preloaded.applied_to(run.env("AIRAMP_ARENA_BYTES", "1048576")).run();
    let text = outcome.assert_success().stdout_text();
    let trials = |rank: u32| {
        let line = text.lines().find(|line| line.starts_with(&format!("rank {rank} agreed=1")));
        let line = line.filter(|line| line.ends_with("exact=1")).unwrap_or_else(|| panic!("{outcome}"));
        let trials = line.split("trials=").nth(1).and_then(|rest| rest.split(' ').next());
        trials.and_then(|trials| trials.parse::<u64>().ok()).unwrap_or_else(|| panic!("{outcome}"))
    };
    assert_eq!(trials(0), trials(1), "{outcome}");
    assert!(trials(0) >= 8, "{outcome}");
}
