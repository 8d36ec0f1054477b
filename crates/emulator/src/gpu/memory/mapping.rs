//! The pages of a device: a range of addresses without any access for the application,
//! and a second, writable view of a sparse memory file for the emulator.

use std::sync::OnceLock;

use airamp_vendor_abi::cuda::CudaError;

use crate::environment;
use crate::gpu::{Answer, process, report};

/// Room for this many times the device's memory, so that addresses are rarely reused.
const GENERATIONS: u64 = 64;
const LEAST: u64 = 1 << 32;
const MOST: u64 = 1 << 41;

/// The addresses of all devices, reserved as one piece at the first allocation.
static WINDOW: OnceLock<Option<Window>> = OnceLock::new();

struct Window {
    base: u64,
    stride: u64,
    devices: u64,
}

/// Whose range `ptr` lies in.
pub(super) fn ordinal_of(ptr: u64) -> Option<i32> {
    let window = WINDOW.get()?.as_ref()?;
    let index = ptr.checked_sub(window.base)? / window.stride;
    (index < window.devices).then_some(index as i32)
}

/// The pages of one device.
pub(super) struct Mapping {
    pub(super) start: u64,
    pub(super) end: u64,
    alias: *mut u8,
    file: libc::c_int,
}

// SAFETY: the view is plain memory that stays mapped for the life of the process; who
// may use which bytes is the business of the allocations.
unsafe impl Send for Mapping {}

impl Mapping {
    pub(super) fn new(ordinal: i32) -> Answer<Self> {
        let window = WINDOW.get_or_init(reserve_window).as_ref();
        let window = window.ok_or(CudaError::OUT_OF_MEMORY)?;
        let start = window.base + ordinal as u64 * window.stride;
        let (alias, file) = writable_view(window.stride).ok_or(CudaError::OUT_OF_MEMORY)?;
        let end = start + window.stride;
        Ok(Self { start, end, alias, file })
    }

    /// The writable byte behind a device address of this mapping.
    pub(super) fn bytes(&self, ptr: u64) -> *mut u8 {
        debug_assert!((self.start..self.end).contains(&ptr));
        self.alias.wrapping_add((ptr - self.start) as usize)
    }

    /// Gives the pages of a range back to the system.
    pub(super) fn discard(&self, ptr: u64, len: u64) {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        let offset = (ptr - self.start) as libc::off_t;
        // SAFETY: acts on our own file; the range is one that was just freed.
        unsafe { libc::fallocate(self.file, mode, offset, len as libc::off_t) };
    }
}

fn reserve_window() -> Option<Window> {
    let memory = environment::number("AIRAMP_EMU_MEMORY_BYTES");
    let stride = memory.saturating_mul(GENERATIONS).clamp(LEAST, MOST);
    let stride = stride.max(memory).next_multiple_of(1 << 21);
    let devices = process::init().ok()?.len() as u64;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let len = stride.checked_mul(devices)?;
    let base = map(len, libc::PROT_NONE, flags, -1).or_else(|| refused(len, "all devices"))?;
    Some(Window { base: base as u64, stride, devices })
}

fn writable_view(len: u64) -> Option<(*mut u8, libc::c_int)> {
    // SAFETY: the name is a C string; the file is ours alone.
    let file = unsafe { libc::memfd_create(c"airamp-emulated-gpu".as_ptr(), libc::MFD_CLOEXEC) };
    // SAFETY: sets the length of the file that was just made.
    if file < 0 || unsafe { libc::ftruncate(file, len as libc::off_t) } != 0 {
        return refused(len, "the memory file of a device");
    }
    let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
    let view = map(len, libc::PROT_READ | libc::PROT_WRITE, flags, file);
    let view = view.or_else(|| refused(len, "a device"))?;
    for advice in [libc::MADV_DONTFORK, libc::MADV_DONTDUMP] {
        // SAFETY: keeps a forked child from writing into its parent's device, and a core
        // dump from walking through all of it.
        unsafe { libc::madvise(view.cast(), len as usize, advice) };
    }
    Some((view, file))
}

/// Names what an allocation then fails for, by the last error of the system.
fn refused<T>(len: u64, whose: &str) -> Option<T> {
    let error = std::io::Error::last_os_error();
    report(&format!(
        "{len} bytes of addresses for {whose} cannot be reserved: {error}; a limit on them (ulimit -v) must go, or AIRAMP_EMU_DEVICES and AIRAMP_EMU_MEMORY_BYTES be lower"
    ));
    None
}

fn map(len: u64, access: i32, flags: i32, file: libc::c_int) -> Option<*mut u8> {
    // SAFETY: a new mapping at an address of the kernel's choice touches no other one.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), len as usize, access, flags, file, 0) };
    (at != libc::MAP_FAILED).then_some(at.cast())
}
