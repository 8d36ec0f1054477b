//! How long a step of a cluster would take without and with compression, by a model whose costs come from measurements of
//! `airamp bench`. It owns the model (`model`, `place`), the fit (`benchmark`, `measured`, `fit`, `least_squares`, `slowdown`), how wrong it
//! is (`held_out`, `repeats`, `scatter`), the cluster file (`file`, `cluster`) and the prediction. It reads files without
//! trust, starts nothing and asks no GPU. `airamp plan` calls it and shows what it says.

#![forbid(unsafe_code)]

mod benchmark;
mod cluster;
mod file;
mod fit;
mod foreign;
mod held_out;
mod least_squares;
mod measured;
mod model;
mod numbers;
mod pace;
mod place;
mod predict;
mod repeats;
mod scatter;
mod slowdown;
#[cfg(test)]
mod tests;

pub use benchmark::{text_in, text_of};
pub use cluster::{Cluster, Message};
pub use file::{Among, ClusterFile};
pub use fit::{Fit, Scope};
pub use held_out::{Errors, ErrorsOf, Missed, Spread};
pub use measured::Measured;
pub use model::Parts;
pub use numbers::{shown_size, size, version};
pub use predict::{Compared, OfMessage, Pays, Prediction, Step, Verdict, adapted, gain_at, predict};

/// A cluster file with comments.
pub const EXAMPLE: &str = include_str!("example.toml");
/// Made by `airamp plan --fit tests/bench/h200-*.json --save`; a test holds it to these files.
const SHIPPED_FIT: &str = include_str!("fit-h200.json");
