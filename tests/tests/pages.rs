//! The man pages and completions of a release, as the programs that read them see them: every page that a page refers to is
//! there, groff has nothing to say about them, examples stand as they were written, and each shell offers what there is.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use airamp_tests::Run;
use airamp_tests::packages::{have, listed, tree};

/// Of other packages, and on every system where ours refer to them.
const OF_THE_SYSTEM: [&str; 1] = ["srun(1)"];

/// Every page by its name as one refers to it, "airamp(1)", and its file.
fn pages() -> Vec<(String, PathBuf)> {
    let names = listed(tree()).into_iter().filter(|name| name.starts_with("share/man/"));
    let files = names.map(|name| tree().join(name)).filter(|path| path.is_file());
    let called = |path: &PathBuf| {
        let file = path.file_name().expect("a name").to_string_lossy().into_owned();
        let (name, section) = file.rsplit_once('.').expect("a section");
        format!("{name}({section})")
    };
    files.map(|path| (called(&path), path)).collect()
}

/// Every `name(1)` of a page.
fn references(page: &str) -> BTreeSet<String> {
    let plain = page.replace("\\fB", "").replace("\\fR", "").replace("\\-", "-");
    let is_of_a_name = |sign: char| sign.is_ascii_alphanumeric() || ".-_".contains(sign);
    let mut found = BTreeSet::new();
    for section in '1'..='9' {
        for (at, end) in plain.match_indices(&format!("({section})")) {
            let name = plain[..at].rsplit(|sign| !is_of_a_name(sign)).next().unwrap_or_default();
            if name.starts_with(|sign: char| sign.is_ascii_alphabetic()) {
                found.insert(format!("{name}{end}"));
            }
        }
    }
    found
}

#[test]
fn every_page_that_a_page_refers_to_is_there() {
    if !have(&["objcopy", "python3"]) {
        return;
    }
    let pages = pages();
    for name in
        ["airamp(1)", "airamp-kernels(1)", "airamp-node(1)", "airamp-srun(1)", "airamp.conf(5)", "airampd(8)"]
    {
        assert!(pages.iter().any(|(there, _)| there == name), "{name} is not in the tree");
    }
    for (name, path) in &pages {
        let named = references(&fs::read_to_string(path).expect("a page"));
        assert!(!named.is_empty(), "{name} refers to none: it has no SEE ALSO");
        for other in named {
            let is_there = pages.iter().any(|(there, _)| *there == other);
            assert!(is_there || OF_THE_SYSTEM.contains(&&*other), "{name} refers to {other}");
        }
    }
}

/// As a reader has it on 80 columns. A warning of groff's is a failure.
fn rendered(path: &PathBuf) -> String {
    let man = Run::new("man").args(["--warnings", "-l"]).arg(path);
    let outcome = man.env("LC_ALL", "C.UTF-8").env("MANWIDTH", "80").env("MANPAGER", "cat").run();
    let text = outcome.assert_success().stdout_text();
    assert_eq!(outcome.stderr_text(), "", "{}", path.display());
    text
}

#[test]
fn man_shows_every_page_without_a_warning_with_its_sections_and_the_version() {
    if !have(&["man", "groff", "objcopy", "python3"]) {
        return;
    }
    for (name, path) in pages() {
        let text = rendered(&path);
        for title in ["NAME", "SYNOPSIS", "DESCRIPTION", "SEE ALSO"] {
            assert!(text.lines().any(|line| line == title), "{name} has no {title}\n{text}");
        }
        assert!(!text.contains("EXTRA"), "{text}");
        let foot = text.trim_end().lines().last().expect("a line");
        assert!(foot.starts_with(concat!("airamp ", env!("CARGO_PKG_VERSION"), " ")), "{name}: {foot}");
    }
}

#[test]
fn examples_stand_as_they_were_written_and_options_have_their_values() {
    if !have(&["man", "groff", "objcopy", "python3"]) {
        return;
    }
    let page = |name: &str| rendered(&tree().join("share/man").join(name));
    let run = page("man1/airamp-run.1");
    let example =
        "  airamp run --emulate --no-preload --ranks 4 -- ./program     for comparison: without the library";
    assert!(run.lines().any(|line| line.ends_with(example)), "{run}");
    assert!(run.contains("[--ranks N]"), "{run}");
    let kernels = page("man1/airamp-kernels.1");
    assert!(kernels.contains("airamp kernels build [--out DIR]"), "{kernels}");
    assert!(!kernels.contains("kernels-build"), "{kernels}");
    let settings = page("man5/airamp.conf.5");
    assert!(settings.contains("metrics_port (AIRAMP_METRICS_PORT)"), "{settings}");
}

fn completions(path: &str) -> PathBuf {
    tree().join("share").join(path)
}

/// What a shell offers for a command line that ends at the cursor, a word each.
type Offered = fn(&str) -> BTreeSet<String>;

fn words(run: Run) -> BTreeSet<String> {
    // A shell may make folders there.
    let home = tempfile::tempdir().expect("a temporary folder");
    let outcome = run.env("HOME", home.path()).env("TERM", "dumb").run();
    let text = outcome.assert_success().stdout_text();
    assert_eq!(outcome.stderr_text(), "", "{outcome}");
    text.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

fn bash(line: &str) -> BTreeSet<String> {
    const SCRIPT: &str = r#"
        source "$1/airamp" && source "$1/airampd"
        read -ra COMP_WORDS <<<"$2"
        [[ $2 != *' ' ]] || COMP_WORDS+=('')
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        function=$(complete -p "${COMP_WORDS[0]}" | sed 's/.*-F \([^ ]*\).*/\1/')
        "$function" "${COMP_WORDS[0]}" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}""#;
    let folder = completions("bash-completion/completions");
    words(Run::new("bash").args(["--norc", "-c", SCRIPT, "bash"]).arg(folder).arg(line))
}

/// Its completion needs a terminal: a shell in one, whose compadd says what it was given.
fn zsh(line: &str) -> BTreeSet<String> {
    const SCRIPT: &str = r#"
        zmodload zsh/zpty
        zpty shell zsh -f -i
        said() { local text; until [[ $all == *"$1"* ]]; do zpty -r shell text || exit 1; all+=$text; done }
        zpty -w shell "PS1= fpath=(${(q)1} \$fpath); autoload -Uz compinit && compinit -u -D"
        zpty -w shell 'compadd() {
            [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]] && { builtin compadd "$@"; return }
            local -a hits; builtin compadd -A hits "$@"; builtin compadd "$@"; print -l -- "<"${^hits}">" }
        finish() { print "the" "end" }; comppostfuncs=(finish)
        bindkey "^I" complete-word; setopt no_beep; print "it is" "set"'
        all=; said 'it is set'
        all=; zpty -n -w shell "$2"$'\t'; said 'the end'
        zpty -d shell
        print -r -- $all | grep -o '<[^<> ]*>' | tr -d '<>'"#;
    let folder = completions("zsh/site-functions");
    words(Run::new("zsh").args(["-f", "-c", SCRIPT, "zsh"]).arg(folder).arg(line))
}

fn fish(line: &str) -> BTreeSet<String> {
    const SCRIPT: &str = "source $argv[1]/airamp.fish; source $argv[1]/airampd.fish; complete -C $argv[2]";
    let folder = completions("fish/vendor_completions.d");
    words(Run::new("fish").args(["--no-config", "-c", SCRIPT]).arg(folder).arg(line))
}

#[test]
fn every_shell_offers_commands_options_and_what_airamp_help_answers() {
    const SHELLS: [(&str, Offered); 3] = [("bash", bash), ("zsh", zsh), ("fish", fish)];
    for (shell, offered) in SHELLS {
        if !have(&["objcopy", "python3", shell]) {
            continue;
        }
        let offers = |line: &str, expected: &[&str]| {
            let words = offered(line);
            for word in expected {
                assert!(words.contains(*word), "{shell}: {line:?} offers no {word}: {words:?}");
            }
            words
        };
        let commands = offers("airamp ", &["doctor", "kernels", "run"]);
        assert!(!commands.contains("print-pages"), "{shell}: {commands:?}");
        offers("airamp bench --", &["--datatypes", "--preload"]);
        offers("airamp kernels ", &["build", "list", "verify"]);
        offers("airamp help ", &["tuning", "run", "AIRAMP_MODE", "AIRAMP_CONFIG"]);
        offers("airamp help qui", &["quick-start"]);
        let options = offers("airampd --", &["--listen", "--once"]);
        assert!(!options.contains("--completions"), "{shell}: {options:?}");
    }
}
