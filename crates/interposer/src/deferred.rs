//! A vendor's function with its arguments, of whatever signature: what the path of compressed calls hands on and
//! keeps back, so that this path exists once and not once for each function.

use airamp_vendor_abi::nccl::NcclResult;
use std::mem::MaybeUninit;

/// The longest argument list, which has an id of 128 bytes in it, and the function.
const WORDS: usize = 24;

#[derive(Clone, Copy)]
pub(crate) struct Deferred {
    words: [MaybeUninit<usize>; WORDS],
    call: unsafe fn(*const MaybeUninit<usize>) -> NcclResult,
}

impl Deferred {
    #[inline(always)]
    pub(crate) fn new<F: FnOnce() -> NcclResult + Copy + 'static>(forward: F) -> Self {
        const {
            assert!(size_of::<F>() <= size_of::<[usize; WORDS]>() && align_of::<F>() <= align_of::<usize>());
        }
        let mut words = [MaybeUninit::uninit(); WORDS];
        // SAFETY: it fits, as was just checked.
        unsafe { words.as_mut_ptr().cast::<F>().write(forward) };
        /// # Safety
        /// An `F` was written there.
        unsafe fn call<F: FnOnce() -> NcclResult + Copy>(words: *const MaybeUninit<usize>) -> NcclResult {
            // SAFETY: the caller vouches for it, and an `F` is `Copy`.
            unsafe { words.cast::<F>().read()() }
        }
        Self { words, call: call::<F> }
    }

    pub(crate) fn run(&self) -> NcclResult {
        // SAFETY: `call` was made for what `words` hold.
        unsafe { (self.call)(self.words.as_ptr()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deferred_call_keeps_its_arguments() {
        let (a, b) = (3, 4);
        let deferred = Deferred::new(move || NcclResult(a * 10 + b));
        let copy = deferred;
        assert_eq!((deferred.run(), copy.run()), (NcclResult(34), NcclResult(34)));
    }
}
