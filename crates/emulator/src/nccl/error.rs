//! Why a call failed, and the one place where that becomes an `ncclResult_t`.
//!
//! Owns the text behind `ncclGetLastError`, which is kept per thread. Nothing is printed here
//! unless a caller asks for it: only application bugs and lost peers earn a line on stderr.

use std::cell::RefCell;
use std::ffi::{CStr, CString};
use std::mem::ManuallyDrop;

use airamp_vendor_abi::nccl::NcclResult;

/// A failed call. The variant is the result code, the text says what was wrong.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum NcclError {
    #[error("{0}")]
    InvalidArgument(String),
    #[error("{0}")]
    InvalidUsage(String),
    #[error("{0}")]
    System(String),
    #[error("{0}")]
    Remote(String),
    #[error("{0}")]
    Internal(String),
    #[error("{0}")]
    Device(String),
    /// A non-blocking communicator goes on in the background.
    #[error("the operation is still in progress")]
    InProgress,
    /// An exported function that this one called has failed, and has left its text.
    #[error("the call failed with result {0}")]
    Passed(i32),
    /// A fault variable asked for this code.
    #[error("AIRAMP_EMU_FAIL_CALL asked for result {0}")]
    Injected(i32),
}

pub(crate) type Outcome<T = ()> = Result<T, NcclError>;

impl NcclError {
    pub(crate) fn result(&self) -> NcclResult {
        match self {
            Self::InvalidArgument(_) => NcclResult::INVALID_ARGUMENT,
            Self::InvalidUsage(_) => NcclResult::INVALID_USAGE,
            Self::System(_) => NcclResult::SYSTEM_ERROR,
            Self::Remote(_) => NcclResult::REMOTE_ERROR,
            Self::Internal(_) => NcclResult::INTERNAL_ERROR,
            Self::Device(_) => NcclResult::UNHANDLED_CUDA_ERROR,
            Self::InProgress => NcclResult::IN_PROGRESS,
            Self::Passed(code) | Self::Injected(code) => NcclResult(*code),
        }
    }

    /// The error that a result code and a text from another rank stand for.
    pub(crate) fn from_wire(code: u32, text: String) -> Self {
        match NcclResult(code as i32) {
            NcclResult::INVALID_ARGUMENT => Self::InvalidArgument(text),
            NcclResult::INVALID_USAGE => Self::InvalidUsage(text),
            NcclResult::SYSTEM_ERROR => Self::System(text),
            NcclResult::REMOTE_ERROR => Self::Remote(text),
            NcclResult::UNHANDLED_CUDA_ERROR => Self::Device(text),
            _ => Self::Internal(text),
        }
    }

    /// What an exported function that was called from inside has answered.
    pub(crate) fn passed(result: NcclResult) -> Outcome {
        match result {
            NcclResult::SUCCESS => Ok(()),
            other => Err(Self::Passed(other.0)),
        }
    }

    pub(crate) fn null(what: &str) -> Self {
        Self::InvalidArgument(format!("{what} is NULL"))
    }
}

thread_local! {
    /// Never dropped: destructors of other thread-locals, and exit handlers, may still fail a call.
    static LAST: RefCell<ManuallyDrop<CString>> = RefCell::default();
}

/// Remembers the error for `ncclGetLastError` and gives its result code.
pub(crate) fn finish(outcome: Outcome) -> NcclResult {
    let Err(error) = outcome else {
        return NcclResult::SUCCESS;
    };
    if !matches!(error, NcclError::InProgress | NcclError::Passed(_)) {
        let text = CString::new(error.to_string().replace('\0', " ")).unwrap_or_default();
        LAST.with(|last| **last.borrow_mut() = text);
    }
    error.result()
}

/// The text of this thread's last error; it lives until the next failed call of the thread.
pub(crate) fn last() -> *const std::ffi::c_char {
    LAST.with(|last| last.borrow().as_ptr())
}

/// Names an application bug or a lost peer where the user looks first.
pub(crate) fn announce(message: &str) {
    crate::gpu::report(message);
}

/// What `ncclGetErrorString` answers. The texts are part of the emulator's interface.
pub(crate) fn describe(result: NcclResult) -> &'static CStr {
    match result {
        NcclResult::SUCCESS => c"no error",
        NcclResult::UNHANDLED_CUDA_ERROR => c"a call to the GPU runtime failed",
        NcclResult::SYSTEM_ERROR => c"a call to the operating system failed",
        NcclResult::INTERNAL_ERROR => c"the library failed inside, or the communicator was aborted",
        NcclResult::INVALID_ARGUMENT => c"an argument has a value that is not allowed",
        NcclResult::INVALID_USAGE => c"the call is not allowed here, or the ranks disagree",
        NcclResult::REMOTE_ERROR => c"a remote process ended or its connection was lost",
        NcclResult::IN_PROGRESS => c"the operation is still in progress",
        NcclResult::TIMEOUT => c"the operation took too long",
        _ => c"unknown result code",
    }
}
