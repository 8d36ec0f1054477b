//! The last calls of each process, out of its telemetry file: kind, size, path and times, and nothing of the data.

use std::path::PathBuf;

use airamp_telemetry::snapshot::Call;
use airamp_telemetry::{Found, Reader, folders};
use serde_json::{Value, json};

/// Newest calls of one process, and processes.
const MOST_CALLS: usize = 256;
const MOST_PROCESSES: usize = 64;

/// `bases`: where to look, as the observer does; `pids`: of whom.
pub(super) fn of(bases: &[PathBuf], pids: &[u32]) -> Value {
    let found: Vec<Found> = match bases.is_empty() {
        true => folders(None),
        false => bases.iter().flat_map(|base| folders(Some(base))).collect(),
    };
    let mut processes = Vec::new();
    for folder in &found {
        for name in folder.files() {
            if processes.len() < MOST_PROCESSES {
                processes.extend(of_file(folder, &name, pids));
            }
        }
    }
    json!({ "processes": processes, "most_calls_of_each": MOST_CALLS })
}

fn of_file(folder: &Found, name: &str, pids: &[u32]) -> Option<Value> {
    let reader = Reader::open(folder, name).ok()?;
    let snapshot = reader.snapshot().ok()?;
    if !pids.contains(&snapshot.pid) {
        return None;
    }
    let since = reader.calls_since(snapshot.calls_written.saturating_sub(MOST_CALLS as u64)).ok()?;
    let calls: Vec<Value> = since.items.iter().map(|call| as_json(call, snapshot.taken_ns)).collect();
    Some(json!({
        "pid": snapshot.pid,
        "rank": (snapshot.identity.world_rank >= 0).then_some(snapshot.identity.world_rank),
        "calls_in_all": snapshot.calls_written,
        "torn": snapshot.torn,
        "calls": calls,
    }))
}

fn as_json(call: &Call, now_ns: u64) -> Value {
    json!({
        "number": call.number,
        "slot": call.slot,
        "kind": call.kind.name(),
        "path": call.path.name(),
        "datatype": call.datatype.name(),
        "flags": call.flags,
        "count": call.count,
        "sequence": call.sequence,
        "step": call.step,
        "seconds_ago": now_ns.saturating_sub(call.entered_ns) as f64 / 1e9,
        "vendor_ns": call.vendor_ns,
        "hook_ns": call.hook_ns,
        "device_ns": Some(call.device_ns).filter(|ns| *ns > 0),
    })
}
