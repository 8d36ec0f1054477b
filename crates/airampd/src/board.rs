//! Where looks are put up and read: the last look with what was made of it, the timelines, and counters of the
//! daemon itself. The looking thread writes, the server reads; neither ever waits for the other's work.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use airamp_observer::view::{Event, Node};
use arc_swap::ArcSwapOption;
use hyper::body::Bytes;

use crate::budget::Budget;
use crate::history::History;
use crate::itself;
use crate::metrics::{self, Daemon, Format};

pub(crate) struct Board {
    latest: ArcSwapOption<Look>,
    history: Mutex<History>,
    budget: Budget,
    pub(crate) counts: Counts,
    pub(crate) began: Instant,
    began_unix_ms: u64,
}

/// One look. What it is served as is made when somebody first asks, once.
pub(crate) struct Look {
    node: Node,
    taken: Instant,
    text: OnceLock<Bytes>,
    open_metrics: OnceLock<Bytes>,
    json: OnceLock<Bytes>,
}

/// Too much is made already that slow clients have not taken.
#[derive(Debug)]
pub(crate) struct Spent;

/// What only the daemon knows about itself.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) looks: AtomicU64,
    pub(crate) look_us: AtomicU64,
    pub(crate) connections_open: AtomicU64,
    pub(crate) connections_closed_for_room: AtomicU64,
    pub(crate) evidence_written: AtomicU64,
    pub(crate) evidence_dropped: AtomicU64,
    pub(crate) reloads: AtomicU64,
    requests: Mutex<BTreeMap<u16, u64>>,
}

impl Board {
    pub(crate) fn new(began_unix_ms: u64) -> Self {
        Self {
            latest: ArcSwapOption::empty(),
            history: Mutex::default(),
            budget: Budget::default(),
            counts: Counts::default(),
            began: Instant::now(),
            began_unix_ms,
        }
    }

    /// Puts up a look that took so long.
    pub(crate) fn publish(&self, node: Node, took: Duration) {
        self.counts.looks.fetch_add(1, Relaxed);
        self.counts.look_us.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Relaxed);
        lock(&self.history).add(&node);
        self.latest.store(Some(Arc::new(Look::of(node))));
    }

    pub(crate) fn latest(&self) -> Option<Arc<Look>> {
        self.latest.load_full()
    }

    /// How long ago the last look was put up.
    pub(crate) fn age(&self) -> Option<Duration> {
        self.latest().map(|look| look.taken.elapsed())
    }

    /// For how long no look was put up, from the start on: a first look may hang like any other.
    pub(crate) fn silence(&self) -> Duration {
        self.age().unwrap_or_else(|| self.began.elapsed())
    }

    pub(crate) fn metrics(&self, look: &Look, format: Format) -> Result<Bytes, Spent> {
        let made = match format {
            Format::Text => &look.text,
            Format::OpenMetrics => &look.open_metrics,
        };
        self.made(made, || metrics::render(&look.node, &self.daemon(), format).into_bytes())
    }

    pub(crate) fn node(&self, look: &Look) -> Result<Bytes, Spent> {
        self.made(&look.json, || json(&look.node))
    }

    /// Nothing for a job that was never seen.
    pub(crate) fn timeline(&self, job: &str, since_unix_ms: u64) -> Result<Option<Bytes>, Spent> {
        let history = lock(&self.history);
        history.timeline(job, since_unix_ms).map(|timeline| self.keep(|| json(&timeline))).transpose()
    }

    /// The bytes of an answer that is made for one client.
    pub(crate) fn keep(&self, make: impl FnOnce() -> Vec<u8>) -> Result<Bytes, Spent> {
        if self.budget.is_spent() { Err(Spent) } else { Ok(self.budget.keep(make())) }
    }

    fn made(&self, once: &OnceLock<Bytes>, make: impl FnOnce() -> Vec<u8>) -> Result<Bytes, Spent> {
        if once.get().is_none() && self.budget.is_spent() {
            return Err(Spent);
        }
        Ok(once.get_or_init(|| self.budget.keep(make())).clone())
    }

    fn daemon(&self) -> Daemon {
        let counts = &self.counts;
        Daemon {
            started_unix_ms: self.began_unix_ms,
            looks: counts.looks.load(Relaxed),
            look_s: counts.look_us.load(Relaxed) as f64 / 1e6,
            requests: lock(&counts.requests).iter().map(|(status, requests)| (*status, *requests)).collect(),
            connections_open: counts.connections_open.load(Relaxed),
            connections_refused: counts.connections_closed_for_room.load(Relaxed),
            evidence_written: counts.evidence_written.load(Relaxed),
            evidence_dropped: counts.evidence_dropped.load(Relaxed),
            reloads: counts.reloads.load(Relaxed),
            cpu_s: itself::cpu_seconds(),
            resident_bytes: itself::resident_bytes(),
        }
    }
}

impl Counts {
    /// The statuses are those that this program answers with, so the map stays small.
    pub(crate) fn answered(&self, status: u16) {
        *lock(&self.requests).entry(status).or_default() += 1;
    }
}

impl Look {
    fn of(node: Node) -> Self {
        let (text, open_metrics, json) = Default::default();
        Self { node, taken: Instant::now(), text, open_metrics, json }
    }

    /// Events with a higher number, oldest first.
    pub(crate) fn events_since(&self, seq: u64) -> impl Iterator<Item = &Event> {
        self.node.events.iter().filter(move |event| event.seq > seq)
    }
}

pub(crate) fn json(value: &impl serde::Serialize) -> Vec<u8> {
    // Plain structs with text keys always serialise; an empty object is still JSON.
    serde_json::to_vec(value).unwrap_or_else(|_| b"{}".to_vec())
}

/// A panic while it was held leaves at worst one look out.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
