//! The claims of docs/wire-format.md, held against the reference and against the fast implementation.

mod accuracy;
mod float8;
mod implementations;
mod non_finite;
mod reduction;
mod round_trip;
mod samples;
mod tags;
mod vectors;
mod writing;
