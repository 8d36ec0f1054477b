//! Counters of this node's GPUs and network interfaces, for airampd and `airamp dump`. Owns every question to NVML,
//! sysfs and procfs; knows nothing of jobs and makes no GPU call that needs a context. Nothing here fails: what a
//! machine does not have is an empty list with a reason, and a question that is not answered is `None` in its field.
//! A driver that hangs holds up its own thread and nobody else: a reading says how old it is.

mod amd;
mod desk;
mod file;
mod interfaces;
mod nics;
mod nvidia;
mod nvidia_fields;
mod rdma;
mod reading;
mod tcp;
mod watch;

pub use nvidia::THROTTLE_REASONS;
pub use rdma::COUNTERS as RDMA_COUNTERS;
pub use reading::{Device, Maker, Nic, RdmaCounter, RdmaPort, Reading, Tcp, Word};
pub use watch::{Machine, Options, Roots};
