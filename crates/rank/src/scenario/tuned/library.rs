//! What the preloaded library answers about its plan. Its exports are not there without it.

use std::ffi::{c_int, c_uchar, c_ulonglong, c_void};
use std::mem::transmute;

use airamp_codec as codec;
use airamp_policy::{Class, Element, Entry, PLAN_BYTES};
use airamp_vendor_abi::nccl::Comm;
use serde::Serialize;

use super::super::expected::Spec;
pub(super) use super::super::tracked::compressed_calls;
use super::super::tracked::export;

type PlanFn = unsafe extern "C" fn(Comm, *mut c_uchar, *mut c_ulonglong) -> c_int;

/// What the plan says about a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct PlannedEntry {
    /// `undecided` (the vendor's so far), `vendor`, `trial`, `compressed`, or `none` where there is no plan.
    pub(super) planned: &'static str,
    variant: Option<u8>,
}

impl PlannedEntry {
    pub(super) fn of(plan: Option<&[u8; PLAN_BYTES]>, spec: &Spec) -> Self {
        let entry = plan.zip(class(spec)).and_then(|(plan, class)| plan.get(class.place()));
        let (planned, variant) = match entry.copied().map(Entry::from_byte) {
            None => ("none", None),
            Some(Entry::Vendor { settled: true }) => ("vendor", None),
            Some(Entry::Vendor { settled: false }) => ("undecided", None),
            Some(Entry::Trial { variant, .. }) => ("trial", Some(variant)),
            Some(Entry::Compressed { variant }) => ("compressed", Some(variant)),
        };
        Self { planned, variant }
    }

    pub(super) fn is_decided(&self) -> bool {
        matches!(self.planned, "compressed" | "vendor")
    }
}

fn class(spec: &Spec) -> Option<Class> {
    let element = match spec.element()? {
        codec::Element::F16 => Element::F16,
        codec::Element::Bf16 => Element::Bf16,
        codec::Element::F32 => Element::F32,
    };
    Some(Class::of(element, spec.count as u64))
}

/// The newest plan; `None` without the library and without an agreement.
pub(super) fn plan(comm: Comm) -> Option<[u8; PLAN_BYTES]> {
    let address = export(c"airampPlan")?;
    // SAFETY: the library gives the name this signature.
    let ask = unsafe { transmute::<*mut c_void, PlanFn>(address) };
    let (mut plan, mut from) = ([0; PLAN_BYTES], 0);
    // SAFETY: writes a plan's bytes and one integer; an unknown communicator is an answer.
    (unsafe { ask(comm, plan.as_mut_ptr(), &raw mut from) } == 0).then_some(plan)
}
