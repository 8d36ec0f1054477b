//! Calls to be counted by callgrind: what a rhythm that has settled costs. `rhythm_cost ONE_STEP CALLS` plays steps of
//! `ddp` (24 calls), `decode` (65, with another batch every fourth time), `token` (1 call, every 2 ms) or `one` (1 call, every
//! 20 ms), and then so many calls inside `measured`: asked as the library asks, which wants to know of a step's begin and end
//! once in 10 ms at most. `nothing` plays `ddp` without asking: the cost of the loop.

use airamp_policy::rhythm::{Beat, Key, Rhythm, State};
use std::hint::black_box;
use std::process::ExitCode;

const WARM_UP: usize = 20_000;
const QUIET_NS: u64 = 10_000_000;

fn step(name: &str, number: u64) -> Option<Vec<(Beat, u64)>> {
    let call = |kind: u8, bytes: u64, pause_ns: u64| (Beat { kind, datatype: 7, bytes, at_ns: 0 }, pause_ns);
    match name {
        "one" => Some(vec![call(0, 1 << 20, 20_000_000)]),
        "token" => Some(vec![call(0, 1 << 20, 2_000_000)]),
        "ddp" | "nothing" => Some(
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

/// What the library keeps beside a rhythm.
struct Asked {
    rhythm: Box<Rhythm>,
    last_ns: u64,
    quiet_until_ns: u64,
}

impl Asked {
    #[inline(always)]
    fn hear(&mut self, call: Key, at_ns: u64) {
        let gap_ns = at_ns.wrapping_sub(self.last_ns) as i64 as f32;
        let quiet_until_ns = self.quiet_until_ns;
        if !self.rhythm.hear_usual(call, gap_ns, || at_ns < quiet_until_ns) {
            return self.hear_with_care(call, at_ns);
        }
        self.last_ns = at_ns;
    }

    #[inline(never)]
    fn hear_with_care(&mut self, call: Key, at_ns: u64) {
        self.rhythm.last_came_at(self.last_ns);
        self.last_ns = at_ns;
        let (kind, datatype, bytes) = (call.kind(), call.datatype(), call.bytes());
        let heard = self.rhythm.hear(Beat { kind, datatype, bytes, at_ns });
        if heard.step_began && at_ns >= self.quiet_until_ns {
            self.quiet_until_ns = at_ns + QUIET_NS;
        }
    }
}

#[inline(never)]
fn measured(asked: &mut Asked, calls: &[(Key, u64)]) {
    for (call, at_ns) in calls {
        asked.hear(black_box(*call), black_box(*at_ns));
    }
}

#[inline(never)]
fn measured_loop(calls: &[(Key, u64)]) {
    for (call, at_ns) in calls {
        black_box((black_box(*call), black_box(*at_ns)));
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, calls] = arguments.as_slice() else { return ExitCode::from(2) };
    let Ok(calls) = calls.parse::<usize>() else { return ExitCode::from(2) };
    let (mut made, mut now) = (Vec::new(), 0);
    for number in 0.. {
        let Some(step) = step(name, number) else { return ExitCode::from(2) };
        for (beat, pause_ns) in step {
            now += pause_ns;
            made.push((Key::new(beat.kind, beat.datatype, beat.bytes), now));
        }
        if made.len() >= WARM_UP + calls {
            break;
        }
    }
    let mut asked = Asked { rhythm: Box::default(), last_ns: 0, quiet_until_ns: 0 };
    made.iter().take(WARM_UP).for_each(|(call, at_ns)| asked.hear(*call, *at_ns));
    assert_eq!(asked.rhythm.state(), State::Locked, "{name} has not settled");
    let counted = made.get(WARM_UP..WARM_UP + calls).unwrap_or_default();
    if name == "nothing" {
        measured_loop(counted)
    } else {
        measured(&mut asked, counted)
    }
    println!("{name}: step of {} calls, {} steps", asked.rhythm.period_calls(), asked.rhythm.step());
    ExitCode::SUCCESS
}
