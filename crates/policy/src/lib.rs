//! Decisions about calls: pure, from facts that every rank of a communicator sees alike. Never from a
//! stream, a pointer, an alignment, a group, an error or local memory.

#![forbid(unsafe_code)]

mod eligibility;

pub use eligibility::{AllReduce, Element, PassedOn, Reduction, Rules, eligible};
