//! Reads a cluster file: TOML in which every key is known, every value is of the kind and in the range that it should be,
//! and what is not is refused with its line and its key. What the numbers mean together is checked in `cluster`.

use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::foreign::{is_line, short};
use crate::measured::element_bytes;
use crate::numbers::size;

const LARGEST_FILE: u64 = 256 << 10;
const MOST_MESSAGES: usize = 1000;
/// No path is longer.
const LONGEST_TEXT: usize = 4096;

/// The file as it stands, with defaults for what it leaves out.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterFile {
    pub name: Option<String>,
    pub nodes: usize,
    pub gpus_per_node: usize,
    pub nic_gbps: Option<f64>,
    pub nics_per_node: usize,
    pub gpu_link_gbps: Option<f64>,
    pub is_rdma: bool,
    /// What one step of the vendor's ring takes, if it is known better than the fit knows it.
    pub(crate) step_us: Option<f64>,
    pub(crate) min_bytes: Option<usize>,
    pub(crate) min_speedup: Option<f64>,
    pub(crate) arena_bytes: Option<usize>,
    pub(crate) compute_ms: Option<f64>,
    pub(crate) messages: Vec<MessageEntry>,
    pub trace: Option<PathBuf>,
    pub(crate) trace_steps: Option<usize>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MessageEntry {
    pub(crate) datatype: String,
    pub(crate) bytes: usize,
    pub(crate) per_step: f64,
    pub(crate) among: Among,
}

/// Which GPUs a communicator spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Among {
    All,
    Nodes,
    Node,
}

impl Among {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Nodes => "nodes",
            Self::Node => "node",
        }
    }
}

impl ClusterFile {
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let found = std::fs::metadata(path).map_err(|error| error.to_string())?;
        if !found.is_file() || found.len() > LARGEST_FILE {
            return Err(format!("not a plain file of at most {LARGEST_FILE} bytes"));
        }
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
        let mut file = Self::parse(&text)?;
        // Beside the cluster file, wherever the command was given.
        file.trace = file.trace.map(|trace| path.parent().unwrap_or(Path::new("")).join(trace));
        Ok(file)
    }

    pub fn parse(text: &str) -> Result<Self, String> {
        let table = DeTable::parse(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            format!("line {}: {}", line_at(text, at), short(error.message().replace('\n', "; ")))
        })?;
        let mut keys = Keys::new(text, table.get_ref(), "the file");
        let file = Self {
            name: keys.text("name")?,
            nodes: keys.whole("nodes", 1, 100_000)?.ok_or_else(|| keys.missing("nodes"))?,
            gpus_per_node: keys.whole("gpus_per_node", 1, 1024)?.unwrap_or(1),
            nic_gbps: keys.number("nic_gbps", 1e-3, 1e6)?,
            nics_per_node: keys.whole("nics_per_node", 1, 1024)?.unwrap_or(1),
            gpu_link_gbps: keys.number("gpu_link_gbps", 1e-3, 1e6)?,
            is_rdma: keys.choice("transport", &[("sockets", false), ("rdma", true)])?.unwrap_or(false),
            step_us: keys.number("step_us", 0.0, 1e6)?,
            min_bytes: keys.size("min_bytes")?,
            min_speedup: keys.number("min_speedup", 1.0, 100.0)?,
            arena_bytes: keys.size("arena_bytes")?,
            compute_ms: keys.number("compute_ms", 0.0, 1e9)?,
            messages: messages(text, &mut keys)?,
            trace: keys.text("trace")?.map(PathBuf::from),
            trace_steps: keys.whole("trace_steps", 1, 1 << 30)?,
        };
        keys.end()?;
        Ok(file)
    }
}

fn messages(text: &str, keys: &mut Keys<'_, '_>) -> Result<Vec<MessageEntry>, String> {
    let Some((line, value)) = keys.take("message") else { return Ok(Vec::new()) };
    let DeValue::Array(items) = value else {
        return Err(format!("line {line}: message: write each as [[message]]"));
    };
    if items.len() > MOST_MESSAGES {
        return Err(format!("line {line}: message: more than {MOST_MESSAGES}"));
    }
    items.iter().map(|item| message(text, line_at(text, item.span().start), item.get_ref())).collect()
}

fn message(text: &str, line: usize, value: &DeValue<'_>) -> Result<MessageEntry, String> {
    let DeValue::Table(table) = value else {
        return Err(format!("line {line}: message: write each as [[message]]"));
    };
    let mut keys = Keys::new(text, table, "a message");
    let missing = |key: &str| format!("line {line}: message: {key} is missing");
    let types: Vec<(&str, &str)> = ["float32", "bfloat16", "float16"].map(|name| (name, name)).to_vec();
    let datatype = keys.choice("datatype", &types)?.ok_or_else(|| missing("datatype"))?;
    let (at, bytes) = (keys.line("size"), keys.size("size")?.ok_or_else(|| missing("size"))?);
    if !bytes.is_multiple_of(element_bytes(datatype).unwrap_or(1)) {
        return Err(format!("line {at}: size: no whole number of {datatype} elements"));
    }
    let among = [("all", Among::All), ("nodes", Among::Nodes), ("node", Among::Node)];
    let entry = MessageEntry {
        datatype: datatype.into(),
        bytes,
        per_step: keys.number("count", 1e-6, 1e6)?.unwrap_or(1.0),
        among: keys.choice("among", &among)?.unwrap_or(Among::All),
    };
    keys.end()?;
    Ok(entry)
}

fn line_at(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

/// The keys of a table that nobody has asked for yet.
struct Keys<'t, 'v> {
    text: &'t str,
    entries: Vec<(String, usize, &'v DeValue<'v>)>,
    known: Vec<&'static str>,
    of: &'static str,
}

impl<'t, 'v> Keys<'t, 'v> {
    fn new(text: &'t str, table: &'v DeTable<'v>, of: &'static str) -> Self {
        let entry = |(key, value): (&'v Spanned<std::borrow::Cow<'v, str>>, &'v Spanned<DeValue<'v>>)| {
            (key.get_ref().to_string(), line_at(text, key.span().start), value.get_ref())
        };
        Self { text, entries: table.iter().map(entry).collect(), known: Vec::new(), of }
    }

    fn take(&mut self, key: &'static str) -> Option<(usize, &'v DeValue<'v>)> {
        self.known.push(key);
        let place = self.entries.iter().position(|(name, ..)| name == key)?;
        let (_, line, value) = self.entries.remove(place);
        Some((line, value))
    }

    /// Where a key stands that was not taken yet.
    fn line(&self, key: &str) -> usize {
        self.entries.iter().find(|(name, ..)| name == key).map_or(1, |(_, line, _)| *line)
    }

    fn missing(&self, key: &str) -> String {
        let lines = self.text.lines().count().max(1);
        format!("line {lines}: {key} is missing (`airamp plan --example` prints a file that has it)")
    }

    fn text(&mut self, key: &'static str) -> Result<Option<String>, String> {
        match self.take(key) {
            None => Ok(None),
            Some((_, DeValue::String(text))) if text.len() <= LONGEST_TEXT && is_line(text) => {
                Ok(Some(text.to_string()))
            }
            Some((line, DeValue::String(_))) => Err(format!(
                "line {line}: {key}: expected at most {LONGEST_TEXT} bytes without control characters"
            )),
            Some((line, _)) => Err(format!("line {line}: {key}: expected text in quotes")),
        }
    }

    fn number(&mut self, key: &'static str, least: f64, most: f64) -> Result<Option<f64>, String> {
        let Some((line, value)) = self.take(key) else { return Ok(None) };
        let number = match value {
            DeValue::Integer(number) if number.radix() == 10 => number.as_str().parse::<f64>().ok(),
            DeValue::Float(number) => number.as_str().parse::<f64>().ok(),
            _ => None,
        };
        match number.filter(|number| (least..=most).contains(number)) {
            Some(number) => Ok(Some(number)),
            None => Err(format!("line {line}: {key}: expected a number from {least} to {most}")),
        }
    }

    fn whole(&mut self, key: &'static str, least: usize, most: usize) -> Result<Option<usize>, String> {
        let Some((line, value)) = self.take(key) else { return Ok(None) };
        let number = match value {
            DeValue::Integer(number) if number.radix() == 10 => number.as_str().parse::<usize>().ok(),
            _ => None,
        };
        match number.filter(|number| (least..=most).contains(number)) {
            Some(number) => Ok(Some(number)),
            None => Err(format!("line {line}: {key}: expected a whole number from {least} to {most}")),
        }
    }

    fn size(&mut self, key: &'static str) -> Result<Option<usize>, String> {
        let line = self.line(key);
        match self.text(key)? {
            None => Ok(None),
            Some(text) => size(&text).map(Some).map_err(|error| format!("line {line}: {key}: {error}")),
        }
    }

    fn choice<T: Copy>(&mut self, key: &'static str, offered: &[(&str, T)]) -> Result<Option<T>, String> {
        let line = self.line(key);
        let Some(text) = self.text(key)? else { return Ok(None) };
        let found = offered.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
        let names: Vec<&str> = offered.iter().map(|(name, _)| *name).collect();
        found.map(Some).ok_or_else(|| {
            format!("line {line}: {key}: `{}` is not one of {}", short(text), names.join(", "))
        })
    }

    fn end(&self) -> Result<(), String> {
        let Some((key, line, _)) = self.entries.iter().min_by_key(|(_, line, _)| *line) else {
            return Ok(());
        };
        Err(format!(
            "line {line}: {}: unknown key; {} can have {}",
            short(key),
            self.of,
            self.known.join(", ")
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        ClusterFile::parse(text).expect_err(text)
    }

    #[test]
    fn the_example_says_what_it_says() {
        let file = ClusterFile::parse(crate::EXAMPLE).expect("the example");
        assert_eq!((file.nodes, file.gpus_per_node, file.nics_per_node), (4, 8, 8));
        assert_eq!((file.nic_gbps, file.compute_ms, file.is_rdma), (Some(100.0), Some(250.0), false));
        let first = &file.messages[0];
        assert_eq!((first.bytes, first.per_step, first.among), (25 << 20, 24.0, Among::Nodes));
        assert_eq!(file.messages.len(), 2);
    }

    #[test]
    fn what_is_wrong_is_named_by_line_and_key() {
        assert!(refused("nodes = 2\nnic_gbs = 10\n").starts_with("line 2: nic_gbs: unknown key"));
        assert!(refused("\nnodes = \"two\"\n").starts_with("line 2: nodes: expected a whole number"));
        assert!(refused("nodes = 2\nnic_gbps = -1\n").starts_with("line 2: nic_gbps: expected a number"));
        assert!(refused("nodes = 2\ntransport = \"ib\"\n").contains("line 2: transport: `ib` is not one of"));
        assert!(refused("nodes = \n").starts_with("line 1: "));
        assert!(refused("nic_gbps = 10\n").contains("nodes is missing"));
        let message = |rest: &str| refused(&format!("nodes = 2\n[[message]]\n{rest}\n"));
        assert!(message("size = \"4MiB\"").contains("datatype is missing"));
        assert!(message("datatype = \"float32\"\nsize = \"4MB\"").starts_with("line 4: size: "));
        assert!(message("datatype = \"float32\"\nsize = \"10B\"").contains("line 4: size: no whole number"));
        assert!(message("datatype = \"int8\"\nsize = \"4MiB\"").starts_with("line 3: datatype: "));
        assert!(message("datatype = \"float32\"\nsize = \"4MiB\"\nbytes = 3").starts_with("line 5: bytes: "));
        assert!(refused("nodes = 2\nmessage = 3\n").starts_with("line 2: message: "));
    }

    #[test]
    fn a_reason_repeats_no_control_characters_and_nothing_long() {
        let long = "x".repeat(100_000);
        let texts = [
            format!("nodes = 2\n\"{long}\" = 1\n"),
            format!("nodes = 2\ntransport = \"{}\"\n", &long[..4000]),
            format!("nodes = 2\nname = \"{long}\"\n"),
            format!("nodes = {long}\n"),
            "nodes = 2\n\"\\u001b[2J\" = 1\n".to_owned(),
            "nodes = 2\nname = \"\\u001b[2J\"\n".to_owned(),
            "nodes = 2\ntransport = \"a\\nb\"\n".to_owned(),
        ];
        for text in texts {
            let reason = refused(&text);
            assert!(reason.len() < 1000 && is_line(&reason), "{reason:?}");
            assert!(reason.starts_with("line "), "{reason}");
        }
    }
}
