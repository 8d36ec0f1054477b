//! Calls to be counted by callgrind: what a rhythm that has settled costs. `rhythm_cost ONE_STEP CALLS` plays steps of
//! `ddp` (24 calls), `decode` (65, with another batch every fourth time) or `one` (1 call), and then so many calls inside `measured`.

use airamp_policy::rhythm::{Beat, Rhythm, State};
use std::hint::black_box;
use std::process::ExitCode;

const WARM_UP: usize = 20_000;

fn step(name: &str, number: u64) -> Option<Vec<(Beat, u64)>> {
    let call = |kind: u8, bytes: u64, pause_ns: u64| (Beat { kind, datatype: 7, bytes, at_ns: 0 }, pause_ns);
    match name {
        "one" => Some(vec![call(0, 1 << 20, 20_000_000)]),
        "ddp" => Some(
            (0..24)
                .map(|at| call(0, 25_000_000 + at * 4096, if at == 0 { 30_000_000 } else { 2_000_000 }))
                .collect(),
        ),
        "decode" => {
            let batch = 8 + number / 4 * 7 % 9;
            let layers = (0..64).map(|at| call(0, batch * 8192, if at == 0 { 3_000_000 } else { 100_000 }));
            Some(layers.chain([call(4, batch * 32_000, 100_000)]).collect())
        }
        _ => None,
    }
}

#[inline(never)]
fn measured(rhythm: &mut Rhythm, beats: &[Beat]) {
    for beat in beats {
        black_box(rhythm.hear(black_box(*beat)));
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, calls] = arguments.as_slice() else { return ExitCode::from(2) };
    let Ok(calls) = calls.parse::<usize>() else { return ExitCode::from(2) };
    let (mut beats, mut now) = (Vec::new(), 0);
    for number in 0.. {
        let Some(step) = step(name, number) else { return ExitCode::from(2) };
        for (beat, pause_ns) in step {
            now += pause_ns;
            beats.push(Beat { at_ns: now, ..beat });
        }
        if beats.len() >= WARM_UP + calls {
            break;
        }
    }
    let mut rhythm = Box::new(Rhythm::new());
    beats.iter().take(WARM_UP).for_each(|beat| _ = rhythm.hear(*beat));
    assert_eq!(rhythm.state(), State::Locked, "{name} has not settled");
    measured(&mut rhythm, beats.get(WARM_UP..WARM_UP + calls).unwrap_or_default());
    println!("{name}: step of {} calls, {} steps", rhythm.period_calls(), rhythm.step());
    ExitCode::SUCCESS
}
