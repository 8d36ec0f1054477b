//! deploy/slurm on Debian's Slurm: two nodes in namespaces of their own, the examples as they are, ranks on emulated GPUs as
//! their programs, and what goes wrong planted. `tests/slurm` has the cluster and runs the jobs, once for all tests
//! here; what is claimed of them is here.

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use airamp_tests::artifacts::folder;
use airamp_tests::{Run, airamp, airampd, interposer, package_dir, rank_program, skip_outside_ci};
use serde_json::{Value, json};

/// What tests/slurm/jobs.py reports; `None` after a loud skip.
#[track_caller]
fn report() -> Option<&'static Value> {
    // A cluster that fails does so once, not for each test again.
    static REPORT: OnceLock<Result<Value, String>> = OnceLock::new();
    if let Err(lacking) = is_possible() {
        skip_outside_ci(&lacking);
        return None;
    }
    let once = || std::panic::catch_unwind(run).unwrap_or_else(|_| Err("the cluster: see above".to_owned()));
    Some(REPORT.get_or_init(once).as_ref().unwrap_or_else(|failure| panic!("{failure}")))
}

fn is_possible() -> Result<(), String> {
    let output = |program: &str, arguments: &[&str]| Command::new(program).args(arguments).output();
    let programs = ["slurmctld", "slurmd", "sbatch", "munged", "ip"];
    if let Some(program) = programs.into_iter().find(|program| output(program, &["-V"]).is_err()) {
        return Err(format!("there is no {program}: apt-get install slurm-wlm munge iproute2"));
    }
    let apart = ["--mount", "--net", "--uts", "--ipc", "--pid", "--fork", "true"];
    let can = output("unshare", &apart).is_ok_and(|output| output.status.success());
    can.then_some(()).ok_or_else(|| "namespaces cannot be made here: that needs root".to_owned())
}

fn run() -> Result<Value, String> {
    for artifact in [airamp(), airampd(), interposer(), rank_program()] {
        assert!(artifact.exists());
    }
    let work = tempfile::tempdir().expect("a folder");
    let run = Run::new("python3").arg(package_dir().join("slurm/jobs.py"));
    let run =
        run.arg("--artifacts").arg(folder()).arg("--scripts").arg(package_dir().join("../deploy/slurm"));
    let run = run.arg("--work").arg(work.path()).env("PYTHONDONTWRITEBYTECODE", "1");
    let outcome = run.time_limit(Duration::from_secs(600)).run();
    assert_eq!(std::fs::read_dir(work.path()).expect("the folder").count(), 0, "something was left behind");
    serde_json::from_slice(&outcome.stdout).map_err(|error| format!("{error}: {outcome}"))
}

fn log<'a>(report: &'a Value, job: &str) -> &'a str {
    report[job]["log"].as_str().unwrap_or_else(|| panic!("no log of {job}: {report:#}"))
}

#[track_caller]
fn assert_ended(report: &Value, job: &str, state: &str, code: &str) {
    let end = &report[job];
    assert_eq!((&end["state"], &end["code"]), (&json!(state), &json!(code)), "{job}: {}", log(report, job));
}

/// By Slurm's SIGTERM: the batch script itself, or its srun a moment before it, whose code the script then ends with.
#[track_caller]
fn assert_cancelled(report: &Value, job: &str) {
    let end = &report[job];
    assert_eq!(end["state"], json!("CANCELLED"), "{job}: {}", log(report, job));
    assert!(["0:15", "143:0"].contains(&end["code"].as_str().unwrap_or_default()), "{job}: {end}");
}

/// Counts the telemetry of its own that a job left on the nodes, before the epilog ran.
#[track_caller]
fn files_left(report: &Value, job: &str) -> u64 {
    let nodes = report[job]["files_before_epilog"].as_object().expect("counts by node");
    assert!(!nodes.is_empty(), "no epilog ran for {job}");
    nodes.values().filter_map(Value::as_u64).sum()
}

/// What happens in time elsewhere and not here has another cause than a slow machine. The steps are those of jobs.py.
#[test]
fn no_step_waits_in_vain() {
    let Some(report) = report() else { return };
    assert_eq!(report["waited_in_vain"], json!([]));
}

#[test]
fn a_step_that_hangs_is_cut_off_by_its_name() {
    let script =
        "import progress, time\nprogress.STEP_LIMIT = 0.1\nprogress.step('the step')\ntime.sleep(3600)";
    let python = Run::new("python3").args(["-c", script]).env("PYTHONDONTWRITEBYTECODE", "1");
    let said = python.env("PYTHONPATH", package_dir().join("slurm")).run().stderr_text();
    assert!(said.trim_end().ends_with("TookTooLong: the step"), "{said}");
}

#[test]
fn a_job_of_tasks_has_the_library_in_every_rank_and_a_daemon_on_every_node() {
    let Some(report) = report() else { return };
    assert_ended(report, "tasks", "COMPLETED", "0:0");
    let log = log(report, "tasks");
    assert_eq!(log.matches("preloads /opt/airamp/lib/libairamp_accel.so").count(), 4, "{log}");
    assert_eq!(report["seen"]["tasks"], json!({ "n1": [0, 1], "n2": [2, 3] }));
}

#[test]
fn the_metrics_name_the_job_by_slurms_number() {
    let Some(report) = report() else { return };
    let number = &report["numbers"]["tasks"];
    let lines: Vec<&str> =
        report["seen"]["metrics"].as_array().expect("lines").iter().flat_map(Value::as_str).collect();
    let job = format!("airamp_job_info{{workload=\"{number}\",name=\"{number}\",source=\"slurm\"");
    assert!(lines.iter().any(|line| line.starts_with(&job) && line.contains("mode=\"on\"")), "{lines:#?}");
    let rank = |line: &&&str| line.starts_with("airamp_rank_info{") && line.contains("step_id=\"");
    assert_eq!(lines.iter().filter(rank).count(), 2, "{lines:#?}");
    let status = report["seen"]["status"].as_str().expect("text");
    assert!(status.contains(&format!("job {number} (slurm)  user trainer  running  mode on")), "{status}");
}

#[test]
fn an_order_to_the_job_by_its_number_reaches_its_ranks_on_a_node() {
    let Some(report) = report() else { return };
    let said = report["seen"]["disable"].as_str().expect("text");
    assert_eq!(said.matches("was told; the switch is agreed with all ranks").count(), 2, "{said}");
}

#[test]
fn the_clusters_settings_hold_and_the_jobs_own_variables_win() {
    let Some(report) = report() else { return };
    let line = |job: &str, setting: &str| {
        let found = log(report, job).lines().find(|line| line.starts_with(setting)).unwrap_or_default();
        found.split_whitespace().take(3).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(line("second", "mode "), "mode shadow /etc/airamp.conf:1");
    assert_eq!(line("tasks", "mode "), "mode on environment");
    assert_eq!(line("tasks", "metrics_port "), "metrics_port 9400 /etc/airamp.conf:4");
    assert_eq!(line("ddp", "metrics_port "), "metrics_port 9401 environment");
}

#[test]
fn torchrun_and_a_server_are_started_by_the_other_examples() {
    let Some(report) = report() else { return };
    assert_ended(report, "ddp", "COMPLETED", "0:0");
    assert_ended(report, "vllm", "COMPLETED", "0:0");
    assert_eq!(report["seen"]["ddp"], json!({ "n1": [0, 1], "n2": [2, 3] }), "under the name that was given");
    assert_eq!(report["seen"]["vllm"], json!([0]));
}

#[test]
fn whole_nodes_are_taken_with_the_options_that_the_examples_have_themselves() {
    let Some(report) = report() else { return };
    for job in ["whole_tasks", "whole_vllm"] {
        assert_ended(report, job, "COMPLETED", "0:0");
    }
    let log = log(report, "whole_tasks");
    assert_eq!(log.matches("preloads /opt/airamp/lib/libairamp_accel.so").count(), 16, "{log}");
}

#[test]
fn a_job_on_a_part_of_its_nodes_gives_its_tasks_the_processors_that_it_asked_for() {
    let Some(report) = report() else { return };
    let log = |job| log(report, job);
    assert_eq!(log("tasks").matches("has processors: 16").count(), 4, "{}", log("tasks"));
    // Not told, srun must not be told that it is nothing.
    assert_eq!(log("second").matches("has processors: as srun has it").count(), 2, "{}", log("second"));
}

fn page() -> String {
    std::fs::read_to_string(package_dir().join("../docs/slurm.md")).expect("the page")
}

/// The options of a list in jobs.py, as they stand on a command line.
fn options(list: &str) -> String {
    let jobs = std::fs::read_to_string(package_dir().join("slurm/jobs.py")).expect("the jobs");
    let (_, behind) = jobs.split_once(&format!("\n{list} = [")).expect("a list");
    behind.split(']').next().expect("its end").replace([',', '"'], "")
}

/// sbatch of 23.02 and later refuses `--exclusive` beside `--oversubscribe`, in whichever place each stands.
#[test]
fn what_the_page_has_one_write_is_what_is_run_here_and_the_examples_do_not_contradict_it() {
    let page = page();
    for list in ["WHOLE", "PART"] {
        assert!(page.contains(&format!("`sbatch {}", options(list))), "{list}: {}", options(list));
    }
    assert!(!page.contains("sbatch --oversubscribe"));
    for example in files_in(&package_dir().join("../deploy/slurm/examples")) {
        let text = std::fs::read_to_string(&example).expect("an example");
        let own: Vec<_> = text.lines().filter(|line| line.starts_with("#SBATCH")).collect();
        let share = |line: &&&str| line.contains("--exclusive") || line.contains("--mem");
        assert_eq!(own.iter().find(share), None, "{}", example.display());
    }
}

#[test]
fn a_step_beside_a_job_takes_nothing_of_its_own_from_it() {
    let page = page();
    let steps: Vec<_> = page.lines().filter(|line| line.contains("srun --jobid=")).collect();
    assert!(steps.len() >= 5, "{steps:?}");
    for step in steps {
        assert!(step.contains(&options("BESIDE")), "{step}");
    }
}

#[test]
fn a_job_tidies_up_after_itself_and_the_nodes_are_as_before() {
    let Some(report) = report() else { return };
    for job in
        ["tasks", "second", "ddp", "vllm", "no_daemon", "signals", "cancelled", "whole_tasks", "whole_vllm"]
    {
        assert_eq!(files_left(report, job), 0, "{job}: {}", log(report, job));
    }
    let nothing = json!({ "processes": [], "files": [], "ports": [] });
    assert_eq!(report["left"], json!({ "n1": nothing, "n2": nothing }));
}

#[test]
fn what_a_killed_job_leaves_is_taken_away_by_the_epilog() {
    let Some(report) = report() else { return };
    assert_eq!(files_left(report, "killed"), 1);
    assert_eq!((&report["left"]["n1"]["files"], &report["left"]["n2"]["files"]), (&json!([]), &json!([])));
}

#[test]
fn the_epilog_does_not_fail_where_it_can_take_no_lock() {
    if let Err(lacking) = is_possible() {
        return skip_outside_ci(&lacking);
    }
    let epilog = package_dir().join("../deploy/slurm/airamp-epilog");
    let in_a_full_run = "mount -t tmpfs -o ro none /run && exec \"$0\"";
    let run = Run::new("unshare").args(["--mount", "sh", "-c", in_a_full_run]).arg(epilog);
    run.env("SLURM_JOB_ID", "1").env("SLURM_JOB_UID", "65534").run().assert_success();
}

/// What a shell says on a node that nobody else is on: our programs are in /run/bin, /tmp and /dev/shm are empty.
#[track_caller]
fn on_a_bare_node(script: &str) -> Option<String> {
    if let Err(lacking) = is_possible() {
        skip_outside_ci(&lacking);
        return None;
    }
    let node = "mount -t tmpfs none /run; mkdir /run/bin; cp \"$@\" /run/bin; cd /run
        mount -t tmpfs none /tmp; mount -t tmpfs none /dev/shm\n";
    let run = Run::new("unshare").args(["--mount", "bash", "-euc", &format!("{node}{script}"), "bash"]);
    let ours = ["airamp-node", "airamp-epilog"].map(|name| package_dir().join("../deploy/slurm").join(name));
    let outcome = run.args(ours).args([airamp(), airampd()]).env("AIRAMP_CONFIG", "/run/airamp.conf").run();
    Some(outcome.assert_success().stdout_text())
}

/// A number that no process has: beyond the largest that Linux gives.
const GONE: &str = "4194304";

#[test]
fn sockets_of_processes_that_are_gone_go_when_the_user_has_no_other() {
    let script = r#"
        mkdir /tmp/airamp-0
        for name in 4194304 4194304-1 $$; do
            python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' /tmp/airamp-0/$name.sock
        done
        bin/airamp-node --clean; ls /tmp/airamp-0 | wc -l
        bin/airamp-node --clean --all; ls /tmp/airamp-0 | sed "s/$$/alive/""#;
    let Some(said) = on_a_bare_node(script) else { return };
    assert!(script.contains(GONE));
    assert_eq!(said, "3\nalive.sock\n", "of a job that is left alone, and when all is");
}

#[test]
fn a_token_that_cannot_be_read_keeps_nobody_from_tidying_up() {
    let script = r#"
        printf 'telemetry_dir = "/run/a folder"\nmetrics_token_file = "/run/token"\n' >airamp.conf
        mkdir -p '/run/a folder/airamp-0'
        python3 - '/run/a folder/airamp-0/4194304-1.airamp' <<'PYTHON'
import os, struct, sys
head = bytearray(1024)
struct.pack_into("<Q", head, 176, os.stat("/proc/self/ns/pid").st_ino)
head[320:322] = b"17"
open(sys.argv[1], "wb").write(head)
PYTHON
        AIRAMP_JOB=18 bin/airamp-node --clean; find '/run/a folder' | wc -l
        AIRAMP_JOB=17 bin/airamp-node --clean; find '/run/a folder' | wc -l
        bin/airamp-node --clean --all; find '/run/a folder' | wc -l"#;
    let Some(said) = on_a_bare_node(script) else { return };
    assert!(script.contains(GONE));
    assert_eq!(said, "3\n2\n1\n", "another's file, its own, the empty folder");
}

#[test]
fn no_link_of_a_user_leads_the_epilog_to_files_of_root() {
    let script = r#"
        user=$(id -u games)
        mkdir "/dev/shm/airamp-$user" /run/of-root
        python3 - "/dev/shm/airamp-$user/4194304-1.airamp" /run/of-root/4194304-1.airamp <<'PYTHON'
import os, struct, sys
head = bytearray(1024)
struct.pack_into("<Q", head, 176, os.stat("/proc/self/ns/pid").st_ino)
head[320:322] = b"17"
for name in sys.argv[1:]:
    open(name, "wb").write(head)
PYTHON
        python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("/run/of-root/4194304.sock")'
        ln -s /run/of-root "/tmp/airamp-$user"
        chown -hR "$user" "/dev/shm/airamp-$user" "/tmp/airamp-$user"
        SLURM_JOB_ID=17 SLURM_JOB_UID=$user bin/airamp-epilog
        ls /run/of-root; find /dev/shm -name '*.airamp'"#;
    let Some(said) = on_a_bare_node(script) else { return };
    assert!(script.contains(GONE));
    assert_eq!(said, "4194304-1.airamp\n4194304.sock\n", "root's are there, the user's own is gone");
}

#[test]
fn a_daemon_that_cannot_honour_its_settings_is_not_tried_again() {
    let script = r#"
        echo 'metrics_token_file = "/run/token"' >airamp.conf
        mv bin/airampd bin/the-daemon
        printf '#!/bin/sh\n[ "$*" = --check-config ] || echo >>/run/tries\nexec /run/bin/the-daemon "$@"\n' >bin/airampd
        chmod +x bin/airampd
        bin/airamp-node 2>log &
        for try in $(seq 200); do ! grep -q 'ended with' log || break; sleep 0.1; done
        # Longer than its pause.
        sleep 3
        kill -s TERM $!
        wait $!
        cat log; wc -l <tries"#;
    let Some(said) = on_a_bare_node(script) else { return };
    for words in ["the token in /run/token", "ended with code 3", "the job runs on without it"] {
        assert_eq!(said.matches(words).count(), 1, "{said}");
    }
    assert!(said.ends_with("\n1\n"), "{said}");
}

#[test]
fn an_end_that_comes_between_two_children_is_not_missed() {
    // Its one signal comes in a second made for it before a child is started, when the one before has ended already.
    let script = r#"
        printf '#!/bin/sh\n[ "$*" != --check-config ] || exit 0\nread how </run/how\n$how\n' >bin/airampd
        chmod +x bin/airampd
        for before in 'exec sleep 60:"$daemon" "$@" 2>&4 &' 'exit 3:sleep "$pause" &'; do
            echo "${before%%:*}" >how
            python3 - "${before#*:}" <<'PYTHON'
import sys
text = open("bin/airamp-node").read()
assert text.count(sys.argv[1]) == 1
open("bin/slower", "w").write(text.replace(sys.argv[1], "touch /run/between; sleep 1; " + sys.argv[1]))
PYTHON
            timeout --foreground 20 bash bin/slower 2>log &
            for try in $(seq 200); do [ ! -e between ] || break; sleep 0.1; done
            rm between
            kill -s TERM $!
            wait $! && echo ended || cat log
        done"#;
    let Some(said) = on_a_bare_node(script) else { return };
    assert_eq!(said, "ended\nended\n", "before the daemon, before the pause");
}

#[test]
fn the_end_of_the_input_is_heard_although_an_interrupt_is_forgotten() {
    let script = r#"
        printf '#!/bin/sh\n[ "$*" != --check-config ] || exit 0\nexec sleep 60\n' >bin/airampd
        chmod +x bin/airampd
        python3 - <<'PYTHON'
text = open("bin/airamp-node").read()
trap = next(line for line in text.splitlines() if line.startswith("trap") and line.endswith(" INT"))
for place, deaf in [("    shift\n", "    shift; trap '' INT\n"), ("\nserve ", f"\nsleep 0.5; {trap}\nserve ")]:
    assert text.count(place) == 1
    text = text.replace(place, deaf)
open("bin/deaf", "w").write(text)
PYTHON
        timeout --foreground 20 bash bin/deaf --until-eof </dev/null && echo ended"#;
    let Some(said) = on_a_bare_node(script) else { return };
    assert_eq!(said, "ended\n");
}

/// Numbers of a text that stand as in `$((20000 + SLURM_JOB_ID % 10000))`: the ports from the first on, as many as the second.
fn ports(text: &str, of: &str) -> Vec<std::ops::Range<u32>> {
    let expressions =
        text.split("$((").skip(1).filter_map(|behind| behind.split_once(&format!(" + {of} % ")));
    let number = |digits: &str| {
        let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        digits[..end].parse::<u32>().expect("a number")
    };
    expressions.map(|(first, behind)| number(first)..number(first) + number(behind)).collect()
}

#[test]
fn the_port_that_a_users_daemon_is_advised_to_take_is_no_master_port_of_the_examples() {
    let deploy = package_dir().join("../deploy/slurm/examples");
    let advised = ports(&page(), "$(id -u)");
    let text = |path| std::fs::read_to_string(path).expect("an example");
    let masters = files_in(&deploy).into_iter().map(text).flat_map(|text| ports(&text, "SLURM_JOB_ID"));
    let masters: Vec<_> = masters.collect();
    assert_eq!((advised.len(), masters.len()), (1, 2), "{advised:?}, {masters:?}");
    for master in masters {
        assert!(master.end <= advised[0].start || advised[0].end <= master.start, "{master:?}, {advised:?}");
    }
}

#[test]
fn a_cancelled_job_takes_its_daemons_with_it() {
    let Some(report) = report() else { return };
    assert_cancelled(report, "cancelled");
    assert_eq!(log(report, "cancelled").matches("heard TERM").count(), 2, "{}", log(report, "cancelled"));
}

#[test]
fn of_two_jobs_on_a_node_one_daemon_shows_both_and_the_other_takes_over() {
    let Some(report) = report() else { return };
    let both = json!({ "n1": [0], "n2": [1] });
    assert_eq!((&report["seen"]["second"], &report["taken_over"]), (&both, &both));
    assert_ended(report, "second", "COMPLETED", "0:0");
    let log = log(report, "second");
    // Said once by each node, however often it was tried.
    assert_eq!(log.matches("airampd ended with code 4 (the port is in use").count(), 2, "{log}");
    assert_eq!(log.matches("is in use by another program").count(), 2, "{log}");
}

#[test]
fn a_daemon_that_is_killed_comes_back_and_one_that_is_missing_is_not_missed() {
    let Some(report) = report() else { return };
    assert_eq!(report["daemon_killed"], json!({ "back": true, "job_runs": true }));
    assert!(log(report, "tasks").contains("n2: airampd ended with code 137"), "{}", log(report, "tasks"));
    assert_ended(report, "no_daemon", "COMPLETED", "0:0");
    let said = log(report, "no_daemon");
    assert_eq!(said.matches("code 127 (it is not installed here)").count(), 2, "{said}");
}

#[test]
fn without_anything_of_ours_the_job_runs_as_under_srun() {
    let Some(report) = report() else { return };
    assert_ended(report, "alone", "FAILED", "3:0");
    let said = log(report, "alone");
    for words in ["the job runs without the library", "no airampd is started", "task 0 preloads nothing"] {
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn codes_signals_and_input_are_those_of_srun() {
    let Some(report) = report() else { return };
    let log = log(report, "signals");
    let of = |who: &str| {
        let lines = log.lines().filter_map(|line| line.strip_prefix(who)?.strip_prefix(' '));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(of("srun").len(), 5, "{log}");
    assert_eq!(of("airamp-srun"), of("srun"), "{log}");
    assert!(
        of("srun").contains(&"code 7".to_owned()) && of("srun").contains(&"input hello".to_owned()),
        "{log}"
    );
    // A signal that Slurm sends to the job's steps reaches each task once, and ends no daemon.
    assert_eq!(report["signalled"], json!({ "heard": 4, "same_daemon": true }));
}

#[test]
fn daemons_can_be_attached_to_a_job_that_runs_and_taken_away_again() {
    let Some(report) = report() else { return };
    let shown = json!({ "n1": [0], "n2": [1] });
    let attached = &report["attached"];
    assert_eq!((&attached["before"], &attached["seen"], &attached["again"]), (&json!([]), &shown, &shown));
    assert_eq!((&attached["gone"], &attached["job_runs"]), (&json!(true), &json!(true)));
    // The second ones have nothing but Slurm's signal to tell them that the job was cancelled.
    assert_cancelled(report, "bare");
    assert_eq!(files_left(report, "bare"), 0, "{}", log(report, "bare"));
}

/// The one that its first line names: what bash takes, another shell may not.
#[test]
fn every_script_is_one_that_its_shell_takes() {
    let deploy = package_dir().join("../deploy");
    let folders = ["slurm", "slurm/examples", "kubernetes", "kubernetes/monitoring"];
    let mut checked = std::collections::BTreeSet::new();
    for file in folders.iter().flat_map(|folder| files_in(&deploy.join(folder))) {
        let text = std::fs::read_to_string(&file).expect("a text");
        let shell = text.lines().next().and_then(|line| line.strip_prefix("#!/bin/"));
        if let Some(shell) = shell.filter(|shell| ["sh", "bash"].contains(shell)) {
            Run::new(shell).arg("-n").arg(&file).run().assert_success();
            checked.insert(file.file_name().expect("a name").to_string_lossy().into_owned());
        }
    }
    let expected = [
        ["airamp-epilog", "airamp-node", "airamp-srun"],
        ["ddp.sbatch", "tasks.sbatch", "vllm.sbatch"],
        ["install-into", "keep-airampd", "rules"],
    ];
    assert_eq!(checked, expected.concat().into_iter().map(str::to_owned).collect());
}

fn files_in(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).expect("the folder").flatten().map(|entry| entry.path());
    entries.filter(|path| path.is_file()).collect()
}
