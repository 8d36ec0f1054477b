//! The tuner from outside: reports in, plans and records out.

mod any_reports;
mod bench;
mod fits;
mod modes;
mod trials;
mod watching;
mod world;
