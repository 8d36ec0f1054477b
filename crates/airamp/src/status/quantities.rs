//! Numbers for people: three or four figures and a unit that fits them. The units are those of the live page: bytes
//! in powers of 1024, rates in bits per second as links are sold.

use std::time::Duration;

pub(super) fn bytes(count: u64) -> String {
    scaled(count as f64, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"])
}

/// From bytes per second.
pub(super) fn rate(bytes_per_s: f64) -> String {
    scaled(bytes_per_s * 8.0, 1000.0, &["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s", "Pbit/s"])
}

/// 12345678 is 12,345,678.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

pub(super) fn seconds(seconds: f64) -> String {
    match seconds.abs() {
        0.0 => "0".to_owned(),
        small if small < 1e-3 => format!("{:.1} us", seconds * 1e6),
        small if small < 1.0 => format!("{:.1} ms", seconds * 1e3),
        some if some < 100.0 => format!("{seconds:.1} s"),
        _ => duration(Duration::from_secs_f64(seconds.clamp(0.0, 1e12))),
    }
}

pub(super) fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, _, _) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

pub(super) fn percent(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
}

/// The time of day in UTC.
pub(super) fn clock(unix_ms: u64) -> String {
    let seconds = unix_ms / 1000;
    format!("{:02}:{:02}:{:02}", seconds / 3600 % 24, seconds / 60 % 60, seconds % 60)
}

pub(super) fn known<T>(value: Option<T>, show: impl Fn(T) -> String) -> String {
    value.map(show).unwrap_or_default()
}

fn scaled(value: f64, base: f64, units: &[&str]) -> String {
    let mut scaled = value;
    let mut unit = 0;
    // What is less by a rounding would be shown as 1024.0.
    while scaled >= base - 0.05 && unit + 1 < units.len() {
        scaled /= base;
        unit += 1;
    }
    let name = units.get(unit).copied().unwrap_or_default();
    if unit == 0 { format!("{scaled:.0} {name}") } else { format!("{scaled:.1} {name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_a_unit_that_fits() {
        assert_eq!(
            [0, 1023, 1024, (1 << 20) - 1, 1_234_567].map(bytes),
            ["0 B", "1023 B", "1.0 KiB", "1.0 MiB", "1.2 MiB"]
        );
        assert_eq!(bytes(u64::MAX), "16.0 EiB");
        assert_eq!([7.6e9, 124.999e6, 0.0].map(rate), ["60.8 Gbit/s", "1.0 Gbit/s", "0 bit/s"]);
        assert_eq!([0, 12, 1234, 12_345_678].map(count), ["0", "12", "1,234", "12,345,678"]);
        assert_eq!(
            [0.0, 8.1e-6, 0.0081, 2.5, 176.4].map(seconds),
            ["0", "8.1 us", "8.1 ms", "2.5 s", "2 min 56 s"]
        );
        assert_eq!(clock(1_789_034_400_000), "10:00:00");
        assert_eq!(duration(Duration::from_secs(90_061)), "1 d 1 h");
    }
}
