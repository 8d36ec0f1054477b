//! The exported functions that we only forward: a jump, with every register that can hold an
//! argument of theirs as the caller left it, so that signatures (structs by value among them)
//! need not be known here. The jumps themselves are each processor's own.

#[cfg_attr(target_arch = "x86_64", path = "forward/x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "forward/aarch64.rs")]
mod processor;

use crate::vendors;
use airamp_vendor_abi::nccl::{NcclResult, Returns, c_name};
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

        $( processor::jump!($name); processor::jump!($profiled); )*
    };
}

airamp_vendor_abi::for_each_forwarded_function!(forwarded);

/// Where each name leads; 0 until its first call.
static TARGETS: [AtomicUsize; COUNT] = [const { AtomicUsize::new(0) }; COUNT];

pub(crate) fn names() -> impl Iterator<Item = &'static CStr> {
    NAMES.iter().map(|(name, _)| *name)
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
