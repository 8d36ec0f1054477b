//! Calls of the fast path that share something: a group, communicators, streams, graphs. Each scenario
//! prints the digest of the results and that of the same calls made one by one.

use airamp_codec::{Element, Format, Stats};
use airamp_fast_path::Lane;
use airamp_vendor::gpu::{GraphExec, Kind, Stream};
use airamp_vendor_abi::nccl::DataType;
use serde::Serialize;

use super::stage::{Stage, Tensor, begin, enqueue, enqueue_meeting};
use super::{devices, failing, trials};
use crate::error::RankError;
use crate::lane;
use crate::numbers::decode;

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Scenario {
    /// Several calls in one group.
    Group,
    /// Calls of two communicators in one group.
    Communicators,
    /// Communicators on two devices of one thread in one group.
    Devices,
    /// A group on three streams, one of them without a call.
    Streams,
    /// Two graphs in flight beside live calls.
    Graphs,
    /// A capture that not all streams of the group take part in.
    MixedCapture,
    /// Each rank believes itself at another call of the communicator.
    Foreign,
    /// A call of which the vendor refuses a part.
    Refused,
    /// Counters of planted elements.
    Stats,
    /// Calls of every shape, beside what the codec makes of them.
    Shapes,
    /// Dry runs of every shape, each followed by the vendor's call.
    Trials,
    /// Dry runs, compressed calls and watches on two streams.
    TrialsBeside,
    /// One rank enqueues every shape before the others do.
    Ahead,
    /// A trial of which the vendor's call cannot go on.
    PendingTrial,
    /// Places for measurements, taken and given back.
    Measurements,
    /// Acquires a lane, again if that was refused, and uses it.
    Acquire,
}

#[derive(Default, Serialize)]
pub(super) struct Report {
    pub(super) rank: usize,
    pub(super) one_by_one: String,
    pub(super) together: String,
    pub(super) saturated: u64,
    pub(super) non_finite_blocks: u64,
    pub(super) squared_error: f64,
    pub(super) signal: f64,
    pub(super) foreign: u64,
    /// Whether a group of the vendor's was still open.
    pub(super) group_left_open: bool,
    /// Whether the lane was idle before a failed call's work had ended.
    pub(super) idle_while_pending: bool,
    /// Elements of the result that are numbers.
    pub(super) numbers: usize,
    /// Whether the lane was idle with graphs that hold it.
    pub(super) idle_with_graphs: bool,
    pub(super) refused: Option<String>,
    /// Device memory that a refusal kept.
    pub(super) leaked_bytes: usize,
    /// Calls or measurements that were looked at.
    pub(super) trials: usize,
    /// Claims about them that do not hold.
    pub(super) wrong: Vec<String>,
    /// What the lane's calls can be cut into.
    pub(super) shapes: Vec<String>,
}

impl Report {
    pub(super) fn with_stats(self, stats: Stats) -> Self {
        let Stats { saturated, non_finite_blocks, squared_error, signal, foreign } = stats;
        Self { saturated, non_finite_blocks, squared_error, signal, foreign, ..self }
    }
}

pub(super) fn run(kind: Kind, scenario: Scenario, arena_bytes: usize) -> Result<bool, RankError> {
    let report = match scenario {
        Scenario::Acquire => acquire(kind, arena_bytes)?,
        _ => {
            let mut stage = Stage::set(kind, arena_bytes)?;
            let report = match scenario {
                Scenario::Group => group(&stage)?,
                Scenario::Communicators => communicators(&mut stage)?,
                Scenario::Devices => devices::run(&mut stage)?,
                Scenario::Streams => streams(&stage)?,
                Scenario::Graphs => graphs(&stage)?,
                Scenario::MixedCapture => mixed_capture(&stage)?,
                Scenario::Foreign => foreign(&stage)?,
                Scenario::Refused => failing::run(&mut stage)?,
                Scenario::Shapes => trials::shapes(&stage)?,
                Scenario::Trials => trials::run(&stage)?,
                Scenario::TrialsBeside => trials::beside(&stage)?,
                Scenario::Ahead => trials::ahead(&mut stage)?,
                Scenario::PendingTrial => failing::pending_trial(&mut stage)?,
                Scenario::Measurements => trials::places(&stage)?,
                Scenario::Stats | Scenario::Acquire => planted(&stage)?,
            };
            let shapes = stage.lane.shapes().iter().map(ToString::to_string).collect();
            Report { rank: stage.session.comm.rank, shapes, ..report }
        }
    };
    println!("{}", serde_json::to_string(&report).unwrap_or_default());
    Ok(true)
}

/// Lengths that differ in steps and tails, types that differ, in place and not.
pub(super) fn tensors() -> [Tensor; 4] {
    [
        Tensor::new(0, 900_001),
        Tensor { in_place: true, ..Tensor::new(1, 300_000) },
        Tensor { datatype: DataType::FLOAT32, element: Element::F32, ..Tensor::new(2, 130) },
        Tensor {
            datatype: DataType::BFLOAT16,
            element: Element::Bf16,
            in_place: true,
            ..Tensor::new(3, 700_003)
        },
    ]
}

fn group(stage: &Stage) -> Result<Report, RankError> {
    let (tensors, stream) = (tensors(), &stage.session.stream);
    let one_by_one = stage.one_by_one(&tensors)?;
    stage.prepare(&tensors)?;
    let mut posts = Vec::new();
    for tensor in &tensors {
        posts.push(stage.post(&stage.lane, tensor, stream)?);
    }
    enqueue(&posts)?;
    stream.synchronize()?;
    Ok(Report { one_by_one, together: stage.digest(&tensors)?, ..Report::default() })
}

fn communicators(stage: &mut Stage) -> Result<Report, RankError> {
    let tensors = tensors();
    let ((other, _other), (third, _third)) = (stage.another_lane()?, stage.another_lane()?);
    Lane::connect(&[&other, &third]).map_err(lane::refused)?;
    let (stage, stream) = (&*stage, &stage.session.stream);
    let beside = stage.session.gpu.stream(true)?;
    let one_by_one = stage.one_by_one(&tensors)?;
    stage.prepare(&tensors)?;
    let posts = [
        stage.post(&other, &tensors[2], &beside)?,
        stage.post(&other, &tensors[3], &beside)?,
        stage.post(&stage.lane, &tensors[0], stream)?,
        stage.post(&third, &tensors[1], stream)?,
    ];
    enqueue(&posts)?;
    stream.synchronize()?;
    beside.synchronize()?;
    let together = stage.digest(&tensors)?;
    let stats = other.stats();
    Ok(Report { one_by_one, together, ..Report::default() }.with_stats(stats))
}

/// The input of one call is made on the stream of the other, and that of the other on a stream that
/// only takes part; the outputs are read crosswise too. Nothing but the group puts them in order.
fn streams(stage: &Stage) -> Result<Report, RankError> {
    let (session, tensors) = (&stage.session, [Tensor::new(0, 900_001), Tensor::new(1, 40_000)]);
    let (first, second, also) = (&session.stream, session.gpu.stream(true)?, session.gpu.stream(true)?);
    let one_by_one = stage.one_by_one(&tensors)?;
    stage.prepare(&tensors)?;
    let sources = [Tensor::new(4, tensors[0].count), Tensor::new(5, tensors[1].count)];
    for (source, tensor) in sources.iter().zip(&tensors) {
        session.send.write(source.offset(), &stage.input(tensor))?;
        session.send.fill(tensor.offset(), tensor.bytes(), 0)?;
    }
    session.gpu.synchronize()?;
    let copy = |to: &Tensor, from: &Tensor, stream: &Stream, buffer: &airamp_vendor::gpu::Buffer| {
        buffer.copy_from_async(to.offset(), buffer, from.offset(), from.bytes(), stream)
    };
    copy(&tensors[0], &sources[0], &second, &session.send)?;
    copy(&tensors[1], &sources[1], &also, &session.send)?;
    let posts =
        [stage.post(&stage.lane, &tensors[0], first)?, stage.post(&stage.lane, &tensors[1], &second)?];
    enqueue_meeting(&posts, &stage.lane, &[first, &second, &also])?;
    copy(&sources[0], &tensors[0], &also, &session.recv)?;
    copy(&sources[1], &tensors[1], first, &session.recv)?;
    for stream in [first, &second, &also] {
        stream.synchronize()?;
    }
    Ok(Report { one_by_one, together: stage.digest(&sources)?, ..Report::default() })
}

fn graphs(stage: &Stage) -> Result<Report, RankError> {
    let session = &stage.session;
    let tensors =
        [Tensor::new(0, 900_001), Tensor::new(1, 40_000), Tensor::new(2, 500_000), Tensor::new(3, 7)];
    let (one, two) = (session.gpu.stream(true)?, session.gpu.stream(true)?);
    let one_by_one = stage.one_by_one(&tensors)?;
    stage.prepare(&tensors)?;
    let first = match captured(stage, &tensors[..2], &one) {
        Ok(graph) => graph,
        Err(error) => return Ok(Report { refused: Some(error.to_string()), ..Report::default() }),
    };
    let second = captured(stage, &tensors[2..3], &two)?;
    // No host wait in between: only the lane's own order keeps them apart.
    for _ in 0..3 {
        stage.spoil(&tensors[0], &one)?;
        first.launch(&one)?;
        stage.spoil(&tensors[2], &two)?;
        second.launch(&two)?;
        stage.spoil(&tensors[3], &session.stream)?;
        enqueue(&[stage.post(&stage.lane, &tensors[3], &session.stream)?])?;
    }
    for stream in [&one, &two, &session.stream] {
        stream.synchronize()?;
    }
    let together = stage.digest(&tensors)?;
    let idle_with_graphs = stage.lane.is_idle()?;
    drop((first, second));
    while !stage.lane.is_idle()? {
        std::thread::yield_now();
    }
    Ok(Report { one_by_one, together, idle_with_graphs, ..Report::default() }.with_stats(stage.lane.stats()))
}

/// The calls in one group, with a stream that was forked off and only takes part.
pub(super) fn captured(stage: &Stage, tensors: &[Tensor], stream: &Stream) -> Result<GraphExec, RankError> {
    let gpu = &stage.session.gpu;
    let (forked, fork, join) = (gpu.stream(true)?, gpu.untimed_event()?, gpu.untimed_event()?);
    stream.capture(|| {
        fork.record(stream)?;
        forked.wait(&fork)?;
        let mut posts = Vec::new();
        for tensor in tensors {
            posts.push(stage.post(&stage.lane, tensor, stream)?);
        }
        enqueue_meeting(&posts, &stage.lane, &[stream, &forked])?;
        join.record(&forked)?;
        Ok(stream.wait(&join)?)
    })
}

/// The refusal leaves no group open: the next call is an ordinary one.
fn mixed_capture(stage: &Stage) -> Result<Report, RankError> {
    let (tensors, session) = ([Tensor::new(0, 5000)], &stage.session);
    let one_by_one = stage.one_by_one(&tensors)?;
    let captured = session.gpu.stream(true)?;
    let refused = captured.capture(|| {
        let post = stage.post(&stage.lane, &tensors[0], &captured)?;
        enqueue_meeting(&[post], &stage.lane, &[&captured, &session.stream])
    });
    let refused = refused.err().map(|error| error.to_string());
    Ok(Report { one_by_one, together: stage.one_by_one(&tensors)?, refused, ..Report::default() })
}

fn foreign(stage: &Stage) -> Result<Report, RankError> {
    let (tensor, session) = (Tensor::new(0, 300_000), &stage.session);
    stage.prepare(&[tensor])?;
    let mut post = stage.post(&stage.lane, &tensor, &session.stream)?;
    post.index += session.comm.rank as u64;
    enqueue(&[post])?;
    session.stream.synchronize()?;
    let mut output = vec![0; tensor.bytes()];
    session.recv.read(tensor.offset(), &mut output)?;
    let values = output.chunks_exact(tensor.element.size());
    let numbers = values.filter(|bytes| !decode(tensor.datatype, bytes).is_nan()).count();
    Ok(Report { numbers, ..Report::default() }.with_stats(stage.lane.stats()))
}

/// An infinite element in the first block of this rank, in a tensor of two calls.
fn planted(stage: &Stage) -> Result<Report, RankError> {
    let (tensor, session) = (Tensor::new(0, 900_000), &stage.session);
    let clean = stage.lane.stats();
    stage.prepare(&[tensor])?;
    let infinity: [u8; 2] = 0x7c00_u16.to_le_bytes();
    session.send.write(tensor.offset() + 10, &infinity)?;
    session.gpu.synchronize()?;
    for _ in 0..2 {
        enqueue(&[stage.post(&stage.lane, &tensor, &session.stream)?])?;
    }
    session.stream.synchronize()?;
    let report = Report { together: stage.digest(&[tensor])?, ..Report::default() };
    let cleared = clean == Stats::default();
    let refused = (!cleared).then(|| format!("counters began at {clean:?}"));
    Ok(Report { refused, ..report.with_stats(stage.lane.stats()) })
}

fn acquire(kind: Kind, arena_bytes: usize) -> Result<Report, RankError> {
    let (session, kernels) = begin(kind)?;
    let acquire = || lane::acquire(&session, &session.comm, &kernels, arena_bytes, Format::Auto);
    let before = session.gpu.memory_info()?.free;
    let refused = acquire().err().map(|error| error.to_string());
    // After a failed launch the device itself answers with an error.
    let leaked_bytes = before.saturating_sub(session.gpu.memory_info().map_or(before, |memory| memory.free));
    let rank = session.comm.rank;
    if refused.is_none() || leaked_bytes > 0 {
        return Ok(Report { rank, refused, leaked_bytes, ..Report::default() });
    }
    let together = match acquire() {
        Ok(_lane) => "acquired".to_owned(),
        Err(error) => error.to_string(),
    };
    Ok(Report { rank, refused, together, ..Report::default() })
}
