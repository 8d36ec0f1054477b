//! The environment variables of the emulator, each defined once in [`TABLE`].
//!
//! Reads the process environment and nothing else; a value that cannot be read is
//! reported once and replaced by the default, never an error. `docs/emulator.md`
//! shows the same table, and a test compares the two.

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError};

/// What a setting's text has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A whole number from the first to the second, both included.
    Number(u64, u64),
    /// A decimal fraction that is not negative.
    Decimal,
    /// `0` or `1`.
    Switch,
    /// Any text, taken as it is.
    Text,
}

impl Kind {
    /// How the documentation writes the kind.
    pub fn describe(self) -> String {
        match self {
            Self::Number(low, u64::MAX) => format!("number from {low}"),
            Self::Number(low, high) => format!("number {low} to {high}"),
            Self::Decimal => "decimal".to_owned(),
            Self::Switch => "0 or 1".to_owned(),
            Self::Text => "text".to_owned(),
        }
    }
}

/// One row of the table.
pub struct Setting {
    pub name: &'static str,
    pub kind: Kind,
    /// The text that stands in for a variable that is not set. Empty: nothing.
    pub default: &'static str,
    pub meaning: &'static str,
}

const fn row(name: &'static str, kind: Kind, default: &'static str, meaning: &'static str) -> Setting {
    Setting { name, kind, default, meaning }
}

/// Every variable that the emulator reads.
pub const TABLE: &[Setting] = &[
    row("AIRAMP_EMU_DEVICES", Kind::Number(0, 64), "8", "How many devices there are."),
    row("AIRAMP_EMU_NO_DEVICE", Kind::Switch, "0", "Fault: initialisation answers that there is no device."),
    row(
        "AIRAMP_EMU_MEMORY_BYTES",
        Kind::Number(1, u64::MAX),
        "2147483648",
        "Memory of each device. Pages that nobody writes cost nothing.",
    ),
    row(
        "AIRAMP_EMU_ARCH",
        Kind::Text,
        "",
        "Architecture that is reported and that code objects must fit. Empty: sm_90, or gfx942 under HIP. One that does not exist, such as sm_999, may be reported.",
    ),
    row(
        "AIRAMP_EMU_DRIVER_VERSION",
        Kind::Number(1000, 99_999_999),
        "12090",
        "What the version queries of the driver and the runtime answer.",
    ),
    row(
        "CUDA_DEVICE_MAX_CONNECTIONS",
        Kind::Number(1, 32),
        "8",
        "Hardware queues of a device. Streams share them round robin, and what shares a queue runs in the order of submission.",
    ),
    row(
        "AIRAMP_EMU_LAUNCH_QUEUE",
        Kind::Number(1, 1 << 20),
        "1024",
        "Pending submissions that a hardware queue holds. One more blocks the submitting thread.",
    ),
    row(
        "AIRAMP_EMU_ALLOC_SYNC",
        Kind::Number(0, 2),
        "1",
        "What waits for all work of the device: 0 nothing, 1 freeing memory and loading a module, 2 allocating too.",
    ),
    row(
        "AIRAMP_EMU_WAKE",
        Kind::Text,
        "",
        "`idle_ms:wake_us`: a kernel takes so much longer where none has run in the process for that long. Empty: devices never sleep.",
    ),
    row(
        "AIRAMP_EMU_RACECHECK",
        Kind::Switch,
        "1",
        "Two accesses to the same device memory that no stream, event or host synchronisation puts in order are an error that names both.",
    ),
    row(
        "AIRAMP_EMU_FAIL_ALLOC",
        Kind::Number(0, u64::MAX),
        "0",
        "Fault: the nth device allocation of the process, counted from 1, is out of memory. 0: none.",
    ),
    row(
        "AIRAMP_EMU_FAIL_LAUNCH",
        Kind::Number(0, u64::MAX),
        "0",
        "Fault: the nth kernel launch of the process, counted from 1, fails on the device. 0: none.",
    ),
    row(
        "AIRAMP_EMU_REFUSE_LAUNCH",
        Kind::Number(0, u64::MAX),
        "0",
        "Fault: the nth kernel launch of the process, counted from 1, is refused by the call for lack of resources and has no effect. 0: none.",
    ),
    row(
        "AIRAMP_EMU_WRONG_KERNEL",
        Kind::Text,
        "",
        "Fault: the kernel of this name flips a bit of the first byte that it writes.",
    ),
    row(
        "AIRAMP_EMU_HIDE_SYMBOLS",
        Kind::Text,
        "",
        "Fault: exported functions, separated by commas, that the libraries then do not have. References bound at load keep them.",
    ),
    // NCCL.
    row(
        "AIRAMP_EMU_NCCL_VERSION",
        Kind::Number(2000, 99_999),
        "22809",
        "Version code that ncclGetVersion answers. Functions that came later are absent for all but references bound at load.",
    ),
    row(
        "AIRAMP_EMU_LINK_GBPS",
        Kind::Decimal,
        "0",
        "Egress of each device in gigabits per second, shared by all its communicators. 0: as fast as the machine.",
    ),
    row(
        "AIRAMP_EMU_SLOW_RANK",
        Kind::Text,
        "",
        "Fault: `rank:ms`, that rank starts each operation so much later. Several are separated by commas, as below.",
    ),
    row(
        "AIRAMP_EMU_DIE_AT_CALL",
        Kind::Text,
        "",
        "Fault: `rank:n`, the process of that rank is killed in its nth collective or point-to-point call, counted from 1.",
    ),
    row(
        "AIRAMP_EMU_FAIL_CALL",
        Kind::Text,
        "",
        "Fault: `function:n:result`, the nth call of that nccl function, counted from 1, returns that number and has no effect. A failing end of a group still closes it.",
    ),
    row(
        "AIRAMP_EMU_SLOW_CALL",
        Kind::Text,
        "",
        "Fault: `function:ms`, each call of that nccl function takes so much longer inside.",
    ),
];

/// The value of a number.
pub fn number(name: &str) -> u64 {
    let setting = setting(name);
    let parse = |text: &str| match setting.kind {
        Kind::Number(low, high) => text.parse().ok().filter(|n| (low..=high).contains(n)),
        _ => None,
    };
    read(setting, parse)
}

/// The value of a decimal fraction.
pub fn decimal(name: &str) -> f64 {
    read(setting(name), |text| text.parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0))
}

/// Whether a switch is on.
pub fn switch(name: &str) -> bool {
    read(setting(name), |text| match text {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    })
}

/// A text in the form that `parse` reads; `None` where it is not set or not in that form.
pub fn parsed<T>(name: &str, form: &str, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
    let setting = setting(name);
    let given = given(setting.name)?;
    let value = parse(&given);
    if value.is_none() {
        report_once(setting.name, || format!("{name}={given:?} is not {form}; it is ignored"));
    }
    value
}

/// The value of a text.
pub fn text(name: &str) -> String {
    read(setting(name), |text| Some(text.to_owned()))
}

fn setting(name: &str) -> &'static Setting {
    TABLE
        .iter()
        .find(|setting| setting.name == name)
        .unwrap_or_else(|| panic!("{name} is not in the table of settings"))
}

fn read<T>(setting: &Setting, parse: impl Fn(&str) -> Option<T>) -> T {
    if let Some(given) = given(setting.name) {
        match parse(&given) {
            Some(value) => return value,
            None => warn_once(setting, &given),
        }
    }
    parse(setting.default).unwrap_or_else(|| panic!("the default of {} does not fit its kind", setting.name))
}

/// The variable as it was when the emulator first read it: a program that changes its
/// own environment later would otherwise change a device that is already running.
fn given(name: &str) -> Option<String> {
    static SEEN: OnceLock<HashMap<&'static str, String>> = OnceLock::new();
    let seen = SEEN.get_or_init(|| {
        let value = |name| std::env::var_os(name).map(|v| v.to_string_lossy().into_owned());
        let present = |s: &Setting| Some((s.name, value(s.name).filter(|v| !v.is_empty())?));
        report_unknown();
        TABLE.iter().filter_map(present).collect()
    });
    seen.get(name).cloned()
}

fn warn_once(setting: &Setting, given: &str) {
    let Setting { name, kind, default, .. } = setting;
    let kind = kind.describe();
    report_once(name, || format!("{name}={given:?} is not a {kind}; it is taken as {default:?}"));
}

fn report_once(name: &'static str, message: impl FnOnce() -> String) {
    static REPORTED: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());
    let mut reported = REPORTED.lock().unwrap_or_else(PoisonError::into_inner);
    if !reported.contains(&name) {
        reported.push(name);
        crate::gpu::report(&message());
    }
}

/// A misspelt variable would otherwise be a fault that silently never comes.
fn report_unknown() {
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("AIRAMP_EMU_") && TABLE.iter().all(|setting| setting.name != name) {
            crate::gpu::report(&format!("{name} is no setting of the emulator; it is ignored"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_fits_its_kind() {
        for setting in TABLE {
            match setting.kind {
                Kind::Number(..) => drop(number(setting.name).to_string()),
                Kind::Decimal => assert!(decimal(setting.name) >= 0.0),
                Kind::Switch => assert!(["0", "1"].contains(&setting.default)),
                Kind::Text => assert_eq!(text(setting.name), setting.default),
            }
        }
    }

    #[test]
    fn the_documentation_shows_this_table() {
        let page = include_str!("../../../docs/emulator.md");
        for setting in TABLE {
            let default = match setting.default {
                "" => "(none)",
                other => other,
            };
            let line = format!(
                "| `{}` | {} | {} | {} |",
                setting.name,
                setting.kind.describe(),
                default,
                setting.meaning
            );
            assert!(page.contains(&line), "docs/emulator.md lacks the row\n{line}");
        }
    }
}
