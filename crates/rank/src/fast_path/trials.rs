//! Dry runs and what they are measured by. Each claim that does not hold becomes a line of the report.

use std::time::{Duration, Instant};

use airamp_codec::Element;
use airamp_fast_path::{Finished, MEASUREMENTS, Post, Shape, UNMEASURED};
use airamp_vendor::gpu::Stream;
use airamp_vendor_abi::nccl::{DataType, RedOp};

use super::expected::{self, Deviation};
use super::scenarios::{Report, captured, tensors};
use super::stage::{PLACE, Stage, Tensor, enqueue};
use crate::collective::{self, Collective, Form};
use crate::error::RankError;
use crate::lane::refused;

const LIMIT: Duration = Duration::from_secs(60);

/// Each shape, on tensors that differ in type, length and place: the dry run leaves all memory as it was,
/// the vendor's call gives what it gives alone, and the numbers are those of the codec.
pub(super) fn run(stage: &Stage) -> Result<Report, RankError> {
    let mut report = Report::default();
    for shape in stage.lane.shapes() {
        for tensor in tensors().into_iter().chain(more_tensors()) {
            let wrong = try_one(stage, &tensor, *shape)?;
            report.wrong.extend(wrong.into_iter().map(|claim| format!("{shape:?} {tensor:?}: {claim}")));
            report.trials += 1;
        }
    }
    Ok(report.with_stats(stage.lane.stats()))
}

fn more_tensors() -> [Tensor; 4] {
    let f32 = Tensor { datatype: DataType::FLOAT32, element: Element::F32, ..Tensor::new(4, 450_007) };
    [
        f32,
        Tensor { in_place: true, ..f32 },
        Tensor::new(5, 8191),
        Tensor { in_place: true, ..Tensor::new(6, 1) },
    ]
}

fn try_one(stage: &Stage, tensor: &Tensor, shape: Shape) -> Result<Vec<String>, RankError> {
    let (mut wrong, stream) = (Vec::new(), &stage.session.stream);
    stage.prepare(&[*tensor])?;
    by_vendor(stage, tensor, stream)?;
    stream.synchronize()?;
    let alone = stage.output(tensor)?;
    stage.prepare(&[*tensor])?;
    let before = around(stage, tensor)?;
    let measured = stage.lane.take_measurement();
    let post = dry(stage, tensor, shape, measured, stream)?;
    enqueue(&[post])?;
    stream.synchronize()?;
    if around(stage, tensor)? != before {
        wrong.push("the dry run has changed memory".to_owned());
    }
    by_vendor(stage, tensor, stream)?;
    end_trial(stage, &post, measured, stream)?;
    stream.synchronize()?;
    let exact = stage.output(tensor)?;
    if exact != alone {
        wrong.push("the vendor's result is another one after a dry run".to_owned());
    }
    let of_codec = expected::by_codec(stage, tensor, shape.algorithm);
    let expected = Deviation::of(tensor, &of_codec, &exact);
    wrong.extend(compare(await_finished(stage)?, measured, &expected));
    Ok(wrong)
}

/// Both buffers around the tensor.
fn around(stage: &Stage, tensor: &Tensor) -> Result<[Vec<u8>; 2], RankError> {
    let read = |buffer: &airamp_vendor::gpu::Buffer| -> Result<Vec<u8>, RankError> {
        let mut bytes = vec![0; PLACE];
        buffer.read(tensor.place * PLACE, &mut bytes)?;
        Ok(bytes)
    };
    Ok([read(&stage.session.send)?, read(&stage.session.recv)?])
}

pub(super) fn dry<'s>(
    stage: &'s Stage,
    tensor: &Tensor,
    shape: Shape,
    measured: Option<usize>,
    stream: &Stream,
) -> Result<Post<'s>, RankError> {
    let plan = stage.lane.dry_plan(tensor.count, shape).map_err(refused)?;
    let dry = Some(measured.unwrap_or(UNMEASURED));
    Ok(Post { plan, dry, ..stage.post(&stage.lane, tensor, stream)? })
}

fn by_vendor(stage: &Stage, tensor: &Tensor, stream: &Stream) -> Result<(), RankError> {
    let session = &stage.session;
    let from = if tensor.in_place { &session.recv } else { &session.send };
    let call = collective::Call {
        form: Form::Plain,
        collective: Collective::AllReduce,
        send: from.at(tensor.offset()),
        recv: session.recv.at(tensor.offset()),
        count: tensor.count,
        datatype: tensor.datatype,
        op: RedOp::SUM,
        root: 0,
    };
    call.enqueue(&session.nccl, session.comm.raw(), stream.raw())
}

pub(super) fn end_trial(
    stage: &Stage,
    post: &Post<'_>,
    measured: Option<usize>,
    stream: &Stream,
) -> Result<(), RankError> {
    let place = measured.unwrap_or(UNMEASURED);
    // SAFETY: the session's buffers hold every tensor, and live until all work has ended.
    unsafe { stage.lane.end_trial(place, &post.call, post.plan.count, stream.raw()) }.map_err(refused)
}

fn await_finished(stage: &Stage) -> Result<Option<Finished>, RankError> {
    let began = Instant::now();
    while began.elapsed() < LIMIT {
        if let Some(finished) = stage.lane.finished() {
            return Ok(Some(finished));
        }
        std::thread::yield_now();
    }
    Ok(None)
}

fn compare(finished: Option<Finished>, measured: Option<usize>, expected: &Deviation) -> Option<String> {
    let Some(Finished::Trial { place, ours_us, vendor_us, squared_error, signal }) = finished else {
        return Some(format!("no trial came back, but {finished:?}"));
    };
    let near = |one: f64, other: f64| (one - other).abs() <= 1e-9 * other.abs();
    let times = ours_us > 0.0 && vendor_us > 0.0 && ours_us.is_finite() && vendor_us.is_finite();
    let numbers = near(squared_error, expected.squared_error) && near(signal, expected.signal);
    let holds = times && numbers && Some(place) == measured;
    (!holds).then(|| format!("{finished:?} of {measured:?}, while the codec says {expected:?}"))
}

/// On two streams without a wait of the host: a trial between two launches of a graph with a compressed call, then a dry run and a compressed
/// call in one group, and a watch over each kind of call. Only the lane's own order keeps them apart.
pub(super) fn beside(stage: &Stage) -> Result<Report, RankError> {
    let (tensors, first) = (tensors(), &stage.session.stream);
    let (second, usual) = (stage.session.gpu.stream(true)?, stage.lane.shapes()[0]);
    let beside = Tensor::new(4, 700_001);
    let compressed = [beside, tensors[1], tensors[2]];
    let one_by_one = stage.one_by_one(&compressed)?;
    stage.prepare(&tensors)?;
    stage.prepare(&[beside])?;
    let graph = captured(stage, &[beside], &second)?;
    let measured = stage.lane.take_measurement();
    graph.launch(&second)?;
    let trial = dry(stage, &tensors[0], usual, measured, first)?;
    enqueue(&[trial])?;
    by_vendor(stage, &tensors[0], first)?;
    end_trial(stage, &trial, measured, first)?;
    graph.launch(&second)?;
    let watched =
        [stage.lane.take_measurement(), stage.lane.take_measurement()].map(|it| it.unwrap_or(UNMEASURED));
    stage.lane.start_watch(watched[0], second.raw()).map_err(refused)?;
    enqueue(&[stage.post(&stage.lane, &tensors[1], &second)?])?;
    stage.lane.end_watch(watched[0], second.raw()).map_err(refused)?;
    let unmeasured = dry(stage, &tensors[3], usual, None, &second)?;
    enqueue(&[unmeasured, stage.post(&stage.lane, &tensors[2], first)?])?;
    stage.lane.start_watch(watched[1], first.raw()).map_err(refused)?;
    by_vendor(stage, &tensors[3], first)?;
    stage.lane.end_watch(watched[1], first.raw()).map_err(refused)?;
    first.synchronize()?;
    second.synchronize()?;
    let mut report = Report { one_by_one, together: stage.digest(&compressed)?, ..Report::default() };
    let mut came = Vec::new();
    for _ in 0..3 {
        came.extend(await_finished(stage)?);
    }
    let of_codec = expected::by_codec(stage, &tensors[0], usual.algorithm);
    let expected = Deviation::of(&tensors[0], &of_codec, &stage.output(&tensors[0])?);
    let of_trial = came.iter().copied().find(|finished| matches!(finished, Finished::Trial { .. }));
    report.wrong.extend(compare(of_trial, measured, &expected));
    for place in watched {
        let is_it = |finished: &Finished| matches!(finished, Finished::Watch { place: of, us } if *of == place && *us > 0.0);
        if !came.iter().any(is_it) {
            report.wrong.push(format!("no time of the watch at {place}: {came:?}"));
        }
    }
    report.trials = came.len();
    Ok(report.with_stats(stage.lane.stats()))
}

/// Places run out and come back, a dry run without one is an ordinary one, and a capture takes none.
pub(super) fn places(stage: &Stage) -> Result<Report, RankError> {
    let (tensor, session, usual) = (Tensor::new(0, 300_001), &stage.session, stage.lane.shapes()[0]);
    let mut report = Report { one_by_one: stage.one_by_one(&[tensor])?, ..Report::default() };
    let mut claim = |holds: bool, claim: &str| {
        if !holds {
            report.wrong.push(claim.to_owned());
        }
    };
    let taken: Vec<_> = (0..MEASUREMENTS).map_while(|_| stage.lane.take_measurement()).collect();
    claim(taken == [0, 1, 2, 3], "four places");
    claim(stage.lane.take_measurement().is_none(), "no fifth place");
    stage.prepare(&[tensor])?;
    let before = around(stage, &tensor)?;
    enqueue(&[dry(stage, &tensor, usual, None, &session.stream)?])?;
    session.stream.synchronize()?;
    claim(around(stage, &tensor)? == before, "an unmeasured dry run leaves memory as it was");
    claim(stage.lane.finished().is_none(), "nothing was measured");
    taken.iter().for_each(|place| stage.lane.drop_measurement(*place));
    claim(stage.lane.take_measurement() == Some(0), "a place that was given back is free");
    let post = dry(stage, &tensor, usual, Some(0), &session.stream)?;
    let captured = session.gpu.stream(true)?;
    let refused = captured.capture(|| enqueue(&[Post { stream: captured.raw(), ..post }]));
    report.refused = refused.err().map(|error| error.to_string());
    let watch = captured.capture(|| stage.lane.start_watch(0, captured.raw()).map_err(refused_watch));
    let live = Post { dry: None, ..post };
    let wrong_plan = enqueue(&[live]).is_err();
    let mut claim = |holds: bool, claim: &str| {
        if !holds {
            report.wrong.push(claim.to_owned());
        }
    };
    claim(watch.is_err(), "a capture is not watched");
    claim(stage.lane.take_measurement() == Some(0), "and the watch's place is free again");
    claim(wrong_plan, "a dry plan is refused for a call");
    Ok(Report { together: stage.one_by_one(&[tensor])?, ..report })
}

fn refused_watch(error: airamp_fast_path::FastPathError) -> RankError {
    refused(error)
}

/// Rank 0 enqueues a dry run and a call of every shape before the others enqueue anything: once the lane is
/// connected, no host waits for another.
pub(super) fn ahead(stage: &mut Stage) -> Result<Report, RankError> {
    stage.prepare(&tensors())?;
    let first = stage.session.comm.rank == 0;
    if first {
        enqueue_all(stage)?;
    }
    stage.session.wait_for_everyone()?;
    if !first {
        enqueue_all(stage)?;
    }
    stage.session.stream.synchronize()?;
    Ok(Report::default().with_stats(stage.lane.stats()))
}

fn enqueue_all(stage: &Stage) -> Result<(), RankError> {
    let stream = &stage.session.stream;
    for shape in stage.lane.shapes() {
        for tensor in &tensors()[1..3] {
            let plan = stage.lane.plan(tensor.count, *shape).map_err(refused)?;
            enqueue(&[dry(stage, tensor, *shape, None, stream)?])?;
            enqueue(&[Post { plan, ..stage.post(&stage.lane, tensor, stream)? }])?;
        }
    }
    Ok(())
}

/// Calls of every shape, live and captured, bit for bit what the codec makes of them.
pub(super) fn shapes(stage: &Stage) -> Result<Report, RankError> {
    let (mut report, second) = (Report::default(), stage.session.gpu.stream(true)?);
    for shape in stage.lane.shapes() {
        for (number, tensor) in tensors().iter().chain(&more_tensors()).enumerate() {
            stage.prepare(&[*tensor])?;
            let plan = stage.lane.plan(tensor.count, *shape).map_err(refused)?;
            let mut post = Post { plan, ..stage.post(&stage.lane, tensor, &stage.session.stream)? };
            post.call.average = number == 0;
            enqueue(&[post])?;
            stage.session.stream.synchronize()?;
            let expected = expected::reduced(stage, tensor, shape.algorithm, post.call.average);
            if stage.output(tensor)? != expected {
                report.wrong.push(format!("{shape:?} {tensor:?}: other bits than the codec's"));
            }
            stage.prepare(&[*tensor])?;
            let graph = second.capture(|| enqueue(&[Post { stream: second.raw(), ..post }]))?;
            graph.launch(&second)?;
            second.synchronize()?;
            if stage.output(tensor)? != expected {
                report.wrong.push(format!("{shape:?} {tensor:?}: other bits than the codec's in a graph"));
            }
            report.trials += 1;
        }
    }
    Ok(report.with_stats(stage.lane.stats()))
}
