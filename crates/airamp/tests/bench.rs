//! `airamp bench` with a shell script in the place of the rank program: what it starts, how it puts the
//! ranks' reports together, and its exit code. tests/bench.rs of the workspace runs the real one.

#[path = "support/home.rs"]
mod home;
mod support;

use std::fs;

use home::Home;
use serde_json::Value;
use support::{airamp, run, stderr, stdout};

/// Prints what a rank prints: `$vendor` and `$ours` are times, `$digest` is that of our result.
const MEASURES: &str = r#"
vendor='[40, 60, 50]' ours='[20, 30, 25]' digest=a
plan() {
printf '{"event":"plan","rank":%s,"vendor":"NCCL","library":"libnccl.so.2","version":22809,' $RANK
printf '"device":"A <GPU>","architecture":"sm_90","driver_version":12090,"kernels":"sm_90.cubin","tensors":1}\n'
}
way() {
printf '{"event":"result","rank":%s,"datatype":"float32","bytes":1024,"contender":"%s",' $RANK "$1"
printf '"wire_bytes_per_element":1.0,"steps":3,"added_bytes":10%s,' $RANK
printf '"times_us":%s,"vnmse":%s,"worst":0.1,"digest":"%s"}\n' "$2" "$3" "$4"
}
fp8() {
printf '{"event":"not_offered","datatype":"float32","bytes":1024,"contender":"vendor_fp8","reason":"too old"}\n'
}
end() { echo '{"event":"done"}'; }
all() { plan; way vendor "$vendor" 0 v; fp8; way auto "$ours" 1e-5 "$digest"; end; }
"#;

fn home(script: &str) -> Home {
    Home::new(&format!("{MEASURES}{script}"))
}

fn json(home: &Home, args: &[&str]) -> (Option<i32>, Value) {
    let output = run(&mut home.bench(&[&["--json"], args].concat()));
    let text = stdout(&output);
    (
        output.status.code(),
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text} {}", stderr(&output))),
    )
}

#[test]
fn the_speedup_is_the_vendor_s_time_over_ours_by_the_rank_that_waited_least() {
    let (code, report) =
        json(&home("[ $RANK = 0 ] || { vendor='[70, 45, 80]'; ours='[10, 40, 25]'; }; all"), &[]);
    assert_eq!(code, Some(0));
    let ours = &report["results"][2];
    assert_eq!((&ours["format"], &ours["is_ours"]), (&"auto".into(), &true.into()));
    assert_eq!((ours["vendor_us"].as_f64(), ours["time_us"].as_f64()), (Some(45.0), Some(25.0)), "{ours}");
    assert_eq!(ours["speedup"].as_f64(), Some(45.0 / 25.0));
    assert_eq!(report["results"][1]["not_offered"], "too old");
}

#[test]
fn a_report_says_what_it_ran_on_and_how() {
    let (_, report) = json(&home("all"), &["--average", "--link-rate", "2gbit", "--arena-bytes", "1MiB"]);
    let held = |path: &str| report.pointer(path).unwrap_or_else(|| panic!("no {path} in {report}"));
    assert_eq!(held("/environment/vendor"), "NCCL");
    assert_eq!(held("/environment/device"), "A <GPU>");
    assert_eq!(held("/environment/version"), 22809);
    assert_eq!(held("/environment/kernels"), "sm_90.cubin");
    assert_eq!((held("/results/2/steps"), held("/results/2/added_bytes")), (&3.into(), &101.into()));
    assert_eq!(held("/settings/average"), true);
    assert_eq!(held("/settings/links/0"), "2gbit");
    assert_eq!(held("/settings/arena_bytes"), 1 << 20);
    assert_eq!((held("/complete"), held("/emulated")), (&true.into(), &true.into()));
    assert!(held("/date").as_str().is_some_and(|date| date.len() == 20 && date.ends_with('Z')));
}

#[test]
fn the_ranks_are_told_what_was_asked_for_and_get_no_library_of_ours() {
    let home = home("all; echo \"$@ at $AIRAMP_EMU_LINK_GBPS with -$LD_PRELOAD-\" >> $AIRAMP_HOME/seen");
    let args =
        ["--ranks", "2,3", "--link-rate", "500mbit,loopback", "--sizes", "1KiB..4KiB", "--data", "spikes"];
    let output = run(home.bench(&args).env("LD_PRELOAD", home.path().join("libairamp_accel.so")));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let seen = home.seen();
    let count = |part: &str| seen.lines().filter(|line| line.contains(part)).count();
    assert_eq!((count("at 0.5 with --"), count("at 0 with --")), (5, 5), "{seen}");
    assert_eq!(count("bench --formats=auto --data=spikes --arena-bytes=16777216"), 10, "{seen}");
    assert_eq!(
        count("--sizes=1024,2048,4096 --datatypes=float32,bfloat16 --iterations=5 --warmup=2"),
        10,
        "{seen}"
    );
}

#[test]
fn bits_that_differ_are_1_and_said() {
    let output = run(&mut home("digest=$RANK; all").bench(&[]));
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stdout(&output).lines().any(|line| line.contains("auto") && line.ends_with("NO")),
        "{}",
        stdout(&output)
    );
}

#[test]
fn a_rank_that_fails_is_1_and_what_was_measured_before_is_kept() {
    for ends in ["exit 7", "exit 0", "kill -KILL $$"] {
        let second = home(&format!("[ $WORLD_SIZE = 2 ] && {{ all; exit 0; }}; {ends}"));
        let (code, report) = json(&second, &["--ranks", "2,3"]);
        assert_eq!(code, Some(1), "{ends}");
        assert_eq!(report["complete"], false, "{ends}");
        assert_eq!(report["results"].as_array().map(Vec::len), Some(3), "{ends}");
    }
}

#[test]
fn nothing_measured_is_no_table() {
    let output = run(&mut home("exit 7").bench(&[]));
    assert_eq!((output.status.code(), stdout(&output)), (Some(1), String::new()));
}

#[test]
fn a_result_that_is_not_finite_is_shown_as_such() {
    let home = home("plan; way vendor \"$vendor\" null v; end");
    let output = run(&mut home.bench(&[]));
    assert!(stdout(&output).contains("not finite"), "{}", stdout(&output));
}

#[test]
fn a_chart_goes_to_the_file_that_was_named() {
    let home = home("all");
    let place = home.path().join("speedup.svg");
    let output = run(&mut home.bench(&["--chart", place.to_str().expect("a path")]));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let chart = fs::read_to_string(place).expect("the chart");
    assert!(chart.contains(">float32, 2 ranks, auto<") && chart.contains("A &lt;GPU&gt;"), "{chart}");
}

#[test]
fn nothing_but_the_result_is_printed_where_nobody_watches() {
    let output = run(&mut home("all").bench(&[]));
    assert_eq!(stderr(&output), "");
}

#[test]
fn wrong_arguments_are_refused_before_anything_starts() {
    let home = home("echo started >> $AIRAMP_HOME/seen");
    for (args, part) in [
        (&["--ranks", "1"][..], "nobody to exchange with"),
        (&["--ranks", "2,x"], "invalid value"),
        (
            &["--ranks", "2,65"],
            "invalid value '65' for '--ranks <LIST>': expected a whole number from 1 to 64",
        ),
        (&["--ranks", "-1"], "expected a whole number from 1 to 64"),
        (&["--arena-bytes", "1KiB"], "--arena-bytes: 1KiB is too small: 2 ranks take at least"),
        (&["--arena-bytes", "100KiB", "--ranks", "3,64,4"], "64 ranks take at least"),
        (&["--datatypes", "int8"], "int8 is not compressed"),
        (&["--formats", "e3m4"], "auto, e4m3"),
        (&["--sizes", "2MiB..1MiB"], "smaller size first"),
        (&["--sizes", "8,1"], "8B to 64GiB"),
        (&["--link-rate", "fast"], "10gbit"),
        (&["--link-rate", "1e308gbit"], "at most 100000gbit"),
        (&["--data", "cauchy"], "lognormal"),
        (&["--iterations", "0"], "--iterations"),
        (&["--arena-bytes", "lots"], "--arena-bytes"),
        (&["--chart", "a.png"], ".svg or .html"),
        (&["--chart", "/no/such/folder/a.svg"], "no folder"),
        (&["--gpu", "--emulate"], "--gpu"),
    ] {
        let output = run(&mut home.bench(args));
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(part), "{args:?}: {}", stderr(&output));
    }
    assert!(!home.path().join("seen").exists());
}

#[test]
fn what_is_listed_twice_is_asked_for_once() {
    let home = home("all; echo \"$@\" >> $AIRAMP_HOME/seen");
    let twice = ["--ranks", "2,2", "--link-rate", "1gbit,1", "--sizes", "2KiB,1KiB..2KiB,2048"];
    let names = ["--datatypes", "float32,float32", "--formats", "int8,auto,int8"];
    let output = run(&mut home.bench(&[&twice[..], &names].concat()));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let seen = home.seen();
    assert_eq!(seen.lines().count(), 2, "{seen}");
    for part in ["--sizes=2048,1024 ", "--datatypes=float32 ", "--formats=int8,auto "] {
        assert!(seen.contains(part), "{part} is not in {seen}");
    }
}

#[test]
fn the_help_shows_the_types_that_are_compressed() {
    let help = stdout(&run(&mut airamp(&["bench", "--help"])));
    let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("[possible values: float16, float32, bfloat16]"), "{words}");
    let output = run(&mut home("all").bench(&["--preload", "--datatypes", "int8,nonsense"]));
    assert!(!stderr(&output).contains("value 'int8'"), "{}", stderr(&output));
}

#[test]
fn without_tc_a_rate_on_a_gpu_is_refused_with_what_to_do() {
    let home = home("echo started >> $AIRAMP_HOME/seen");
    let output = run(home.bench(&["--gpu", "--link-rate", "10gbit"]).env("PATH", "/none"));
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("tc qdisc add dev lo root tbf"), "{}", stderr(&output));
    assert!(!home.path().join("seen").exists());
}

#[test]
fn on_a_gpu_loopback_means_sockets_and_a_machine_of_its_own_for_each_rank() {
    let home = home("all; echo $NCCL_HOSTID $NCCL_NET $NCCL_SOCKET_IFNAME >> $AIRAMP_HOME/seen");
    let output = run(&mut home.bench(&["--gpu", "--link-rate", "loopback"]));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let mut seen: Vec<String> = home.seen().lines().map(str::to_owned).collect();
    seen.sort();
    assert_eq!(seen, ["airamp-rank-0 Socket lo", "airamp-rank-1 Socket lo"]);
}

#[test]
fn the_help_teaches_by_examples_and_has_no_line_that_breaks_off() {
    let help = stdout(&run(&mut airamp(&["bench", "--help"])));
    assert!(help.matches("\n  airamp bench").count() >= 5, "{help}");
    let text = help.split_once("Each line is one way").expect("the explanation").1;
    let paragraph: Vec<&str> = text.lines().take_while(|line| !line.is_empty()).collect();
    for line in &paragraph[..paragraph.len() - 1] {
        assert!(line.len() > 60, "{line:?}");
    }
}
