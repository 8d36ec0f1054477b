//! Captured AllReduces: replayed on new numbers, two graphs in flight, beside live calls, in groups
//! and on several streams, and captured again to update an executable.

use airamp_vendor::gpu::{GraphExec, Kind, Stream};
use airamp_vendor_abi::nccl::DataType;

use super::calls::SEVERAL_STEPS;
use super::expected::Spec;
use super::graph_update::Updatable;
use super::piece::Piece;
use super::streams::various;
use super::tracked::Tracked;
use super::{Case, Equipment, Job, Seen};
use crate::error::RankError;

pub(super) fn cases(job: &Job) -> Vec<Case> {
    let mut cases = vec![
        Case::new("graphs/replays_see_new_numbers", |job| replayed(job, false)),
        Case::new("graphs/a_captured_group", |job| replayed(job, true)),
        Case::new("graphs/a_captured_group_on_two_streams", |job| captured_on_two_streams(job, true)),
        Case::new("graphs/two_streams_of_one_capture", |job| captured_on_two_streams(job, false)),
        Case::new("graphs/two_in_flight", two_in_flight),
        Case::new("graphs/beside_live_calls", beside_live_calls),
        Case::new("graphs/of_two_communicators", of_two_communicators),
        Case::new("graphs/thrown_away_on_some_ranks", thrown_away_on_some_ranks),
        Case::new("graphs/captured_beside_other_live_calls", captured_beside_other_live_calls),
        Case::new("graphs/spoilt_on_some_ranks", spoilt_on_some_ranks),
    ];
    if job.kind == Kind::Cuda {
        cases.push(Case::new("graphs/captured_again_and_updated", updated));
    }
    cases
}

/// A long call, and short ones of each type.
fn specs(seed: usize) -> Vec<Spec> {
    let plain = |number: usize| Spec { in_place: false, ..various(seed + number) };
    vec![plain(0), Spec::sum(DataType::BFLOAT16, SEVERAL_STEPS).seeded(seed), plain(1), plain(2)]
}

/// Pieces that have run once outside of a capture, which must not connect the ranks.
fn warmed(own: &Equipment, comm: &Tracked, specs: Vec<Spec>) -> Result<Vec<Piece>, RankError> {
    let pieces = Piece::all(own, comm, specs)?;
    pieces.iter().try_for_each(|piece| piece.enqueue(own, comm, &own.stream))?;
    own.stream.synchronize()?;
    Ok(pieces)
}

fn captured(
    own: &Equipment,
    comm: &Tracked,
    pieces: &[Piece],
    stream: &Stream,
    grouped: bool,
) -> Result<GraphExec, RankError> {
    let enqueue = || pieces.iter().try_for_each(|piece| piece.enqueue(own, comm, stream));
    stream.capture(|| if grouped { own.group(enqueue) } else { enqueue() })
}

fn renew(own: &Equipment, pieces: &mut [Piece], seed: usize) -> Result<(), RankError> {
    let mut numbered = pieces.iter_mut().enumerate();
    numbered.try_for_each(|(number, piece)| piece.renew(own, seed + number))
}

fn judge(comm: &Tracked, pieces: &[Piece], seen: &mut Seen) -> Result<(), RankError> {
    pieces.iter().try_for_each(|piece| piece.judge(comm, seen))
}

/// Three times with new numbers each.
fn replay(
    job: &Job,
    comm: Tracked,
    mut pieces: Vec<Piece>,
    graph: GraphExec,
    mut seen: Seen,
) -> Result<Seen, RankError> {
    for round in 1..4 {
        renew(job, &mut pieces, 10 * round)?;
        graph.launch(&job.stream)?;
        job.stream.synchronize()?;
        judge(&comm, &pieces, &mut seen)?;
    }
    comm.check(&mut seen);
    drop(graph);
    comm.comm.destroy()?;
    Ok(seen)
}

fn replayed(job: &mut Job, grouped: bool) -> Result<Seen, RankError> {
    let comm = job.communicator()?;
    let pieces = warmed(job, &comm, specs(0))?;
    let graph = captured(job, &comm, &pieces, &job.stream, grouped)?;
    replay(job, comm, pieces, graph, Seen::new())
}

/// A stream that is forked off inside the capture and joined again.
fn captured_on_two_streams(job: &mut Job, grouped: bool) -> Result<Seen, RankError> {
    let (comm, other) = (job.communicator()?, job.gpu.stream(true)?);
    let pieces = warmed(job, &comm, specs(3))?;
    let (forked, joined) = (job.gpu.untimed_event()?, job.gpu.untimed_event()?);
    let graph = job.stream.capture(|| {
        forked.record(&job.stream)?;
        other.wait(&forked)?;
        let enqueue = || {
            let mut placed = pieces.iter().zip([&job.stream, &other].into_iter().cycle());
            placed.try_for_each(|(piece, stream)| piece.enqueue(job, &comm, stream))
        };
        if grouped {
            job.group(enqueue)?
        } else {
            enqueue()?
        };
        joined.record(&other)?;
        Ok::<(), RankError>(job.stream.wait(&joined)?)
    })?;
    replay(job, comm, pieces, graph, Seen::new())
}

/// Launched in turn on two streams, and waited for at the end only.
fn two_in_flight(job: &mut Job) -> Result<Seen, RankError> {
    let (comm, other, mut seen) = (job.communicator()?, job.gpu.stream(true)?, Seen::new());
    let (first, second) = (warmed(job, &comm, specs(0))?, warmed(job, &comm, specs(5))?);
    let graphs =
        [captured(job, &comm, &first, &job.stream, false)?, captured(job, &comm, &second, &other, true)?];
    for _ in 0..3 {
        graphs[0].launch(&job.stream)?;
        graphs[1].launch(&other)?;
    }
    job.stream.synchronize()?;
    other.synchronize()?;
    judge(&comm, &first, &mut seen)?;
    judge(&comm, &second, &mut seen)?;
    comm.check(&mut seen);
    drop(graphs);
    comm.comm.destroy()?;
    Ok(seen)
}

fn beside_live_calls(job: &mut Job) -> Result<Seen, RankError> {
    let (comm, other, mut seen) = (job.communicator()?, job.gpu.stream(true)?, Seen::new());
    let in_graph = warmed(job, &comm, specs(0))?;
    let live = Piece::all(job, &comm, specs(7))?;
    let graph = captured(job, &comm, &in_graph, &job.stream, false)?;
    for _ in 0..2 {
        graph.launch(&job.stream)?;
        live[0].enqueue(job, &comm, &other)?;
        graph.launch(&other)?;
        live[1].enqueue(job, &comm, &job.stream)?;
        live[2].enqueue(job, &comm, &other)?;
        // The next launch reads and writes what this one does, on another stream.
        other.synchronize()?;
    }
    job.stream.synchronize()?;
    judge(&comm, &in_graph, &mut seen)?;
    judge(&comm, &live[..3], &mut seen)?;
    comm.check(&mut seen);
    drop(graph);
    comm.comm.destroy()?;
    Ok(seen)
}

fn of_two_communicators(job: &mut Job) -> Result<Seen, RankError> {
    let (comms, mut seen) = ([job.communicator()?, job.communicator()?], Seen::new());
    let mut pieces = [warmed(job, &comms[0], specs(0))?, warmed(job, &comms[1], specs(4))?];
    let graph = job.stream.capture(|| {
        job.group(|| {
            let mut all = comms.iter().zip(&pieces);
            all.try_for_each(|(comm, pieces)| {
                pieces.iter().try_for_each(|piece| piece.enqueue(job, comm, &job.stream))
            })
        })
    })?;
    for round in 1..3 {
        renew(job, &mut pieces[0], 10 * round)?;
        renew(job, &mut pieces[1], 10 * round + 5)?;
        graph.launch(&job.stream)?;
        job.stream.synchronize()?;
        for (comm, pieces) in comms.iter().zip(&pieces) {
            judge(comm, pieces, &mut seen)?;
        }
    }
    comms.iter().for_each(|comm| comm.check(&mut seen));
    drop(graph);
    comms.into_iter().try_for_each(|comm| comm.comm.destroy())?;
    Ok(seen)
}

/// A capture sends nothing: how often each rank has tried before one succeeds concerns nobody else.
fn thrown_away_on_some_ranks(job: &mut Job) -> Result<Seen, RankError> {
    let (comm, mut seen) = (job.communicator()?, Seen::new());
    let mut pieces = warmed(job, &comm, specs(0))?;
    for attempt in 0..job.world.rank {
        drop(captured(job, &comm, &pieces, &job.stream, attempt % 2 == 1)?);
    }
    renew(job, &mut pieces, 20)?;
    pieces.iter().try_for_each(|piece| piece.enqueue(job, &comm, &job.stream))?;
    job.stream.synchronize()?;
    judge(&comm, &pieces, &mut seen)?;
    let graph = captured(job, &comm, &pieces, &job.stream, false)?;
    replay(job, comm, pieces, graph, seen)
}

/// Some ranks capture before a live call, and the others after it: on the wire it is all the same.
fn captured_beside_other_live_calls(job: &mut Job) -> Result<Seen, RankError> {
    let comm = job.communicator()?;
    let (pieces, live) = (warmed(job, &comm, specs(0))?, Piece::all(job, &comm, specs(6))?);
    let call = || live.iter().try_for_each(|piece| piece.enqueue(job, &comm, &job.stream));
    let is_early = job.world.rank.is_multiple_of(2);
    if !is_early {
        call()?;
    }
    let graph = captured(job, &comm, &pieces, &job.stream, is_early)?;
    if is_early {
        call()?;
    }
    job.stream.synchronize()?;
    let mut seen = Seen::new();
    judge(&comm, &live, &mut seen)?;
    replay(job, comm, pieces, graph, seen)
}

/// Something that a capture cannot hold spoils it: the calls in it fail on that rank, and no others do.
fn spoilt_on_some_ranks(job: &mut Job) -> Result<Seen, RankError> {
    let (comm, mut seen) = (job.communicator()?, Seen::new());
    let too_small = Spec { in_place: false, ..Spec::sum(DataType::FLOAT32, 16) };
    let mut pieces = warmed(job, &comm, specs(0).into_iter().chain([too_small]).collect())?;
    let attempts = if job.world.rank % 2 == 1 { &pieces[..] } else { &[] };
    for (number, piece) in attempts.iter().enumerate() {
        let call = || piece.call_without_effect(job, &comm, &job.stream);
        let spoilt = job.stream.capture(|| {
            drop(job.gpu.alloc(64));
            if number % 2 == 1 { job.group(call) } else { call() }
        });
        seen.expect(spoilt.is_err(), || "an allocation does not spoil a capture here".into());
    }
    renew(job, &mut pieces, 30)?;
    pieces.iter().try_for_each(|piece| piece.enqueue(job, &comm, &job.stream))?;
    job.stream.synchronize()?;
    judge(&comm, &pieces, &mut seen)?;
    let graph = captured(job, &comm, &pieces, &job.stream, true)?;
    replay(job, comm, pieces, graph, seen)
}

/// The same calls on other buffers: an executable takes them over if the graph has kept its shape.
fn updated(job: &mut Job) -> Result<Seen, RankError> {
    let (comm, mut seen) = (job.communicator()?, Seen::new());
    let first = warmed(job, &comm, specs(0))?;
    let enqueue =
        |pieces: &[Piece]| pieces.iter().try_for_each(|piece| piece.enqueue(job, &comm, &job.stream));
    let executable = Updatable::capture(&job.stream, || enqueue(&first))?;
    executable.launch(&job.stream)?;
    job.stream.synchronize()?;
    judge(&comm, &first, &mut seen)?;
    for round in 1..4 {
        let next = Piece::all(job, &comm, specs(0).into_iter().map(|spec| spec.seeded(spec.seed + round)))?;
        executable.update(&job.stream, || enqueue(&next))?;
        executable.launch(&job.stream)?;
        job.stream.synchronize()?;
        judge(&comm, &next, &mut seen)?;
    }
    comm.check(&mut seen);
    drop(executable);
    comm.comm.destroy()?;
    Ok(seen)
}
