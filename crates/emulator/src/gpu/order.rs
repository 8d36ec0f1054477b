//! The order of a device's streams: what each new piece of work has to wait for, and
//! which accesses that puts in order.
//!
//! Lives under the device's submission lock. Owns the rules of the legacy default stream;
//! knows nothing of captures, which never get here before their graph is launched.

use std::sync::Arc;

use super::clock::{self, Clock, Timeline};
use super::completion::Completion;
use super::device::Device;
use super::event::Record;
use super::handles::ByNumber;
use super::memory::{self, Place};
use super::queue::{Action, Execution, Item, Slot};
use super::races::{self, Accessor};
use super::work::{NodeKind, Operation, Work};
use crate::environment;

/// A sequence of work on one hardware queue: a stream, or a branch of a launched graph.
pub(super) struct Lane {
    pub(super) name: Arc<str>,
    pub(super) queue: usize,
    pub(super) timeline: Arc<Timeline>,
    pub(super) clock: Clock,
    /// The end of what was submitted last.
    pub(super) last: Option<Arc<Completion>>,
}

impl Lane {
    pub(super) fn new(name: String, queue: usize) -> Self {
        Self {
            name: name.into(),
            queue,
            timeline: Arc::new(Timeline::new()),
            clock: Clock::default(),
            last: None,
        }
    }

    /// Puts work at the end of the lane, to run when all of `after` is over too.
    pub(super) fn enqueue(
        &mut self,
        device: &Device,
        mut after: Vec<Arc<Completion>>,
        work: Work,
        slot: Option<Slot>,
    ) -> Arc<Completion> {
        let completion = Completion::new();
        self.clock.join(&clock::host());
        let action = match work {
            Work::Operation(kind, operation) => Action::Run(self.execution(device, kind, &operation)),
            Work::Chained(chain, operation) => {
                let mut shared = chain.hold();
                self.clock.join(&shared);
                let execution = self.execution(device, NodeKind::Kernel, &operation);
                shared.join(&self.clock);
                Action::Run(execution)
            }
            Work::Record(event) => {
                let record = Record::new(Arc::clone(&completion), self.clock.clone());
                event.renew(&record);
                Action::Stamp(record)
            }
            Work::Wait(event) => {
                if let Some(record) = event.latest() {
                    self.clock.join(&record.clock);
                    after.push(Arc::clone(&record.completion));
                }
                Action::Nothing
            }
            Work::Nothing => Action::Nothing,
            Work::Keep(graph) => Action::Release(graph),
        };
        let last = Arc::clone(&completion);
        self.last = Some(Arc::clone(&completion));
        after.retain(|earlier| !earlier.is_done());
        device.queues[self.queue].push(Item { after, action, completion, slot });
        last
    }

    fn execution(&mut self, device: &Device, kind: NodeKind, operation: &Operation) -> Execution {
        let number = self.clock.tick(&self.timeline);
        let mut race = None;
        if environment::switch("AIRAMP_EMU_RACECHECK") && !operation.touches.is_empty() {
            let accessor = Accessor {
                clock: &self.clock,
                timeline: self.timeline.index,
                number,
                device: device.ordinal,
                who: format!("{} on {}", operation.label, self.name).into(),
            };
            race = races::check(&accessor, &operation.touches);
        }
        let mut writes = operation.touches.iter().filter(|touch| touch.write);
        let visible = kind == NodeKind::Host
            || writes.any(|touch| !matches!(memory::place(touch.ptr), Place::Device(_)));
        Execution {
            label: operation.label.clone(),
            run: (operation.prepare)(),
            race,
            seen_by_host: visible.then(|| self.clock.clone()),
        }
    }
}

struct Member {
    lane: Lane,
    /// Whether it and the legacy stream wait for each other.
    blocking: bool,
}

/// The streams of a device. The legacy stream is among them under its own handle.
#[derive(Default)]
pub(super) struct Order {
    streams: ByNumber<usize, Member>,
    /// Destroyed streams that still have something to do.
    left_over: Vec<Member>,
    /// What destroyed streams have done, of the blocking ones and of the others.
    ended_blocking: Clock,
    ended_free: Clock,
}

impl Order {
    pub(super) fn add(&mut self, handle: usize, lane: Lane, blocking: bool) {
        self.streams.insert(handle, Member { lane, blocking });
    }

    pub(super) fn remove(&mut self, handle: usize) {
        self.left_over.extend(self.streams.remove(&handle));
        let over = |member: &mut Member| member.lane.last.as_ref().is_none_or(|last| last.is_done());
        for member in self.left_over.extract_if(.., over) {
            let ended = if member.blocking { &mut self.ended_blocking } else { &mut self.ended_free };
            ended.join(&member.lane.clock);
        }
    }

    /// The lane of a stream, after what the rules of the legacy stream put before its next
    /// work; that is returned. `None`: the stream is gone.
    pub(super) fn arrive(
        &mut self,
        handle: usize,
        legacy: usize,
    ) -> Option<(&mut Lane, Vec<Arc<Completion>>)> {
        let blocking = self.streams.get(&handle)?.blocking;
        let (mut after, mut seen) = (Vec::new(), Clock::default());
        if handle == legacy {
            (after, seen) = self.blocking_streams();
        } else if blocking && let Some(member) = self.streams.get(&legacy) {
            after.extend(member.lane.last.clone());
            seen.join(&member.lane.clock);
        }
        let lane = &mut self.streams.get_mut(&handle)?.lane;
        lane.clock.join(&seen);
        Some((lane, after))
    }

    /// What waiting for a stream waits for, and what the host then knows.
    pub(super) fn reached(&self, handle: usize, legacy: usize) -> (Vec<Arc<Completion>>, Clock) {
        if handle == legacy {
            return self.blocking_streams();
        }
        let lane = self.streams.get(&handle).map(|member| &member.lane);
        let last = lane.and_then(|lane| lane.last.clone());
        let clock = lane.map(|lane| lane.clock.clone());
        (last.into_iter().collect(), clock.unwrap_or_default())
    }

    pub(super) fn everything(&self) -> (Vec<Arc<Completion>>, Clock) {
        let (ends, mut clock) = self.gather(|_| true);
        clock.join(&self.ended_free);
        (ends, clock)
    }

    fn blocking_streams(&self) -> (Vec<Arc<Completion>>, Clock) {
        self.gather(|member| member.blocking)
    }

    fn gather(&self, wanted: impl Fn(&Member) -> bool) -> (Vec<Arc<Completion>>, Clock) {
        let (mut ends, mut clock) = (Vec::new(), self.ended_blocking.clone());
        let members = self.streams.values().chain(&self.left_over);
        for member in members.filter(|member| wanted(member)) {
            ends.extend(member.lane.last.clone());
            clock.join(&member.lane.clock);
        }
        ends.retain(|end| !end.is_done());
        (ends, clock)
    }
}
