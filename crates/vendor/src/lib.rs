//! Finds and opens the vendors' real libraries, and shows them as tables of
//! functions in which what is missing is `None`. Decides nothing about a call.

pub mod dl;
mod functions;
pub mod gpu;
pub mod resolve;

pub use functions::Functions;
