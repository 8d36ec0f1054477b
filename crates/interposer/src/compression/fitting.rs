//! Which chunks fit the calls of a step that was learnt. The leader is told once for each lock, by a report like any
//! other, and decides; what this rank sends does not depend on it.

use super::active::{Active, element_of};
use crate::rhythm;
use airamp_policy::rhythm::Expected;
use airamp_policy::{Class, PLACES};
use airamp_telemetry::Kind;
use airamp_vendor_abi::nccl::DataType;

/// The step's calls of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Calls {
    calls: u32,
    /// Elements.
    largest: u64,
}

/// Tells the leader of a step that was learnt since it was told last.
pub(super) fn tell_what_fits(active: &Active, slot: u64) {
    // The leader heeds what is learnt in its own process alone.
    if rhythm::has_news(slot) && active.is_leaders() {
        tell(active, slot);
    }
}

#[cold]
fn tell(active: &Active, slot: u64) {
    let mut step = [Calls::default(); PLACES];
    rhythm::each_call_of_step(slot, |expected| add(&mut step, expected));
    let classes = (0..PLACES).filter_map(Class::from_place).zip(step);
    for (class, Calls { calls, largest }) in classes.filter(|(_, of_class)| of_class.calls > 0) {
        let fitting = usize::try_from(largest).ok().and_then(|count| active.lane().fitting_variant(count));
        if let Some(variant) = fitting {
            active.measuring.tell_fits(class, variant, (calls, largest));
        }
    }
}

fn add(step: &mut [Calls; PLACES], Expected { kind, datatype, bytes }: Expected) {
    let Some(element) = element_of(DataType(datatype.into())).filter(|_| kind == Kind::AllReduce as u8)
    else {
        return;
    };
    let count = bytes / element.bytes();
    if let Some(of_class) = step.get_mut(Class::of(element, count).place()) {
        of_class.calls = of_class.calls.saturating_add(1);
        of_class.largest = of_class.largest.max(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use airamp_policy::Element;

    #[test]
    fn a_step_is_told_by_class_and_only_what_could_be_compressed() {
        let mut step = [Calls::default(); PLACES];
        let call = |kind: Kind, datatype: DataType, bytes| Expected {
            kind: kind as u8,
            datatype: datatype.0 as u8,
            bytes,
        };
        for expected in [
            call(Kind::AllReduce, DataType::BFLOAT16, 3 << 20),
            call(Kind::AllReduce, DataType::BFLOAT16, 2 << 20),
            call(Kind::AllReduce, DataType::INT64, 8),
            call(Kind::AllGather, DataType::BFLOAT16, 64 << 20),
        ] {
            add(&mut step, expected);
        }
        let class = Class::of(Element::Bf16, 1 << 20);
        assert_eq!(step[class.place()], Calls { calls: 2, largest: 3 << 19 });
        assert_eq!(step.iter().filter(|of_class| of_class.calls > 0).count(), 1);
    }
}
