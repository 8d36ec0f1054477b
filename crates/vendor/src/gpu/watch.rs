//! What NVML says of a device that stands against giving it work of our own: it is throttled, or at
//! work nearly all the time, or other processes use it too. Opens NVML itself, changes nothing, and where there is none it knows nothing. Called by whoever keeps a
//! device awake, on a thread of its own: an answer can take a while.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::ptr;

use super::Library;

const SUCCESS: c_int = 0;
const INSUFFICIENT_SIZE: c_int = 7;
/// Power cap by software, slow-down by hardware, heat seen by software and by hardware, and the power brake.
const THROTTLED: c_ulonglong = 0x4 | 0x8 | 0x20 | 0x40 | 0x80;

type Init = unsafe extern "C" fn() -> c_int;
type HandleByUuid = unsafe extern "C" fn(*const c_char, *mut *mut c_void) -> c_int;
type Reasons = unsafe extern "C" fn(*mut c_void, *mut c_ulonglong) -> c_int;
type Utilisation = unsafe extern "C" fn(*mut c_void, *mut Used) -> c_int;
type Processes = unsafe extern "C" fn(*mut c_void, *mut c_uint, *mut c_void) -> c_int;

/// Hundredths of the last sample period in which the device computed, and in which its memory was read or written.
#[repr(C)]
#[derive(Default)]
struct Used {
    device: c_uint,
    memory: c_uint,
}

/// A device that computes so much of its time, in hundredths, needs nobody to keep it awake.
const AT_WORK: c_uint = 90;

/// Why a device should be left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hindrance {
    /// It has reached its limit of power or heat: the bits of NVML's reasons.
    Throttled(u64),
    /// It computes nearly all the time.
    AtWork,
    /// Other processes compute on it.
    Shared,
}

/// One device, as NVML sees it.
pub struct Watch {
    device: *mut c_void,
    reasons: Option<Reasons>,
    utilisation: Option<Utilisation>,
    processes: Option<Processes>,
}

// SAFETY: NVML's handles are names that it takes on any thread.
unsafe impl Send for Watch {}

impl Watch {
    /// The device with that UUID; `None` where NVML is not there or does not know it.
    pub fn open(uuid: [u8; 16]) -> Option<Self> {
        let library = Library::open("libnvidia-ml.so.1").ok()?;
        let name = CString::new(name_of(uuid)).ok()?;
        let mut device = ptr::null_mut();
        // SAFETY: NVML's header gives the functions of these names these signatures; the name ends in a NUL, and the
        // handle is written.
        let found = unsafe {
            let init = function::<Init>(&library, c"nvmlInit_v2")?;
            let by_uuid = function::<HandleByUuid>(&library, c"nvmlDeviceGetHandleByUUID")?;
            init() == SUCCESS && by_uuid(name.as_ptr(), &mut device) == SUCCESS
        };
        // SAFETY: as above.
        let (reasons, utilisation, processes) = unsafe {
            let reasons = function(&library, c"nvmlDeviceGetCurrentClocksThrottleReasons");
            let processes = function(&library, c"nvmlDeviceGetComputeRunningProcesses_v3");
            let utilisation = function(&library, c"nvmlDeviceGetUtilizationRates");
            (reasons, utilisation, processes)
        };
        found.then_some(Self { device, reasons, utilisation, processes })
    }

    pub fn hindrance(&self) -> Option<Hindrance> {
        let reasons = self.throttled_by();
        if reasons != 0 {
            return Some(Hindrance::Throttled(reasons));
        }
        if self.used() >= AT_WORK {
            return Some(Hindrance::AtWork);
        }
        (self.computing()? > 1).then_some(Hindrance::Shared)
    }

    fn throttled_by(&self) -> u64 {
        let mut reasons = 0;
        // SAFETY: the handle is NVML's own, and one word is written.
        let answered = self.reasons.is_some_and(|ask| unsafe { ask(self.device, &mut reasons) } == SUCCESS);
        if answered { reasons & THROTTLED } else { 0 }
    }

    fn used(&self) -> c_uint {
        let mut used = Used::default();
        // SAFETY: as above; NVML's structure is these two words.
        let answered = self.utilisation.is_some_and(|ask| unsafe { ask(self.device, &mut used) } == SUCCESS);
        if answered { used.device } else { 0 }
    }

    /// How many processes compute on the device, this one among them.
    fn computing(&self) -> Option<u32> {
        let mut count = 0;
        // SAFETY: as above; with room for none, only their number is written.
        let answer = unsafe { (self.processes?)(self.device, &mut count, ptr::null_mut()) };
        matches!(answer, SUCCESS | INSUFFICIENT_SIZE).then_some(count)
    }
}

/// # Safety
/// The library's function of that name, if there is one, has the type `F`.
unsafe fn function<F: Copy>(library: &Library, name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*const c_void>()) };
    let address = library.symbol(name)?;
    // SAFETY: the caller vouches for the type, and a null address was ruled out.
    Some(unsafe { std::mem::transmute_copy::<*const c_void, F>(&address) })
}

fn name_of(uuid: [u8; 16]) -> String {
    let hex: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("GPU-{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_named_as_nvml_names_it() {
        let uuid = std::array::from_fn(|index| index as u8 * 16);
        assert_eq!(name_of(uuid), "GPU-00102030-4050-6070-8090-a0b0c0d0e0f0");
    }

    #[test]
    fn without_nvml_nothing_is_known() {
        assert!(Library::mapped("libnvidia-ml.so.1").is_some() || Watch::open([0; 16]).is_none());
    }
}
