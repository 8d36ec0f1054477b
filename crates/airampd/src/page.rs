//! The live page as one self-contained document, and the content security policy under which it runs.
//! It is put together once from the sources in `page/`; it holds no data of the node (all of it comes from
//! the API), so that it may be served without a token. The server calls it; it never reads a file.

use std::sync::LazyLock;

use base64::Engine;
use sha2::{Digest, Sha256};

/// What `GET /` answers: `text/html; charset=utf-8`.
pub fn html() -> &'static str {
    &PAGE.html
}

/// The value of the `Content-Security-Policy` header that has to go with it: this style, this script, requests
/// to the daemon itself, and nothing else.
pub fn content_security_policy() -> &'static str {
    &PAGE.policy
}

struct Page {
    html: String,
    policy: String,
}

static PAGE: LazyLock<Page> = LazyLock::new(assemble);

const TEMPLATE: &str = include_str!("../page/index.html");
const STYLE_MARK: &str = "/* style */";
const SCRIPT_MARK: &str = "/* script */";
const STYLE: &str = include_str!("../page/page.css");

/// One module: what is declared in a file is known in all that follow.
const SCRIPTS: &[&str] = &[
    include_str!("../page/format.js"),
    include_str!("../page/dom.js"),
    include_str!("../page/feed.js"),
    include_str!("../page/plot.js"),
    include_str!("../page/overview.js"),
    include_str!("../page/classes.js"),
    include_str!("../page/ranks.js"),
    include_str!("../page/traffic.js"),
    include_str!("../page/rhythm.js"),
    include_str!("../page/job.js"),
    include_str!("../page/machine.js"),
    include_str!("../page/events.js"),
    include_str!("../page/evidence.js"),
    include_str!("../page/appearance.js"),
    include_str!("../page/main.js"),
];

fn assemble() -> Page {
    let style = format!("\n{STYLE}");
    let script = format!("\n{}", SCRIPTS.join("\n"));
    let html = TEMPLATE.replacen(STYLE_MARK, &style, 1).replacen(SCRIPT_MARK, &script, 1);
    let policy = format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        source_hash(&script),
        source_hash(&style),
    );
    Page { html, policy }
}

/// As a policy names an element by what is in it.
fn source_hash(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    format!("sha256-{}", base64::engine::general_purpose::STANDARD.encode(digest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
        let start = text.find(from).expect("the beginning is there") + from.len();
        let length = text[start..].find(to).expect("the end is there");
        &text[start..start + length]
    }

    #[test]
    fn the_policy_names_the_style_and_the_script_that_the_page_holds() {
        let style = between(html(), "<style>", "</style>");
        let script = between(html(), "<script type=\"module\">", "</script>");
        assert!(style.contains(STYLE) && script.contains(SCRIPTS[0]));
        assert!(content_security_policy().contains(&format!("style-src '{}'", source_hash(style))));
        assert!(content_security_policy().contains(&format!("script-src '{}'", source_hash(script))));
    }

    #[test]
    fn the_page_has_one_style_one_script_and_no_inline_handler() {
        assert_eq!(html().matches("<style").count(), 1);
        assert_eq!(html().matches("</style").count(), 1);
        assert_eq!(html().matches("<script").count(), 1);
        assert_eq!(html().matches("</script").count(), 1);
        assert!(!TEMPLATE.contains(" style=") && !TEMPLATE.contains(" onclick="));
    }

    #[test]
    fn the_page_asks_nobody_but_the_daemon() {
        let without_namespace = html().replace("http://www.w3.org/2000/svg", "");
        assert!(!without_namespace.contains("http:") && !without_namespace.contains("https:"));
        assert!(!html().contains("@import") && !STYLE.contains("url("));
    }

    #[test]
    fn text_from_the_api_can_never_become_markup() {
        for sink in
            ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"]
        {
            assert!(SCRIPTS.iter().all(|script| !script.contains(sink)), "{sink}");
        }
    }
}
