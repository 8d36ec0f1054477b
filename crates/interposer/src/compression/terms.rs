//! What must be equal on all ranks, with a name for people: what a rank says of itself before the vendor's init,
//! and what it says when it holds all that compression needs. Reads settings and asks the device; decides nothing.

use crate::clique::hash;
use airamp_agreement::Term;
use airamp_fast_path::SHAPES_VERSION;
use airamp_kernels::loader::file;
use airamp_policy::Mode;
use airamp_settings::{Settings, WireFormat};
use std::path::Path;

/// Of the packets that the fast path exchanges; see docs/wire-format.md.
const WIRE_VERSION: u32 = 1;

fn term(name: &str, value: impl ToString) -> Term {
    Term { name: name.into(), value: value.to_string() }
}

/// Known before the vendor has made the communicator.
pub(super) fn of_rank(settings: &Settings, asked: Mode, blocking: bool) -> Vec<Term> {
    let Settings {
        wire_format,
        min_bytes,
        arena_bytes,
        min_speedup,
        max_vnmse,
        ranks_per_node,
        lean_messages,
        ..
    } = settings;
    vec![
        term("library version", unless_injected("AIRAMP_INJECT_VERSION", env!("CARGO_PKG_VERSION"))),
        // Two builds of one version may differ in what they put on the wire.
        term("library build", unless_injected("AIRAMP_INJECT_BUILD", env!("AIRAMP_BUILD"))),
        term("mode", mode_name(asked)),
        term("AIRAMP_WIRE_FORMAT", name_of(*wire_format)),
        term("wire version", WIRE_VERSION),
        term("chunk shapes", SHAPES_VERSION),
        term("AIRAMP_MIN_BYTES", min_bytes),
        term("AIRAMP_ARENA_BYTES", arena_bytes),
        term("AIRAMP_RANKS_PER_NODE", ranks_per_node.map_or("auto".into(), |number| number.to_string())),
        term("AIRAMP_LEAN_MESSAGES", u8::from(*lean_messages)),
        term("AIRAMP_MIN_SPEEDUP", min_speedup),
        term("AIRAMP_MAX_VNMSE", max_vnmse),
        term("blocking", if blocking { "yes" } else { "no" }),
    ]
}

/// Known when everything is acquired.
pub(super) fn of_device(architecture: &str, kernels: Option<&Path>, captures: bool, nccl: i32) -> Vec<Term> {
    vec![
        term("architecture", architecture),
        term("kernels", manifest_hash(kernels)),
        term("captures", if captures { "yes" } else { "no" }),
        term("NCCL version", nccl),
    ]
}

/// This library's own; for tests, what they ask for.
fn unless_injected(variable: &str, own: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| own.to_owned())
}

fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::On => "on",
        Mode::Shadow => "shadow",
        Mode::Forced => "forced by AIRAMP_TEST_PLAN",
    }
}

fn name_of(format: WireFormat) -> &'static str {
    match format {
        WireFormat::Auto => "auto",
        WireFormat::E4m3 => "e4m3",
        WireFormat::E5m2 => "e5m2",
        WireFormat::Int8 => "int8",
    }
}

/// Which kernels these are: those of the folder, or the embedded ones.
fn manifest_hash(folder: Option<&Path>) -> String {
    let text = match folder.map(|folder| file::manifest(&folder.join("manifest.toml"))) {
        None => airamp_kernels::MANIFEST.as_bytes().to_vec(),
        Some(text) => text.unwrap_or_default().into_bytes(),
    };
    format!("{:016x}", hash(&text))
}

/// The same number for the ranks of one machine.
pub(super) fn host() -> u64 {
    let name = std::env::var_os("NCCL_HOSTID").filter(|name| !name.is_empty());
    let boot = || std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let machine = || std::fs::read("/proc/sys/kernel/hostname").unwrap_or_default();
    match name {
        Some(name) => hash(name.as_encoded_bytes()),
        None => hash(&[boot(), machine()].concat()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of those terms in which two ranks differ.
    fn differences(one: &[Term], other: &[Term]) -> Vec<String> {
        let pairs = one.iter().zip(other);
        pairs.filter(|(one, other)| one != other).map(|(one, _)| one.name.clone()).collect()
    }

    #[test]
    fn whatever_changes_what_is_put_on_the_wire_is_a_term() {
        let usual = Settings::default();
        let terms = of_rank(&usual, Mode::On, true);
        assert_eq!(terms, of_rank(&usual.clone(), Mode::On, true));
        let others = [
            (of_rank(&Settings { min_bytes: 7, ..usual.clone() }, Mode::On, true), "AIRAMP_MIN_BYTES"),
            (of_rank(&Settings { arena_bytes: 7, ..usual.clone() }, Mode::On, true), "AIRAMP_ARENA_BYTES"),
            (
                of_rank(&Settings { ranks_per_node: Some(7), ..usual.clone() }, Mode::On, true),
                "AIRAMP_RANKS_PER_NODE",
            ),
            (
                of_rank(&Settings { lean_messages: true, ..usual.clone() }, Mode::On, true),
                "AIRAMP_LEAN_MESSAGES",
            ),
            (of_rank(&Settings { min_speedup: 7.0, ..usual.clone() }, Mode::On, true), "AIRAMP_MIN_SPEEDUP"),
            (of_rank(&Settings { max_vnmse: 7.0, ..usual.clone() }, Mode::On, true), "AIRAMP_MAX_VNMSE"),
            (
                of_rank(&Settings { wire_format: WireFormat::Int8, ..usual.clone() }, Mode::On, true),
                "AIRAMP_WIRE_FORMAT",
            ),
            (of_rank(&usual, Mode::Shadow, true), "mode"),
            (of_rank(&usual, Mode::On, false), "blocking"),
        ];
        for (other, name) in others {
            assert_eq!(differences(&terms, &other), [name]);
        }
    }

    #[test]
    fn other_kernels_and_other_devices_are_told_apart() {
        let terms = of_device("sm_90", None, true, 22809);
        let elsewhere = of_device("sm_90", Some(Path::new("/nowhere")), true, 22809);
        assert_eq!(differences(&terms, &elsewhere), ["kernels"]);
        assert_eq!(differences(&terms, &of_device("sm_80", None, true, 22809)), ["architecture"]);
        assert_eq!(differences(&terms, &of_device("sm_90", None, false, 22809)), ["captures"]);
        assert_eq!(differences(&terms, &of_device("sm_90", None, true, 22907)), ["NCCL version"]);
    }
}
