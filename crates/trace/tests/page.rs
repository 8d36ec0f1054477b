//! docs/traces.md has every recipe and parameter, every column of a file, and every made-up trace.

use airamp_trace::synthesise::{RECIPES, synthesise};

const PAGE: &str = include_str!("../../../docs/traces.md");

#[test]
fn the_page_lists_every_recipe_and_parameter() {
    let mut rows = Vec::new();
    for definition in RECIPES {
        rows.push(format!("| `{}` | {} | {} |", definition.name, definition.about, own(definition)));
    }
    for parameter in RECIPES.iter().flat_map(|definition| definition.shared()) {
        let row = format!("| `{}` | {} | {} |", parameter.name, parameter.usual, parameter.about);
        rows.extend((!rows.contains(&row)).then_some(row));
    }
    let missing: Vec<&String> = rows.iter().filter(|row| !PAGE.contains(row.as_str())).collect();
    assert!(missing.is_empty(), "not in docs/traces.md:\n{missing:#?}");
}

fn own(definition: &airamp_trace::synthesise::Definition) -> String {
    let listed = definition.own().iter().map(|one| format!("`{}`={} ({})", one.name, one.usual, one.about));
    listed.collect::<Vec<_>>().join(", ")
}

#[test]
fn the_example_of_the_page_is_what_is_written() {
    let trace = synthesise("ddp steps=1 buckets=2 jitter=0").unwrap();
    let mut bytes = Vec::new();
    airamp_trace::write(&trace, &mut bytes).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    for line in text.lines() {
        assert!(PAGE.contains(&format!("\n{line}\n")), "{line}");
    }
}
