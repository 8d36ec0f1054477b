//! Wrong arguments: the return code is the library's own, and no call may crash. Only
//! arguments that every NCCL checks itself are passed; memory that is not there is not.

use std::ptr;

use airamp_vendor_abi::nccl::{DataType, NcclResult, RedOp, SIM_INFO_MAGIC, SimInfo, UniqueId};

use super::Case;
use super::lanes::Lanes;
use crate::collective::{Call, Collective};
use crate::error::RankError;
use crate::nccl::invoke;
use crate::session::{Observed, Session};

type Attempt = fn(&mut Session) -> Result<(), RankError>;

const INVALID_ARGUMENT: i32 = NcclResult::INVALID_ARGUMENT.0;

const ATTEMPTS: [(&str, i32, Attempt); 16] = [
    ("null_communicator", INVALID_ARGUMENT, |session| {
        plain_call(session).enqueue(&session.nccl, ptr::null_mut(), session.stream.raw())
    }),
    ("null_communicator_and_absurd_count", INVALID_ARGUMENT, |session| {
        let call = Call { count: usize::MAX, ..plain_call(session) };
        call.enqueue(&session.nccl, ptr::null_mut(), session.stream.raw())
    }),
    ("datatype_too_large", INVALID_ARGUMENT, |session| {
        enqueue(session, Call { datatype: DataType(99), ..plain_call(session) })
    }),
    ("datatype_negative", INVALID_ARGUMENT, |session| {
        enqueue(session, Call { datatype: DataType(-1), ..plain_call(session) })
    }),
    ("reduction_that_was_never_made", INVALID_ARGUMENT, |session| {
        enqueue(session, Call { op: RedOp(1000), ..plain_call(session) })
    }),
    ("reduction_negative", INVALID_ARGUMENT, |session| {
        enqueue(session, Call { op: RedOp(-3), ..plain_call(session) })
    }),
    ("root_too_large", INVALID_ARGUMENT, |session| {
        let call = Call { collective: Collective::Broadcast, root: 4096, ..plain_call(session) };
        enqueue(session, call)
    }),
    ("root_negative", INVALID_ARGUMENT, |session| {
        enqueue(session, Call { collective: Collective::Reduce, root: -1, ..plain_call(session) })
    }),
    ("send_to_a_peer_that_is_not_there", INVALID_ARGUMENT, |session| {
        let (comm, stream) = (session.comm.raw(), session.stream.raw());
        invoke!(session.nccl, ncclSend(session.send.at(0), 8, DataType::FLOAT32, 4096, comm, stream))
    }),
    ("receive_from_a_negative_peer", INVALID_ARGUMENT, |session| {
        let (comm, stream) = (session.comm.raw(), session.stream.raw());
        invoke!(session.nccl, ncclRecv(session.recv.at(0), 8, DataType::FLOAT32, -1, comm, stream))
    }),
    ("unique_id_to_nowhere", INVALID_ARGUMENT, |session| {
        invoke!(session.nccl, ncclGetUniqueId(ptr::null_mut()))
    }),
    ("rank_outside_the_communicator", INVALID_ARGUMENT, |session| {
        let (id, mut comm) = (session.nccl.unique_id()?, ptr::null_mut());
        invoke!(session.nccl, ncclCommInitRank(&raw mut comm, 2, id, 2))
    }),
    ("communicator_of_no_ranks", INVALID_ARGUMENT, |session| {
        let (id, mut comm) = (UniqueId { internal: [0; 128] }, ptr::null_mut());
        invoke!(session.nccl, ncclCommInitRank(&raw mut comm, 0, id, 0))
    }),
    ("count_of_a_null_communicator", INVALID_ARGUMENT, |session| {
        session.nccl.count(ptr::null_mut()).map(|_| ())
    }),
    ("destroy_a_null_communicator", NcclResult::SUCCESS.0, |session| {
        invoke!(session.nccl, ncclCommDestroy(ptr::null_mut()))
    }),
    ("group_end_without_start", NcclResult::INVALID_USAGE.0, |session| invoke!(session.nccl, ncclGroupEnd())),
];

pub(super) fn cases(session: &Session) -> Vec<Case> {
    let mut cases: Vec<Case> = ATTEMPTS.into_iter().map(case).collect();
    cases.push(Case::new("misuse/the_last_error_is_told", last_error));
    cases.push(Case::new("misuse/nothing_from_nowhere", nothing_from_nowhere));
    if session.nccl.functions.ncclGroupSimulateEnd.is_some() {
        cases.push(Case::new("misuse/absurd_count_simulated", absurd_count));
    }
    cases
}

fn case((name, expected, attempt): (&'static str, i32, Attempt)) -> Case {
    Case::new(format!("misuse/{name}"), move |session| {
        let mut observed = Observed::new();
        observed.result = code_of(attempt(session))?;
        let result = observed.result;
        observed.expect(result == expected, || format!("returned {result}, not {expected}"));
        // The communicator serves as before.
        Lanes::new(1, 100).run(session, &session.comm, &mut observed)?;
        Ok(observed)
    })
}

/// The vendor's code; an error that is not the vendor's stays an error.
fn code_of(result: Result<(), RankError>) -> Result<i32, RankError> {
    match result {
        Ok(()) => Ok(NcclResult::SUCCESS.0),
        Err(error) => error.nccl_code().ok_or(error),
    }
}

fn plain_call(session: &Session) -> Call {
    Lanes::new(1, 100).call(session, 0)
}

fn enqueue(session: &Session, call: Call) -> Result<(), RankError> {
    call.enqueue(&session.nccl, session.comm.raw(), session.stream.raw())
}

fn last_error(session: &mut Session) -> Result<Observed, RankError> {
    let mut observed = Observed::new();
    let call = Call { datatype: DataType(99), ..plain_call(session) };
    observed.result = code_of(enqueue(session, call))?;
    observed.digest.add(session.nccl.last_error(session.comm.raw()).as_bytes());
    Ok(observed)
}

/// A count of zero makes no use of the buffers.
fn nothing_from_nowhere(session: &mut Session) -> Result<Observed, RankError> {
    let mut observed = Observed::new();
    let call = Call { count: 0, send: ptr::null(), recv: ptr::null_mut(), ..plain_call(session) };
    observed.result = code_of(enqueue(session, call))?;
    let result = observed.result;
    observed.expect(result == 0, || format!("returned {result}"));
    Lanes::new(1, 100).run(session, &session.comm, &mut observed)?;
    Ok(observed)
}

/// In a simulated group, where nothing is read: the code is recorded, whatever it is.
fn absurd_count(session: &mut Session) -> Result<Observed, RankError> {
    let mut observed = Observed::new();
    let version = session.version as u32;
    let mut info =
        SimInfo { size: size_of::<SimInfo>(), magic: SIM_INFO_MAGIC, version, estimated_time: -1.0 };
    invoke!(session.nccl, ncclGroupStart())?;
    let called = code_of(enqueue(session, Call { count: 1 << 40, ..plain_call(session) }));
    let ended = code_of(invoke!(session.nccl, ncclGroupSimulateEnd(&raw mut info)));
    observed.digest.add(&called?.to_le_bytes());
    observed.result = ended?;
    Ok(observed)
}
