//! A GPU and an NCCL on the CPU, with the properties that make the real ones hard.
//!
//! [`gpu`] is the device: memory that the host cannot touch, streams as real queues,
//! events, graphs, modules. [`nccl`] is the library on top of it, over TCP. The C names
//! of CUDA and HIP live in the two sibling crates that link this one; those of NCCL
//! are exported from here. [`c_interface`] is what the sibling crates share; [`environment`] is the one table of what can be set.

pub mod c_interface;
pub mod environment;
pub mod gpu;
pub mod nccl;
