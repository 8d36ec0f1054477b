//! Host paths to be counted by callgrind: `host_paths PATH ROUNDS` prepares, and then does it so often inside `measured`.
//! Data are made up by a fixed rule, so that a count is the same each time.

use airamp_agreement::{At, PLAN_BYTES, PROTOCOL, ToLeader, ToMember};
use airamp_codec::{self as fast, Element, Format, Tag, packet_bytes, reference};
use airamp_control::wire::{self, Down, Frames};
use airamp_observer::{Observer, Options};
use airamp_tests::made_up_rank::MadeUpRank;
use airampd::metrics;
use std::hint::black_box;
use std::process::ExitCode;

/// Elements of a block, as the codec counts them, times this.
const BLOCKS: usize = 8;
const COUNT: usize = 128 * BLOCKS;
const TAG: Tag = Tag { call: 7, part: 0 };

#[inline(never)]
fn measured(rounds: u64, mut part: impl FnMut()) {
    for _ in 0..rounds {
        part();
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, rounds] = arguments.as_slice() else { return ExitCode::from(2) };
    let Ok(rounds) = rounds.parse::<u64>() else { return ExitCode::from(2) };
    match name.as_str() {
        "frame" => frames(rounds),
        "metrics" => rendering(rounds),
        "quantise_scalar" => codec(rounds, false, true),
        "reduce_scalar" => codec(rounds, false, false),
        // Without the instructions for it there is nothing to be counted.
        "quantise_avx2" | "reduce_avx2" if fast::arithmetic() != "AVX2" => return ExitCode::from(3),
        "quantise_avx2" => codec(rounds, true, true),
        "reduce_avx2" => codec(rounds, true, false),
        _ => return ExitCode::from(2),
    }
    ExitCode::SUCCESS
}

/// One frame of each direction, read from a connection's bytes.
fn frames(rounds: u64) {
    let propose = ToMember::Propose { number: 3, at: At::Index(4096), plan: [1; PLAN_BYTES] };
    let bodies = [
        wire::encode(&Down::Message(propose)).expect("it can be written"),
        wire::encode(&ToLeader::Pledge { number: 3 }).expect("it can be written"),
    ];
    let bytes: Vec<u8> =
        bodies.iter().flat_map(|body| wire::frame(PROTOCOL, body).expect("it fits")).collect();
    let mut seen = Frames::default();
    measured(rounds, || {
        seen.push(black_box(&bytes));
        let down = seen.take().ok().flatten().expect("a frame");
        let up = seen.take().ok().flatten().expect("another");
        black_box(wire::decode::<Down>(&down.body).expect("a message"));
        black_box(wire::decode::<ToLeader>(&up.body).expect("a message"));
    });
}

/// Eight blocks: of one rank into a packet, or of four ranks' packets into one.
fn codec(rounds: u64, is_fast: bool, quantises: bool) {
    let (element, format) = (Element::F32, Format::E4M3);
    let input: Vec<u8> = (0..COUNT as u32)
        .flat_map(|number| {
            let spread = number.wrapping_mul(2_654_435_761) >> 8;
            (spread as f32 / (1 << 23) as f32 - 1.0).to_le_bytes()
        })
        .collect();
    let mut packet = vec![0; packet_bytes(COUNT)];
    if quantises {
        measured(rounds, || {
            let input = black_box(&input);
            black_box(match is_fast {
                true => fast::quantise(element, input, format, TAG, &mut packet),
                false => reference::quantise(element, input, format, TAG, &mut packet),
            });
        });
        return;
    }
    let packets: Vec<Vec<u8>> = (0..4)
        .map(|rank| {
            reference::quantise(element, &input, format, TAG.of_rank(rank), &mut packet);
            packet.clone()
        })
        .collect();
    let packets: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
    measured(rounds, || {
        let packets = black_box(&packets);
        black_box(match is_fast {
            true => fast::reduce(element, packets, COUNT, format, false, TAG, TAG, &mut packet),
            false => reference::reduce(element, packets, COUNT, format, false, TAG, TAG, &mut packet),
        });
    });
}

/// What a scrape of a node with 64 ranks and 32 communicators each gets.
fn rendering(rounds: u64) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let ranks = (0..64).map(|rank| MadeUpRank::new(folder.path(), "large", rank, 32));
    ranks.for_each(|rank| rank.work(1));
    let bases = vec![folder.path().to_path_buf()];
    let mut observer = Observer::new(Options { bases, ..Options::default() });
    // A look is bounded in time, and callgrind is slow: the next one goes on where it ended.
    let mut looks = (0..100).map(|_| observer.look());
    let node = looks.find(|node| node.processes == 64).expect("every rank is seen");
    let daemon = metrics::Daemon::default();
    measured(rounds, || {
        let page = metrics::render(black_box(&node), &daemon, metrics::Format::OpenMetrics);
        assert!(page.matches("airamp_communicator_sequence_issued{").count() >= 64 * 32);
    });
}
