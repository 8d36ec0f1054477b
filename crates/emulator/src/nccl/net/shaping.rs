//! The egress of each device: a token bucket that all its communicators draw from.
//!
//! AIRAMP_EMU_LINK_GBPS sets the rate, 0 lifts it. The bucket never sleeps itself: it says
//! how long to wait, and the caller goes on receiving meanwhile.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use crate::environment;
use crate::nccl::lock;

/// Tokens that may gather while nobody sends: about what a switch port would buffer.
const BURST_BYTES: f64 = 256.0 * 1024.0;

/// How much may be sent now.
#[derive(Debug, PartialEq)]
pub(crate) enum Grant {
    Bytes(usize),
    Wait(Duration),
}

pub(crate) struct Bucket {
    /// Bytes per second; `None` is unlimited.
    rate: Option<f64>,
    level: Mutex<Level>,
}

struct Level {
    tokens: f64,
    filled: Instant,
}

/// The bucket of a device of this process.
pub(crate) fn of_device(device: i32) -> Arc<Bucket> {
    static BUCKETS: OnceLock<Mutex<HashMap<i32, Arc<Bucket>>>> = OnceLock::new();
    let buckets = BUCKETS.get_or_init(Mutex::default);
    let gigabits = || environment::decimal("AIRAMP_EMU_LINK_GBPS");
    let fresh = || Arc::new(Bucket::new(gigabits(), Instant::now()));
    lock(buckets).entry(device).or_insert_with(fresh).clone()
}

impl Bucket {
    fn new(gigabits: f64, now: Instant) -> Self {
        let rate = (gigabits > 0.0).then_some(gigabits * 1e9 / 8.0);
        let level = Level { tokens: BURST_BYTES, filled: now };
        Self { rate, level: Mutex::new(level) }
    }

    /// Takes up to `wanted` bytes of allowance.
    pub(crate) fn take(&self, wanted: usize) -> Grant {
        match self.rate {
            None => Grant::Bytes(wanted),
            Some(rate) => self.take_at(rate, wanted, Instant::now()),
        }
    }

    fn take_at(&self, rate: f64, wanted: usize, now: Instant) -> Grant {
        let mut level = lock(&self.level);
        let gained = now.saturating_duration_since(level.filled).as_secs_f64() * rate;
        level.tokens = (level.tokens + gained).min(BURST_BYTES.max(rate * 0.002));
        level.filled = now;
        // Small sends would cost a system call each: wait for a worthwhile amount.
        let worthwhile = (wanted as f64).min(16.0 * 1024.0);
        if level.tokens < worthwhile {
            return Grant::Wait(Duration::from_secs_f64((worthwhile - level.tokens) / rate));
        }
        let granted = (wanted as f64).min(level.tokens);
        level.tokens -= granted;
        Grant::Bytes(granted as usize)
    }

    /// Gives back what the socket did not take.
    pub(crate) fn give_back(&self, unused: usize) {
        if self.rate.is_some() && unused > 0 {
            lock(&self.level).tokens += unused as f64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shaped_device_sends_at_its_rate_over_time() {
        let start = Instant::now();
        let bucket = Bucket::new(8.0, start);
        let rate = bucket.rate.expect("a rate");
        let (mut now, mut sent) = (start, 0);
        while now < start + Duration::from_secs(1) {
            match bucket.take_at(rate, 1 << 20, now) {
                Grant::Bytes(bytes) => sent += bytes,
                Grant::Wait(pause) => now += pause.max(Duration::from_nanos(1)),
            }
        }
        assert!((0.99e9..1.01e9).contains(&(sent as f64)), "{sent} bytes in a second at 1 GB/s");
    }

    #[test]
    fn an_unlimited_device_is_granted_all() {
        let bucket = Bucket::new(0.0, Instant::now());
        assert_eq!(bucket.take(usize::MAX), Grant::Bytes(usize::MAX));
    }
}
