//! The table: each setting once, with its names, its kind and bounds, its default and one sentence.
//! The struct that the product reads, the parsers, `airamp config` and docs/settings.md come from it.
//! To add a setting, add a row and run the tests of this crate with AIRAMP_BLESS=1.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use crate::kinds::{
    AbsolutePath, Address, AutoOr, Decimal, Effects, FilePath, Given, Kind, LOG_LEVELS, LogLevel, MODES,
    Mode, Name, PatternEffects, Plain, Size, Switch, WIRE_FORMATS, Whole, WireFormat,
};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const MINUTE_MS: u64 = 60_000;

/// The part of the product that a setting steers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Library,
    /// What is compressed, and how the ranks agree on it: a wrong value keeps this rank, and with it all, from compressing.
    Compression,
    GhostKernels,
    Daemon,
}

/// One row of the table.
pub struct Setting {
    /// Name in the environment.
    pub env: &'static str,
    /// Key in the settings file.
    pub key: &'static str,
    /// One sentence for people.
    pub doc: &'static str,
    pub part: Part,
    /// What a right value looks like; completes the sentence "expected …".
    pub expects: fn() -> String,
    /// The value that these settings hold.
    pub value: fn(&Settings) -> Plain,
    /// Stores the value if it is right, else leaves the settings alone and answers false.
    pub(crate) store: fn(&mut Settings, &Given) -> bool,
}

impl Setting {
    pub fn default_value(&self) -> Plain {
        (self.value)(&Settings::default())
    }
}

macro_rules! settings {
    ($($env:literal $key:ident: $type:ty = $default:expr, $kind:expr, $part:expr, $doc:literal;)*) => {
        /// The value of every setting. Each lies inside the bounds that its row gives.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Settings {
            $(#[doc = $doc] pub $key: $type,)*
        }

        impl Default for Settings {
            fn default() -> Self {
                Self { $($key: $default,)* }
            }
        }

        /// Every setting, in the order in which people should read about them.
        pub const TABLE: &[Setting] = &[$(
            Setting {
                env: $env,
                key: stringify!($key),
                doc: $doc,
                part: $part,
                expects: || $kind.expects(),
                value: |settings| $kind.plain(&settings.$key),
                store: |settings, given| match $kind.read(given) {
                    Some(value) => {
                        settings.$key = value;
                        true
                    }
                    None => false,
                },
            },
        )*];
    };
}

settings! {
    "AIRAMP_DISABLE" disable: bool = false, Switch, Part::Library,
        "Makes the library inert: every call goes straight to the vendor's function and nothing is watched.";

    "AIRAMP_MODE" mode: Mode = Mode::Observe, MODES, Part::Compression,
        "`observe` watches calls and changes nothing; `shadow` adds dry trials at a bounded rate, which tell what compression would gain and cost and never touch a result; `on` compresses, which is lossy, where all ranks agree on it and it was measured to pay.";

    "AIRAMP_ENABLE_FP8_ALLREDUCE" enable_fp8_allreduce: bool = false, Switch, Part::Compression,
        "`1` means mode `on`; `0` leaves the mode as it is.";

    "AIRAMP_WIRE_FORMAT" wire_format: WireFormat = WireFormat::Auto, WIRE_FORMATS, Part::Compression,
        "The 8-bit format on the wire; `auto` chooses E4M3 or INT8 block by block, by a rule on the INT8 codes that stands for the smaller error.";

    "AIRAMP_MIN_SPEEDUP" min_speedup: f64 = 1.05, Decimal { least: 1.0, most: 100.0 }, Part::Compression,
        "A class of calls is compressed only if it was measured to be at least this many times as fast.";

    "AIRAMP_MAX_VNMSE" max_vnmse: f64 = 2e-3, Decimal { least: 0.0, most: 1.0 }, Part::Compression,
        "A class of calls is compressed only if its error, as a share of the signal's power (vNMSE), was measured to be at most this; while it is compressed, a larger error switches compression off.";

    "AIRAMP_TRIAL_MS" trial_ms: u64 = 10_000, Whole { least: 0_u64, most: 60 * MINUTE_MS }, Part::Compression,
        "The most time that dry trials may take in the life of a communicator, in milliseconds; what has not been tried by then goes to the vendor.";

    "AIRAMP_TUNING_CACHE" tuning_cache: Option<PathBuf> = None, FilePath, Part::Library,
        "A file that keeps what was decided for the next job with the same ranks, hosts, hardware, versions and settings; it is used where all ranks hold the same.";

    "AIRAMP_MIN_BYTES" min_bytes: u64 = MIB, Size { least: 0, most: 1024 * GIB }, Part::Compression,
        "Smaller messages are never compressed.";

    "AIRAMP_ARENA_BYTES" arena_bytes: u64 = 16 * MIB, Size { least: 64 * KIB, most: 4 * GIB }, Part::Compression,
        "Device memory that each rank may use as scratch space.";

    "AIRAMP_RANKS_PER_NODE" ranks_per_node: Option<u32> = None, AutoOr(Whole { least: 1_u32, most: 1024 }), Part::Compression,
        "How many ranks of a communicator lie on each node, one node's after the other's: with several, what is compressed leaves a node once and not once for each of them. `auto`: what their hosts say (NCCL_HOSTID, or host name and boot id), where that is even; a number, the same on all ranks, where hosts tell it wrong; `1` switches it off. A number that does not make two nodes or more of a communicator's ranks, all full, counts as 1.";

    "AIRAMP_LEAN_MESSAGES" lean_messages: bool = false, Switch, Part::Compression,
        "Puts a one-byte Reduce into each group of messages of a compressed call, so that NCCL runs them in a kernel with a smaller stack, which should save 35 to 65 MB of device memory per rank with three ranks or more. From NCCL's source; it has run on the emulator only, so it is off.";

    "AIRAMP_CONSENSUS_TIMEOUT_MS" consensus_timeout_ms: u64 = 5_000,
        Whole { least: 10_u64, most: 60 * MINUTE_MS }, Part::Compression,
        "The longest that creating a communicator waits for other ranks, in milliseconds: before the vendor's part until its leader is reached (a quarter of that where a host did not answer before), and after it for the verdict. A rank that has pledged waits for AIRAMP_DOUBT_MS.";

    "AIRAMP_DOUBT_MS" doubt_ms: u64 = 30_000, Whole { least: 100_u64, most: 60 * MINUTE_MS }, Part::Compression,
        "The longest that a rank which has pledged a change waits for a lost verdict before it returns an error, in milliseconds.";

    "AIRAMP_JOB" job: Option<String> = None, Name, Part::Library,
        "The job's name for `airamp disable --job` and `airamp enable --job`; where it is unset, SLURM_JOB_ID or TORCHELASTIC_RUN_ID (unless that is torchrun's `none`) stands in.";

    "AIRAMP_ENABLE_GHOST_KERNELS" enable_ghost_kernels: bool = false, Switch,
        Part::GhostKernels,
        "Keeps the GPU awake with tiny kernels in the idle gaps of a rhythm that is known, where it is measured that this shortens what comes behind the gap; needs AIRAMP_PATTERN and AIRAMP_TELEMETRY.";

    "AIRAMP_GHOST_INTERVAL_US" ghost_interval_us: u64 = 2_000, Whole { least: 100_u64, most: 1_000_000 },
        Part::GhostKernels,
        "The shortest time between two ghost kernels, in microseconds.";

    "AIRAMP_GHOST_MAX_IDLE_MS" ghost_max_idle_ms: u64 = 2_000, Whole { least: 1_u64, most: MINUTE_MS },
        Part::GhostKernels,
        "So long after the last call the device is left to sleep, in milliseconds.";

    "AIRAMP_GHOST_DUTY_PERCENT" ghost_duty_percent: f64 = 0.5, Decimal { least: 0.001, most: 5.0 },
        Part::GhostKernels,
        "The most of a device's time that ghost kernels may take, in percent; the interval is made longer where it takes that.";

    "AIRAMP_TELEMETRY" telemetry: bool = true, Switch, Part::Library,
        "Counts calls, bytes and times in a file of shared memory, one per process, that `airampd` and `airamp status` read.";

    "AIRAMP_TELEMETRY_DIR" telemetry_dir: Option<PathBuf> = None, AbsolutePath, Part::Library,
        "The folder under which each user has one for these files, `airamp-<uid>`; without it /dev/shm, and where that cannot be used /tmp if it is in memory. The daemon looks there too.";

    "AIRAMP_DEVICE_TIMINGS" device_timings: bool = true, Switch, Part::Library,
        "Measures the device time of some calls with pairs of events on the application's streams; needs AIRAMP_TELEMETRY.";

    "AIRAMP_PATTERN" pattern: bool = true, Switch, Part::Library,
        "Learns the rhythm of each communicator's calls, numbers its steps, and tells when a call is late, missing, extra or resized and when steps change their length; needs AIRAMP_TELEMETRY.";

    "AIRAMP_PATTERN_EFFECTS" pattern_effects: PatternEffects = PatternEffects::ALL, Effects, Part::Library,
        "What a learnt rhythm is used for: `plans` looks up how a compressed call is cut, `samples` takes device times also where a step of 10 ms or more begins, `chunks` tells the leader which chunks fit the calls of the step, for it to have them tried. None of them changes what a rank sends without the others' agreement.";

    "AIRAMP_METRICS_ADDR" metrics_addr: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST), Address,
        Part::Daemon,
        "The address at which the daemon serves metrics.";

    "AIRAMP_METRICS_PORT" metrics_port: u16 = 9090, Whole { least: 1_u16, most: u16::MAX },
        Part::Daemon,
        "The TCP port at which the daemon serves metrics.";

    "AIRAMP_METRICS_TOKEN_FILE" metrics_token_file: Option<PathBuf> = None, FilePath, Part::Daemon,
        "A file with the token that a client of the daemon must present (`Authorization: Bearer`).";

    "AIRAMP_METRICS_TLS_CERT" metrics_tls_cert: Option<PathBuf> = None, FilePath, Part::Daemon,
        "The daemon's certificate chain in PEM; with AIRAMP_METRICS_TLS_KEY it serves TLS only.";

    "AIRAMP_METRICS_TLS_KEY" metrics_tls_key: Option<PathBuf> = None, FilePath, Part::Daemon,
        "The private key of the daemon's certificate, in PEM.";

    "AIRAMP_EVIDENCE_DIR" evidence_dir: Option<PathBuf> = None, FilePath, Part::Daemon,
        "The folder in which the daemon keeps the calls around an anomaly; without it /var/lib/airamp/evidence where that can be written, else nothing is kept.";

    "AIRAMP_DEVICE_METRICS" device_metrics: bool = true, Switch, Part::Daemon,
        "Lets the daemon read the GPUs' own counters (NVML), where there are any.";

    "AIRAMP_NIC_METRICS" nic_metrics: bool = true, Switch, Part::Daemon,
        "Lets the daemon read the counters of network interfaces and RDMA devices.";

    "AIRAMP_HANG_AFTER_MS" hang_after_ms: u64 = 10_000, Whole { least: 100_u64, most: 60 * MINUTE_MS }, Part::Daemon,
        "A communicator of which some ranks have waited so long for the others is reported as hung, in milliseconds.";

    "AIRAMP_LATE_AFTER_MS" late_after_ms: u64 = 1_000, Whole { least: 10_u64, most: 60 * MINUTE_MS }, Part::Daemon,
        "A rank that comes to a collective so much later than the others is reported as late, in milliseconds.";

    "AIRAMP_NCCL_PATH" nccl_path: Option<PathBuf> = None, FilePath, Part::Library,
        "The NCCL or RCCL library to use where the process has not loaded one itself.";

    "AIRAMP_KERNEL_DIR" kernel_dir: Option<PathBuf> = None, FilePath, Part::Library,
        "A folder with other code objects than the embedded ones, as `airamp kernels build` writes it: `airamp bench` uses them, and so does the library where it compresses.";

    "AIRAMP_LOG" log: LogLevel = LogLevel::Warn, LOG_LEVELS, Part::Library,
        "How much the library logs; each level includes those before it.";

    "AIRAMP_LOG_FILE" log_file: Option<PathBuf> = None, FilePath, Part::Library,
        "The file to which log lines are appended; without it they go to stderr.";
}
