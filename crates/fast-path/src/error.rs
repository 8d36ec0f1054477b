//! Why the fast path could not be acquired, or a call could not be enqueued.

use crate::captures::CAPTURES;
use crate::enqueue::MOST_LANES;
use crate::plan::Unsuitable;
use crate::wire::WireError;
use airamp_vendor::gpu::GpuError;

#[derive(Debug, thiserror::Error)]
pub enum FastPathError {
    #[error(transparent)]
    Gpu(#[from] GpuError),
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error(transparent)]
    Unsuitable(#[from] Unsuitable),
    #[error("the plan is not one of this communicator")]
    ForeignPlan,
    #[error("more than {MOST_LANES} communicators in one group")]
    TooManyLanes,
    #[error("the calls of one communicator are not next to each other")]
    Scattered,
    #[error("the communicators belong to different libraries")]
    SeveralVendors,
    #[error("some streams of the group are captured and others are not, or by another capture")]
    MixedCapture,
    #[error("the capture has failed already")]
    InvalidatedCapture,
    #[error("this driver cannot tie a captured call to others")]
    CannotCapture,
    #[error("a dry run cannot be captured")]
    CapturedDryRun,
    #[error("more than {CAPTURES} other captures had calls of the communicator since this one's last")]
    ForgottenCapture,
    #[error("the communicator is ending")]
    Stopped,
    #[error("the peers did not come")]
    Unmet,
}

impl FastPathError {
    /// Whether the call was refused for what the application did with its streams, before anything was
    /// enqueued: then it has had no effect.
    pub fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::MixedCapture | Self::InvalidatedCapture | Self::CapturedDryRun | Self::ForgottenCapture
        )
    }
}
