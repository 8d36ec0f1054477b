//! Emulated NCCL.
