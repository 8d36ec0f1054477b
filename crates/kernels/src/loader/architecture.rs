//! Which code object a device of some architecture is given. Pure.

use crate::blob::Kind;

/// NVIDIA has numbered its generations up to 12 so far. A number far beyond is no new
/// generation but a mistake, and trusting our numbers to it would be another.
const NEWEST_BELIEVED_MAJOR: u32 = 29;

/// The architecture and kind of the code object for a device; `None` where there is none.
pub(super) fn blob_for(device: &str) -> Option<(&'static str, Kind)> {
    if let Some(number) = device.strip_prefix("sm_") {
        return nvidia(number.parse().ok()?);
    }
    let known = ["gfx90a", "gfx942", "gfx950"].into_iter().find(|name| *name == device)?;
    Some((known, Kind::Hsaco))
}

/// Machine code runs on its own generation; later ones compile the portable form.
fn nvidia(number: u32) -> Option<(&'static str, Kind)> {
    match number / 10 {
        8 => Some(("sm_80", Kind::Cubin)),
        9 => Some(("sm_90", Kind::Cubin)),
        10 => Some(("sm_100", Kind::Cubin)),
        11..=NEWEST_BELIEVED_MAJOR => Some(("compute_80", Kind::Ptx)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_runs_the_machine_code_of_its_generation() {
        for (device, blob) in
            [("sm_80", "sm_80"), ("sm_89", "sm_80"), ("sm_90", "sm_90"), ("sm_103", "sm_100")]
        {
            assert_eq!(blob_for(device), Some((blob, Kind::Cubin)), "{device}");
        }
        assert_eq!(blob_for("gfx942"), Some(("gfx942", Kind::Hsaco)));
    }

    #[test]
    fn a_newer_nvidia_generation_gets_the_portable_form() {
        for device in ["sm_110", "sm_120", "sm_130"] {
            assert_eq!(blob_for(device), Some(("compute_80", Kind::Ptx)), "{device}");
        }
    }

    #[test]
    fn what_is_too_old_unbelievable_or_not_a_name_gets_nothing() {
        for device in ["sm_75", "sm_999", "sm_", "sm_x", "gfx1100", "gfx908", ""] {
            assert_eq!(blob_for(device), None, "{device}");
        }
    }
}
