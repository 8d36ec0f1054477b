//! How each fault is done: by a variable of the emulator's or of the library's, by another library before it, in a
//! namespace of its own. What is done to a process from outside while it runs stands in `runner`.

use std::path::Path;
use std::sync::OnceLock;

use super::fault::Fault;
use super::job::{CONSENSUS_MS, DOUBT_MS, Job, Mode};
use crate::code_object::BlobFolder;
use crate::comparison::Presence;
use crate::{CProgram, Run, rank_program};

/// Mounts a small folder of its own for telemetry, fills it after a while if asked to, and becomes the rank.
const SMALL_FOLDER: &str = r#"mount -t tmpfs -o size="$CHAOS_ROOM" none "$AIRAMP_TELEMETRY_DIR" || exit 90
if [ -n "$CHAOS_FILL_AFTER" ]; then
  (sleep "$CHAOS_FILL_AFTER"; exec dd if=/dev/zero of="$AIRAMP_TELEMETRY_DIR/filler" bs=64k) </dev/null >/dev/null 2>&1 &
fi
exec "$@""#;

/// One rank of the job, with or without the library and what is done to it.
pub fn rank_run(job: &Job, rank: u32, plan: &Path, telemetry: &Path, with: bool) -> Run {
    let own = |fault: &&Fault| fault.rank().is_none_or(|struck| struck == rank);
    let faults: Vec<&Fault> = job.faults.iter().filter(own).collect();
    let run = launcher(&faults, with);
    let run = run.args(["scenario", "planned", "--expect", "compressed", "--plan"]).arg(plan);
    let run = settings(job, run, telemetry);
    let absent = !with || faults.iter().any(|fault| matches!(fault, Fault::MixedPreload { .. }));
    let run = faults.iter().fold(run, |run, fault| before_the_library(fault, run));
    let run = if absent { Presence::Absent } else { Presence::Preloaded }.applied_to(run);
    faults.iter().fold(run, |run, fault| in_the_environment(fault, run, with))
}

/// The rank program, in a namespace of its own where a fault takes one.
fn launcher(faults: &[&Fault], with: bool) -> Run {
    let offset = faults.iter().find_map(|fault| match fault {
        Fault::ClockOffset { seconds, .. } => Some(seconds.to_string()),
        _ => None,
    });
    let room = faults.iter().find_map(|fault| match fault {
        Fault::DiskFull { .. } => Some(("64k", String::new())),
        Fault::DiskFills { after_ms, .. } => {
            Some(("8m", format!("{}.{:03}", after_ms / 1000, after_ms % 1000)))
        }
        _ => None,
    });
    let run = match &offset {
        None => Run::new(if room.is_some() && with { "unshare".into() } else { rank_program() }),
        Some(seconds) => {
            Run::new("unshare").args(["--fork", "--time", "--monotonic", seconds, "--boottime", seconds])
        }
    };
    match room.filter(|_| with) {
        None if offset.is_some() => run.arg(rank_program()),
        None => run,
        Some((room, fill)) => {
            let run = run.args(["--mount", "sh", "-c", SMALL_FOLDER, "sh"]).arg(rank_program());
            run.env("CHAOS_ROOM", room).env("CHAOS_FILL_AFTER", fill)
        }
    }
}

fn settings(job: &Job, run: Run, telemetry: &Path) -> Run {
    let run = crate::scenario::settings(run)
        .env("AIRAMP_CONSENSUS_TIMEOUT_MS", CONSENSUS_MS.to_string())
        .env("AIRAMP_DOUBT_MS", DOUBT_MS.to_string())
        .env("AIRAMP_MIN_SPEEDUP", "1")
        .env("AIRAMP_RANKS_PER_NODE", job.ranks_per_node.to_string())
        .env("AIRAMP_TELEMETRY_DIR", telemetry)
        .env("CUDA_DEVICE_MAX_CONNECTIONS", job.queues.to_string())
        .env("AIRAMP_EMU_LINK_GBPS", job.link_gbps.to_string());
    match job.mode {
        Mode::Observe => run.env("AIRAMP_MODE", "observe"),
        Mode::Shadow => run.env("AIRAMP_MODE", "shadow"),
        Mode::On => run.env("AIRAMP_MODE", "on"),
        Mode::Forced => crate::scenario::planned(run),
    }
}

/// What is loaded before the library is.
fn before_the_library(fault: &Fault, run: Run) -> Run {
    match fault {
        Fault::ClockJump { seconds, after_ms, .. } => run
            .preload(clock())
            .env("CHAOS_DAY_JUMPS_S", seconds.to_string())
            .env("CHAOS_AFTER_MS", after_ms.to_string()),
        Fault::ClockLeap { ms, after_ms, .. } => run
            .preload(clock())
            .env("CHAOS_LEAP_MS", ms.to_string())
            .env("CHAOS_AFTER_MS", after_ms.to_string()),
        _ => run,
    }
}

fn in_the_environment(fault: &Fault, run: Run, with: bool) -> Run {
    match fault {
        Fault::DieInCall { rank, number } => run.env("AIRAMP_EMU_DIE_AT_CALL", format!("{rank}:{number}")),
        Fault::SlowRank { rank, ms } => run.env("AIRAMP_EMU_SLOW_RANK", format!("{rank}:{ms}")),
        Fault::SlowCall { function, ms, .. } => run.env("AIRAMP_EMU_SLOW_CALL", format!("{function}:{ms}")),
        Fault::FailCall { function, number, result, .. } => {
            run.env("AIRAMP_EMU_FAIL_CALL", format!("{function}:{number}:{result}"))
        }
        Fault::Memory { number, .. } => run.env("AIRAMP_EMU_FAIL_ALLOC", number.to_string()),
        Fault::RefuseLaunch { number, .. } => run.env("AIRAMP_EMU_REFUSE_LAUNCH", number.to_string()),
        Fault::FailLaunch { number, .. } => run.env("AIRAMP_EMU_FAIL_LAUNCH", number.to_string()),
        Fault::Architecture { name, .. } => run.env("AIRAMP_EMU_ARCH", name),
        Fault::CutControl { rank, frames, forever } => {
            run.env("AIRAMP_INJECT_CUT", format!("{rank}:{frames}{}", if *forever { ":forever" } else { "" }))
        }
        Fault::Refuse { how } if with => run.arg("--trailer").arg(how),
        Fault::Blob { .. } => run.env("AIRAMP_KERNEL_DIR", spoilt_blobs()),
        Fault::Setting { name, value, .. } => run.env(name, value),
        Fault::Version { .. } => run.env("AIRAMP_INJECT_PROTOCOL", "77"),
        Fault::DiskGone { .. } => run.env("AIRAMP_TELEMETRY_DIR", "/dev/null/no-folder"),
        Fault::Panic { place, .. } => run.env("AIRAMP_INJECT_PANIC", place),
        _ => run,
    }
}

fn spoilt_blobs() -> &'static Path {
    static FOLDER: OnceLock<BlobFolder> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = BlobFolder::whole();
        folder.spoil("sm_90.cubin", |bytes| bytes[100] ^= 1);
        folder
    });
    folder.path()
}

/// The library whose clocks jump.
fn clock() -> std::path::PathBuf {
    CProgram::unlinked("jumping_clock.c").shared_library().build()
}
