//! The first exchanges of a lane. NCCL connects two ranks, and sets up an algorithm, at the first
//! call that needs it, and then blocks the host until the peer has entered the same call. That
//! happens here, inside the communicator's creation, and never in a call of the application's.

use crate::error::FastPathError;
use crate::lane::Lane;
use crate::wire::{self, WireError};
use airamp_vendor::Functions;
use std::sync::Arc;
use std::time::Duration;

/// The vendor's algorithm depends on the size, so that several are tried: this many bytes, and so
/// many times more each time.
const LEAST_BYTES: usize = 256;
const GROWTH: usize = 16;
const POLL: Duration = Duration::from_micros(100);

pub(crate) fn connect(lanes: &[&Lane], keep_waiting: &dyn Fn() -> bool) -> Result<(), FastPathError> {
    let Some(first) = lanes.first() else { return Ok(()) };
    let functions = first.wire.functions;
    if !lanes.iter().all(|lane| std::ptr::eq(lane.wire.functions, functions)) {
        return Err(FastPathError::SeveralVendors);
    }
    let _relaxed = first.gpu.relax_captures()?;
    let exchanged = exchange(functions, lanes);
    // Each of them, and also where something failed: what was enqueued for a lane keeps it from being freed.
    let mut marked = Ok(());
    for lane in lanes {
        marked = mark_end(lane).and(marked);
    }
    exchanged?;
    marked?;
    lanes.iter().try_for_each(|lane| wait_for(lane, keep_waiting))
}

fn exchange(functions: &Functions, lanes: &[&Lane]) -> Result<(), FastPathError> {
    wire::group(functions, || lanes.iter().try_for_each(|lane| greet_peers(lane)))?;
    for round in 0.. {
        if lanes.iter().all(|lane| gathered_bytes(lane, round).is_none()) {
            break;
        }
        wire::group(functions, || lanes.iter().try_for_each(|lane| gather(lane, round)))?;
    }
    Ok(())
}

/// The lane is busy until the device has come here; for ever, where that cannot be recorded.
fn mark_end(lane: &Lane) -> Result<(), FastPathError> {
    let recorded = lane.enter().and_then(|_entered| lane.arena.serial.record(&lane.arena.kernels));
    if recorded.is_err() {
        std::mem::forget(Arc::clone(&lane.graphs));
    }
    Ok(recorded?)
}

/// A message to and from every peer, where calls will send any.
fn greet_peers(lane: &Lane) -> Result<(), WireError> {
    if !lane.sends() {
        return Ok(());
    }
    let (stream, scratch) = (lane.arena.kernels.raw(), lane.arena.scratch());
    lane.wire.accompany(stream)?;
    for peer in lane.wire.peers() {
        let to = scratch + (peer + 1) as u64 * LEAST_BYTES as u64;
        lane.wire.send(scratch, LEAST_BYTES, peer, stream)?;
        lane.wire.recv(to, LEAST_BYTES, peer, stream)?;
    }
    Ok(())
}

fn gather(lane: &Lane, round: u32) -> Result<(), WireError> {
    match gathered_bytes(lane, round) {
        None => Ok(()),
        Some(bytes) => lane.wire.all_gather(lane.arena.scratch(), bytes, lane.arena.kernels.raw()),
    }
}

/// What each rank contributes in that round: more each time, up to the most that a call will. Depends on
/// this lane alone, since peers may connect it together with other ones.
fn gathered_bytes(lane: &Lane, round: u32) -> Option<usize> {
    let most = lane.largest_packet_bytes();
    let in_round = |round: u32| LEAST_BYTES.saturating_mul(GROWTH.saturating_pow(round));
    let reached_before = round > 0 && in_round(round - 1) >= most;
    (!reached_before).then(|| in_round(round).min(most))
}

fn wait_for(lane: &Lane, keep_waiting: &dyn Fn() -> bool) -> Result<(), FastPathError> {
    let _entered = lane.enter()?;
    while !lane.arena.serial.is_reached()? {
        if !keep_waiting() {
            return Err(FastPathError::Unmet);
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}
