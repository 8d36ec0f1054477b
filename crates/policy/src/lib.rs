//! Decisions about calls: pure, from facts that every rank of a communicator sees alike, and from the
//! measurements that the ranks report. Never from a stream, a pointer, an alignment, a group, an error or
//! local memory. No clock, no file, no socket: `interposer` brings what is reported and carries out what
//! is decided.

#![forbid(unsafe_code)]

mod believable;
pub mod cache;
mod class;
mod eligibility;
mod entry;
pub mod explain;
pub mod ghosts;
mod in_words;
mod ledger;
mod report;
pub mod rhythm;
mod tuner;

pub use class::{Class, PLACES};
pub use eligibility::{AllReduce, Element, PassedOn, Reduction, Rules, eligible};
pub use entry::{Entry, PLAN_BYTES, Plan, VARIANTS};
pub use explain::Record;
pub use in_words::in_words;
pub use ledger::{TRIALS, TrialLedger};
pub use report::{LONGEST_REPORT, Report, ReportKind};
pub use tuner::{Mode, Order, Tuner, TunerConfig};
