//! Collectives, point to point, groups and reduction operators.

use std::ffi::{c_int, c_void};

use airamp_vendor_abi::nccl::{
    API_MAGIC, CollConfig, Comm, DataType, NcclResult, RedOp, ScalarResidence, SimInfo, Stream,
};

use super::exported;
use crate::nccl::call::{Call, Kind, Vectors};
use crate::nccl::communicator::reductions::Scalar;
use crate::nccl::communicator::registry;
use crate::nccl::error::{NcclError, Outcome};
use crate::nccl::group;

/// The arguments that every call has.
fn call(
    kind: Kind,
    buffers: (*const c_void, *mut c_void),
    count: usize,
    datatype: DataType,
    comm: Comm,
    stream: Stream,
) -> Call {
    Call {
        function: kind.name(),
        kind,
        send: buffers.0 as u64,
        recv: buffers.1 as u64,
        count,
        datatype,
        op: RedOp::SUM,
        root: 0,
        comm,
        stream: stream as usize,
        bias: 0,
        vectors: None,
    }
}

/// A configuration has to come from its initialiser; what it tunes means nothing here.
fn checked(config: *const CollConfig) -> Outcome {
    if config.is_null() {
        return Ok(());
    }
    // SAFETY: ncclCollConfig_t begins with a size_t and then its magic number.
    let magic = unsafe { config.cast::<u8>().add(size_of::<usize>()).cast::<u32>().read_unaligned() };
    match magic == API_MAGIC {
        true => Ok(()),
        false => Err(NcclError::InvalidArgument("ncclCollConfig_t was not initialised".into())),
    }
}

macro_rules! collectives {
    ($($kind:ident: $name:ident / $pname:ident, $config:ident / $pconfig:ident ($($field:ident: $type:ty),*);)*) => {$(
        exported! {
            fn $name / $pname (send: *const c_void, recv: *mut c_void, count: usize, datatype: DataType, $($field: $type,)* comm: Comm, stream: Stream) {
                group::enqueue(&Call { function: stringify!($name), $($field,)* ..call(Kind::$kind, (send, recv), count, datatype, comm, stream) })
            }

            fn $config / $pconfig (send: *const c_void, recv: *mut c_void, count: usize, datatype: DataType, $($field: $type,)* comm: Comm, stream: Stream, config: *const CollConfig) {
                checked(config)?;
                group::enqueue(&Call { function: stringify!($config), $($field,)* ..call(Kind::$kind, (send, recv), count, datatype, comm, stream) })
            }
        }
    )*};
}

collectives! {
    AllReduce: ncclAllReduce / pncclAllReduce, ncclAllReduceConfig / pncclAllReduceConfig (op: RedOp);
    Reduce: ncclReduce / pncclReduce, ncclReduceConfig / pncclReduceConfig (op: RedOp, root: c_int);
    ReduceScatter: ncclReduceScatter / pncclReduceScatter, ncclReduceScatterConfig / pncclReduceScatterConfig (op: RedOp);
    AllGather: ncclAllGather / pncclAllGather, ncclAllGatherConfig / pncclAllGatherConfig ();
    Broadcast: ncclBroadcast / pncclBroadcast, ncclBroadcastConfig / pncclBroadcastConfig (root: c_int);
    AlltoAll: ncclAlltoAll / pncclAlltoAll, ncclAlltoAllConfig / pncclAlltoAllConfig ();
    Gather: ncclGather / pncclGather, ncclGatherConfig / pncclGatherConfig (root: c_int);
    Scatter: ncclScatter / pncclScatter, ncclScatterConfig / pncclScatterConfig (root: c_int);
}

type BroadcastFunction =
    unsafe extern "C" fn(*const c_void, *mut c_void, usize, DataType, c_int, Comm, Stream) -> NcclResult;

exported! {
    fn ncclBcast / pncclBcast (buffer: *mut c_void, count: usize, datatype: DataType, root: c_int, comm: Comm, stream: Stream) {
        // Hidden from the optimiser, which would call the function of this file.
        let broadcast: BroadcastFunction = std::hint::black_box(ncclBroadcast);
        // SAFETY: the arguments are those of ncclBcast, which has one buffer for both.
        NcclError::passed(unsafe { broadcast(buffer, buffer, count, datatype, root, comm, stream) })
    }

    fn ncclSend / pncclSend (send: *const c_void, count: usize, datatype: DataType, peer: c_int, comm: Comm, stream: Stream) {
        let buffers = (send, std::ptr::null_mut());
        group::enqueue(&Call { root: peer, function: "ncclSend", ..call(Kind::Send, buffers, count, datatype, comm, stream) })
    }

    fn ncclRecv / pncclRecv (recv: *mut c_void, count: usize, datatype: DataType, peer: c_int, comm: Comm, stream: Stream) {
        let buffers = (std::ptr::null(), recv);
        group::enqueue(&Call { root: peer, function: "ncclRecv", ..call(Kind::Recv, buffers, count, datatype, comm, stream) })
    }

    /// RCCL's older spelling of `ncclAlltoAll`.
    fn ncclAllToAll / pncclAllToAll (send: *const c_void, recv: *mut c_void, count: usize, datatype: DataType, comm: Comm, stream: Stream) {
        group::enqueue(&Call { function: "ncclAllToAll", ..call(Kind::AlltoAll, (send, recv), count, datatype, comm, stream) })
    }

    /// RCCL: as many elements to and from each rank as the arrays say.
    fn ncclAlltoAllv / pncclAlltoAllv (send: *const c_void, send_counts: *const usize, send_offsets: *const usize, recv: *mut c_void, recv_counts: *const usize, recv_offsets: *const usize, datatype: DataType, comm: Comm, stream: Stream) {
        let vectors = Some(Vectors { send_counts, send_offsets, recv_counts, recv_offsets });
        group::enqueue(&Call { vectors, function: "ncclAlltoAllv", ..call(Kind::AlltoAllv, (send, recv), 0, datatype, comm, stream) })
    }

    /// RCCL's older spelling of `ncclAlltoAllv`.
    fn ncclAllToAllv / pncclAllToAllv (send: *const c_void, send_counts: *const usize, send_offsets: *const usize, recv: *mut c_void, recv_counts: *const usize, recv_offsets: *const usize, datatype: DataType, comm: Comm, stream: Stream) {
        let vectors = Some(Vectors { send_counts, send_offsets, recv_counts, recv_offsets });
        group::enqueue(&Call { vectors, function: "ncclAllToAllv", ..call(Kind::AlltoAllv, (send, recv), 0, datatype, comm, stream) })
    }

    /// RCCL: AllReduce, and `bias` added to the result.
    fn ncclAllReduceWithBias / pncclAllReduceWithBias (send: *const c_void, recv: *mut c_void, count: usize, datatype: DataType, op: RedOp, comm: Comm, stream: Stream, bias: *const c_void) {
        let bias = bias as u64;
        group::enqueue(&Call { op, bias, function: "ncclAllReduceWithBias", ..call(Kind::AllReduce, (send, recv), count, datatype, comm, stream) })
    }

    fn ncclGroupStart / pncclGroupStart () {
        group::start();
        Ok(())
    }

    fn ncclGroupEnd / pncclGroupEnd () {
        group::end()
    }

    fn ncclGroupSimulateEnd / pncclGroupSimulateEnd (info: *mut SimInfo) {
        group::simulate_end(info)
    }

    fn ncclRedOpCreatePreMulSum / pncclRedOpCreatePreMulSum (op: *mut RedOp, scalar: *mut c_void, datatype: DataType, residence: ScalarResidence, comm: Comm) {
        let comm = registry::lookup(comm, "ncclRedOpCreatePreMulSum")?;
        comm.health.usable()?;
        if op.is_null() || scalar.is_null() {
            return Err(NcclError::null("the operator or its scalar"));
        }
        let size = datatype.size().ok_or_else(|| NcclError::InvalidArgument(format!("datatype {} does not exist", datatype.0)))?;
        let scalar = match residence {
            ScalarResidence::HOST_IMMEDIATE => {
                let mut bytes = [0; 8];
                // SAFETY: the caller passes one element of the datatype, in host memory.
                unsafe { std::ptr::copy_nonoverlapping(scalar.cast::<u8>(), bytes.as_mut_ptr(), size) };
                Scalar::Immediate(bytes)
            }
            _ => Scalar::Device(scalar as u64),
        };
        // SAFETY: `op` is not null, and the caller owns it.
        unsafe { *op = comm.reductions.create(datatype, scalar) };
        Ok(())
    }

    fn ncclRedOpDestroy / pncclRedOpDestroy (op: RedOp, comm: Comm) {
        let comm = registry::lookup(comm, "ncclRedOpDestroy")?;
        comm.reductions.destroy(op)
    }
}
