//! `libairamp_accel.so`: stands between an application and its NCCL or RCCL library.
//!
//! Preloaded, or named as the NCCL library itself, it sees every call, keeps each
//! communicator's call index, and passes the call on, unchanged wherever the ranks have not agreed to compress it.
//! It never panics or exits, and where anything is not as expected it evaporates as long as no communicator
//! compresses; one that does returns an error and is poisoned, since its peers go by what was agreed.
//!
//! A call goes: `exports` or `dlsym` -> `dispatch` (through `boundary`) -> the vendor.

#[cfg(not(all(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    target_os = "linux",
    target_env = "gnu"
)))]
compile_error!("libairamp_accel.so is written for Linux with glibc on x86_64 and aarch64");

mod boundary;
mod call_index;
mod calls;
mod clique;
mod communicators;
mod compression;
mod deferred;
mod diagnostics;
mod dispatch;
mod dlsym;
mod errno;
mod exports;
mod fork;
mod forward;
mod ghosts;
mod lifecycle;
mod log;
mod rhythm;
mod role;
mod startup;
mod take_back;
mod telemetry;
mod thread;
mod vendors;

/// Run by the dynamic linker when the library is loaded. Kept to what cannot wait.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

extern "C" fn at_load() {
    boundary::contain("loading", || {
        boundary::silence_panic_messages();
        boundary::arm_injection();
        fork::watch();
        role::decide();
        if !role::is_preloaded() {
            // Named as the NCCL library: whoever asks for its functions next must see which there are.
            vendors::at(0);
        }
    });
}
