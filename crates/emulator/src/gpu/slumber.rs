//! A device that falls asleep: its first kernel after some time without any takes longer. Off unless asked for.
//! Called by each kernel that runs.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::completion::lock;
use crate::environment;

/// When a kernel last ran in this process.
static LAST: Mutex<Option<Instant>> = Mutex::new(None);

/// Before a kernel runs.
pub(super) fn wake() {
    let form = "idle_ms:wake_us";
    let Some((idle, takes)) = environment::parsed("AIRAMP_EMU_WAKE", form, parse) else { return };
    let last = lock(&LAST).replace(Instant::now());
    if last.is_none_or(|last| last.elapsed() > idle) {
        std::thread::sleep(takes);
        *lock(&LAST) = Some(Instant::now());
    }
}

fn parse(text: &str) -> Option<(Duration, Duration)> {
    let (idle_ms, wake_us) = text.split_once(':')?;
    Some((Duration::from_millis(idle_ms.parse().ok()?), Duration::from_micros(wake_us.parse().ok()?)))
}
