//! Simulated time: what happens next, and when a message arrives. Each connection keeps its order.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

#[derive(Clone, Copy)]
pub(crate) struct Wire {
    pub(crate) latency: Duration,
    pub(crate) jitter: Duration,
    /// How much longer a message takes to or from one of the ranks.
    pub(crate) straggler: Option<Duration>,
}

/// A direction of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Way {
    Introduce(u32),
    Up(u32),
    Down(u32),
}

impl Way {
    fn rank(self) -> u32 {
        match self {
            Self::Introduce(rank) | Self::Up(rank) | Self::Down(rank) => rank,
        }
    }
}

pub(crate) struct Network<E> {
    wire: Wire,
    straggler: u32,
    now: Duration,
    next: BTreeMap<(Duration, u64), E>,
    count: u64,
    last_on: HashMap<Way, Duration>,
    random: u64,
}

impl<E> Network<E> {
    pub(crate) fn new(wire: Wire, ranks: u32) -> Self {
        Self {
            wire,
            straggler: ranks / 2,
            now: Duration::ZERO,
            next: BTreeMap::new(),
            count: 0,
            last_on: HashMap::new(),
            random: 0x9e37_79b9_7f4a_7c15,
        }
    }

    pub(crate) fn now(&self) -> Duration {
        self.now
    }

    pub(crate) fn len(&self) -> usize {
        self.next.len()
    }

    pub(crate) fn pass_to(&mut self, time: Duration) {
        self.now = self.now.max(time);
    }

    /// Returns a name by which it can be taken back.
    pub(crate) fn at(&mut self, time: Duration, event: E) -> (Duration, u64) {
        self.count += 1;
        self.next.insert((time, self.count), event);
        (time, self.count)
    }

    pub(crate) fn take_back(&mut self, name: (Duration, u64)) {
        self.next.remove(&name);
    }

    pub(crate) fn send(&mut self, leaves: Duration, way: Way, event: E) {
        let mut arrives = leaves + self.wire.latency + self.some_jitter();
        if way.rank() == self.straggler {
            arrives += self.wire.straggler.unwrap_or_default();
        }
        let last = self.last_on.entry(way).or_default();
        arrives = arrives.max(*last);
        *last = arrives;
        self.at(arrives, event);
    }

    pub(crate) fn pop(&mut self) -> Option<E> {
        let ((time, _), event) = self.next.pop_first()?;
        self.now = self.now.max(time);
        Some(event)
    }

    /// The same in every run.
    pub(crate) fn some_jitter(&mut self) -> Duration {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.wire.jitter.mul_f64((self.random >> 11) as f64 / (1_u64 << 53) as f64)
    }
}
