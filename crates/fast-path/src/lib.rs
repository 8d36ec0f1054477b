//! Compressed AllReduce on a stock NCCL or RCCL: how a call is cut into steps, all that a
//! communicator needs for it on this rank, and the enqueueing itself. Decides nothing about whether to
//! compress. Called by the interposer, and by the rank program to measure it alone.

mod arena;
mod captures;
mod connect;
mod cursor;
mod dry_run;
mod enqueue;
mod error;
mod exchange;
mod first_launches;
mod lane;
mod layout;
mod measurement;
mod memo;
mod order;
mod plan;
mod ranks;
mod sample;
mod shape;
mod steps;
mod tag;
mod three_shot;
mod wire;

pub use enqueue::{Call, MOST_LANES, Post, enqueue, meet};
pub use error::FastPathError;
pub use lane::{Lane, LaneParts};
pub use measurement::{Finished, MEASUREMENTS, UNMEASURED};
pub use plan::{MOST_STEPS, Plan, Unsuitable, least_arena_bytes};
pub use ranks::Ranks;
pub use shape::{Algorithm, SHAPES_VERSION, Shape};
pub use tag::CAPTURED;
pub use wire::WireError;
