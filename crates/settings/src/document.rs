//! Renders docs/settings.md from the table. A test compares the file with it.

use std::fmt::Write as _;

use crate::environment::ENVIRONMENT_ONLY;
use crate::table::{Setting, TABLE};

const HEAD: &str = "\
# Settings

This page is made from the settings table in `crates/settings/src/table.rs`; after a change there, run
`AIRAMP_BLESS=1 cargo test -p airamp-settings`.

A setting has three sources: the environment wins over the settings file, the file over the default.
`airamp config` shows every value and where it came from.

The file is `/etc/airamp.conf`, or the one that `AIRAMP_CONFIG` names. It is TOML with flat keys:

```toml
mode = \"observe\"
log = \"info\"
min_bytes = \"4 MiB\"
metrics_port = 9090
```

A job is never stopped by its settings. A wrong value or an unknown name is ignored with a warning that says
where it stands and what is right; what would hold without it is used. Settings of compression are the exception (from
`AIRAMP_MODE` to `AIRAMP_DOUBT_MS`, without `AIRAMP_TUNING_CACHE`): while a value is wrong on any rank, nothing is compressed, unless a stronger
source has a right one. A settings file that is no regular
file, cannot be read, is larger than 64 KiB, has more than 1,000 keys, or is not valid TOML is ignored as a whole, with a warning (`airampd`
does not start then: the file may hold what protects the node; nor does it with an unknown name that may be meant to, such as `metrics_token`). An empty variable counts as unset. Sizes take a whole number of bytes, or text with `KiB`, `MiB` or `GiB`.

";

const SUMMARY_HEAD: &str = "\
| in the environment | in the file | default |
|---|---|---|
";

/// The whole of docs/settings.md.
pub fn markdown() -> String {
    let mut page = HEAD.to_owned();
    page.push_str(SUMMARY_HEAD);
    for setting in TABLE {
        let _ = writeln!(page, "| `{}` | `{}` | {} |", setting.env, setting.key, shown_default(setting));
    }
    for setting in TABLE {
        describe(&mut page, setting);
    }
    page.push_str("\n## In the environment only\n");
    for (name, doc) in ENVIRONMENT_ONLY {
        let _ = write!(page, "\n- `{name}`: {doc}");
    }
    page.push('\n');
    page
}

fn describe(page: &mut String, setting: &Setting) {
    let _ = write!(page, "\n## {}\n\n{}", setting.env, setting.doc);
    let _ = writeln!(
        page,
        "\n\n- key in the file: `{}`\n- takes: {}\n- default: {}",
        setting.key,
        (setting.expects)(),
        shown_default(setting)
    );
}

fn shown_default(setting: &Setting) -> String {
    match setting.default_value() {
        crate::Plain::Unset => "unset".to_owned(),
        value => format!("`{value}`"),
    }
}
