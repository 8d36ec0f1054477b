//! What the kernel says of a process in `/proc/PID/stat`: the one place where that line is taken apart. Used here to tell
//! who is alive, by the observer and by the launcher.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// R, S, D, T, Z, …
    pub state: char,
    /// The process group.
    pub group: i32,
    /// When it started, in the kernel's ticks since the boot.
    pub started: u64,
}

impl Standing {
    /// `None`: there is no such process, or it cannot be looked at.
    pub fn of(process: u32) -> Option<Self> {
        Self::in_folder(&process.to_string())
    }

    pub(crate) fn of_this_process() -> Option<Self> {
        Self::in_folder("self")
    }

    /// Its memory is gone.
    pub fn is_dead(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }

    fn in_folder(folder: &str) -> Option<Self> {
        let line = std::fs::read(format!("/proc/{folder}/stat")).ok()?;
        Self::parse(&String::from_utf8_lossy(&line))
    }

    /// The program's name in the second field may hold blanks and parentheses: what counts begins behind the last one.
    fn parse(line: &str) -> Option<Self> {
        let (_, fields) = line.rsplit_once(')')?;
        let mut fields = fields.split_ascii_whitespace();
        let state = fields.next()?.chars().next()?;
        let group = fields.nth(1)?.parse().ok()?;
        let started = fields.nth(16)?.parse().ok()?;
        Some(Self { state, group, started })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: &str = "R 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20";

    #[test]
    fn a_program_name_with_parentheses_does_not_move_the_fields() {
        let found = Standing::parse(&format!("77 (a) b) Z 9 9) {FIELDS}")).unwrap();
        assert_eq!(found, Standing { state: 'R', group: 2, started: 4711 });
        assert!(!found.is_dead());
        assert!(Standing::parse(&format!("7 (x) {}", FIELDS.replace('R', "Z"))).unwrap().is_dead());
    }

    #[test]
    fn a_line_that_ends_early_is_of_no_process() {
        let short = format!("7 (x) {}", &FIELDS[..40]);
        for line in ["", "77", "77 (x)", "77 (x) Z", "77 (x) R 1 two 3", &short] {
            assert_eq!(Standing::parse(line), None, "{line}");
        }
    }

    #[test]
    fn this_process_is_alive_and_in_its_group() {
        let found = Standing::of(std::process::id()).unwrap();
        assert_eq!(Standing::of_this_process().map(|own| own.started), Some(found.started));
        let group = rustix::process::getpgrp().as_raw_nonzero().get();
        assert!(found.started > 0 && found.group == group && !found.is_dead());
    }
}
