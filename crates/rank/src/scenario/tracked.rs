//! A communicator and how many of its calls the library should have compressed. The library tells
//! the number by an export of its own, which is not there without it: a scenario that passes with
//! compression off has shown nothing.

use std::cell::Cell;
use std::ffi::{CStr, c_int, c_ulonglong, c_void};
use std::mem::transmute;

use airamp_vendor_abi::nccl::Comm;

use super::Seen;
use super::expected::{Expectation, Spec};
use crate::nccl::Communicator;

type CountFn = unsafe extern "C" fn(Comm, *mut c_ulonglong) -> c_int;
type CallIndexFn = unsafe extern "C" fn(Comm, *mut c_ulonglong, *mut c_ulonglong) -> c_int;

pub(super) struct Tracked {
    pub(super) comm: Communicator,
    /// What results on this communicator are to be.
    pub(super) expectation: Expectation,
    compressed: Cell<u64>,
    calls: Cell<u64>,
    captured: Cell<u64>,
}

impl Tracked {
    pub(super) fn new(comm: Communicator, expectation: Expectation) -> Self {
        Self { comm, expectation, compressed: Cell::new(0), calls: Cell::new(0), captured: Cell::new(0) }
    }

    /// The same for a communicator that the library must leave alone.
    pub(super) fn never_compressed(comm: Communicator, expectation: Expectation) -> Self {
        Self::new(comm, Expectation { format: None, ..expectation })
    }

    /// An AllReduce that takes effect.
    pub(super) fn note(&self, spec: &Spec) {
        self.note_in(spec, &self.calls);
    }

    /// One that goes into a graph.
    pub(super) fn note_captured(&self, spec: &Spec) {
        self.note_in(spec, &self.captured);
    }

    fn note_in(&self, spec: &Spec, calls: &Cell<u64>) {
        let compresses = self.expectation.compresses(spec, self.comm.size);
        self.compressed.set(self.compressed.get() + u64::from(compresses));
        calls.set(calls.get() + u64::from(spec.count > 0));
    }

    /// Compares what was noted with what the library counted, where there is one.
    pub(super) fn check(&self, seen: &mut Seen) {
        let (expected, counted) = (self.compressed.get(), compressed_calls(self.comm.raw()));
        let right = match self.expectation.format {
            // A single rank has nobody to agree with.
            Some(_) if self.comm.size > 1 => counted == Some(expected),
            _ => counted.unwrap_or(0) == 0,
        };
        seen.expect(right, || format!("{counted:?} calls were compressed, not {expected}"));
        if let Some((reserved, committed)) = call_index(self.comm.raw()) {
            // Where ranks agree on nothing, nobody goes by the index, and captured calls are not told apart.
            let agrees = counted.is_some();
            let calls = self.calls.get() + if agrees { 0 } else { self.captured.get() };
            let right = reserved == calls && committed == calls;
            seen.expect(right, || format!("the index is {reserved}/{committed} after {calls} calls"));
        }
        seen.compressed += counted.unwrap_or(0);
    }
}

/// How many calls of the communicator the library compressed; `None` without the library.
pub(super) fn compressed_calls(comm: Comm) -> Option<u64> {
    counted(c"airampCompressedCalls", comm)
}

/// How many were trials.
pub(super) fn trial_calls(comm: Comm) -> Option<u64> {
    counted(c"airampTrialCalls", comm)
}

fn counted(name: &CStr, comm: Comm) -> Option<u64> {
    let address = export(name)?;
    // SAFETY: the library gives both names this signature.
    let ask = unsafe { transmute::<*mut c_void, CountFn>(address) };
    let mut calls = 0;
    // SAFETY: writes one integer; an unknown communicator is an answer.
    (unsafe { ask(comm, &raw mut calls) } == 0).then_some(calls)
}

/// Calls that count, made and in effect; `None` without the library.
fn call_index(comm: Comm) -> Option<(u64, u64)> {
    let address = export(c"airampCallIndex")?;
    // SAFETY: the library gives the name this signature.
    let ask = unsafe { transmute::<*mut c_void, CallIndexFn>(address) };
    let (mut reserved, mut committed) = (0, 0);
    // SAFETY: writes two integers; an unknown communicator is an answer.
    (unsafe { ask(comm, &raw mut reserved, &raw mut committed) } == 0).then_some((reserved, committed))
}

pub(super) fn export(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: look-ups among what is loaded; the library may be there under NCCL's name, unseen by others.
    let places = unsafe { [libc::RTLD_DEFAULT, libc::dlopen(c"libnccl.so.2".as_ptr(), LOADED)] };
    // SAFETY: as above.
    places
        .iter()
        .map(|place| unsafe { libc::dlsym(*place, name.as_ptr()) })
        .find(|address| !address.is_null())
}

/// Opens nothing that is not open already.
const LOADED: c_int = libc::RTLD_NOW | libc::RTLD_NOLOAD;
