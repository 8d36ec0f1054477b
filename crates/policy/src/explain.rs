//! Why a communicator does what it does: a record per decision, one JSON object per line of the log after
//! the word `decision `. The interposer writes them, `airamp explain` reads them.

use serde::{Deserialize, Serialize};

use crate::class::Class;

/// What stands before the JSON object in a line of the log.
pub const WORD: &str = "decision ";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Sixteen hexadecimal digits, equal on all ranks.
    pub communicator: String,
    pub rank: u32,
    pub ranks: u32,
    /// The call index from which on it holds, where there is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub index: Option<u64>,
    /// `None`: all classes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub class: Option<ClassName>,
    pub decision: Decision,
    /// One sentence.
    pub reason: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub speedup: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ours_us: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub vendor_us: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub vnmse: Option<f64>,
    /// The ranks whose doing it was, if not all; the first few of many.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub who: Vec<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassName {
    pub collective: String,
    pub datatype: String,
    pub from_bytes: u64,
    /// The bytes from which on calls are of the next class; `None` in the largest.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub below_bytes: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Decision {
    /// Every call goes to the vendor.
    Vendor,
    Compressed,
    /// Calls of the class are tried; results stay exact.
    Trial,
    /// Shadow mode: what compression would do.
    Would,
    /// Shadow mode: compression would not pay, or not be exact enough.
    WouldNot,
    /// A graph holds calls of the class: it is not changed any more.
    Frozen,
    /// After an operator's order to switch on: as it was decided before.
    Resumed,
    /// A proposal did not come about; nothing changed.
    Withdrawn,
}

impl From<Class> for ClassName {
    fn from(class: Class) -> Self {
        let (from_bytes, below_bytes) = class.bytes();
        let datatype = class.datatype().to_owned();
        Self { collective: "AllReduce".to_owned(), datatype, from_bytes, below_bytes }
    }
}

impl Record {
    /// As it stands in the log, from `WORD` on. Shorter than 900 bytes.
    pub fn to_line(&self) -> String {
        serde_json::to_string(self).map(|json| format!("{WORD}{json}")).unwrap_or_default()
    }
}

/// The record in a line of a log, if there is one. Its texts can be shown: no control characters.
pub fn parse_line(line: &str) -> Option<Record> {
    let (_, json) = line.split_once(WORD)?;
    serde_json::from_str(json.trim_end()).ok().filter(is_shown_as_it_is)
}

fn is_shown_as_it_is(record: &Record) -> bool {
    let class = record.class.iter().flat_map(|class| [&class.collective, &class.datatype]);
    class.chain([&record.communicator, &record.reason]).all(|text| !text.contains(char::is_control))
}
