//! The ways in which a communicator ends: in peace, by order, or by force from any thread.

use std::sync::Arc;
use std::time::Duration;

use airamp_vendor_abi::nccl::Comm;

use super::health::Phase;
use super::{Communicator, registry};
use crate::nccl::error::{NcclError, Outcome};

/// How long Abort and Revoke wait for an operation that they have just interrupted.
const LAST_GASP: Duration = Duration::from_secs(5);

/// Waits for all that was issued; after it the communicator can only be destroyed.
pub(crate) fn finalize(handle: Comm) -> Outcome {
    if handle.is_null() {
        return Ok(());
    }
    let comm = registry::lookup(handle, "ncclCommFinalize")?;
    comm.health.usable()?;
    comm.health.enter(Phase::Finalized);
    if comm.blocking {
        return flush(&comm);
    }
    comm.health.begin_background();
    std::thread::spawn(move || {
        let _ = flush(&comm);
        comm.health.end_background();
    });
    Err(NcclError::InProgress)
}

pub(crate) fn destroy(handle: Comm) -> Outcome {
    if handle.is_null() {
        return Ok(());
    }
    let comm = registry::lookup(handle, "ncclCommDestroy")?;
    comm.health.settle();
    // What went wrong was told before; the communicator goes all the same.
    let _ = flush(&comm);
    let comm = registry::remove(handle, "ncclCommDestroy")?;
    comm.health.enter(Phase::Destroyed);
    if let Some(control) = comm.control() {
        control.farewell();
    }
    comm.close_data_links();
    Ok(())
}

/// Wakes whatever waits on the communicator and frees it. The other ranks see a lost peer.
pub(crate) fn abort(handle: Comm) -> Outcome {
    if handle.is_null() {
        return Ok(());
    }
    let comm = registry::remove(handle, "ncclCommAbort")?;
    comm.health.enter(Phase::Aborted);
    if let Some(control) = comm.control() {
        control.close();
    }
    comm.close_data_links();
    comm.turns.quiesce(LAST_GASP);
    Ok(())
}

/// Stops what is in flight and keeps the communicator as a parent for others.
pub(crate) fn revoke(handle: Comm, flags: i32) -> Outcome {
    if handle.is_null() {
        return Ok(());
    }
    let comm = registry::lookup(handle, "ncclCommRevoke")?;
    if flags != 0 {
        return Err(NcclError::InvalidArgument(format!("ncclCommRevoke knows no flags {flags:#x}")));
    }
    if !matches!(comm.health.phase(), Phase::Ready) {
        return Err(NcclError::InvalidArgument("the communicator cannot be revoked any more".into()));
    }
    interrupt(&comm);
    Ok(())
}

/// Ends the operations in flight, as Revoke and a shrink with the abort flag do.
pub(crate) fn interrupt(comm: &Communicator) {
    comm.health.enter(Phase::Revoked);
    comm.close_data_links();
    comm.turns.quiesce(LAST_GASP);
}

fn flush(comm: &Arc<Communicator>) -> Outcome {
    comm.turns.drain(|| comm.health.interruption())
}
