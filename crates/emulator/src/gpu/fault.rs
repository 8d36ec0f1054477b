//! What goes wrong: a code for the caller and a sentence for whoever reads the log.

use std::io::Write as _;

use airamp_vendor_abi::cuda::CudaError;

/// What most functions of the device return.
pub type Answer<T> = Result<T, CudaError>;

/// An error that knows its cause. From a running operation it becomes the device's
/// sticky error, as on a GPU.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    pub code: CudaError,
    pub message: String,
}

impl Fault {
    pub fn new(code: CudaError, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// An access that a GPU would answer with an illegal address.
    pub fn address(message: impl Into<String>) -> Self {
        Self::new(CudaError::ILLEGAL_ADDRESS, message)
    }

    /// Tells the user and leaves the code, for a caller that can only return that.
    pub fn told(self) -> CudaError {
        report(&self.message);
        self.code
    }
}

/// One line on stderr, as every fault of the application gets. One write, so that the
/// lines of several ranks do not run into each other.
pub fn report(message: &str) {
    let line = format!("airamp emulator: {message}\n");
    // Whoever has closed stderr does not want to know.
    let _ = std::io::stderr().write_all(line.as_bytes());
}
