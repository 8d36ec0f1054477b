//! The hook for x86_64. glibc finds the caller at the top of the stack, so it is as the caller left it when we jump on.

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
        // Is it a name of ours?
        "mov rax, rsi",
        "test rax, rax",
        "jz 5f",
        "cmp byte ptr [rax], 0x70", // p
        "jne 2f",
        "inc rax",
        "2:",
        "cmp byte ptr [rax], 0x6e", // n
        "jne 5f",
        "cmp byte ptr [rax + 1], 0x63", // c
        "jne 5f",
        "cmp byte ptr [rax + 2], 0x63", // c
        "jne 5f",
        "cmp byte ptr [rax + 3], 0x6c", // l
        "jne 5f",
        // RTLD_DEFAULT is 0 and RTLD_NEXT is -1; any other handle is a real one.
        "lea rax, [rdi + 1]",
        "cmp rax, 1",
        "jbe 4f",
        "jmp {by_handle}",
        "4:",
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "call {is_absent}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "test al, al",
        "jz 5f",
        "xor eax, eax",
        "ret",
        "5:",
        "mov rax, qword ptr [rip + {real}]",
        "test rax, rax",
        "jz 6f",
        "jmp rax",
        "6:",
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "call {find_real}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "test rax, rax",
        "jz 7f",
        "jmp rax",
        "7:",
        "ret",
        by_handle = sym by_handle,
        is_absent = sym is_absent,
        real = sym REAL,
        find_real = sym find_real,
    )
}
