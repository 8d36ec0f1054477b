//! The emulated `libcuda.so.1`, `libcudart` and `libnccl.so.2` in one file, so that all
//! three share one device. Only names and C signatures live here; what they do is in
//! `airamp-emulator`, from which the NCCL functions are exported too.

mod driver;
mod entry_points;
mod runtime;

use airamp_emulator::c_interface;
use airamp_emulator::gpu::process::Vendor;

/// Runs when the library is loaded, before any of its functions can be called.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

extern "C" fn at_load() {
    c_interface::loaded_as(Vendor::Nvidia);
}
