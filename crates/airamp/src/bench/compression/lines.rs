//! What `airamp-rank bench` prints, line by line.

use serde::{Deserialize, Serialize};

#[derive(Debug, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum Line {
    Plan(Environment),
    Progress { done: usize, tensors: usize, datatype: String, bytes: usize },
    Result(Measurement),
    NotOffered { datatype: String, bytes: usize, contender: String, reason: String },
    Done {},
}

/// What the ranks ran on.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Environment {
    pub(super) vendor: String,
    pub(super) library: String,
    pub(super) version: i32,
    pub(super) device: String,
    pub(super) architecture: String,
    pub(super) driver_version: Option<i32>,
    /// The code object that ours ran.
    pub(super) kernels: String,
}

/// One rank's part of one line of the table.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Measurement {
    pub(super) datatype: String,
    pub(super) bytes: usize,
    pub(super) contender: String,
    pub(super) wire_bytes_per_element: f64,
    /// None for the vendor's.
    pub(super) steps: Option<usize>,
    pub(super) added_bytes: Option<usize>,
    pub(super) times_us: Vec<f64>,
    /// None where the result holds something that is not finite.
    pub(super) vnmse: Option<f64>,
    pub(super) worst: Option<f64>,
    pub(super) digest: String,
}
