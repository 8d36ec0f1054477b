//! Claims about `airamp help`: which topics there are, that pages read well in a terminal, and that every `airamp`
//! command that a page shows is one that this version takes.

use super::*;
use clap::Parser;

fn rendered(text: &str, width: usize) -> String {
    render::page(text, "docs/guide/some.md", Look { width, is_bold: false })
}

#[test]
fn no_topic_has_the_name_of_a_command() {
    let commands = Cli::command();
    for topic in topics::ALL {
        assert!(commands.find_subcommand(topic.name).is_none(), "{} is a command", topic.name);
    }
}

#[test]
fn every_page_of_the_guide_is_a_topic() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide");
    let pages = std::fs::read_dir(folder).expect("the guide").map(|entry| entry.expect("an entry").path());
    for page in pages.filter(|page| page.extension().is_some_and(|extension| extension == "md")) {
        let name = page.file_name().expect("a name").to_string_lossy();
        let path = format!("docs/guide/{name}");
        assert!(topics::ALL.iter().any(|topic| topic.path == path), "{path} is no topic");
    }
}

#[test]
fn pages_fit_the_width_but_for_code_tables_and_long_words() {
    for topic in topics::ALL {
        let text = rendered(topic.text, 80);
        let too_long = |line: &&str| {
            line.chars().count() > 80
                && !line.starts_with("    ")
                && !line.contains("  ")
                && line.contains(' ')
        };
        assert_eq!(text.lines().find(too_long), None, "{}", topic.name);
    }
}

#[test]
fn no_mark_of_the_source_is_left() {
    for topic in topics::ALL {
        let text = rendered(topic.text, 80);
        let prose = text.lines().filter(|line| !line.starts_with("    "));
        for line in prose {
            assert!(!line.contains("](") && !line.contains("**"), "{}: {line}", topic.name);
            assert!(!line.starts_with('|') && !line.starts_with("##"), "{}: {line}", topic.name);
        }
    }
}

#[test]
fn a_paragraph_is_wrapped_and_an_item_hangs() {
    assert_eq!(rendered("one two\nthree *four*", 10), "one two\nthree four\n");
    assert_eq!(rendered("- one two\n  three\n- four", 9), "- one two\n  three\n- four\n");
}

#[test]
fn a_table_that_is_too_wide_is_broken_in_its_widest_column() {
    let text = rendered("| a | b |\n|---|---|\n| x | one two three |", 12);
    assert_eq!(text, "a  b\n-  ---------\nx  one two\n   three\n");
}

#[test]
fn a_bar_inside_code_is_no_border() {
    let text = rendered("| a |\n|---|\n| `x | y` |", 40);
    assert!(text.contains("`x | y`"), "{text}");
}

#[test]
fn code_stands_as_it_is() {
    assert_eq!(rendered("```sh\na  **b**\n```", 40), "    a  **b**\n");
}

#[test]
fn a_link_to_a_topic_is_named_at_the_end_and_any_other_file_in_place() {
    let text =
        rendered("See [the settings](../settings.md#airamp_mode) and [this](../results/README.md).", 200);
    assert_eq!(
        text,
        "See the settings and this <docs/results/README.md>.\n\nSee also: `airamp help settings`\n"
    );
}

#[test]
fn a_setting_is_a_topic() {
    let text = setting("airamp_mode").expect("a setting");
    assert!(text.contains("observe") && !text.contains("AIRAMP_WIRE_FORMAT"), "{text}");
}

#[test]
fn a_variable_without_a_key_in_the_file_is_a_topic_too() {
    for (name, about) in airamp_settings::ENVIRONMENT_ONLY {
        let text = setting(name).unwrap_or_else(|| panic!("{name}"));
        let first = about.split_whitespace().next().expect("a word");
        assert!(text.contains(first) && text.contains("environment only"), "{text}");
        assert!(!text.contains("AIRAMP_MODE"), "{text}");
    }
}

#[test]
fn a_misspelt_setting_is_answered_with_the_nearest_one_and_no_topic() {
    let said = |asked: &str| unknown(asked);
    assert!(said("AIRAMP_MOD").contains("(did you mean AIRAMP_MODE?)"), "{}", said("AIRAMP_MOD"));
    assert!(said("airamp_hme").contains("(did you mean AIRAMP_HOME?)"), "{}", said("airamp_hme"));
    assert!(!said("AIRAMP_COLOUR_OF_THE_SKY").contains("did you mean"));
    assert!(said("airamp").contains("airampd"));
}

#[test]
fn a_command_is_answered_with_its_help_and_a_stranger_with_what_is_alike() {
    let of = |words: &[&str]| answer(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
    assert!(of(&["kernels", "build"]).expect("a command").contains("--only"));
    let error = of(&["trouble"]).expect_err("no topic");
    assert!(error.to_string().contains("troubleshooting"), "{error}");
    assert_eq!(error.exit_code(), 2);
    let misspelt = unknown("statu");
    assert!(misspelt.contains("did you mean status?"), "{misspelt}");
    for nothing in ["", "a"] {
        assert!(!unknown(nothing).contains("did you mean"), "{}", unknown(nothing));
    }
}

/// Every command line of the pages that begins with `airamp`, variables before it left out.
fn commands_shown(text: &str) -> Vec<(String, Vec<String>)> {
    let mut found = Vec::new();
    let mut in_shell = false;
    for line in text.lines() {
        if line.starts_with("```") {
            in_shell = line.starts_with("```sh") || line.starts_with("```bash");
            continue;
        }
        if in_shell {
            let line_of_one = line.replace("2>", ">");
            let parts = line_of_one.split(['|', ';', '&', '>']);
            let words = parts.map(|part| words_of(part.split(" #").next().unwrap_or(part)));
            found.extend(
                words
                    .filter(|words| words.first().is_some_and(|word| word == "airamp"))
                    .map(|words| (line.to_owned(), words)),
            );
        }
    }
    found
}

fn words_of(part: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for letter in part.trim().trim_end_matches('\\').chars() {
        match quote {
            Some(open) if letter == open => quote = None,
            None if letter == '\'' || letter == '"' => quote = Some(letter),
            None if letter == ' ' => words.push(String::new()),
            _ => words.last_mut().expect("one word at least").push(letter),
        }
    }
    let is_variable = |word: &String| word.is_empty() || (word.contains('=') && !word.starts_with('-'));
    words.into_iter().skip_while(is_variable).filter(|word| !word.is_empty()).collect()
}

#[test]
fn every_command_that_a_page_shows_is_one_that_there_is() {
    let mut seen = 0;
    let others = [
        ("README.md", include_str!("../../../../README.md")),
        ("docs/kernels.md", include_str!("../../../../docs/kernels.md")),
        ("docs/plan.md", include_str!("../../../../docs/plan.md")),
    ];
    for (name, text) in topics::ALL.iter().map(|topic| (topic.path, topic.text)).chain(others) {
        for (line, words) in commands_shown(text) {
            seen += 1;
            assert!(
                Cli::try_parse_from(&words).is_ok(),
                "{name}: {line}: {}",
                Cli::try_parse_from(&words).unwrap_err()
            );
        }
    }
    assert!(seen > 20, "only {seen} commands were found");
}
