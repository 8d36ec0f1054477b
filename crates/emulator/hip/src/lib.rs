//! The emulated `libamdhip64.so` and `librccl.so.1` in one file, so that both share one
//! device. Only names and C signatures live here; what they do is in
//! `airamp-emulator`, from which the NCCL functions are exported too.

mod exports;

use airamp_emulator::c_interface;
use airamp_emulator::gpu::process::Vendor;

/// Runs when the library is loaded, before any of its functions can be called.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

extern "C" fn at_load() {
    c_interface::loaded_as(Vendor::Amd);
}
