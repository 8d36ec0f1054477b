//! Everything between processes: addresses, the process's listener, how a communicator's members
//! find each other, the control ring, and links with a shaped egress.
//!
//! Knows ranks and keys but no collectives. Called by the communicator when it is made and
//! by the launch path when a pair is used for the first time.

pub(super) mod control;
pub(super) mod gathering;
pub(super) mod interfaces;
pub(super) mod link;
pub(super) mod shaping;
pub(super) mod switchboard;
pub(super) mod unique_id;
pub(super) mod wire;
