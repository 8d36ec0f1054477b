//! The ways in which a communicator ends: in peace, by order, or by force from any thread.

use std::sync::Arc;
use std::time::Duration;

use airamp_vendor_abi::nccl::Comm;

use super::health::Phase;
use super::{Communicator, registry};
use crate::nccl::error::{NcclError, Outcome, announce};
use crate::nccl::execute::header::{HEADER_BYTES, Header};
use crate::nccl::net::link::Progress;

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
    if flush(&comm).is_ok() && comm.health.interruption().is_ok() {
        name_unread_messages(&comm);
    }
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
    comm.graphs.outlive();
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

/// What a peer has sent and nobody has received would vanish without a word.
fn name_unread_messages(comm: &Communicator) {
    let Ok(own) = comm.membership() else {
        return;
    };
    let mut links: Vec<_> = comm.links().from.iter().map(|(peer, link)| (*peer, link.clone())).collect();
    links.sort_by_key(|(peer, _)| *peer);
    for (peer, link) in links {
        let mut head = [0; HEADER_BYTES];
        if let Ok(Progress::Bytes(_)) = link.read(&mut head) {
            let message = Header::decode(&head).map_or("something".into(), |header| header.describe());
            let rank = own.rank;
            announce(&format!(
                "{message} of rank {peer} was never received: rank {rank} destroys the communicator"
            ));
        }
    }
}

fn flush(comm: &Arc<Communicator>) -> Outcome {
    let drained = comm.turns.drain(|| comm.health.interruption());
    comm.graphs.outlive();
    drained
}
