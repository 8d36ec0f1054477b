//! Compressed collectives on a stock NCCL or RCCL: how a call is cut into steps, the scratch memory
//! and events that it uses, and the enqueueing itself. Decides nothing about whether to compress.

pub mod all_reduce;
pub mod arena;
pub mod plan;
pub mod wire;
