//! The driver library with its table, and what CUDA and HIP do differently: making a
//! device current, and naming its architecture. Owns the module's error type.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use airamp_vendor_abi::cuda::{
    ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, CudaError, Device,
};

use super::raw::{self, ErrorString, Table};
use super::{Kind, Library};

/// Why a GPU call could not be made, or failed.
#[derive(Debug, thiserror::Error)]
pub enum GpuError {
    #[error("no GPU driver library: {0}")]
    NoLibrary(String),
    #[error("{library} has no function {function}")]
    MissingFunction { library: String, function: &'static str },
    #[error("{function} failed: error {code} ({text})")]
    Call { function: &'static str, code: i32, text: String },
    #[error("{0} bytes at offset {1} lie outside a buffer of {2} bytes")]
    OutOfBounds(usize, usize, usize),
    #[error("the driver does not tell the architecture of device {0}")]
    UnknownArchitecture(i32),
}

/// One opened driver library. The calls themselves are generated in `raw`.
pub(super) struct Driver {
    kind: Kind,
    table: Table,
    error_string: Option<ErrorString>,
    path: String,
}

impl Driver {
    pub(super) fn open(kind: Kind) -> Result<Self, GpuError> {
        let mut refusals = Vec::new();
        for name in kind.driver_libraries() {
            match Library::mapped(name).map_or_else(|| Library::open(name), Ok) {
                Ok(library) => return Ok(Self::of(&library, kind)),
                Err(refusal) => refusals.push(refusal),
            }
        }
        Err(GpuError::NoLibrary(refusals.join("; ")))
    }

    fn of(library: &Library, kind: Kind) -> Self {
        let landmark = match kind {
            Kind::Cuda => c"cuInit",
            Kind::Hip => c"hipInit",
        };
        Self {
            kind,
            table: Table::load(library, kind),
            error_string: raw::error_string(library, kind),
            path: library.path_of(landmark),
        }
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    pub(super) fn table(&self) -> &Table {
        &self.table
    }

    pub(super) fn library(&self) -> &str {
        &self.path
    }

    pub(super) fn missing(&self, function: &'static str) -> GpuError {
        GpuError::MissingFunction { library: self.path.clone(), function }
    }

    pub(super) fn checked(&self, function: &'static str, code: CudaError) -> Result<(), GpuError> {
        if code == CudaError::SUCCESS {
            return Ok(());
        }
        Err(GpuError::Call { function, code: code.0, text: self.text_of(code) })
    }

    fn text_of(&self, code: CudaError) -> String {
        let mut text: *const c_char = ptr::null();
        let Some(error_string) = self.error_string else { return "no text".into() };
        // SAFETY: the function stores NULL or a static terminated string.
        unsafe {
            if error_string(code, &raw mut text) != CudaError::SUCCESS || text.is_null() {
                return "no text".into();
            }
            CStr::from_ptr(text).to_string_lossy().into_owned()
        }
    }

    pub(super) fn make_current(&self, ordinal: i32) -> Result<(), GpuError> {
        match self.kind {
            Kind::Hip => self.set_current_device(ordinal),
            Kind::Cuda => {
                let mut context = ptr::null_mut();
                self.primary_context_retain(&mut context, self.device(ordinal)?)?;
                self.set_current_context(context)
            }
        }
    }

    fn device(&self, ordinal: i32) -> Result<Device, GpuError> {
        let mut device = 0;
        self.device_get(&mut device, ordinal)?;
        Ok(device)
    }

    pub(super) fn device_name_of(&self, ordinal: i32) -> Result<String, GpuError> {
        let mut name = [0u8; 256];
        let length = name.len() as c_int;
        self.device_name(name.as_mut_ptr().cast(), length, self.device(ordinal)?)?;
        Ok(text_before_nul(&name))
    }

    pub(super) fn architecture_of(&self, ordinal: i32) -> Result<String, GpuError> {
        let device = self.device(ordinal)?;
        match self.kind {
            Kind::Cuda => {
                let (mut major, mut minor) = (0, 0);
                self.device_attribute(&mut major, ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device)?;
                self.device_attribute(&mut minor, ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device)?;
                Ok(format!("sm_{major}{minor}"))
            }
            Kind::Hip => self.gcn_architecture(device, ordinal),
        }
    }

    /// The place of `gcnArchName` in HIP's property structure moved between releases,
    /// so its text is looked for in the whole of it.
    fn gcn_architecture(&self, device: Device, ordinal: i32) -> Result<String, GpuError> {
        // Larger than the structure of any release (1,472 bytes in 6.0).
        let mut properties = vec![0u8; 8192];
        let address: *mut c_void = properties.as_mut_ptr().cast();
        if self.table.device_properties.is_some() {
            self.device_properties(address, device)?;
        } else {
            self.device_properties_before_6(address, device)?;
        }
        architecture_in(&properties).ok_or(GpuError::UnknownArchitecture(ordinal))
    }
}

fn text_before_nul(bytes: &[u8]) -> String {
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

/// `gfx` and what follows it up to the feature list (`gfx942:sramecc+:xnack-`).
fn architecture_in(properties: &[u8]) -> Option<String> {
    let start =
        properties.windows(4).position(|window| window.starts_with(b"gfx") && window[3].is_ascii_digit())?;
    let name = properties[start..].split(|byte| !byte.is_ascii_alphanumeric()).next()?;
    Some(String::from_utf8_lossy(name).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_architecture_is_found_wherever_the_structure_keeps_it() {
        let mut properties = vec![0u8; 2000];
        properties[1160..1182].copy_from_slice(b"gfx942:sramecc+:xnack-");
        assert_eq!(architecture_in(&properties).as_deref(), Some("gfx942"));
        assert_eq!(architecture_in(b"AMD gfx without a number"), None);
    }
}
