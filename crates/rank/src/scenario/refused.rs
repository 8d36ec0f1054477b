//! Calls that the library refuses for what the program did with its streams, and communicators that fail since
//! nobody can tell the index of a call. The vendor alone would take them, or fail in its own way.

use airamp_vendor::gpu::Stream;
use airamp_vendor_abi::nccl::{DataType, NcclResult};

use super::arguments::enqueue_configured;
use super::expected::Spec;
use super::piece::Piece;
use super::streams::various;
use super::tracked::{Tracked, compressed_calls};
use super::{Case, Job, Seen};
use crate::collective::{Collective, Form};
use crate::error::RankError;
use crate::nccl::invoke;

/// Captures of which the library remembers the end of the last call, and one more.
const CAPTURES: usize = 5;
/// Communicators in one group whose calls the library can count, and one more.
const COMMUNICATORS: usize = 65;

pub(super) fn cases(job: &Job) -> Vec<Case> {
    let mut cases = vec![
        Case::new("refused/a_capture_that_begins_inside_a_group", begun_inside),
        Case::new("refused/a_capture_that_ends_inside_a_group", ended_inside),
        Case::new("refused/a_capture_whose_last_call_is_forgotten", forgotten),
        Case::new("refused/a_stream_that_is_gone", |job| gone(job, DataType::FLOAT16, false)),
        Case::new("refused/a_stream_that_is_gone_in_a_group", |job| gone(job, DataType::FLOAT16, true)),
        Case::new("refused/a_stream_that_is_gone_for_an_exact_call", |job| gone(job, DataType::INT32, false)),
        Case::new("refused/a_stream_that_goes_before_the_end_of_its_group", goes_inside),
    ];
    if Collective::AllReduce.is_in(&job.nccl, Form::Config) {
        cases.push(Case::new("refused/a_communicator_too_many_in_a_group", uncounted));
    }
    cases.retain(|_| job.expectation.format.is_some());
    cases
}

fn expect_code(seen: &mut Seen, what: &str, called: Result<(), RankError>, expected: NcclResult) {
    let code = called.map_or_else(|error| error.nccl_code(), |()| Some(NcclResult::SUCCESS.0));
    seen.expect(code == Some(expected.0), || format!("{what} gave {code:?}, not {}", expected.0));
}

/// What was refused has had no effect: the rank is where its peers are, which made no such call.
fn go_on(job: &Job, comm: Tracked, piece: &Piece, mut seen: Seen) -> Result<Seen, RankError> {
    piece.judge_untouched(&mut seen)?;
    comm.check(&mut seen);
    piece.enqueue(job, &comm, &job.stream)?;
    job.stream.synchronize()?;
    piece.judge(&comm, &mut seen)?;
    comm.check(&mut seen);
    comm.comm.destroy()?;
    Ok(seen)
}

/// A communicator on which one call was compressed, and a piece that is still to be called.
fn warmed(job: &mut Job) -> Result<(Tracked, Piece, Seen), RankError> {
    let (comm, mut seen) = (job.communicator()?, Seen::new());
    let first = Piece::new(job, &comm, various(0))?;
    first.enqueue(job, &comm, &job.stream)?;
    job.stream.synchronize()?;
    first.judge(&comm, &mut seen)?;
    let piece = Piece::new(job, &comm, Spec { in_place: false, ..various(1) })?;
    Ok((comm, piece, seen))
}

/// Some ranks do what is refused, and the others do not.
fn errs(job: &Job) -> bool {
    job.world.rank % 2 == 1
}

/// The call has taken an index, which a captured one must not.
fn begun_inside(job: &mut Job) -> Result<Seen, RankError> {
    let (comm, piece, mut seen) = warmed(job)?;
    if errs(job) {
        invoke!(job.nccl, ncclGroupStart())?;
        piece.call_without_effect(job, &comm, &job.stream)?;
        drop(job.stream.capture(|| {
            let ended = invoke!(job.nccl, ncclGroupEnd());
            expect_code(&mut seen, "the group", ended, NcclResult::INVALID_USAGE);
            Ok::<(), RankError>(())
        })?);
    }
    go_on(job, comm, &piece, seen)
}

/// The call has taken no index, and a live one needs its own.
fn ended_inside(job: &mut Job) -> Result<Seen, RankError> {
    let (comm, piece, mut seen) = warmed(job)?;
    if errs(job) {
        drop(job.stream.capture(|| {
            invoke!(job.nccl, ncclGroupStart())?;
            piece.call_without_effect(job, &comm, &job.stream)
        })?);
        let ended = invoke!(job.nccl, ncclGroupEnd());
        expect_code(&mut seen, "the group", ended, NcclResult::INVALID_USAGE);
    }
    go_on(job, comm, &piece, seen)
}

/// As many captures at once, each with a call, from the outermost in.
fn in_captures(
    streams: &[Stream],
    call: &dyn Fn(&Stream) -> Result<(), RankError>,
    innermost: &mut dyn FnMut() -> Result<(), RankError>,
) -> Result<(), RankError> {
    let Some((stream, inner)) = streams.split_first() else { return innermost() };
    drop(stream.capture(|| {
        call(stream)?;
        in_captures(inner, call, innermost)
    })?);
    Ok(())
}

/// The arena would be another call's too: nothing ties the next call of the first capture to its last one.
fn forgotten(job: &mut Job) -> Result<Seen, RankError> {
    let (comm, piece, mut seen) = warmed(job)?;
    let mut streams = Vec::new();
    for _ in 0..CAPTURES {
        streams.push(job.gpu.stream(true)?);
    }
    let in_graphs = Piece::new(job, &comm, various(2))?;
    if errs(job) {
        let call = |stream: &Stream| in_graphs.enqueue(job, &comm, stream);
        in_captures(&streams, &call, &mut || {
            let again = |stream| piece.call_without_effect(job, &comm, stream);
            expect_code(&mut seen, "the first capture", again(&streams[0]), NcclResult::INVALID_USAGE);
            let grouped = job.group(|| again(&streams[0]));
            expect_code(&mut seen, "a group in it", grouped, NcclResult::INVALID_USAGE);
            streams[1..].iter().try_for_each(call)
        })?;
    }
    go_on(job, comm, &piece, seen)
}

/// The communicator has failed: every call says so, and so does its state.
fn judge_lost(job: &mut Job, comm: Tracked, piece: &Piece, seen: &mut Seen) -> Result<(), RankError> {
    let call = || piece.call_without_effect(job, &comm, &job.stream);
    expect_code(seen, "a later call", call(), NcclResult::INTERNAL_ERROR);
    expect_code(seen, "a later group", job.group(call), NcclResult::INTERNAL_ERROR);
    job.stream.synchronize()?;
    piece.judge_untouched(seen)?;
    let state = job.nccl.async_error(comm.comm.raw())?;
    seen.expect(state == NcclResult::INTERNAL_ERROR.0, || format!("the communicator's state is {state}"));
    seen.compressed += compressed_calls(comm.comm.raw()).unwrap_or(0);
    job.wait_for_everyone()?;
    comm.comm.abort()
}

/// Nobody can tell whether the call goes into a graph, and so whether it takes an index, as exact ones do too.
fn gone(job: &mut Job, datatype: DataType, grouped: bool) -> Result<Seen, RankError> {
    let (comm, _, mut seen) = warmed(job)?;
    let piece = Piece::new(job, &comm, Spec::sum(datatype, 5003))?;
    let gone = job.gpu.stream(true)?.raw();
    let call = || piece.call().enqueue(&job.nccl, comm.comm.raw(), gone);
    let called = if grouped { job.group(call) } else { call() };
    expect_code(&mut seen, "a call on a stream that is gone", called, NcclResult::INTERNAL_ERROR);
    judge_lost(job, comm, &piece, &mut seen)?;
    Ok(seen)
}

fn goes_inside(job: &mut Job) -> Result<Seen, RankError> {
    let (comm, piece, mut seen) = warmed(job)?;
    let ended = job.group(|| {
        let going = job.gpu.stream(true)?;
        piece.call_without_effect(job, &comm, &going)
    });
    expect_code(&mut seen, "a group on a stream that is gone", ended, NcclResult::INTERNAL_ERROR);
    judge_lost(job, comm, &piece, &mut seen)?;
    Ok(seen)
}

/// Calls with a configuration are in the vendor's group at once, and one communicator too many is no longer counted
/// there. Without an index there is no plan for its next call.
fn uncounted(job: &mut Job) -> Result<Seen, RankError> {
    let (mut members, mut seen) = (Vec::new(), Seen::new());
    let exact = Spec::sum(DataType::INT32, 16);
    for seed in 0..COMMUNICATORS {
        let comm = job.communicator()?;
        let piece = Piece::new(job, &comm, exact.seeded(seed))?;
        members.push((comm, piece));
    }
    let mut calls = members.iter();
    job.group(|| calls.try_for_each(|(comm, piece)| enqueue_configured(job, comm, piece)))?;
    job.stream.synchronize()?;
    members.iter().try_for_each(|(comm, piece)| piece.judge(comm, &mut seen))?;
    let uncounted = members.pop();
    for (comm, _) in members {
        let piece = Piece::new(job, &comm, Spec { in_place: false, ..various(0) })?;
        seen = go_on(job, comm, &piece, seen)?;
    }
    if let Some((comm, _)) = uncounted {
        let piece = Piece::new(job, &comm, Spec { in_place: false, ..various(0) })?;
        judge_lost(job, comm, &piece, &mut seen)?;
    }
    Ok(seen)
}
