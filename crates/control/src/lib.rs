//! How the ranks of a communicator reach each other, and the thread that speaks for this process.
//!
//! The process that makes an id listens, and writes where into the id's unused bytes ([`Trailer`]). Each rank takes a
//! [`Seat`] at the communicator's table; one background thread per process carries the messages, keeps the time and
//! drives the machines of `airamp-agreement`. It makes no GPU or NCCL call, and sleeps while nothing happens.

mod brain;
mod control;
mod descriptors;
mod hub;
mod listening;
mod mailbox;
mod options;
pub mod orders;
mod process;
mod reports;
mod seat;
mod timers;
mod trailer;
pub mod wire;

pub use brain::Brain;
pub use control::without_signals;
pub use hub::Hub;
pub use options::{Cut, GRACE, Log, Options, Timeouts};
pub use process::abandon_in_child;
pub use seat::{Invitation, Seat};
pub use trailer::{ID_BYTES, Trailer, address_in_id, every_rank_makes_this_id};
