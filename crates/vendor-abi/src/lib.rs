//! C types and signatures of the vendors' libraries, as their headers give them.
//!
//! Owns no logic and opens nothing: the interposer, the emulator and the rank
//! program all read the same definitions from here. Enumerations that cross the
//! C boundary are transparent integers, since a caller may pass any value.

pub mod cuda;
pub mod hip;
pub mod nccl;
mod nccl_surface;
