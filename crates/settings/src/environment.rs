//! The AIRAMP_* part of an environment, taken once so that settings are computed from plain values.
//! It never writes to the environment. Which names are settings is the table's business.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use crate::nearest::nearest;
use crate::table::TABLE;

const PREFIX: &str = "AIRAMP_";

/// Names that are no settings of the library but belong to its family.
const OTHER_FAMILIES: [&str; 4] = ["AIRAMP_EMU_", "AIRAMP_RANK_", "AIRAMP_TEST_", "AIRAMP_INJECT_"];

/// Variables that have no key in the file, with one sentence each.
pub const ENVIRONMENT_ONLY: &[(&str, &str)] = &[
    ("AIRAMP_CONFIG", "Names the settings file to read instead of /etc/airamp.conf."),
    ("AIRAMP_HOME", "The folder in which `airamp` looks first for its libraries and `airamp-rank`."),
    (
        "AIRAMP_TEST_PLAN",
        "For this project's tests, not for jobs: any value makes the ranks compress every eligible call from the \
         first on, without trials, if all ranks have it.",
    ),
];

/// What schedulers and launchers call a job, the first that is set; not ours, so never warned about.
const JOB_NAMES: [&str; 2] = ["SLURM_JOB_ID", "TORCHELASTIC_RUN_ID"];

/// What torchrun calls every job that was given no name: no name of any.
const NAMELESS: &str = "none";

/// Read by this project's tests only, so known but not documented to users.
const FOR_TESTS: &str = "AIRAMP_BLESS";

/// The variables that begin with AIRAMP_, and the job's name.
#[derive(Clone, Debug, Default)]
pub struct Environment(BTreeMap<OsString, OsString>);

impl Environment {
    pub fn of_this_process() -> Self {
        std::env::vars_os().collect()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&OsStr> {
        // An empty variable is how shells and job scripts unset one.
        self.0.get(OsStr::new(name)).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }

    /// The job's name where AIRAMP_JOB and the file give none.
    pub(crate) fn job(&self) -> Option<&OsStr> {
        JOB_NAMES.iter().find_map(|name| self.get(name).filter(|value| *value != NAMELESS))
    }

    /// Variables that are set and that nothing reads, with the name that was probably meant.
    pub(crate) fn unknown(&self) -> impl Iterator<Item = (String, Option<&'static str>)> {
        let set = self.0.iter().filter(|(_, value)| !value.is_empty());
        set.map(|(name, _)| name.to_string_lossy().into_owned()).filter(|name| !is_known(name)).map(|name| {
            let meant = nearest_variable(&name);
            (name, meant)
        })
    }
}

impl FromIterator<(OsString, OsString)> for Environment {
    fn from_iter<I: IntoIterator<Item = (OsString, OsString)>>(variables: I) -> Self {
        let ours = |name: &OsString| {
            name.as_encoded_bytes().starts_with(PREFIX.as_bytes()) || JOB_NAMES.iter().any(|job| name == job)
        };
        Self(variables.into_iter().filter(|(name, _)| ours(name)).collect())
    }
}

/// The variable that a misspelt name probably meant.
pub fn nearest_variable(name: &str) -> Option<&'static str> {
    nearest(name, names())
}

fn names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|setting| setting.env).chain(ENVIRONMENT_ONLY.iter().map(|(name, _)| *name))
}

fn is_known(name: &str) -> bool {
    name == FOR_TESTS
        || JOB_NAMES.contains(&name)
        || OTHER_FAMILIES.iter().any(|family| name.starts_with(family))
        || names().any(|known| known == name)
}
