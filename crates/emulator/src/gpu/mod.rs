//! The emulated device: memory, streams, events, graphs, modules and kernels.
//!
//! Everything here is plain Rust over handles and addresses; the C names of CUDA and HIP
//! are thin shells in sibling crates, and the emulated NCCL submits its work through
//! [`stream::submit`]. Nothing starts a thread or reserves memory before the first
//! call, and a child of fork gets errors instead of a device.

pub mod attributes;
pub mod capture;
mod chain;
mod clock;
mod completion;
pub mod context;
pub mod copy;
pub mod device;
pub mod error_text;
pub mod event;
mod fault;
pub mod graph;
mod handles;
pub mod host_memory;
pub mod kernels;
pub mod memory;
pub mod module;
mod order;
pub mod pointers;
pub mod process;
mod queue;
mod races;
pub mod replay;
mod slumber;
pub mod stream;
pub mod user_object;
mod work;

pub use chain::Chain;
pub use context::{current_device, set_current};
pub use fault::{Answer, Fault, report};
pub use work::{Operation, Run, Touch};
