//! A chain: operations that run one after the other whatever streams they are on, because
//! something beside the streams orders them (the turns of a communicator, for one).
//!
//! Whoever orders them keeps one [`Chain`] and passes it to [`super::stream::submit_in`]
//! in place of `submit`. Each operation is then known to come after all earlier ones
//! of the chain and before all later ones, in the order in which their `prepare` ran, which
//! happens under the chain's lock. Only the knowledge is here, for the detection of races:
//! making it true stays with the owner of the chain.

use std::sync::{Arc, Mutex, MutexGuard};

use super::clock::Clock;
use super::completion::lock;

#[derive(Clone, Default)]
pub struct Chain(Arc<Mutex<Clock>>);

impl Chain {
    /// The order up to the operation that was prepared last; held while the next one is.
    pub(super) fn hold(&self) -> MutexGuard<'_, Clock> {
        lock(&self.0)
    }
}

impl std::fmt::Debug for Chain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Chain")
    }
}
