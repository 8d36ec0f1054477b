//! The crate's own machines with up to thousands of ranks over a simulated network: how long creation and a switch
//! take, what goes over the wire, what the leader holds. Time on the wire is assumed and printed; time at the leader is
//! measured in this run, message by message.
//!
//! `cargo run --release -p airamp-agreement --example scale`

mod heap;
mod machines;
mod network;
mod ranks;
mod sockets;

use network::Wire;
use ranks::{Job, Part};
use sockets::SocketCost;
use std::time::Duration;

const RUNS: usize = 7;
const SIZES: [u32; 3] = [8, 1_024, 4_096];
const NEAR: Wire =
    Wire { latency: Duration::from_micros(50), jitter: Duration::from_micros(50), straggler: None };
const FAR: Wire = Wire {
    latency: Duration::from_micros(500),
    jitter: Duration::from_micros(500),
    straggler: Some(Duration::from_millis(50)),
};

fn main() {
    let cost = match SocketCost::measure() {
        Ok(cost) => cost,
        Err(error) => return eprintln!("no loopback sockets to measure with: {error}"),
    };
    println!(
        "measured here: accept {:.1} us, receive {:.1} us, send {:.1} us",
        micros(cost.accept),
        micros(cost.receive),
        micros(cost.send)
    );
    for wire in [NEAR, FAR] {
        println!();
        println!("one way {:?} + up to {:?}, straggler {:?}", wire.latency, wire.jitter, wire.straggler);
        println!(
            "| ranks | what | time, ms | messages | bytes | leader busy, ms | us per event | leader holds, KiB |"
        );
        println!("|---|---|---|---|---|---|---|---|");
        SIZES.iter().for_each(|ranks| run(*ranks, wire, cost));
    }
}

/// Of some runs the one in which the leader was disturbed least: the machine may have other things to do.
fn run(ranks: u32, wire: Wire, cost: SocketCost) {
    let runs = (0..RUNS).map(|_| parts(ranks, wire, cost));
    let Some(best) =
        runs.min_by_key(|parts| parts.iter().map(|(_, part)| part.leader_busy).sum::<Duration>())
    else {
        return;
    };
    best.iter().for_each(|(what, part)| line(ranks, what, part));
}

fn parts(ranks: u32, wire: Wire, cost: SocketCost) -> Vec<(&'static str, Part)> {
    let mut job = Job::new(ranks, wire, cost);
    job.create();
    let mut parts = vec![("join to verdict", job.take_part())];
    job.begin();
    parts.push(("peers connected to on", job.take_part()));
    job.switch();
    parts.push(("switch", job.take_part()));
    parts
}

fn line(ranks: u32, what: &str, part: &Part) {
    println!(
        "| {ranks} | {what}{} | {:.2} | {} | {} | {:.2} | {:.1} | {} |",
        if part.agreed { "" } else { " (FAILED)" },
        part.time.as_secs_f64() * 1e3,
        part.messages,
        part.bytes,
        part.leader_busy.as_secs_f64() * 1e3,
        micros(part.leader_busy) / part.leader_handled.max(1) as f64,
        part.leader_bytes.div_ceil(1_024),
    );
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
