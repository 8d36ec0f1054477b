//! Prints one reading of this machine, and how long a later one takes.

use std::time::{Duration, Instant};

use airamp_machine::{Machine, Options};

fn main() {
    let machine = Machine::watch(Options { fresh_for: Duration::ZERO, ..Options::default() });
    println!("{:#?}", machine.reading(Duration::from_secs(60)));
    let start = Instant::now();
    let again = machine.reading(Duration::from_secs(60));
    println!(
        "{} devices and {} interfaces again in {:?}",
        again.devices.len(),
        again.nics.len(),
        start.elapsed()
    );
}
