//! Claims about interfaces, RDMA ports, TCP and AMD's devices, on made-up trees of sysfs and procfs.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

use airamp_machine::{Device, Machine, Maker, Nic, Options, RDMA_COUNTERS, Reading, Roots, Tcp};
use tempfile::TempDir;

const LONG: Duration = Duration::from_secs(60);

struct Tree {
    root: TempDir,
}

impl Tree {
    fn new() -> Self {
        Self { root: tempfile::tempdir().expect("a folder") }
    }

    fn file(&self, path: &str, text: &str) -> &Self {
        let path = self.root.path().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("the folder is made");
        fs::write(path, text).expect("the file is written");
        self
    }

    fn interface(&self, name: &str, state: &str) -> &Self {
        self.file(&format!("sys/class/net/{name}/operstate"), &format!("{state}\n"))
            .file(&format!("sys/class/net/{name}/statistics/tx_bytes"), "11\n")
    }

    fn machine(&self, socket_ifname: Option<&str>) -> Machine {
        let root = self.root.path();
        let roots =
            Roots { sys: root.join("sys"), proc: root.join("proc"), nvml: Some(root.join("absent.so")) };
        let socket_ifname = socket_ifname.map(str::to_owned);
        Machine::watch(Options { roots, socket_ifname, fresh_for: Duration::ZERO, ..Options::default() })
    }

    fn reading(&self) -> Reading {
        self.machine(None).reading(LONG)
    }
}

fn names(reading: &Reading) -> Vec<&str> {
    reading.nics.iter().map(|nic| nic.name.as_str()).collect()
}

#[test]
fn an_interface_has_the_counters_of_the_kernel() {
    let tree = Tree::new();
    let counters = [
        "tx_bytes",
        "rx_bytes",
        "tx_packets",
        "rx_packets",
        "tx_errors",
        "rx_errors",
        "tx_dropped",
        "rx_dropped",
    ];
    for (value, counter) in (1..).zip(counters) {
        tree.file(&format!("sys/class/net/eth0/statistics/{counter}"), &format!("{value}\n"));
    }
    tree.file("sys/class/net/eth0/operstate", "up\n").file("sys/class/net/eth0/speed", "100000\n");
    tree.file("sys/class/net/eth0/device/vendor", "0x15b3\n");
    let expected = Nic {
        name: "eth0".to_owned(),
        state: "up".to_owned(),
        speed_bits_per_s: Some(100_000_000_000),
        sent_bytes: Some(1),
        received_bytes: Some(2),
        sent_packets: Some(3),
        received_packets: Some(4),
        send_errors: Some(5),
        receive_errors: Some(6),
        send_drops: Some(7),
        receive_drops: Some(8),
    };
    assert_eq!(tree.reading().nics, [expected]);
}

#[test]
fn an_interface_without_a_speed_or_with_half_its_files_has_none_there() {
    let tree = Tree::new();
    tree.interface("eth0", "down")
        .file("sys/class/net/eth0/device/vendor", "x")
        .file("sys/class/net/eth0/speed", "-1\n");
    tree.interface("eth1", "up").file("sys/class/net/eth1/speed", "10000\n");
    tree.interface("eth2", "up")
        .file("sys/class/net/eth2/device/vendor", "x")
        .file("sys/class/net/eth2/speed", "4294967295\n");
    fs::create_dir(tree.root.path().join("sys/class/net/eth3")).expect("it is made");
    let reading = tree.reading();
    assert_eq!(names(&reading), ["eth0", "eth1", "eth2", "eth3"]);
    assert!(reading.nics.iter().all(|nic| nic.speed_bits_per_s.is_none()), "{:?}", reading.nics);
    assert_eq!((reading.nics[0].sent_bytes, reading.nics[0].received_bytes), (Some(11), None));
    assert_eq!((reading.nics[3].state.as_str(), reading.nics[3].sent_bytes), ("unknown", None));
}

#[test]
fn virtual_interfaces_are_shown_where_nccl_or_a_job_names_them() {
    let tree = Tree::new();
    tree.interface("eth0", "up")
        .interface("lo", "unknown")
        .interface("veth7", "up")
        .interface("docker0", "up");
    assert_eq!(names(&tree.reading()), ["eth0"]);
    assert_eq!(names(&tree.machine(Some("veth")).reading(LONG)), ["eth0", "veth7"]);
    assert_eq!(names(&tree.machine(Some("=lo")).reading(LONG)), ["eth0", "lo"]);
    let machine = tree.machine(None);
    machine.show_interfaces(["docker0".to_owned(), String::new()]);
    assert_eq!(names(&machine.reading(LONG)), ["docker0", "eth0"]);
}

#[test]
fn a_node_with_thousands_of_interfaces_shows_sixty_four_and_says_so() {
    let tree = Tree::new();
    for number in 0..300 {
        tree.interface(&format!("eth{number}"), "up");
    }
    let reading = tree.reading();
    assert_eq!(reading.nics.len(), 64);
    assert!(
        reading.notes.iter().any(|note| note == "300 network interfaces, of which 64 are shown"),
        "{:?}",
        reading.notes
    );
}

#[test]
fn a_machine_without_anything_is_empty_with_reasons() {
    let reading = Tree::new().reading();
    assert_eq!((reading.devices.len(), reading.nics.len(), reading.rdma_ports.len()), (0, 0, 0));
    assert_eq!(reading.tcp, Tcp::default());
    assert_eq!(reading.notes.len(), 2, "{:?}", reading.notes);
}

#[test]
fn tcp_is_read_from_both_files() {
    let tree = Tree::new();
    tree.file("proc/net/snmp", "Tcp: InSegs OutSegs RetransSegs InErrs\nTcp: 1 2 3 4\n");
    tree.file("proc/net/netstat", "TcpExt: SyncookiesSent TCPTimeouts\nTcpExt: 0 5\n");
    let expected = Tcp {
        received_segments: Some(1),
        sent_segments: Some(2),
        retransmitted_segments: Some(3),
        receive_errors: Some(4),
        timeouts: Some(5),
    };
    assert_eq!(tree.reading().tcp, expected);
}

#[test]
fn an_rdma_port_counts_bytes_and_only_the_names_that_are_known() {
    let tree = Tree::new();
    let port = "sys/class/infiniband/mlx5_0/ports/1";
    tree.file(&format!("{port}/state"), "4: ACTIVE\n").file(&format!("{port}/rate"), "200 Gb/sec (4X HDR)\n");
    tree.file(&format!("{port}/counters/port_xmit_data"), "1000\n")
        .file(&format!("{port}/counters/port_rcv_data"), "7\n");
    tree.file(&format!("{port}/counters/symbol_error"), "2\n")
        .file(&format!("{port}/hw_counters/out_of_sequence"), "9\n");
    tree.file(&format!("{port}/hw_counters/somebody_elses"), "3\n")
        .file(&format!("{port}/hw_counters/np_cnp_sent"), "N/A\n");
    let reading = tree.reading();
    let [port] = &reading.rdma_ports[..] else { panic!("{:?}", reading.rdma_ports) };
    assert_eq!((port.device.as_str(), port.port, port.state.as_str()), ("mlx5_0", 1, "active"));
    assert_eq!(port.rate_bits_per_s, Some(200_000_000_000));
    assert_eq!((port.sent_bytes, port.received_bytes), (Some(4000), Some(28)));
    let counters: Vec<(&str, u64)> = port.counters.iter().map(|one| (one.name.as_ref(), one.value)).collect();
    assert_eq!(counters, [("symbol_error", 2), ("out_of_sequence", 9)]);
    assert!(counters.iter().all(|(name, _)| RDMA_COUNTERS.contains(name)));
}

#[test]
fn an_adapter_without_infinibands_counters_has_its_own_bytes() {
    let tree = Tree::new();
    let port = "sys/class/infiniband/efa_0/ports/1";
    tree.file(&format!("{port}/hw_counters/tx_bytes"), "77\n")
        .file(&format!("{port}/hw_counters/rx_bytes"), "88\n");
    tree.file("sys/class/infiniband/efa_0/ports/none/state", "4: ACTIVE\n");
    let reading = tree.reading();
    let [port] = &reading.rdma_ports[..] else { panic!("{:?}", reading.rdma_ports) };
    assert_eq!((port.sent_bytes, port.received_bytes), (Some(77), Some(88)));
    assert_eq!((port.state.as_str(), port.rate_bits_per_s), ("unknown", None));
}

/// A card as amdgpu shows it; the folder of the device is called by its address, as the kernel does it.
fn amd_card(tree: &Tree, number: u32, address: &str) {
    let device = format!("sys/devices/{address}");
    let files = [
        ("vendor", "0x1002\n"),
        ("unique_id", "6a2b3c4d5e6f7081\n"),
        ("product_name", "AMD Instinct MI300X\n"),
        ("mem_info_vram_used", "1048576\n"),
        ("mem_info_vram_total", "206141652992\n"),
        ("gpu_busy_percent", "93\n"),
        ("mem_busy_percent", "250\n"),
        ("pcie_replay_count", "6\n"),
        ("hwmon/hwmon4/temp2_label", "junction\n"),
        ("hwmon/hwmon4/temp2_input", "71000\n"),
        ("hwmon/hwmon4/power1_input", "431000000\n"),
        ("hwmon/hwmon4/power1_cap", "750000000\n"),
        ("hwmon/hwmon4/freq1_input", "2100000000\n"),
        ("hwmon/hwmon4/freq2_input", "1300000000\n"),
        ("ras/umc_err_count", "ue: 1\nce: 20\n"),
        ("ras/gfx_err_count", "ue: 2\nce: 0\n"),
        ("ras/features", "feature mask: 0x7\n"),
    ];
    for (name, text) in files {
        tree.file(&format!("{device}/{name}"), text);
    }
    let card = tree.root.path().join(format!("sys/class/drm/card{number}"));
    fs::create_dir_all(&card).expect("it is made");
    symlink(tree.root.path().join(device), card.join("device")).expect("the link is made");
}

#[test]
fn amds_devices_are_read_from_sysfs_in_the_order_of_their_cards() {
    let tree = Tree::new();
    amd_card(&tree, 10, "0000:8c:00.0");
    amd_card(&tree, 2, "0000:2C:00.0");
    tree.file("sys/class/drm/card2-DP-1/status", "connected\n")
        .file("sys/class/drm/card1/device/vendor", "0x8086\n");
    let reading = tree.reading();
    let expected = Device {
        maker: Maker::Amd,
        index: 0,
        uuid: "6a2b3c4d5e6f7081".to_owned(),
        name: "AMD Instinct MI300X".to_owned(),
        pci: Some("0000:2c:00.0".to_owned()),
        lost: false,
        memory_used_bytes: Some(1 << 20),
        memory_total_bytes: Some(206_141_652_992),
        sm_clock_hz: Some(2_100_000_000),
        memory_clock_hz: Some(1_300_000_000),
        power_w: Some(431.0),
        power_limit_w: Some(750.0),
        temperature_c: Some(71.0),
        throttle: None,
        ecc_corrected: Some(20),
        ecc_uncorrected: Some(3),
        last_xid: None,
        xids: None,
        nvlink_sent_bytes: None,
        nvlink_received_bytes: None,
        nvlink_errors: None,
        nvlinks_active: None,
        utilisation: Some(0.93),
        memory_utilisation: None,
        pcie_sent_bytes: None,
        pcie_received_bytes: None,
        pcie_replays: Some(6),
    };
    let second = Device { index: 1, pci: Some("0000:8c:00.0".to_owned()), ..expected.clone() };
    assert_eq!(reading.devices, [expected, second]);
    assert!(!reading.notes.iter().any(|note| note.contains("NVIDIA")), "{:?}", reading.notes);
}

#[test]
fn a_file_that_never_ends_its_answer_holds_up_neither_the_devices_nor_the_caller() {
    let tree = Tree::new();
    amd_card(&tree, 0, "0000:01:00.0");
    tree.interface("eth0", "up");
    let counter = tree.root.path().join("sys/class/net/eth0/statistics/tx_bytes");
    fs::remove_file(&counter).expect("it was there");
    make_pipe(&counter);
    let machine = tree.machine(None);
    let deadline = Instant::now() + LONG;
    let mut reading = machine.reading(Duration::from_millis(100));
    while reading.devices.is_empty() {
        assert!(Instant::now() < deadline, "the interfaces hold up the devices");
        reading = machine.reading(Duration::from_millis(100));
    }
    assert_eq!((reading.nics.len(), reading.nics_age_s), (0, None));

    fs::write(&counter, "5\n").expect("the reader gets its answer");
    // Whoever opens the pipe next would wait again.
    fs::remove_file(&counter).expect("it was there");
    while reading.nics.is_empty() {
        assert!(Instant::now() < deadline, "the interfaces do not come back");
        reading = machine.reading(Duration::from_millis(100));
    }
}

fn make_pipe(path: &Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status();
    assert!(made.expect("mkfifo runs").success());
}
