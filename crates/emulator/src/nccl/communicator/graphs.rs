//! The graphs that hold a communicator's work: while there are any, the vendor does not let it go.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use super::Communicator;
use crate::nccl::lock;

#[derive(Default)]
pub(crate) struct Graphs {
    operations: Mutex<usize>,
    fewer: Condvar,
}

/// An operation that was captured; it goes with the last graph that holds it.
pub(crate) struct Captured(Arc<Communicator>);

impl Captured {
    pub(crate) fn new(comm: &Arc<Communicator>) -> Self {
        *lock(&comm.graphs.operations) += 1;
        Self(comm.clone())
    }
}

impl Drop for Captured {
    fn drop(&mut self) {
        *lock(&self.0.graphs.operations) -= 1;
        self.0.graphs.fewer.notify_all();
    }
}

impl Graphs {
    /// Waits until no graph is left, for ever if need be, as NCCL does in Finalize, Destroy and Abort.
    pub(crate) fn outlive(&self) {
        let waited = self.fewer.wait_while(lock(&self.operations), |operations| *operations > 0);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}
