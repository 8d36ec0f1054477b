//! What can stop a rank, or a case of it.

use airamp_vendor::gpu::GpuError;

/// The exit status of a rank that could not do its work; 1 is for a wrong result.
pub(crate) const FAILED: u8 = 3;

#[derive(Debug, thiserror::Error)]
pub(crate) enum RankError {
    #[error(transparent)]
    Gpu(#[from] GpuError),
    #[error("no NCCL library: {0}")]
    NoNccl(String),
    #[error("this NCCL has no {0}")]
    MissingFunction(&'static str),
    #[error("{function} returned {code} ({text})")]
    Nccl { function: &'static str, code: i32, text: String },
    #[error("{0} is not set, or is no number")]
    Environment(&'static str),
    #[error("meeting the other ranks at {address}: {source}")]
    World { address: String, source: std::io::Error },
    #[error("{0}")]
    Arguments(String),
    #[error("the compressed AllReduce: {0}")]
    Compression(String),
    #[error("{needed} bytes of device memory are needed and {free} are free{advice}")]
    NoRoom { needed: usize, free: usize, advice: &'static str },
    #[error("the ranks are out of step after case {0}: it failed on some of them only")]
    OutOfStep(String),
}

impl RankError {
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Arguments(_) => 2,
            _ => FAILED,
        }
    }

    /// The vendor's return code, where it was the vendor that refused.
    pub(crate) fn nccl_code(&self) -> Option<i32> {
        match self {
            Self::Nccl { code, .. } => Some(*code),
            _ => None,
        }
    }
}
