//! When the next call is due: at its recorded time, that divided by a factor, or at once.

use std::str::FromStr;
use std::time::{Duration, Instant};

/// Shorter waits are spent awake: a sleep would end later than asked for.
const AWAKE: Duration = Duration::from_micros(150);

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Speed {
    Max,
    /// 1: as recorded.
    Times(f64),
}

impl FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "max" => Ok(Self::Max),
            "recorded" => Ok(Self::Times(1.0)),
            _ => text
                .parse()
                .ok()
                .filter(|factor| (0.001..=1000.0).contains(factor))
                .map(Self::Times)
                .ok_or_else(|| format!("{text} is not recorded, max or a factor from 0.001 to 1000")),
        }
    }
}

impl Speed {
    /// How long something takes that took so long when it was recorded.
    pub(super) fn of(self, ns: u64) -> Duration {
        match self {
            Self::Max => Duration::ZERO,
            Self::Times(factor) => Duration::from_nanos((ns as f64 / factor) as u64),
        }
    }
}

pub(super) struct Clock {
    began: Instant,
    speed: Speed,
    /// The most that a call came too late.
    pub(super) behind: Duration,
}

impl Clock {
    pub(super) fn start(speed: Speed) -> Self {
        Self { began: Instant::now(), speed, behind: Duration::ZERO }
    }

    pub(super) fn wait_until(&mut self, at_ns: u64) {
        if self.speed == Speed::Max {
            return;
        }
        let due = self.began + self.speed.of(at_ns);
        let now = Instant::now();
        self.behind = self.behind.max(now.saturating_duration_since(due));
        let left = due.saturating_duration_since(now);
        if left > AWAKE {
            std::thread::sleep(left - AWAKE);
        }
        while Instant::now() < due {
            std::hint::spin_loop();
        }
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speed_is_a_word_or_a_factor() {
        assert_eq!("recorded".parse(), Ok(Speed::Times(1.0)));
        assert_eq!("max".parse(), Ok(Speed::Max));
        assert_eq!("2.5".parse(), Ok(Speed::Times(2.5)));
        for wrong in ["0", "-1", "NaN", "inf", "fast", "1e9"] {
            assert!(wrong.parse::<Speed>().is_err(), "{wrong}");
        }
        assert_eq!(Speed::Times(4.0).of(1000), Duration::from_nanos(250));
    }
}
