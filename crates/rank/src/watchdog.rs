//! Ends the process when a step takes too long: a hung collective would otherwise
//! hold a test, or a GPU, for ever. Says which step it was.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::FAILED;

pub(crate) struct Watchdog {
    step: Arc<Mutex<(Instant, String)>>,
}

impl Watchdog {
    /// Starts to watch; each call of [`Self::enter`] begins a new step.
    pub(crate) fn start(limit: Duration) -> Self {
        let step = Arc::new(Mutex::new((Instant::now(), "start".to_owned())));
        let watched = step.clone();
        thread::spawn(move || {
            loop {
                thread::sleep(Duration::from_millis(500));
                let (since, name) = watched.lock().unwrap_or_else(PoisonError::into_inner).clone();
                if since.elapsed() > limit {
                    // Whoever started us may be gone, and stderr with it: that must not keep us from ending.
                    let line = format!("airamp-rank: stuck in {name} for {} s\n", limit.as_secs());
                    let _ = std::io::stderr().write_all(line.as_bytes());
                    // Handlers that run at exit may wait for the very thing that is stuck, as the CUDA driver's do.
                    // SAFETY: ends the process, whatever its other threads do.
                    unsafe { libc::_exit(FAILED.into()) };
                }
            }
        });
        Self { step }
    }

    pub(crate) fn enter(&self, name: &str) {
        *self.step.lock().unwrap_or_else(PoisonError::into_inner) = (Instant::now(), name.to_owned());
    }
}
