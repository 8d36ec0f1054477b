//! The settings as a file, every line commented out, and as a man page: airamp.conf and airamp.conf(5), both from the
//! settings table. What a setting does is said there.

use airamp_settings::{DEFAULT_FILE, ENVIRONMENT_ONLY, Part, Plain, Setting, TABLE};

use super::roff::{Page, bold, italic, reference};

const SETTINGS_HEAD: &str = "\
# Settings of AIRamp-Accel, for the library, airamp and airampd. TOML with flat keys; every line that is commented out
# shows a default. The environment (AIRAMP_MODE and so on) wins over this file. airamp config shows what holds and
# from where it came, airamp help settings says more about each.
";

/// Every setting with its default, commented out.
pub(super) fn file() -> String {
    TABLE.iter().fold(SETTINGS_HEAD.to_owned(), |text, setting| text + &described(setting))
}

fn described(setting: &Setting) -> String {
    let doc = wrapped(setting.doc, 116).iter().map(|line| format!("# {line}\n")).collect::<String>();
    let line = match setting.default_value() {
        Plain::Unset => format!("# {} is unset; it takes {}", setting.key, (setting.expects)()),
        Plain::Text(text) => format!("#{} = {text:?}", setting.key),
        Plain::Bytes(_) => format!("#{} = \"{}\"", setting.key, setting.default_value()),
        other => format!("#{} = {other}", setting.key),
    };
    format!("\n{doc}{line}\n")
}

fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("begins with one");
        match last.len() {
            0 => last.push_str(word),
            length if length + word.len() < width => *last += &format!(" {word}"),
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// airamp.conf(5), of the same table.
pub(super) fn page(date: &str) -> String {
    let mut page = Page::new("airamp.conf", 5, date, "settings of AIRamp-Accel");
    page.section("SYNOPSIS");
    page.raw(&italic(DEFAULT_FILE));
    page.section("DESCRIPTION");
    ABOUT.iter().for_each(|paragraph| page.paragraph(paragraph));
    page.section("SETTINGS");
    for (part, title) in PARTS {
        page.subsection(title);
        TABLE.iter().filter(|setting| setting.part == part).for_each(|setting| entry(&mut page, setting));
    }
    page.section("ENVIRONMENT");
    page.paragraph("Every setting is a variable too, as it is named above. These have no key in the file:");
    for (name, doc) in ENVIRONMENT_ONLY {
        page.item(&bold(name), doc);
    }
    page.section("FILES");
    page.item(&italic(DEFAULT_FILE), "The file that is read unless AIRAMP_CONFIG names another.");
    page.section("EXAMPLES");
    page.as_it_stands(EXAMPLE.lines());
    page.section("SEE ALSO");
    let others = [reference("airamp", 1), reference("airamp-config", 1), reference("airampd", 8)];
    page.raw(&format!("{}; {} says more of each.", others.join(", "), bold("airamp help settings")));
    page.text()
}

fn entry(page: &mut Page, setting: &Setting) {
    let head = format!("{} ({})", bold(setting.key), bold(setting.env));
    let default = match setting.default_value() {
        Plain::Unset => "unset".to_owned(),
        value => format!("`{value}`"),
    };
    page.item(&head, &format!("{} It takes {}. Default: {default}.", setting.doc, (setting.expects)()));
}

const ABOUT: [&str; 3] = [
    "Settings for the library, `airamp` and `airampd`: TOML with flat keys. The environment wins over this file, the file over \
     the default; `airamp config` shows every value and where it came from.",
    "A job is never stopped by its settings. A wrong value or an unknown name is ignored with a warning that says where it \
     stands and what is right. While a value of those of compression is wrong on any rank, nothing is compressed. A file that \
     cannot be read, is larger than 64 KiB or is not valid TOML is ignored as a whole, with a warning; `airampd` does not \
     start then.",
    "Sizes take a whole number of bytes, or text with `KiB`, `MiB` or `GiB`.",
];

const PARTS: [(Part, &str); 4] = [
    (Part::Compression, "Compression"),
    (Part::Library, "The library and airamp"),
    (Part::GhostKernels, "Ghost kernels"),
    (Part::Daemon, "airampd"),
];

const EXAMPLE: &str = "\
mode = \"observe\"
log = \"info\"
min_bytes = \"4 MiB\"
metrics_port = 9090";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_setting_and_its_example_is_a_settings_file() {
        let text = page("2026-11-19");
        for setting in TABLE {
            assert!(text.contains(&format!("\n{} (", bold(setting.key))), "{}", setting.key);
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("airamp.conf");
        std::fs::write(&path, EXAMPLE).expect("a file");
        let loaded = airamp_settings::resolve(&std::iter::empty::<(_, _)>().collect(), &path);
        assert_eq!(loaded.warnings, Vec::<String>::new());
    }

    /// Every default of the file, not commented out, is what holds without it.
    #[test]
    fn the_settings_file_is_valid_and_says_the_defaults() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("airamp.conf");
        let uncommented = |line: &str| match line.strip_prefix('#') {
            Some(rest) if !rest.starts_with(' ') => rest.to_owned(),
            _ => line.to_owned(),
        };
        let text: Vec<String> = file().lines().map(uncommented).collect();
        std::fs::write(&path, text.join("\n")).expect("a file");
        let loaded = airamp_settings::resolve(&std::iter::empty::<(_, _)>().collect(), &path);
        assert_eq!(loaded.warnings, Vec::<String>::new());
        assert!(loaded.file_read && loaded.settings == airamp_settings::Settings::default());
        let set =
            loaded.effective().filter(|setting| setting.source != airamp_settings::Source::Default).count();
        let unset = TABLE.iter().filter(|row| matches!(row.default_value(), Plain::Unset)).count();
        assert_eq!(set + unset, TABLE.len());
    }
}
