//! What a check found, and how that is shown. No check is made here.

use crate::config::without_control_characters;
use serde::Serialize;
use serde_json::{Value, json};

/// How bad it is; later is worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Status {
    Ok,
    Warning,
    Problem,
}

/// One line of the report.
#[derive(Debug, Serialize)]
pub(super) struct Check {
    name: &'static str,
    pub(super) status: Status,
    found: String,
    /// What to do; nothing where all is well.
    pub(super) advice: Option<String>,
}

impl Check {
    pub(super) fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, status: Status::Ok, found: found.into(), advice: None }
    }

    pub(super) fn warning(name: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { name, status: Status::Warning, found: found.into(), advice: Some(advice.into()) }
    }

    pub(super) fn problem(name: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { name, status: Status::Problem, found: found.into(), advice: Some(advice.into()) }
    }
}

fn worst(checks: &[Check]) -> Status {
    checks.iter().map(|check| check.status).max().unwrap_or(Status::Ok)
}

pub(super) fn exit_code(checks: &[Check]) -> u8 {
    match worst(checks) {
        Status::Ok => 0,
        Status::Warning => 1,
        Status::Problem => 2,
    }
}

pub(super) fn as_json(checks: &[Check]) -> Value {
    json!({ "status": worst(checks), "checks": checks })
}

pub(super) fn as_lines(checks: &[Check]) -> String {
    checks.iter().map(line).collect()
}

fn line(check: &Check) -> String {
    let status = match check.status {
        Status::Ok => "ok",
        Status::Warning => "warning",
        Status::Problem => "problem",
    };
    let advice = check.advice.as_ref().map(|advice| format!(" -> {advice}")).unwrap_or_default();
    // Texts of loaders and drivers may have several lines, and strangers answer at the daemon's port.
    let text = format!("{}{advice}", check.found).split_whitespace().collect::<Vec<_>>().join(" ");
    format!("{status:7}  {:13} {}\n", check.name, without_control_characters(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_is_that_of_the_worst_check() {
        let ok = || Check::ok("gpu", "one");
        let warning = || Check::warning("gpu", "none", "buy one");
        let problem = || Check::problem("gpu", "broken", "mend it");
        assert_eq!(exit_code(&[ok(), ok()]), 0);
        assert_eq!(exit_code(&[ok(), warning()]), 1);
        assert_eq!(exit_code(&[problem(), warning(), ok()]), 2);
    }

    #[test]
    fn a_check_is_one_line_with_what_to_do() {
        let check = Check::warning("gpu", "none\nat all", "buy one");
        assert_eq!(line(&check), "warning  gpu           none at all -> buy one\n");
        let check = Check::warning("airampd", "an answer\u{1b}[2J", "look");
        assert_eq!(line(&check), "warning  airampd       an answer\\u{1b}[2J -> look\n");
    }
}
