//! Which functions a given version of the library has.
//!
//! AIRAMP_EMU_NCCL_VERSION may make this an older NCCL: what came later must then be absent, not
//! failing. The constructor of the shared library asks here and hides those symbols. What has
//! no row is in every version.

use std::ffi::{CStr, CString};
use std::sync::OnceLock;

use crate::environment;
use crate::gpu::process::{self, Vendor};

/// The version code of the first NCCL with the function.
const FIRST_VERSION: &[(&str, u32)] = &[
    ("ncclGetLastError", 21_300),
    ("ncclCommInitRankConfig", 21_400),
    ("ncclCommFinalize", 21_400),
    ("ncclRedOpCreatePreMulSum", 21_100),
    ("ncclRedOpDestroy", 21_100),
    ("ncclCommSplit", 21_800),
    ("ncclCommRegister", 21_900),
    ("ncclCommDeregister", 21_900),
    ("ncclMemAlloc", 21_900),
    ("ncclMemFree", 21_900),
    ("ncclGroupSimulateEnd", 22_200),
    ("ncclCommInitRankScalable", 22_300),
    ("ncclCommShrink", 22_700),
    ("ncclAlltoAll", 22_800),
    ("ncclGather", 22_800),
    ("ncclScatter", 22_800),
    ("ncclCommGrow", 22_900),
    ("ncclCommGetUniqueId", 22_900),
    ("ncclCommRevoke", 22_807),
    ("ncclCommSuspend", 22_900),
    ("ncclCommResume", 22_900),
    ("ncclCommMemStats", 22_900),
    ("ncclAllReduceConfig", 23_200),
    ("ncclReduceConfig", 23_200),
    ("ncclReduceScatterConfig", 23_200),
    ("ncclAllGatherConfig", 23_200),
    ("ncclBroadcastConfig", 23_200),
    ("ncclAlltoAllConfig", 23_200),
    ("ncclGatherConfig", 23_200),
    ("ncclScatterConfig", 23_200),
];

/// What only RCCL has. Its Gather and Scatter are older than NCCL's.
const ONLY_RCCL: &[&str] = &["ncclAllToAll", "ncclAllToAllv", "ncclAlltoAllv", "ncclAllReduceWithBias"];
const OLD_IN_RCCL: &[&str] = &["ncclGather", "ncclScatter"];

/// The exported functions that the emulated version does not have, `nccl*` and `pnccl*`.
pub fn symbols_to_hide() -> Vec<&'static CStr> {
    static HIDDEN: OnceLock<Vec<CString>> = OnceLock::new();
    let hidden = HIDDEN.get_or_init(|| {
        let names = absent(version(), process::vendor());
        names
            .into_iter()
            .flat_map(|name| [name.to_owned(), format!("p{name}")])
            .filter_map(|name| CString::new(name).ok())
            .collect()
    });
    hidden.iter().map(CString::as_c_str).collect()
}

/// The version code that is emulated.
pub(crate) fn version() -> u32 {
    environment::number("AIRAMP_EMU_NCCL_VERSION") as u32
}

fn absent(version: u32, vendor: Vendor) -> Vec<&'static str> {
    // Up to 2.8 the code had one digit less for the major number.
    let comparable = if version < 10_000 { version + 18_000 } else { version };
    let later = FIRST_VERSION.iter().filter(|(_, first)| comparable < *first).map(|(name, _)| *name);
    match vendor {
        Vendor::Nvidia => later.chain(ONLY_RCCL.iter().copied()).collect(),
        Vendor::Amd => later.filter(|name| !OLD_IN_RCCL.contains(name)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_version_lacks_what_came_later() {
        let old = absent(21_701, Vendor::Nvidia);
        assert!(old.contains(&"ncclCommSplit") && old.contains(&"ncclAlltoAll"));
        assert!(!old.contains(&"ncclCommFinalize") && !old.contains(&"ncclAllReduce"));
        assert!(absent(2_708, Vendor::Nvidia).contains(&"ncclRedOpDestroy"));
    }

    #[test]
    fn the_newest_nccl_lacks_only_what_is_rccls() {
        assert_eq!(absent(23_203, Vendor::Nvidia), ONLY_RCCL);
        assert!(absent(23_203, Vendor::Amd).is_empty());
        assert!(!absent(22_203, Vendor::Amd).contains(&"ncclGather"));
    }
}
