//! `airamp config`: every setting, its value, and where that came from. Warnings go to stderr.

use airamp_settings::{Effective, Loaded, Source};
use serde_json::{Value, json};

use crate::cli::CommandError;
use crate::streams;

const AFTER_HELP: &str = "\
A value comes from the environment, from the settings file (/etc/airamp.conf, or the one that AIRAMP_CONFIG \
names) or is the default, in this order. What is wrong in them is said on stderr and ignored.

Examples:
  airamp config
  AIRAMP_LOG=debug AIRAMP_CONFIG=./airamp.conf airamp config
  airamp config --json | jq '.settings[] | select(.source != \"default\")'";

/// Show the value of every setting and where it came from
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

pub(crate) fn execute(args: &Args) -> Result<u8, CommandError> {
    let loaded = airamp_settings::load();
    for warning in &loaded.warnings {
        streams::complain(&format!("airamp: warning: {warning}"));
    }
    if args.json {
        streams::print(&format!("{:#}\n", as_json(&loaded)))?;
    } else {
        streams::print(&as_table(&loaded))?;
    }
    Ok(0)
}

pub(crate) fn as_json(loaded: &Loaded) -> Value {
    let settings: Vec<Value> =
        loaded.effective().map(|effective| setting_as_json(loaded, &effective)).collect();
    json!({
        "file": { "path": loaded.file.to_string_lossy(), "read": loaded.file_read },
        "settings": settings,
        "warnings": loaded.warnings,
    })
}

fn setting_as_json(loaded: &Loaded, effective: &Effective) -> Value {
    let setting = effective.setting;
    let (source, line) = match effective.source {
        Source::Default => ("default", None),
        Source::File { line } => ("file", Some(line)),
        Source::Environment => ("environment", None),
    };
    json!({
        "key": setting.key,
        "environment": setting.env,
        "value": effective.value,
        "default": setting.default_value(),
        "source": source,
        "file": line.map(|_| loaded.file.to_string_lossy()),
        "line": line,
        "doc": setting.doc,
    })
}

fn as_table(loaded: &Loaded) -> String {
    let header = ["SETTING", "VALUE", "SOURCE", "IN THE ENVIRONMENT"].map(str::to_owned);
    let rows = loaded.effective().map(|effective| {
        let source = loaded.describe(effective.source);
        [
            effective.setting.key.to_owned(),
            without_control_characters(&effective.value.to_string()),
            source,
            effective.setting.env.to_owned(),
        ]
    });
    let rows: Vec<[String; 4]> = std::iter::once(header).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let [a, b, c] = [width(0), width(1), width(2)];
    let line =
        |[key, value, source, env]: &[String; 4]| format!("{key:a$}  {value:b$}  {source:c$}  {env}\n");
    rows.iter().map(line).collect()
}

/// A path or a log may hold anything, and what is shown goes to a terminal.
pub(crate) fn without_control_characters(text: &str) -> String {
    let shown = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(shown).collect()
}
