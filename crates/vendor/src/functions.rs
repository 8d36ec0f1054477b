//! The vendor as one table of function pointers; what it lacks is `None`.

use airamp_vendor_abi::nccl::{
    CollConfig, Comm, Config, DataType, NcclResult, RedOp, ScalarResidence, SimInfo, Stream, UniqueId, c_name,
};
use std::ffi::{CStr, c_int, c_void};

macro_rules! function_table {
    ($($name:ident / $profiled:ident ($($argument:ident : $type:ty),*) => $duty:ident $facts:tt;)*) => {
        /// Every function whose call we take part in, under both of its names. A C++ exception may
        /// pass through.
        #[allow(non_snake_case, reason = "the fields are the vendor's own names")]
        pub struct Functions {
            $(
                pub $name: Option<unsafe extern "C-unwind" fn($($type),*) -> NcclResult>,
                pub $profiled: Option<unsafe extern "C-unwind" fn($($type),*) -> NcclResult>,
            )*
        }

        impl Functions {
            /// Fills the table from a look-up that answers null for what is not there.
            ///
            /// # Safety
            /// A non-null answer must be the function of that name in a library that follows
            /// `nccl.h`, and must stay loaded.
            pub unsafe fn load(look_up: impl Fn(&CStr) -> *const c_void) -> Self {
                Self {
                    $(
                        $name: {
                            let address = look_up(c_name(concat!(stringify!($name), "\0")));
                            // SAFETY: null is `None`; else the caller vouches for the signature.
                            unsafe { std::mem::transmute::<*const c_void, Option<unsafe extern "C-unwind" fn($($type),*) -> NcclResult>>(address) }
                        },
                        $profiled: {
                            let address = look_up(c_name(concat!(stringify!($profiled), "\0")));
                            // SAFETY: as above.
                            unsafe { std::mem::transmute::<*const c_void, Option<unsafe extern "C-unwind" fn($($type),*) -> NcclResult>>(address) }
                        },
                    )*
                }
            }
        }
    };
}

airamp_vendor_abi::for_each_typed_function!(function_table);
