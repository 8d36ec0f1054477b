//! The machine as its users see it: one reading made of what three threads found, NVIDIA's, AMD's and the kernel's, so
//! that none of them holds up another. Never waits longer than it was told, and reads nothing unless it is asked.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::desk::{Answer, SILENT, Worker};
use crate::interfaces::Choice;
use crate::reading::{Device, Reading};
use crate::{amd, nics, nvidia};

const MOST_USED: usize = 64;

#[derive(Clone, Debug)]
pub struct Options {
    pub roots: Roots,
    /// AIRAMP_DEVICE_METRICS
    pub devices: bool,
    /// AIRAMP_NIC_METRICS
    pub nics: bool,
    /// NCCL_SOCKET_IFNAME as the jobs have it, if it is known: what it names is shown even where it is virtual.
    pub socket_ifname: Option<String>,
    /// A reading that is younger than this is not taken again.
    pub fresh_for: Duration,
}

/// Where to look; other roots only in tests.
#[derive(Clone, Debug)]
pub struct Roots {
    pub sys: PathBuf,
    pub proc: PathBuf,
    /// The library to load; `None`: `libnvidia-ml.so.1`, by the dynamic linker's own search.
    pub nvml: Option<PathBuf>,
}

pub struct Machine {
    nvidia: Option<Worker<nvidia::Found>>,
    amd: Option<Worker<Vec<Device>>>,
    nics: Option<Worker<nics::Found>>,
    used: Arc<Mutex<Vec<String>>>,
    fresh_for: Duration,
}

impl Machine {
    pub fn watch(options: Options) -> Self {
        let Options { roots: Roots { sys, proc, nvml }, .. } = options;
        let used = Arc::new(Mutex::new(Vec::new()));
        let nvidia = move |desk: &_| nvidia::serve(desk, nvml.as_deref());
        let amd_sys = sys.clone();
        let amd = move |desk: &_| amd::serve(desk, &amd_sys);
        let choice = Choice::parse(options.socket_ifname.as_deref().unwrap_or_default());
        let named = Arc::clone(&used);
        let names = move || named.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let nics = move |desk: &_| nics::serve(desk, sys, proc, choice, names);
        Self {
            nvidia: options.devices.then(|| Worker::start("nvml", nvidia)),
            amd: options.devices.then(|| Worker::start("amdgpu", amd)),
            nics: options.nics.then(|| Worker::start("interfaces", nics)),
            used,
            fresh_for: options.fresh_for,
        }
    }

    /// The interfaces that jobs say they use: they are shown whatever they are called, from the next reading on.
    pub fn show_interfaces(&self, names: impl IntoIterator<Item = String>) {
        let mut names: Vec<_> = names.into_iter().filter(|name| !name.is_empty()).take(MOST_USED).collect();
        names.dedup();
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = names;
    }

    /// The last reading. Has a new one taken if it is older than `fresh_for`, and waits for that at most `wait`: then the
    /// old one is returned, with its age. Never blocks longer, whatever a driver does.
    pub fn reading(&self, wait: Duration) -> Reading {
        let now = Instant::now();
        let deadline = now.checked_add(wait).unwrap_or(now);
        // All are asked before one is waited for.
        ask(&self.nvidia, self.fresh_for);
        ask(&self.amd, self.fresh_for);
        ask(&self.nics, self.fresh_for);
        let mut reading = Reading::default();
        self.add_devices(&mut reading, deadline);
        self.add_nics(&mut reading, deadline);
        reading
    }

    fn add_devices(&self, reading: &mut Reading, deadline: Instant) {
        let (Some(nvidia), Some(amd)) = (&self.nvidia, &self.amd) else {
            reading.notes.push("GPUs are not read: AIRAMP_DEVICE_METRICS is off".to_owned());
            return;
        };
        let (nvidia, amd) = (nvidia.answer(deadline), amd.answer(deadline));
        reading.notes.extend(silence("NVIDIA's driver", &nvidia));
        reading.notes.extend(silence("AMD's driver", &amd));
        let of_nvidia = nvidia.value.as_ref().map_or(&[][..], |found| &found.devices);
        let of_amd = amd.value.as_ref().map_or(&[][..], |found| found);
        // That there is no NVIDIA driver is no news on a node with AMD's devices.
        if of_amd.is_empty() {
            reading.notes.extend(nvidia.value.as_ref().and_then(|found| found.note.clone()));
        }
        let holders = [(of_nvidia, nvidia.age), (of_amd, amd.age)];
        let oldest =
            holders.iter().filter(|(devices, _)| !devices.is_empty()).filter_map(|(_, age)| *age).max();
        // That there are none is known when both have said so.
        let oldest = oldest.or_else(|| Some(nvidia.age?.max(amd.age?)));
        reading.devices_age_s = oldest.map(|age| age.as_secs_f64());
        reading.devices = [of_nvidia, of_amd].concat();
    }

    fn add_nics(&self, reading: &mut Reading, deadline: Instant) {
        let Some(nics) = &self.nics else {
            reading.notes.push("network interfaces are not read: AIRAMP_NIC_METRICS is off".to_owned());
            return;
        };
        let answer = nics.answer(deadline);
        reading.notes.extend(silence("the kernel's list of network interfaces", &answer));
        reading.nics_age_s = answer.age.map(|age| age.as_secs_f64());
        let Some(found) = answer.value else { return };
        reading.nics.clone_from(&found.nics);
        reading.rdma_ports.clone_from(&found.ports);
        reading.tcp = found.tcp;
        reading.notes.extend(found.notes.iter().cloned());
    }
}

fn ask<T: Send + Sync + 'static>(worker: &Option<Worker<T>>, fresh_for: Duration) {
    if let Some(worker) = worker {
        worker.ask(fresh_for);
    }
}

fn silence<T>(who: &str, answer: &Answer<T>) -> Option<String> {
    if answer.gone {
        return Some(format!("{who} is not asked any more: the thread that did has ended"));
    }
    let silent = answer.silent_for.filter(|silent| *silent >= SILENT)?;
    Some(format!("{who} has not answered for {} s; what is shown is older", silent.as_secs()))
}

impl Default for Options {
    fn default() -> Self {
        Self {
            roots: Roots::default(),
            devices: true,
            nics: true,
            socket_ifname: std::env::var("NCCL_SOCKET_IFNAME").ok(),
            fresh_for: Duration::from_secs(1),
        }
    }
}

impl Default for Roots {
    fn default() -> Self {
        Self { sys: "/sys".into(), proc: "/proc".into(), nvml: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_switched_off_has_no_thread_and_says_so() {
        let machine = Machine::watch(Options { devices: false, nics: false, ..Options::default() });
        assert!(machine.nvidia.is_none() && machine.amd.is_none() && machine.nics.is_none());
        let reading = machine.reading(Duration::from_secs(60));
        assert_eq!((reading.devices_age_s, reading.nics_age_s, reading.notes.len()), (None, None, 2));
    }
}
