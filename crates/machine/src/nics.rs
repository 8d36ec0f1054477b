//! Network interfaces, RDMA ports and TCP of this node, from sysfs and procfs. Reads what the kernel counts anyway;
//! asks no driver tool.

use std::path::{Path, PathBuf};

use crate::desk::Desk;
use crate::file;
use crate::interfaces::{self, Choice};
use crate::rdma;
use crate::reading::{Nic, RdmaPort, Tcp};
use crate::tcp;

/// The most interfaces that are shown, and the most names that are looked at to find them.
const MOST: usize = 64;
const MOST_NAMES: usize = 4096;

#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) nics: Vec<Nic>,
    pub(crate) ports: Vec<RdmaPort>,
    pub(crate) tcp: Tcp,
    pub(crate) notes: Vec<String>,
}

/// Answers the desk until it closes. `used` names the interfaces that jobs use, as known at that moment.
pub(crate) fn serve(
    desk: &Desk<Found>,
    sys: PathBuf,
    proc: PathBuf,
    choice: Choice,
    used: impl Fn() -> Vec<String>,
) {
    while desk.next() {
        desk.publish(read(&sys, &proc, &choice, &used()));
    }
}

fn read(sys: &Path, proc: &Path, choice: &Choice, used: &[String]) -> Found {
    let folder = sys.join("class/net");
    let all = file::names(&folder, MOST_NAMES);
    let mut names = interfaces::shown(&all, choice, used, |name| is_up(&folder.join(name)));
    let mut notes = Vec::new();
    if names.is_empty() {
        notes.push(format!("no network interface is listed in {}", folder.display()));
    }
    if names.len() > MOST {
        notes.push(format!("{} network interfaces, of which {MOST} are shown", names.len()));
        names.truncate(MOST);
    }
    let nics = names.iter().map(|name| one(&folder.join(name), name)).collect();
    Found { nics, ports: rdma::read(sys), tcp: tcp::read(proc), notes }
}

/// An interface whose driver does not say counts as up.
fn is_up(interface: &Path) -> bool {
    matches!(file::word(&interface.join("operstate")).as_deref(), Some("up" | "unknown"))
}

fn one(interface: &Path, name: &str) -> Nic {
    let count = |counter: &str| file::number(&interface.join("statistics").join(counter));
    Nic {
        name: name.to_owned(),
        state: file::word(&interface.join("operstate")).unwrap_or_else(|| "unknown".to_owned()),
        speed_bits_per_s: speed(interface),
        sent_bytes: count("tx_bytes"),
        received_bytes: count("rx_bytes"),
        sent_packets: count("tx_packets"),
        received_packets: count("rx_packets"),
        send_errors: count("tx_errors"),
        receive_errors: count("rx_errors"),
        send_drops: count("tx_dropped"),
        receive_drops: count("rx_dropped"),
    }
}

/// `speed` is in Mbit/s; -1 or an error where there is none (the loopback, an interface that is down). Those that are
/// virtual say 10 Gbit/s by convention, which is no speed: they have no device behind them.
fn speed(interface: &Path) -> Option<u64> {
    let has_one = interface.join("device").exists() || interface.join("bonding").exists();
    let megabits = has_one.then(|| file::number(&interface.join("speed"))).flatten()?;
    // The kernel's "unknown" as an unsigned number.
    (megabits > 0 && megabits < u64::from(u32::MAX)).then(|| megabits * 1_000_000)
}
