//! The C functions. Each fills in what its header promises and calls one function of the crate.
//!
//! Nothing unwinds out of here, and every error becomes a result code in [`boundary`]. The fault
//! variables are obeyed there too, before anything has happened.

mod collectives;
mod communicators;
mod information;

use std::panic::{AssertUnwindSafe, catch_unwind};

use airamp_vendor_abi::nccl::NcclResult;

use super::error::{self, NcclError, Outcome};
use super::{faults, group};

pub use collectives::*;
pub use communicators::*;
pub use information::*;

/// Defines `nccl*` and `pnccl*` from one body. Only where the real library calls an export of its own
/// does a body do so too, by an address that the dynamic linker has filled in: a preloaded library may
/// stand before it and has to bear that.
macro_rules! exported {
    ($($(#[$doc:meta])* fn $name:ident / $pname:ident ($($arg:ident: $kind:ty),* $(,)?) $body:block)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// The arguments are what the C header asks for.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $kind),*) -> NcclResult {
            crate::nccl::exports::boundary(stringify!($name), || $body)
        }

        /// The profiling name of the function above.
        ///
        /// # Safety
        /// The arguments are what the C header asks for.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $pname($($arg: $kind),*) -> NcclResult {
            crate::nccl::exports::boundary(stringify!($name), || $body)
        }
    )*};
}
pub(crate) use exported;

/// Between C and the crate: faults by order, no unwinding, a result code.
#[inline]
pub(crate) fn boundary(function: &'static str, body: impl FnOnce() -> Outcome) -> NcclResult {
    let entered = faults::enter(function).inspect_err(|error| {
        // Whatever the end of a group returns, the group is over.
        if matches!(function, "ncclGroupEnd" | "ncclGroupSimulateEnd") {
            group::abandon(error);
        }
    });
    let guarded = entered.and_then(|()| {
        let panicked = |_| Err(NcclError::Internal(format!("{function} panicked")));
        catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(panicked)
    });
    error::finish(guarded)
}
