//! The exported functions whose calls we take part in. Each builds a typed call and hands
//! it to the dispatcher, with the vendor's function as what to do.
//!
//! The same body exists once per vendor place, so that a function pointer which the
//! application got from its own handle leads to the library behind that handle.

use crate::calls::*;
use crate::thread::VENDORS;
use crate::{calls, dispatch, vendors};
use airamp_vendor_abi::nccl::{
    CollConfig, Comm, Config, DataType, NcclResult, RedOp, ScalarResidence, SimInfo, Stream, UniqueId, c_name,
};
use std::ffi::{CStr, c_int, c_void};
use std::ptr::null_mut;

/// One exported name, and the function that stands for it at each vendor place.
struct Wrapper {
    name: &'static CStr,
    places: [*const (); VENDORS],
}

// SAFETY: the pointers are addresses of functions, never written through.
unsafe impl Sync for Wrapper {}

macro_rules! exports {
    ($($name:ident / $profiled:ident ($($argument:ident : $type:ty),*) => $duty:ident ($($fact:tt)*);)*) => {
        #[allow(non_snake_case, reason = "the vendor's own names")]
        mod wrapper {
            use super::*;
            $(
                body!($name, [$name], ($($argument: $type),*), calls::$duty($($fact)*));
                body!($profiled, [$profiled, $name], ($($argument: $type),*), calls::$duty($($fact)*));
            )*
        }
        $(
            export!($name, ($($argument: $type),*));
            export!($profiled, ($($argument: $type),*));
        )*
        static WRAPPERS: &[Wrapper] = &[$(
            Wrapper { name: c_name(concat!(stringify!($name), "\0")), places: places!($name, ($($type),*)) },
            Wrapper { name: c_name(concat!(stringify!($profiled), "\0")), places: places!($profiled, ($($type),*)) },
        )*];
    };
}

/// A wrapper for one name. It calls the first of `$field`s that the vendor has: a vendor
/// without profiling names gets the call under the plain one.
macro_rules! body {
    ($name:ident, [$first:ident $(, $other:ident)?], ($($argument:ident : $type:ty),*), $call:expr) => {
        #[inline]
        pub(super) unsafe extern "C-unwind" fn $name<const PLACE: usize>($($argument: $type),*) -> NcclResult {
            let vendor = vendors::at(PLACE);
            let function = vendor.and_then(|vendor| vendor.functions.$first$(.or(vendor.functions.$other))?);
            let (Some(vendor), Some(function)) = (vendor, function) else {
                return vendors::missing(stringify!($name), vendor);
            };
            // SAFETY: the caller's own arguments, handed on unchanged to the function it named.
            dispatch::dispatch(stringify!($name), vendor.library, $call, move || unsafe { function($($argument),*) })
        }
    };
}

macro_rules! export {
    ($name:ident, ($($argument:ident : $type:ty),*)) => {
        #[doc = concat!("`", stringify!($name), "` of nccl.h or rccl.h.")]
        ///
        /// # Safety
        /// As the vendor's header says.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "the vendor's own name")]
        unsafe extern "C-unwind" fn $name($($argument: $type),*) -> NcclResult {
            // SAFETY: the caller's duties are the same there.
            unsafe { wrapper::$name::<0>($($argument),*) }
        }
    };
}

macro_rules! places {
    ($name:ident, ($($type:ty),*)) => {
        [
            wrapper::$name::<0> as unsafe extern "C-unwind" fn($($type),*) -> NcclResult as *const (),
            wrapper::$name::<1> as unsafe extern "C-unwind" fn($($type),*) -> NcclResult as *const (),
            wrapper::$name::<2> as unsafe extern "C-unwind" fn($($type),*) -> NcclResult as *const (),
            wrapper::$name::<3> as unsafe extern "C-unwind" fn($($type),*) -> NcclResult as *const (),
        ]
    };
}

airamp_vendor_abi::for_each_typed_function!(exports);

/// What stands for `name` at that vendor place; `None` if we only forward it.
pub(crate) fn wrapper_of(name: &CStr, place: usize) -> Option<*const ()> {
    WRAPPERS.iter().find(|wrapper| wrapper.name == name).map(|wrapper| wrapper.places[place])
}

pub(crate) fn names() -> impl Iterator<Item = &'static CStr> {
    WRAPPERS.iter().map(|wrapper| wrapper.name)
}
