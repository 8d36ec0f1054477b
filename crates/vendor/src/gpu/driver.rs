//! The driver library with its table, and what CUDA and HIP do differently: making a
//! device current, and naming its architecture. Owns the module's error type.

use std::borrow::Cow;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use airamp_vendor_abi::cuda::{
    ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, ATTRIBUTE_MULTIPROCESSOR_COUNT,
    CudaError, Device, DevicePtr,
};

use super::raw::{self, ErrorString, IsCapturing, Table};
use super::{Kind, Library};

/// `hipDeviceAttributeMultiprocessorCount`.
const HIP_MULTIPROCESSOR_COUNT: c_int = 63;
/// `CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL`, and HIP's.
const POINTER_DEVICE_ORDINAL: c_int = 9;

/// Why a GPU call could not be made, or failed.
#[derive(Debug, thiserror::Error)]
pub enum GpuError {
    #[error("no GPU driver library: {0}")]
    NoLibrary(String),
    #[error("{library} has no function {function}")]
    MissingFunction { library: String, function: &'static str },
    #[error("{function} failed: error {code} ({text})")]
    Call { function: &'static str, code: i32, text: Cow<'static, str> },
    #[error("{0} bytes at offset {1} lie outside a buffer of {2} bytes")]
    OutOfBounds(usize, usize, usize),
    #[error("the driver does not tell the architecture of device {0}")]
    UnknownArchitecture(i32),
}

impl GpuError {
    /// Whether the device had no memory left. Both drivers have the same number for it.
    pub fn is_out_of_memory(&self) -> bool {
        matches!(self, Self::Call { code, .. } if *code == CudaError::OUT_OF_MEMORY.0)
    }
}

/// One opened driver library. The calls themselves are generated in `raw`.
pub(super) struct Driver {
    kind: Kind,
    table: Table,
    error_string: Option<ErrorString>,
    pub(super) is_capturing: Option<IsCapturing>,
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

    /// The library as the process has it mapped, and no other.
    pub(super) fn attach(kind: Kind) -> Result<Self, GpuError> {
        let mapped = kind.driver_libraries().iter().find_map(|name| Library::mapped(name));
        let not_mapped = || {
            let names = kind.driver_libraries().join(", ");
            GpuError::NoLibrary(format!("this process has not loaded any of {names}"))
        };
        mapped.map(|library| Self::of(&library, kind)).ok_or_else(not_mapped)
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
            is_capturing: raw::is_capturing(library, kind),
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

    /// Borrowed: a call that fails often, such as asking an event, allocates nothing.
    fn text_of(&self, code: CudaError) -> Cow<'static, str> {
        let mut text: *const c_char = ptr::null();
        let Some(error_string) = self.error_string else { return "no text".into() };
        // SAFETY: the function stores NULL or a terminated string that is part of the library,
        // which is never closed.
        unsafe {
            if error_string(code, &raw mut text) != CudaError::SUCCESS || text.is_null() {
                return "no text".into();
            }
            CStr::from_ptr(text).to_string_lossy()
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

    pub(super) fn device(&self, ordinal: i32) -> Result<Device, GpuError> {
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

    pub(super) fn uuid_of(&self, ordinal: i32) -> Result<[u8; 16], GpuError> {
        let (mut uuid, device) = ([0; 16], self.device(ordinal)?);
        if self.table.device_uuid.is_some() {
            self.device_uuid(&mut uuid, device)?;
        } else {
            self.device_uuid_before_11_4(&mut uuid, device)?;
        }
        Ok(uuid)
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

    pub(super) fn multiprocessors_of(&self, ordinal: i32) -> Result<u32, GpuError> {
        let attribute = match self.kind {
            Kind::Cuda => ATTRIBUTE_MULTIPROCESSOR_COUNT,
            Kind::Hip => HIP_MULTIPROCESSOR_COUNT,
        };
        let mut count = 0;
        self.device_attribute(&mut count, attribute, self.device(ordinal)?)?;
        Ok(count.max(1) as u32)
    }

    pub(super) fn device_of(&self, address: DevicePtr) -> Result<Option<i32>, GpuError> {
        let mut ordinal: c_int = -1;
        match self.pointer_attribute((&raw mut ordinal).cast(), POINTER_DEVICE_ORDINAL, address) {
            Err(GpuError::Call { code, .. }) if code == CudaError::INVALID_VALUE.0 => Ok(None),
            asked => asked.map(|()| (ordinal >= 0).then_some(ordinal)),
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
