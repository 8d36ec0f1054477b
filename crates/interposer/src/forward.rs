//! The exported functions that we only forward: a jump, with every register that can hold an
//! argument of theirs as the caller left it, so that signatures (structs by value among them)
//! need not be known here.

use crate::vendors;
use airamp_vendor_abi::nccl::{NcclResult, Returns, c_name};
use std::arch::naked_asm;
use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicUsize, Ordering};

macro_rules! forwarded {
    ($($name:ident / $profiled:ident => $returns:ident;)*) => {
        #[allow(non_camel_case_types, clippy::enum_variant_names, reason = "the vendor's own names")]
        #[derive(Clone, Copy)]
        #[repr(usize)]
        enum Name { $($name, $profiled,)* }

        static NAMES: &[(&CStr, Returns)] = &[$(
            (c_name(concat!(stringify!($name), "\0")), Returns::$returns),
            (c_name(concat!(stringify!($profiled), "\0")), Returns::$returns),
        )*];

        const COUNT: usize = [$(Name::$name, Name::$profiled,)*].len();

        $( jump!($name); jump!($profiled); )*
    };
}

macro_rules! jump {
    ($name:ident) => {
        #[doc = concat!("`", stringify!($name), "` of the vendor.")]
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        #[allow(non_snake_case, reason = "the vendor's own name")]
        unsafe extern "C" fn $name() {
            naked_asm!(
                "mov r11, qword ptr [rip + {targets} + {offset}]",
                "test r11, r11",
                "jz 2f",
                "jmp r11",
                "2:",
                "mov r11d, {index}",
                "jmp {find}",
                targets = sym TARGETS,
                offset = const Name::$name as usize * size_of::<usize>(),
                index = const Name::$name as usize,
                find = sym find_and_jump,
            )
        }
    };
}

airamp_vendor_abi::for_each_forwarded_function!(forwarded);

/// Where each name leads; 0 until its first call.
static TARGETS: [AtomicUsize; COUNT] = [const { AtomicUsize::new(0) }; COUNT];

pub(crate) fn names() -> impl Iterator<Item = &'static CStr> {
    NAMES.iter().map(|(name, _)| *name)
}

/// Saves what may hold arguments, asks [`find`] for name number r11, and jumps there.
#[unsafe(naked)]
unsafe extern "C" fn find_and_jump() {
    naked_asm!(
        "push rbp",
        "mov rbp, rsp",
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        "push r9",
        "push rax",
        "push r10",
        "sub rsp, 128",
        "movups xmmword ptr [rsp], xmm0",
        "movups xmmword ptr [rsp + 16], xmm1",
        "movups xmmword ptr [rsp + 32], xmm2",
        "movups xmmword ptr [rsp + 48], xmm3",
        "movups xmmword ptr [rsp + 64], xmm4",
        "movups xmmword ptr [rsp + 80], xmm5",
        "movups xmmword ptr [rsp + 96], xmm6",
        "movups xmmword ptr [rsp + 112], xmm7",
        "mov edi, r11d",
        "call {find}",
        "mov r11, rax",
        "movups xmm0, xmmword ptr [rsp]",
        "movups xmm1, xmmword ptr [rsp + 16]",
        "movups xmm2, xmmword ptr [rsp + 32]",
        "movups xmm3, xmmword ptr [rsp + 48]",
        "movups xmm4, xmmword ptr [rsp + 64]",
        "movups xmm5, xmmword ptr [rsp + 80]",
        "movups xmm6, xmmword ptr [rsp + 96]",
        "movups xmm7, xmmword ptr [rsp + 112]",
        "add rsp, 128",
        "pop r10",
        "pop rax",
        "pop r9",
        "pop r8",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "pop rbp",
        "jmp r11",
        find = sym find,
    )
}

/// The vendor's function, kept for the next call; else one that answers for it.
extern "C" fn find(index: usize) -> usize {
    let (name, returns) = NAMES[index];
    let vendor = vendors::at(0);
    let found = vendor.map_or(0, |vendor| vendor.function(name) as usize);
    if found != 0 {
        TARGETS[index].store(found, Ordering::Release);
        return found;
    }
    let result = vendors::missing(name.to_str().unwrap_or_default(), vendor);
    match (returns, result) {
        (Returns::Text, _) => unavailable_text as extern "C" fn() -> *const c_char as usize,
        (_, NcclResult::INVALID_USAGE) => lacking as extern "C" fn() -> NcclResult as usize,
        _ => without_vendor as extern "C" fn() -> NcclResult as usize,
    }
}

extern "C" fn without_vendor() -> NcclResult {
    NcclResult::SYSTEM_ERROR
}

extern "C" fn lacking() -> NcclResult {
    NcclResult::INVALID_USAGE
}

extern "C" fn unavailable_text() -> *const c_char {
    c"the vendor's library is missing, or lacks this function".as_ptr()
}
