//! NVIDIA's devices, through NVML, which is loaded at run time. Owns the one connection to it, which is kept: without
//! persistence mode each new one would initialise the GPUs again. Physical devices only, no parts of one (MIG).
//! Asks for nothing that NVML has to measure first, such as `nvmlDeviceGetPcieThroughput`. Tried on a made-up library so
//! far; it has not run on the hardware.

use std::path::Path;
use std::time::{Duration, Instant};

use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::bitmasks::event::EventTypes;
use nvml_wrapper::enum_wrappers::device::{Clock, EccCounter, MemoryError, TemperatureSensor};
use nvml_wrapper::enums::event::XidError;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{EventSet, Nvml};

use crate::desk::Desk;
use crate::nvidia_fields::Fields;
use crate::reading::{Device, Maker, Word};

const MOST_DEVICES: u32 = 64;
const MOST_LINKS: u32 = 18;
/// Xids taken from one device's queue in one reading; the rest waits for the next.
const MOST_EVENTS: u32 = 64;
/// Loading the library and starting it may start other programs (`nvidia-modprobe`): not every second.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(60);
const UNKNOWN_XID: u64 = 999;

/// The names that [`Device::throttle`] can hold.
pub const THROTTLE_REASONS: [&str; 9] = [
    "gpu_idle",
    "clocks_setting",
    "sw_power_cap",
    "hw_slowdown",
    "sync_boost",
    "sw_thermal_slowdown",
    "hw_thermal_slowdown",
    "hw_power_brake",
    "display_clocks",
];
/// The bits of the same, in the same order.
const THROTTLE_BITS: [ThrottleReasons; 9] = [
    ThrottleReasons::GPU_IDLE,
    ThrottleReasons::APPLICATIONS_CLOCKS_SETTING,
    ThrottleReasons::SW_POWER_CAP,
    ThrottleReasons::HW_SLOWDOWN,
    ThrottleReasons::SYNC_BOOST,
    ThrottleReasons::SW_THERMAL_SLOWDOWN,
    ThrottleReasons::HW_THERMAL_SLOWDOWN,
    ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN,
    ThrottleReasons::DISPLAY_CLOCK_SETTING,
];

#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) devices: Vec<Device>,
    /// Why there are none, or not all.
    pub(crate) note: Option<String>,
}

/// Answers the desk until it closes.
pub(crate) fn serve(desk: &Desk<Found>, library: Option<&Path>) {
    let mut failed: Option<(Instant, String)> = None;
    while desk.next() {
        if let Some((_, why)) = failed.as_ref().filter(|(at, _)| at.elapsed() < TRY_AGAIN_AFTER) {
            desk.publish(Found { devices: Vec::new(), note: Some(why.clone()) });
            continue;
        }
        let why = match open(library) {
            Ok(nvml) => match attend(desk, &nvml) {
                Some(why) => why,
                None => return,
            },
            Err(error) => reason(&error),
        };
        desk.publish(Found { devices: Vec::new(), note: Some(why.clone()) });
        failed = Some((Instant::now(), why));
    }
}

fn open(library: Option<&Path>) -> Result<Nvml, NvmlError> {
    match library {
        Some(path) => Nvml::builder().lib_path(path.as_os_str()).init(),
        None => Nvml::init(),
    }
}

fn reason(error: &NvmlError) -> String {
    match error {
        NvmlError::LibloadingError(_) => {
            "no NVIDIA devices: NVML (libnvidia-ml.so.1) is not on this machine".to_owned()
        }
        NvmlError::DriverNotLoaded => "no NVIDIA devices: the driver is not loaded".to_owned(),
        NvmlError::NoPermission => "no NVIDIA devices: no permission to talk to the driver".to_owned(),
        other => format!("no NVIDIA devices: NVML says: {other}"),
    }
}

/// Answers the question that has been taken and all that follow; then `None`, or why this connection is of no more use.
fn attend(desk: &Desk<Found>, nvml: &Nvml) -> Option<String> {
    let mut watched: Vec<Watched<'_>> = Vec::new();
    loop {
        let count = match nvml.device_count() {
            Ok(count) => count,
            Err(error) => return Some(reason(&error)),
        };
        let shown = count.min(MOST_DEVICES);
        while (watched.len() as u32) < shown {
            watched.push(Watched::new(nvml, watched.len() as u32));
        }
        let devices = watched.iter_mut().take(shown as usize).map(|device| device.read(nvml)).collect();
        let note = match count {
            0 => Some("no NVIDIA devices: the driver knows none".to_owned()),
            _ => (count > shown).then(|| format!("{count} NVIDIA devices, of which {shown} are shown")),
        };
        desk.publish(Found { devices, note });
        if !desk.next() {
            return None;
        }
    }
}

/// A device with what outlasts one reading: who it is, which it cannot say any more once it is lost, and its Xids.
struct Watched<'nvml> {
    known: Device,
    events: Option<EventSet<'nvml>>,
    xids: u64,
    last_xid: Option<u64>,
}

impl<'nvml> Watched<'nvml> {
    fn new(nvml: &'nvml Nvml, index: u32) -> Self {
        // A set of its own for each device: one that refuses takes its set with it.
        let events = nvml.device_by_index(index).ok().and_then(|device| {
            let set = nvml.create_event_set().ok()?;
            device.register_events(EventTypes::CRITICAL_XID_ERROR, set).ok()
        });
        Self { known: Device::unknown(Maker::Nvidia, index), events, xids: 0, last_xid: None }
    }

    fn read(&mut self, nvml: &Nvml) -> Device {
        self.take_events();
        let mut lost = false;
        let device = match nvml.device_by_index(self.known.index) {
            Ok(device) => {
                self.introduce(&device);
                values(&self.known, &device, &mut lost)
            }
            Err(error) => {
                lost = matches!(error, NvmlError::GpuLost);
                self.known.clone()
            }
        };
        // Half of a device that went while it was read says less than nothing.
        let device = if lost { Device { lost, ..self.known.clone() } } else { device };
        Device { xids: self.events.as_ref().map(|_| self.xids), last_xid: self.last_xid, ..device }
    }

    /// Without waiting: no event is an error called timeout.
    fn take_events(&mut self) {
        let Some(events) = &self.events else { return };
        for _ in 0..MOST_EVENTS {
            let Ok(event) = events.wait(0) else { return };
            let Some(xid) = event.event_data else { continue };
            self.xids += 1;
            self.last_xid = Some(match xid {
                XidError::Value(number) => number,
                XidError::Unknown => UNKNOWN_XID,
            });
        }
    }

    fn introduce(&mut self, device: &nvml_wrapper::Device<'_>) {
        if self.known.uuid.is_empty() {
            self.known.uuid = device.uuid().unwrap_or_default();
            self.known.name = device.name().unwrap_or_default();
            self.known.pci = device.pci_info().ok().map(|pci| short_address(&pci.bus_id));
        }
    }
}

fn values(known: &Device, device: &nvml_wrapper::Device<'_>, lost: &mut bool) -> Device {
    let mut ask = Asking { lost };
    let memory = ask.value(device.memory_info());
    let used = ask.value(device.utilization_rates());
    let errors = |ask: &mut Asking<'_>, kind| ask.value(device.total_ecc_errors(kind, EccCounter::Volatile));
    let share = |percent: u32| f64::from(percent.min(100)) / 100.0;
    let fields = Fields::read(device);
    let links = links(device);
    Device {
        memory_used_bytes: memory.as_ref().map(|memory| memory.used),
        memory_total_bytes: memory.as_ref().map(|memory| memory.total),
        sm_clock_hz: ask.value(device.clock_info(Clock::SM)).map(hertz),
        memory_clock_hz: ask.value(device.clock_info(Clock::Memory)).map(hertz),
        power_w: ask.value(device.power_usage()).map(watts),
        power_limit_w: ask.value(device.enforced_power_limit()).map(watts),
        temperature_c: ask.value(device.temperature(TemperatureSensor::Gpu)).map(f64::from),
        throttle: ask.value(device.current_throttle_reasons()).map(throttle_names),
        ecc_corrected: errors(&mut ask, MemoryError::Corrected),
        ecc_uncorrected: errors(&mut ask, MemoryError::Uncorrected),
        nvlink_sent_bytes: fields.nvlink_sent_bytes,
        nvlink_received_bytes: fields.nvlink_received_bytes,
        nvlink_errors: fields.nvlink_errors,
        nvlinks_active: links,
        utilisation: used.as_ref().map(|used| share(used.gpu)),
        memory_utilisation: used.as_ref().map(|used| share(used.memory)),
        pcie_sent_bytes: fields.pcie_sent_bytes,
        pcie_received_bytes: fields.pcie_received_bytes,
        pcie_replays: ask.value(device.pcie_replay_counter()).map(u64::from),
        ..known.clone()
    }
}

/// Turns what is not answered into `None`, and notices a device that has fallen off the bus.
struct Asking<'a> {
    lost: &'a mut bool,
}

impl Asking<'_> {
    fn value<T>(&mut self, answer: Result<T, NvmlError>) -> Option<T> {
        *self.lost |= matches!(answer, Err(NvmlError::GpuLost));
        answer.ok()
    }
}

/// How many links are up; `None` where the device has none.
fn links(device: &nvml_wrapper::Device<'_>) -> Option<u32> {
    let states = (0..MOST_LINKS).map_while(|link| device.link_wrapper_for(link).is_active().ok());
    states.fold(None, |active, up| Some(active.unwrap_or(0) + u32::from(up)))
}

fn throttle_names(reasons: ThrottleReasons) -> Vec<Word> {
    let named = THROTTLE_BITS.into_iter().zip(THROTTLE_REASONS);
    named.filter(|(bits, _)| reasons.intersects(*bits)).map(|(_, name)| name.into()).collect()
}

/// NVML writes the domain with eight digits, the kernel with four.
fn short_address(bus_id: &str) -> String {
    let short =
        bus_id.strip_prefix("0000").filter(|rest| rest.len() == "0000:00:00.0".len()).unwrap_or(bus_id);
    short.to_ascii_lowercase()
}

fn hertz(megahertz: u32) -> u64 {
    u64::from(megahertz) * 1_000_000
}

fn watts(milliwatts: u32) -> f64 {
    f64::from(milliwatts) / 1e3
}
