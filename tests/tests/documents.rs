//! The documents keep their promises: every relative link and anchor leads somewhere, every fence says what it holds, every
//! command in one that says `sh run` runs on the emulator as it stands, those in one that says `sh stand-in` run with stand-ins
//! for launchers, frameworks and tools, any other has a reason, and the guide names no setting and no metric that there is not.
//! Links to other sites are not followed: a test asks nothing of the network.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use airamp_tests::packages::{have, tree};
use airamp_tests::process::free_port;
use airamp_tests::{Run, airamp, package_dir, stand_ins};
use tempfile::TempDir;

/// All commands of one page together; generous, for two busy cores.
const PAGE_LIMIT: Duration = Duration::from_secs(180);

fn root() -> PathBuf {
    package_dir().parent().expect("the repository").to_path_buf()
}

/// Every document of the repository, by its path in it.
fn documents() -> Vec<(PathBuf, String)> {
    documents_in(&root())
}

fn documents_in(root: &Path) -> Vec<(PathBuf, String)> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).expect("a folder of documents") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let is_ours =
                !name.starts_with('.') && !["target", "dist", "node_modules"].contains(&name.as_str());
            if path.is_dir() && is_ours {
                walk(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(root, &mut found);
    found.sort();
    let read = |path: &PathBuf| fs::read_to_string(path).expect("a document in UTF-8");
    found.iter().map(|path| (path.strip_prefix(root).expect("below it").to_path_buf(), read(path))).collect()
}

/// A document as lines of prose and blocks of code, each with the words behind its fence. What stands four spaces in behind
/// an empty line is code too, without a word.
struct Parts<'t> {
    prose: Vec<&'t str>,
    code: Vec<(&'t str, String)>,
}

fn parts(text: &str) -> Parts<'_> {
    let mut parts = Parts { prose: Vec::new(), code: Vec::new() };
    let mut fence: Option<&str> = None;
    let (mut before, mut is_indented) = ("", false);
    for line in text.lines() {
        let trimmed = line.trim_start();
        let marks = &trimmed[..trimmed.len() - trimmed.trim_start_matches(['`', '~']).len()];
        let goes_on = is_indented;
        let is_far_in = line.starts_with("    ") || line.starts_with('\t');
        is_indented = fence.is_none() && is_far_in && (goes_on || before.trim().is_empty());
        before = line;
        match fence {
            None if marks.len() >= 3 => {
                fence = Some(marks);
                parts.code.push((trimmed[marks.len()..].trim(), String::new()));
            }
            Some(open) if marks == open => fence = None,
            None if !is_indented => parts.prose.push(line),
            _ => {
                if is_indented && !goes_on {
                    parts.code.push(("", String::new()));
                }
                let (_, code) = parts.code.last_mut().expect("a block is open");
                code.push_str(line);
                code.push('\n');
            }
        }
    }
    parts
}

/// Without what stands in code: a link there is an example.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

fn links(text: &str) -> Vec<String> {
    let prose = parts(text).prose.iter().map(|line| without_code(line)).collect::<Vec<_>>().join("\n");
    let targets = prose.split("](").skip(1).filter_map(|behind| behind.split_once(')'));
    targets.map(|(target, _)| target.trim().to_owned()).collect()
}

/// The anchors that a reader's page makes of the headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for line in parts(text).prose.iter().filter(|line| line.starts_with('#')) {
        let heading = line.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let free = (0..).map(|n| if n == 0 { anchor.clone() } else { format!("{anchor}-{n}") });
        anchors.extend(free.into_iter().find(|name| !anchors.contains(name)));
    }
    anchors
}

/// Why a link leads nowhere; none if it leads somewhere, or to another site.
fn fault(root: &Path, page: &Path, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let here = root.join(page);
    let path = if file.is_empty() { here } else { here.parent().expect("a folder").join(file) };
    if !path.exists() {
        return Some("no such file".into());
    }
    if anchor.is_empty() {
        return None;
    }
    let text = fs::read_to_string(&path).unwrap_or_default();
    (!anchors(&text).contains(anchor)).then(|| "no such heading".into())
}

/// All documents below it link to each other only.
#[track_caller]
fn assert_links_hold(root: &Path) {
    let mut checked = 0;
    let mut faults = Vec::new();
    for (page, text) in documents_in(root) {
        for target in links(&text) {
            checked += 1;
            let fault = fault(root, &page, &target);
            faults.extend(fault.map(|why| format!("{}: {target}: {why}", page.display())));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(checked > 150, "only {checked} links were found");
}

#[test]
fn every_relative_link_and_anchor_leads_somewhere() {
    assert_links_hold(&root());
}

#[test]
fn the_documents_of_an_install_link_to_nothing_that_was_left_out() {
    if have(&["objcopy", "python3"]) {
        assert_links_hold(&tree().join("share/doc/airamp"));
    }
}

#[test]
fn a_link_to_nothing_is_found_and_one_in_code_is_none() {
    let page = Path::new("docs/guide/README.md");
    assert_eq!(fault(&root(), page, "no-such.md").as_deref(), Some("no such file"));
    assert_eq!(fault(&root(), page, "faq.md#no-such").as_deref(), Some("no such heading"));
    assert_eq!(fault(&root(), page, "runbook.md#rolling-back"), None);
    assert_eq!(links("[a](b.md) `[c](d.md)` and\n```\n[e](f.md)\n```\n[g\nh](i.md#j)"), ["b.md", "i.md#j"]);
    let names = anchors("# A `b_c` (d)\n## E, f\n## E, f\n");
    assert_eq!(names.into_iter().collect::<Vec<_>>(), ["a-b_c-d", "e-f", "e-f-1"]);
}

#[test]
fn code_is_what_stands_in_a_fence_or_four_spaces_in_behind_an_empty_line() {
    let found = parts("a\n\n    b\n    c\nd\n\n- e\n    f\n~~~ sh\n\n    g\n~~~\n");
    assert_eq!(found.code, [("", "    b\n    c\n".to_owned()), ("sh", "\n    g\n".to_owned())]);
    assert_eq!(found.prose, ["a", "", "d", "", "- e", "    f"]);
}

/// Runs a page's marked blocks, in order and each in a shell of its own, in one folder of the test's own, where `tests` is
/// that of the checkout.
fn run_page(page: &Path, blocks: &[String]) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    run_blocks(page, blocks, &folder, None);
}

fn run_blocks(page: &Path, blocks: &[String], folder: &TempDir, first_in_path: Option<&Path>) {
    let telemetry = folder.path().join("telemetry");
    fs::create_dir(&telemetry).expect("a folder in it");
    symlink(root().join("tests"), folder.path().join("tests")).expect("a link");
    let settings = folder.path().join("airamp.conf");
    fs::write(&settings, "").expect("a file in it");
    let bin = airamp().parent().expect("a folder").to_path_buf();
    let path = std::env::var("PATH").unwrap_or_default();
    let first = first_in_path.map(|programs| format!("{}:", programs.display())).unwrap_or_default();
    for (number, block) in blocks.iter().enumerate() {
        // What a page leaves running in the background ends with it.
        let ends = "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT";
        let script = format!("cd '{}'\n{ends}\n{block}", folder.path().display());
        let outcome = Run::new("bash")
            .args(["-e", "-u", "-o", "pipefail", "-c", &script])
            .env("PATH", format!("{first}{}:{path}", bin.display()))
            .env("HOME", folder.path())
            .env("AIRAMP_CONFIG", &settings)
            .env("AIRAMP_TELEMETRY_DIR", &telemetry)
            .env("AIRAMP_METRICS_PORT", free_port().to_string())
            .time_limit(PAGE_LIMIT)
            .run();
        assert!(
            outcome.end == airamp_tests::End::Code(0),
            "{}, marked block {}:\n{block}\n{outcome}",
            page.display(),
            number + 1
        );
    }
}

#[test]
fn every_command_that_is_marked_to_be_run_runs_on_the_emulator() {
    airamp_tests::emulator_dir();
    let mut run = 0;
    for (page, text) in documents() {
        let is_marked = |info: &str| info.split(' ').collect::<Vec<_>>() == ["sh", "run"];
        let code = parts(&text).code.into_iter();
        let blocks: Vec<String> = code.filter(|(info, _)| is_marked(info)).map(|(_, code)| code).collect();
        run += blocks.len();
        run_page(&page, &blocks);
    }
    assert!(run >= 22, "only {run} blocks are marked");
}

/// Of a command that fails with 1 (`airamp doctor` where something is missing) only that it is one is shown.
#[test]
fn every_command_around_a_framework_runs_with_something_that_stands_in_for_it() {
    airamp_tests::emulator_dir();
    let (mut run, mut started) = (0, BTreeSet::new());
    for (page, text) in documents() {
        let code = parts(&text).code.into_iter();
        let marked = code.filter(|(info, _)| info.split(' ').collect::<Vec<_>>() == ["sh", "stand-in"]);
        let tolerant = |(_, code)| format!("set +e -E\ntrap '[ $? -lt 2 ] || exit 3' ERR\n{code}true\n");
        let blocks: Vec<String> = marked.map(tolerant).collect();
        if blocks.is_empty() {
            continue;
        }
        run += blocks.len();
        let folder = tempfile::tempdir().expect("a temporary folder");
        let programs = stand_ins::put_into(folder.path(), &root());
        run_blocks(&page, &blocks, &folder, Some(&programs));
        started.extend(stand_ins::started(folder.path()));
    }
    assert!(run >= 45, "only {run} blocks are marked");
    assert_eq!(started, stand_ins::names(), "what was started (left) and what stands ready (right)");
}

#[test]
fn a_stand_in_refuses_what_the_real_program_would() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let programs = stand_ins::put_into(folder.path(), &root());
    let takes = |command: &str| {
        let in_folder = format!("cd '{}' && {command}", folder.path().display());
        let path = format!("{}:/usr/bin:/bin", programs.display());
        Run::new("sh").args(["-c", &in_folder]).env("PATH", path).run().end == airamp_tests::End::Code(0)
    };
    for command in
        ["kubectl apply -f job.yaml", "kubectl exec POD -- ls -l", "./x build", "tar -xzf a -C /opt"]
    {
        assert!(takes(command), "{command}");
    }
    let wrong =
        ["kubectl aply -f job.yaml", "kubectl apply --file=job.yaml", "./x biuld", "torchrun train.py"];
    for command in wrong {
        assert!(!takes(command), "{command}");
    }
}

/// Fences that no test runs as they stand: the page, what the first line begins with, and why.
const NOT_RUN: [(&str, &str, &str); 18] = [
    (
        "README.md",
        "airamp doctor",
        "a list; `airamp disable` there reaches every job of the user, and --gpu needs one",
    ),
    ("docs/airamp.md", "airamp bench --gpu", "needs GPUs; the help's own tests parse it"),
    ("docs/airamp.md", "airamp replay trace --gpu", "needs eight GPUs; the help's own tests parse it"),
    ("docs/chaos.md", "./x build", "takes minutes to hours; tests/tests/chaos.rs runs a bounded part"),
    ("docs/chaos.md", "./soak steady", "takes an hour; tests/tests/soak.rs runs a bounded part"),
    ("docs/gpu-tests.md", "AIRAMP_BIN=", "needs a GPU; tests/tests/gpu_suite.rs runs parts on the emulator"),
    (
        "docs/gpu-tests.md",
        "export AIRAMP_BIN=",
        "prepares a machine that is lent, as root: its MPS, its loopback",
    ),
    (
        "docs/gpu-tests.md",
        "timeout -k 50",
        "needs a GPU; tests/tests/gpu_suite.rs runs parts on the emulator",
    ),
    (
        "docs/install.md",
        "apt-get install",
        "`sh newcomer`: deploy/packages/newcomer runs it in a Debian of its own",
    ),
    (
        "docs/kernels.md",
        "airamp kernels build",
        "writes what is committed, with compilers from PyPI; tests/tests/kernels_rebuilt.rs runs it",
    ),
    ("docs/kernels.md", "python3 -m pip download", "fetches a compiler from PyPI, for the table above it"),
    ("docs/kubernetes.md", "deploy/kubernetes/add-to", "needs PyYAML; tests/tests/kubernetes.rs runs add-to"),
    (
        "docs/plan.md",
        "airamp bench --gpu",
        "needs a GPU; crates/airamp/tests/plan.rs makes fits of tests/bench",
    ),
    (
        "docs/plan.md",
        "export AIRAMP_EMU_LINK_GBPS",
        "takes minutes on idle cores: the measurement of the table above it",
    ),
    ("docs/release.md", "AIRAMP_HOME=FOLDER", "needs qemu and a build for aarch64"),
    ("tests/bench/README.md", "sizes=", "as files there were measured: minutes with real-time priority"),
    ("tests/bench/README.md", "printf", "as a file there was measured: half an hour with real-time priority"),
    ("tests/bench/README.md", "common=", "as files there were measured: needs a GPU"),
];

/// By which a fence says that it is shell.
const SHELLS: [&str; 5] = ["sh", "bash", "shell", "console", "zsh"];

/// And that it holds no commands. A synopsis is text.
const NO_COMMANDS: [&str; 4] = ["text", "toml", "yaml", "json"];

/// Results of a day stay as they were written.
const DATED: &str = "docs/results/2";

#[test]
fn every_command_is_run_or_there_is_a_reason() {
    let mut reasons: BTreeSet<_> = NOT_RUN.iter().map(|(page, begins, _)| (*page, *begins)).collect();
    for (page, text) in documents() {
        let page = page.to_string_lossy();
        for (info, code) in parts(&text).code {
            let words: Vec<&str> = info.split(' ').collect();
            let is_run = [["sh", "run"], ["sh", "stand-in"]].iter().any(|marks| words == marks);
            if is_run || NO_COMMANDS.contains(&words[0]) || words[0].is_empty() && page.starts_with(DATED) {
                continue;
            }
            assert!(SHELLS.contains(&words[0]), "{page}: a fence that says what it holds, for\n{code}");
            let reason = NOT_RUN.iter().find(|(of, begins, _)| *of == page && code.starts_with(begins));
            let (of, begins, _) = reason.unwrap_or_else(|| {
                panic!("{page}: mark it `sh run` or `sh stand-in`, or give a reason in NOT_RUN:\n{code}")
            });
            reasons.remove(&(*of, *begins));
        }
    }
    assert!(reasons.is_empty(), "reasons for what there is not: {reasons:?}");
}

/// The words of a text that begin so and go on with letters of `rest`.
fn names<'t>(text: &'t str, start: &str, rest: fn(char) -> bool) -> BTreeSet<&'t str> {
    let word = |c: char| !(c.is_alphanumeric() || c == '_');
    text.split(word)
        .filter(|name| name.starts_with(start) && name.chars().all(rest) && !name.ends_with('_'))
        .collect()
}

#[test]
fn the_guide_names_no_setting_and_no_metric_that_there_is_not() {
    let of = |path: &str| fs::read_to_string(root().join(path)).expect("a reference page");
    let references = [of("docs/settings.md"), of("docs/emulator.md"), of("docs/metrics.md")].join("\n");
    let is_capital = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    let is_small = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let known =
        |name: &str| references.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(|word| word == name);
    let of_the_guide = documents()
        .into_iter()
        .filter(|(page, _)| page.starts_with("docs/guide") || page == Path::new("README.md"));
    let mut seen = 0;
    for (page, text) in of_the_guide {
        for name in names(&text, "AIRAMP_", is_capital).into_iter().chain(names(&text, "airamp_", is_small)) {
            seen += 1;
            assert!(known(name), "{}: {name} is in no reference page", page.display());
        }
    }
    assert!(seen > 50, "only {seen} names were found");
}
