//! docs/settings.md says what the table says. AIRAMP_BLESS=1 rewrites it.

use std::fs;
use std::path::Path;

#[test]
fn the_page_about_settings_is_the_rendered_table() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/settings.md");
    let rendered = airamp_settings::markdown();
    if std::env::var_os("AIRAMP_BLESS").is_some() {
        fs::write(&page, &rendered).expect("the page can be written");
    }
    let held = fs::read_to_string(&page).expect("the page can be read");
    assert!(
        held == rendered,
        "docs/settings.md is out of date: AIRAMP_BLESS=1 cargo test -p airamp-settings"
    );
}
