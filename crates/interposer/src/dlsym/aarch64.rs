//! The hook for aarch64. glibc finds the caller in x30, so it is as the caller left it when we jump on; while it lies in
//! memory it is signed, by processors that can. As in forward/aarch64.rs: jumps go by x16, and `REAL` is read with acquire.

use super::{REAL, by_handle, find_real, is_absent};
use std::arch::naked_asm;
use std::ffi::{c_char, c_void};

/// The hook. Names that begin with `nccl` or `pnccl` are looked at; all else is jumped on.
///
/// # Safety
/// As for `dlsym(3)`.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    naked_asm!(
        "hint #34", // bti c
        // Is it a name of ours?
        "cbz x1, 5f",
        "ldrb w9, [x1]",
        "cmp w9, #0x70", // p
        "cinc x10, x1, eq",
        "ldrb w9, [x10]",
        "cmp w9, #0x6e", // n
        "b.ne 5f",
        "ldrb w9, [x10, #1]",
        "cmp w9, #0x63", // c
        "b.ne 5f",
        "ldrb w9, [x10, #2]",
        "cmp w9, #0x63", // c
        "b.ne 5f",
        "ldrb w9, [x10, #3]",
        "cmp w9, #0x6c", // l
        "b.ne 5f",
        // RTLD_DEFAULT is 0 and RTLD_NEXT is -1; any other handle is a real one.
        "add x9, x0, #1",
        "cmp x9, #1",
        "b.ls 4f",
        "b {by_handle}",
        "4:",
        "hint #25", // paciasp
        "stp x29, x30, [sp, #-32]!",
        "mov x29, sp",
        "stp x0, x1, [sp, #16]",
        "bl {is_absent}",
        "and w9, w0, #0xff", // a bool is a byte; what lies above is anything
        "ldp x0, x1, [sp, #16]",
        "ldp x29, x30, [sp], #32",
        "hint #29", // autiasp
        "cbz w9, 5f",
        "mov x0, #0",
        "ret",
        "5:",
        "adrp x16, {real}",
        "add x16, x16, :lo12:{real}",
        "ldar x16, [x16]",
        "cbz x16, 6f",
        "br x16",
        "6:",
        "hint #25", // paciasp
        "stp x29, x30, [sp, #-32]!",
        "mov x29, sp",
        "stp x0, x1, [sp, #16]",
        "bl {find_real}",
        "mov x16, x0",
        "ldp x0, x1, [sp, #16]",
        "ldp x29, x30, [sp], #32",
        "hint #29", // autiasp
        "cbz x16, 7f",
        "br x16",
        "7:",
        "mov x0, #0",
        "ret",
        by_handle = sym by_handle,
        is_absent = sym is_absent,
        real = sym REAL,
        find_real = sym find_real,
    )
}
