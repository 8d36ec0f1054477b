//! Windows of single calls around an anomaly, for evidence. The files still hold the calls before it; those after
//! it are read at the looks that follow. Bounded in windows, processes and calls. `airampd` writes them down.

use serde::{Deserialize, Serialize};

use airamp_telemetry::CallRecord;
use airamp_telemetry::snapshot::{Call as Told, Since};

use crate::files::Files;
use crate::name;
use crate::process::Process as Remembered;
use crate::reading::Now;
use crate::view::{Finding, Word};
use crate::world::World;

const CALLS: usize = 256;
const SPAN_NS: u64 = 2_000_000_000;
const PROCESSES: usize = 64;
/// Windows under way, and those that nobody has fetched yet.
const OPEN: usize = 4;
const WAITING: usize = 16;

/// Complete when 256 calls, or two seconds, after the anomaly have been seen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Window {
    pub finding: Finding,
    pub node: String,
    /// One per process of the finding's job on this node, at most 64, the ranks of the finding first.
    pub processes: Vec<Process>,
    /// When it was complete.
    pub time_unix_ms: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Process {
    pub rank: Option<u32>,
    pub pid: u32,
    pub device_uuid: String,
    pub nic: String,
    pub command: String,
    pub version: String,
    pub vendor: String,
    /// The last before the anomaly, oldest first.
    pub before: Vec<Call>,
    pub after: Vec<Call>,
    /// Calls that were overwritten before they could be read.
    pub lost: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Call {
    pub communicator: String,
    pub kind: Word,
    pub path: Word,
    pub datatype: Word,
    pub count: u64,
    pub sequence: u64,
    /// Null where it is not known.
    pub step: Option<u32>,
    pub group: bool,
    pub error: bool,
    pub entered_unix_us: u64,
    /// Host time in the vendor's function and in ours; null for a call whose time was not split.
    pub vendor_us: Option<f64>,
    pub hook_us: Option<f64>,
    /// Null where it was not timed.
    pub device_us: Option<f64>,
}

/// Windows that are being filled or wait to be fetched.
#[derive(Default)]
pub(crate) struct Windows {
    open: Vec<Filling>,
    complete: Vec<Window>,
    /// Findings that found no room, and windows that nobody fetched in time.
    dropped: u64,
}

struct Filling {
    window: Window,
    began_ns: u64,
    /// For each process of the window, where it is read on.
    cursors: Vec<(u64, u64)>,
}

/// Where calls are read from: files, or a test's own.
pub(crate) trait Source {
    fn calls_since(&self, id: u64, cursor: u64) -> Option<Since<Told>>;
}

impl Source for Files {
    fn calls_since(&self, id: u64, cursor: u64) -> Option<Since<Told>> {
        Files::calls_since(self, id, cursor)
    }
}

impl Windows {
    /// Fills the open windows and opens one for each finding that began and has calls to show.
    pub(crate) fn follow(&mut self, began: &[Finding], world: &World, source: &impl Source, now: Now) {
        for filling in &mut self.open {
            filling.fill(world, source, now);
        }
        let (full, open): (Vec<Filling>, Vec<Filling>) =
            std::mem::take(&mut self.open).into_iter().partition(|filling| filling.is_complete(now));
        self.open = open;
        for mut filling in full {
            filling.window.time_unix_ms = now.unix_ms;
            self.complete.push(filling.window);
        }
        self.dropped += self.complete.len().saturating_sub(WAITING) as u64;
        self.complete.truncate(WAITING);
        for finding in began {
            if self.open.len() < OPEN {
                self.open.push(Filling::new(finding, world, source, now));
            } else {
                self.dropped += 1;
            }
        }
    }

    pub(crate) fn complete(&mut self) -> Vec<Window> {
        std::mem::take(&mut self.complete)
    }

    pub(crate) fn dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }
}

impl Filling {
    fn new(finding: &Finding, world: &World, source: &impl Source, now: Now) -> Self {
        let mut processes = world.processes_of(&finding.job);
        let named = |process: &Remembered| process.rank.is_some_and(|rank| finding.ranks.contains(&rank));
        processes.sort_by_key(|(_, process)| (!named(process), process.rank));
        processes.truncate(PROCESSES);
        let mut window =
            Window { finding: finding.clone(), node: world.node().to_owned(), ..Window::default() };
        let mut cursors = Vec::new();
        for (id, process) in processes {
            let (shown, next) = before(id, process, source, now);
            window.processes.push(shown);
            cursors.push((id, next));
        }
        Self { window, began_ns: now.ns, cursors }
    }

    fn fill(&mut self, world: &World, source: &impl Source, now: Now) {
        for ((id, cursor), shown) in self.cursors.iter_mut().zip(&mut self.window.processes) {
            let room = CALLS.saturating_sub(shown.after.len());
            let Some(since) = (room > 0).then(|| source.calls_since(*id, *cursor)).flatten() else {
                continue;
            };
            *cursor = since.next;
            shown.lost = shown.lost.saturating_add(since.lost);
            let process = world.process(*id);
            shown.after.extend(since.items.iter().take(room).map(|told| call(told, process, now)));
        }
    }

    fn is_complete(&self, now: Now) -> bool {
        now.ns.saturating_sub(self.began_ns) >= SPAN_NS
            || self.window.processes.iter().all(|process| process.after.len() >= CALLS)
    }
}

/// The last calls before the anomaly, and where to read on.
fn before(id: u64, process: &Remembered, source: &impl Source, now: Now) -> (Process, u64) {
    let from = process.snapshot.calls_written.saturating_sub(CALLS as u64);
    let since = source.calls_since(id, from).unwrap_or(Since { items: Vec::new(), next: from, lost: 0 });
    let identity = &process.snapshot.identity;
    let own = process.snapshot.communicators.first().map(|communicator| &communicator.facts);
    let items = since.items.iter().skip(since.items.len().saturating_sub(CALLS));
    let shown = Process {
        rank: process.rank,
        pid: process.snapshot.pid,
        device_uuid: own.map(|facts| name::device(&facts.device_uuid)).unwrap_or_default(),
        nic: own.map(|facts| name::padded(&facts.nic)).unwrap_or_default(),
        command: identity.command.clone(),
        version: identity.version.clone(),
        vendor: identity.vendor.clone(),
        before: items.map(|told| call(told, Some(process), now)).collect(),
        after: Vec::new(),
        lost: since.lost,
    };
    (shown, since.next)
}

fn call(told: &Told, process: Option<&Remembered>, now: Now) -> Call {
    let communicators = process.map(|process| process.snapshot.communicators.as_slice()).unwrap_or_default();
    let own = communicators.iter().find(|communicator| Some(communicator.slot) == told.slot);
    let us = |ns: u64| ns as f64 / 1e3;
    let split = told.vendor_ns > 0 || told.hook_ns > 0;
    let ago_us = now.ns.saturating_sub(told.entered_ns) / 1_000;
    Call {
        communicator: own.map(|own| name::communicator(own.facts.name)).unwrap_or_default(),
        kind: told.kind.name().into(),
        path: told.path.name().into(),
        datatype: told.datatype.name().into(),
        count: told.count,
        sequence: told.sequence,
        step: (told.step > 0).then_some(told.step),
        group: told.flags & CallRecord::GROUP != 0,
        error: told.flags & CallRecord::ERROR != 0,
        entered_unix_us: now.unix_ms.saturating_mul(1_000).saturating_sub(ago_us),
        vendor_us: split.then(|| us(told.vendor_ns)),
        hook_us: split.then(|| us(told.hook_ns)),
        device_us: (told.device_ns > 0).then(|| us(u64::from(told.device_ns))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditions::Limits;
    use crate::made_up;

    struct NoCalls;

    impl Source for NoCalls {
        fn calls_since(&self, _: u64, _: u64) -> Option<Since<Told>> {
            None
        }
    }

    fn at(second: u64) -> Now {
        Now { ns: second * 1_000_000_000, unix_ms: 1_000 * second }
    }

    #[test]
    fn what_was_not_measured_is_null_and_not_zero() {
        let unknown = Told { step: 0, vendor_ns: 0, hook_ns: 0, device_ns: 0, ..made_up::call(1, 0) };
        let shown = call(&unknown, None, at(1));
        assert_eq!((shown.step, shown.vendor_us, shown.hook_us, shown.device_us), (None, None, None, None));
        let known = Told { step: 3, vendor_ns: 2_000, hook_ns: 0, device_ns: 5_000, ..unknown };
        let shown = call(&known, None, at(1));
        assert_eq!((shown.step, shown.vendor_us), (Some(3), Some(2.0)));
        assert_eq!((shown.hook_us, shown.device_us), (Some(0.0), Some(5.0)));
    }

    #[test]
    fn findings_without_room_and_windows_that_nobody_fetches_are_counted() {
        let world = World::new("n".to_owned(), Limits { hang_after_ns: 1, late_after_ns: 1 });
        let mut windows = Windows::default();
        let began = vec![Finding::default(); OPEN + 2];
        windows.follow(&began, &world, &NoCalls, at(0));
        assert_eq!((windows.dropped(), windows.dropped()), (2, 0), "each is told once");
        let rounds = WAITING / OPEN + 1;
        for round in 1..=rounds {
            windows.follow(&began[..OPEN], &world, &NoCalls, at(3 * round as u64));
        }
        assert_eq!((windows.dropped(), windows.complete().len()), (OPEN as u64, WAITING));
    }
}
