//! Reads the arguments of a kernel launch, in both ways in which they can be passed.

use std::ffi::c_void;

use airamp_vendor_abi::cuda::CudaError;

use crate::gpu::{Answer, module};

/// Marks in the list of extra options: the packed buffer and its size. Both vendors
/// have these numbers; the end is 0 with CUDA and 3 with HIP.
const BUFFER: usize = 1;
const BUFFER_SIZE: usize = 2;

/// The arguments of a launch of `function`, copied.
///
/// # Safety
/// `each` is null or has an address per parameter; `extra` is null or a list of options
/// as the headers describe it.
pub unsafe fn arguments(
    function: usize,
    each: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Answer<Vec<Box<[u8]>>> {
    let sizes = module::parameters(function)?;
    match (each.is_null(), extra.is_null()) {
        // SAFETY: the caller vouches for an address per parameter.
        (false, _) => unsafe { from_addresses(sizes, each) },
        // SAFETY: the caller vouches for the list.
        (true, false) => unsafe { from_buffer(sizes, extra) },
        (true, true) if sizes.is_empty() => Ok(Vec::new()),
        (true, true) => Err(CudaError::INVALID_VALUE),
    }
}

/// # Safety
/// `each` has, for each size, the address of that many bytes.
unsafe fn from_addresses(sizes: &[usize], each: *mut *mut c_void) -> Answer<Vec<Box<[u8]>>> {
    let argument = |(index, size): (usize, &usize)| {
        // SAFETY: the caller vouches for as many addresses as there are sizes.
        let at = unsafe { *each.add(index) }.cast::<u8>();
        if at.is_null() {
            return Err(CudaError::INVALID_VALUE);
        }
        // SAFETY: the caller vouches for `size` bytes at each address.
        Ok(unsafe { std::slice::from_raw_parts(at, *size) }.into())
    };
    sizes.iter().enumerate().map(argument).collect()
}

/// # Safety
/// `extra` is a list of options that ends as the headers say.
unsafe fn from_buffer(sizes: &[usize], mut extra: *mut *mut c_void) -> Answer<Vec<Box<[u8]>>> {
    let (mut buffer, mut len) = (std::ptr::null::<u8>(), 0);
    loop {
        // SAFETY: the list has not ended yet, so that an option and its value follow.
        let (option, value) = unsafe { (*extra as usize, extra.add(1)) };
        match option {
            // SAFETY: each option is followed by its value.
            BUFFER => buffer = unsafe { *value }.cast(),
            // SAFETY: the value is the address of the size.
            BUFFER_SIZE => len = unsafe { *(*value).cast::<usize>() },
            _ => break,
        }
        // SAFETY: as above; the end mark comes after the value.
        extra = unsafe { value.add(1) };
    }
    if buffer.is_null() {
        return Err(CudaError::INVALID_VALUE);
    }
    // SAFETY: the caller passed the buffer together with its size.
    unpack(sizes, unsafe { std::slice::from_raw_parts(buffer, len) })
}

/// Takes arguments out of a buffer in which each is aligned to its own size.
fn unpack(sizes: &[usize], buffer: &[u8]) -> Answer<Vec<Box<[u8]>>> {
    let mut at = 0usize;
    let argument = |size: &usize| {
        at = at.next_multiple_of((*size).clamp(1, 8));
        let bytes = buffer.get(at..at + size).ok_or(CudaError::INVALID_VALUE)?;
        at += size;
        Ok(bytes.into())
    };
    sizes.iter().map(argument).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_arguments_are_aligned_to_their_own_size() {
        let mut buffer = [0u8; 24];
        buffer[0] = 1;
        buffer[8] = 2;
        buffer[16] = 3;
        let arguments = unpack(&[4, 8, 4], &buffer).unwrap();
        let firsts: Vec<u8> = arguments.iter().map(|bytes| bytes[0]).collect();
        assert_eq!(firsts, [1, 2, 3]);
    }

    #[test]
    fn a_buffer_that_is_too_short_is_refused() {
        assert_eq!(unpack(&[8, 8], &[0; 12]), Err(CudaError::INVALID_VALUE));
    }
}
