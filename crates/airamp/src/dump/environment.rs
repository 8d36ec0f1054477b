//! What of the processes' environments goes into a bundle: settings, and nothing else. The value of a variable is
//! included only if its name is in a list here or in the settings' table; of other AIRAMP_* and NCCL_* variables the
//! name alone, and of all others nothing.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;

use airamp_observer::view::{Node, ProcessState};
use airamp_settings::ENVIRONMENT_ONLY;
use serde_json::{Value, json};

use super::privacy::Names;

/// The kernel bounds it too, at some megabytes.
const LONGEST: u64 = 1 << 20;

const NOT_INCLUDED: &str = "(set; the value is not included)";

/// Switches, numbers, and names of algorithms, protocols, interfaces and adapters. Not here, since they hold
/// addresses, names of hosts or paths: NCCL_COMM_ID, NCCL_HOSTID, every *_FILE, *_DIR, *_PATH and *_PLUGIN.
pub(super) const NCCL_VALUES: &[&str] = &[
    "NCCL_ALGO",
    "NCCL_BUFFSIZE",
    "NCCL_CGA_CLUSTER_SIZE",
    "NCCL_CHECKS_DISABLE",
    "NCCL_COLLNET_ENABLE",
    "NCCL_COMM_BLOCKING",
    "NCCL_CROSS_NIC",
    "NCCL_CUMEM_ENABLE",
    "NCCL_CUMEM_HOST_ENABLE",
    "NCCL_DEBUG",
    "NCCL_DEBUG_SUBSYS",
    "NCCL_DMABUF_ENABLE",
    "NCCL_GRAPH_MIXING_SUPPORT",
    "NCCL_GRAPH_REGISTER",
    "NCCL_IB_ADAPTIVE_ROUTING",
    "NCCL_IB_DISABLE",
    "NCCL_IB_GID_INDEX",
    "NCCL_IB_HCA",
    "NCCL_IB_PCI_RELAXED_ORDERING",
    "NCCL_IB_QPS_PER_CONNECTION",
    "NCCL_IB_RETRY_CNT",
    "NCCL_IB_SL",
    "NCCL_IB_SPLIT_DATA_ON_QPS",
    "NCCL_IB_TC",
    "NCCL_IB_TIMEOUT",
    "NCCL_LAUNCH_MODE",
    "NCCL_LAUNCH_ORDER_IMPLICIT",
    "NCCL_LL128_BUFFSIZE",
    "NCCL_LL_BUFFSIZE",
    "NCCL_LOCAL_REGISTER",
    "NCCL_MAX_CTAS",
    "NCCL_MAX_NCHANNELS",
    "NCCL_MAX_P2P_NCHANNELS",
    "NCCL_MIN_CTAS",
    "NCCL_MIN_NCHANNELS",
    "NCCL_MIN_P2P_NCHANNELS",
    "NCCL_MNNVL_ENABLE",
    "NCCL_MULTI_RANK_GPU_ENABLE",
    "NCCL_NCHANNELS_PER_NET_PEER",
    "NCCL_NET",
    "NCCL_NET_GDR_C2C",
    "NCCL_NET_GDR_LEVEL",
    "NCCL_NET_GDR_READ",
    "NCCL_NET_OVERHEAD",
    "NCCL_NET_SHARED_BUFFERS",
    "NCCL_NSOCKS_PERTHREAD",
    "NCCL_NTHREADS",
    "NCCL_NVB_DISABLE",
    "NCCL_NVLS_ENABLE",
    "NCCL_NVLS_NCHANNELS",
    "NCCL_P2P_DIRECT_DISABLE",
    "NCCL_P2P_DISABLE",
    "NCCL_P2P_LEVEL",
    "NCCL_P2P_NET_CHUNKSIZE",
    "NCCL_P2P_PXN_LEVEL",
    "NCCL_PROTO",
    "NCCL_PXN_DISABLE",
    "NCCL_RUNTIME_CONNECT",
    "NCCL_SET_STACK_SIZE",
    "NCCL_SET_THREAD_NAME",
    "NCCL_SHM_DISABLE",
    "NCCL_SINGLE_RING_THRESHOLD",
    "NCCL_SOCKET_FAMILY",
    "NCCL_SOCKET_IFNAME",
    "NCCL_SOCKET_NTHREADS",
    "NCCL_SOCKET_RETRY_CNT",
    "NCCL_TREE_THRESHOLD",
    "NCCL_WIN_ENABLE",
    "NCCL_WORK_FIFO_BYTES",
];

/// Of every process whose environment this user may read; processes with equal ones together.
pub(super) fn of(node: &Node, names: &Names) -> Value {
    let mut groups: Vec<(BTreeMap<String, Value>, Vec<u32>)> = Vec::new();
    let mut unreadable = Vec::new();
    for rank in node.jobs.iter().flat_map(|job| &job.ranks) {
        let pid = rank.pid;
        match is_here(rank.process_state).then(|| read(pid)).flatten() {
            Some(bytes) => {
                let kept = kept(&bytes, names);
                match groups.iter_mut().find(|(known, _)| *known == kept) {
                    Some((_, pids)) => pids.push(pid),
                    None => groups.push((kept, vec![pid])),
                }
            }
            None => unreadable.push(pid),
        }
    }
    let group = |(variables, pids): (BTreeMap<String, Value>, Vec<u32>)| json!({ "pids": pids, "variables": variables });
    json!({ "processes": groups.into_iter().map(group).collect::<Vec<_>>(), "ended_or_not_readable": unreadable })
}

/// Elsewhere the number is another process's, or may be by now.
fn is_here(state: ProcessState) -> bool {
    matches!(state, ProcessState::Running | ProcessState::Stopped | ProcessState::Blocked)
}

fn read(pid: u32) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(format!("/proc/{pid}/environ")).ok()?.take(LONGEST).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

fn kept(environment: &[u8], names: &Names) -> BTreeMap<String, Value> {
    let variables = environment.split(|byte| *byte == 0).filter_map(|variable| {
        let text = String::from_utf8_lossy(variable).into_owned();
        text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()))
    });
    let ours = variables.filter(|(name, _)| name.starts_with("AIRAMP_") || name.starts_with("NCCL_"));
    ours.map(|(name, value)| {
        let mut value = json!(if is_setting(&name) { value } else { NOT_INCLUDED.to_owned() });
        let field = if name == "AIRAMP_JOB" { "job" } else { "value" };
        names.clean_field(Some(field), &mut value);
        (name, value)
    })
    .collect()
}

fn is_setting(name: &str) -> bool {
    NCCL_VALUES.contains(&name)
        || airamp_settings::TABLE.iter().any(|setting| setting.env == name)
        || ENVIRONMENT_ONLY.iter().any(|(known, _)| *known == name)
        || name.starts_with("AIRAMP_EMU_")
}

#[cfg(test)]
mod tests {
    use airamp_observer::view::{Job, Rank};

    use super::*;

    #[test]
    fn settings_are_kept_and_everything_else_is_not() {
        let environment =
            b"PATH=/bin\0AIRAMP_MODE=on\0AIRAMP_SECRET=x\0NCCL_ALGO=Ring\0NCCL_COMM_ID=10.0.0.1:1\0\
            AWS_SECRET_ACCESS_KEY=k\0NCCL_HOSTID=gpu07\0AIRAMP_LOG_FILE=/home/anna/x.log\0broken\0";
        let kept = kept(environment, &Names::default());
        let expected = [
            ("AIRAMP_LOG_FILE", "~/…"),
            ("AIRAMP_MODE", "on"),
            ("AIRAMP_SECRET", NOT_INCLUDED),
            ("NCCL_ALGO", "Ring"),
            ("NCCL_COMM_ID", NOT_INCLUDED),
            ("NCCL_HOSTID", NOT_INCLUDED),
        ];
        assert_eq!(kept, expected.map(|(name, value)| (name.to_owned(), json!(value))).into_iter().collect());
    }

    /// What is said of this process where a job's rank has its number.
    fn of_this_process(process_state: ProcessState) -> (usize, Value) {
        let pid = std::process::id();
        let rank = Rank { pid, process_state, ..Rank::default() };
        let job = Job { ranks: vec![rank], ..Job::default() };
        let said = of(&Node { jobs: vec![job], ..Node::default() }, &Names::default());
        (said["processes"].as_array().map_or(0, Vec::len), said["ended_or_not_readable"].clone())
    }

    #[test]
    fn the_number_of_a_process_that_is_not_here_gives_no_others_environment() {
        use ProcessState::{Blocked, Foreign, Gone, Left, Running, Stopped};
        for here in [Running, Stopped, Blocked] {
            assert_eq!(of_this_process(here), (1, json!([])), "{here:?}");
        }
        for elsewhere in [Foreign, Gone, Left] {
            assert_eq!(of_this_process(elsewhere), (0, json!([std::process::id()])), "{elsewhere:?}");
        }
    }

    #[test]
    fn no_variable_with_an_address_a_host_or_a_path_is_in_the_list() {
        for end in ["_FILE", "_DIR", "_PLUGIN", "_PATH", "_ADDR"] {
            assert!(NCCL_VALUES.iter().all(|name| !name.ends_with(end)), "{end}");
        }
        for part in ["COMM_ID", "HOSTID", "TOPO", "CONF"] {
            assert!(NCCL_VALUES.iter().all(|name| !name.contains(part)), "{part}");
        }
        assert!(NCCL_VALUES.is_sorted());
    }
}
