//! Instructions, counted by callgrind: the same on a loaded machine as on an idle one. Counts what a program does inside
//! one of its functions, on the threads that are in it; of all code, or of one object file's own functions alone, so
//! that the C library's choice of a copy routine does not count. The suites about costs call it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::process::Run;

/// Callgrind is some fifty times slower than the machine.
const TIME_LIMIT: Duration = Duration::from_secs(240);
/// So is the creation of a communicator, and one whose ranks give up waiting for each other compresses nothing.
const CONSENSUS_LIMIT_MS: &str = "120000";

pub fn is_there() -> bool {
    Command::new("valgrind").arg("--version").output().is_ok_and(|output| output.status.success())
}

/// The program under callgrind, to be given its arguments. Only what happens inside `function` is counted, a name with
/// `*` for any letters; without one, everything on every thread is.
pub fn under(program: &Path, function: Option<&str>, out: &Path) -> Run {
    let run = Run::new("valgrind").args(["--tool=callgrind", "--quiet"]);
    let run = run.arg(format!("--callgrind-out-file={}", out.display())).time_limit(TIME_LIMIT);
    let run = run.env("AIRAMP_CONSENSUS_TIMEOUT_MS", CONSENSUS_LIMIT_MS);
    let run = match function {
        Some(name) => run.arg("--collect-atstart=no").arg(format!("--toggle-collect={name}")),
        None => run,
    };
    run.arg(program)
}

/// A count, from a program's run.
pub struct Count<'a> {
    pub program: &'a Path,
    pub function: Option<&'a str>,
    /// The beginning of an object file's name: of its own functions alone.
    pub object: Option<&'a str>,
}

impl Count<'_> {
    /// Runs the program with those arguments, `prepare`d, and counts.
    pub fn of<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
        prepare: impl FnOnce(Run) -> Run,
    ) -> u64 {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let out: PathBuf = folder.path().join("counts");
        prepare(under(self.program, self.function, &out).args(arguments)).run().assert_success();
        let text = std::fs::read_to_string(&out).expect("what callgrind wrote");
        match self.object {
            Some(object) => own_instructions(&text, object),
            None => all_instructions(&text),
        }
    }
}

/// Of all functions together.
fn all_instructions(text: &str) -> u64 {
    let totals = text.lines().find_map(|line| line.strip_prefix("totals: "));
    totals.and_then(|count| count.trim().parse().ok()).unwrap_or_else(|| panic!("no totals in {text}"))
}

/// Of the functions of object files whose names begin so, without what they call.
fn own_instructions(text: &str, object: &str) -> u64 {
    let (mut wanted, mut is_wanted, mut sum) = (Vec::new(), false, 0);
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix("ob=") {
            // A name is written once, behind its number.
            let (number, name) = name.split_once(' ').unwrap_or((name, ""));
            if name.rsplit('/').next().is_some_and(|file| file.starts_with(object)) {
                wanted.push(number.to_owned());
            }
            is_wanted = wanted.iter().any(|it| it == number);
        } else if line.starts_with("calls=") {
            // The next line is what the called function took, with all that it called.
            lines.next();
        } else if let Some(names) = line.strip_prefix("cob=") {
            let (number, name) = names.split_once(' ').unwrap_or((names, ""));
            if name.rsplit('/').next().is_some_and(|file| file.starts_with(object)) {
                wanted.push(number.to_owned());
            }
        } else if is_wanted
            && line.starts_with(|letter: char| letter.is_ascii_digit() || "+-*".contains(letter))
        {
            sum += line.split(' ').nth(1).and_then(|count| count.parse::<u64>().ok()).unwrap_or(0);
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
positions: line
events: Ir
ob=(1) /usr/bin/program
fl=(1) a.c
fn=(1) main
10 5
cob=(2) /lib/libours.so
cfn=(2) ours
calls=3 20
11 900
+1 7

ob=(2)
fn=(2)
20 100
* 11
cfn=(3) memcpy
cob=(3) /lib/libc.so.6
calls=1 0
+2 700

ob=(3)
fn=(3)
0 700

totals: 823
";

    #[test]
    fn what_an_object_calls_is_not_its_own() {
        assert_eq!(own_instructions(TEXT, "libours"), 111);
        assert_eq!(own_instructions(TEXT, "program"), 12);
        assert_eq!(own_instructions(TEXT, "libc.so"), 700);
        assert_eq!(all_instructions(TEXT), 823);
    }
}
