//! A host that does not come back from the vendor's function tells whether it is inside a collective, also while its
//! communicator compresses: whoever waits for a message does not keep the others from a collective that they all reached.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use airamp_telemetry::AgreementState;
use airamp_telemetry::snapshot::Communicator;
use airamp_tests::account::files;
use airamp_tests::c_program::vendor_dir;
use airamp_tests::comparison::Presence;
use airamp_tests::live::Live;
use airamp_tests::process::free_port;
use airamp_tests::scenario::{planned, settings};
use airamp_tests::{CProgram, Run, interposer, rank_program};

/// Generous, for two busy cores.
const LIMIT: Duration = Duration::from_secs(60);

/// Waits until the host sleeps inside a call with so many collectives behind it; the call's communicator.
#[track_caller]
fn asleep_inside(host: &mut Live, base: &Path, issued: u64) -> Communicator {
    let deadline = Instant::now() + LIMIT;
    loop {
        // Asleep first: what it tells then is all that it tells of the call that does not come back.
        let is_asleep = is_asleep(host.pid());
        let snapshots = files(base).into_iter().filter_map(|reader| reader.snapshot().ok());
        let own = snapshots.filter(|snapshot| snapshot.pid == host.pid());
        let mut communicators = own.flat_map(|snapshot| snapshot.communicators);
        let blocked = communicators.find(|own| is_asleep && own.inside > 0 && own.issued == issued);
        if let Some(own) = blocked {
            return own;
        }
        assert!(!host.is_over() && Instant::now() < deadline, "{}", host.complaints());
        thread::sleep(Duration::from_millis(20));
    }
}

/// Its first thread sleeps.
fn is_asleep(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/status")).unwrap_or_default();
    status.contains("State:\tS")
}

#[test]
fn a_host_that_does_not_come_back_tells_whether_it_is_inside_a_collective() {
    let library = CProgram::unlinked("null_nccl.c").flag("-DWAITS").shared_library().build();
    let vendor = vendor_dir(&library);
    let program = CProgram::linked_with_nccl_alone("waits.c").build();
    for (what, function, is_other) in [
        ("all_reduce", "ncclAllReduce", false),
        ("send", "ncclSend", true),
        ("messages", "ncclGroupEnd", true),
        ("all_reduce_and_send", "ncclGroupEnd", false),
        ("send_and_all_reduce", "ncclGroupEnd", false),
        ("destroy", "ncclCommDestroy", true),
    ] {
        let base = tempfile::tempdir().expect("a folder");
        let run = Run::new(&program).arg(what).env("WAITS_IN", function).library_dir(vendor.path());
        let mut host = Live::start(&run.env("AIRAMP_TELEMETRY_DIR", base.path()).preload(interposer()));
        assert_eq!(asleep_inside(&mut host, base.path(), 1).inside_other, is_other, "{what}");
    }
}

/// Two ranks that compress. A call of that function of the vendor's does not come back.
fn compressing(scenario: &str, function: &str, base: &Path) -> Vec<Live> {
    let run = Run::new(rank_program()).args(["scenario", scenario, "--expect", "compressed"]);
    let run = planned(settings(Presence::Preloaded.applied_to(run))).env("AIRAMP_TELEMETRY_DIR", base);
    let run = run.env("AIRAMP_EMU_SLOW_CALL", format!("{function}:{}", 2 * LIMIT.as_millis()));
    let run = run.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", free_port().to_string());
    let rank = |rank: u32| run.clone().env("RANK", rank.to_string()).env("LOCAL_RANK", rank.to_string());
    (0..2).map(|number| Live::start(&rank(number).env("WORLD_SIZE", "2"))).collect()
}

#[test]
fn so_does_one_whose_communicator_compresses() {
    for (scenario, function, rank, issued, is_other) in [
        ("mixed/a_chain_of_single_messages_between_calls", "ncclSend", 0, 1, true),
        ("mixed/messages_on_another_stream_between_calls", "ncclSend", 0, 1, true),
        ("unlike/collectives_in_a_group_of_the_first_rank", "ncclAllReduce", 1, 0, false),
    ] {
        let base = tempfile::tempdir().expect("a folder");
        let mut ranks = compressing(scenario, function, base.path());
        let own = asleep_inside(&mut ranks[rank], base.path(), issued);
        assert_eq!((own.agreement, own.inside_other), (AgreementState::On, is_other), "{scenario}");
    }
}
