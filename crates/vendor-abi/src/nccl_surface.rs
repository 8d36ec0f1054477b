//! The exported functions of `nccl.h` (2.32.3, device-API host functions
//! included) and of `rccl.h`, each named once. `nccl*` and `pnccl*` come in pairs.

/// Hands `$consumer!` every function whose call the interposer takes part in, with its
/// signature and its duty, as `ncclName / pncclName (argument: Type, …) => duty(facts, …);`.
/// All return `NcclResult`. What a duty means is the consumer's business.
#[macro_export]
macro_rules! for_each_typed_function {
    ($consumer:ident) => {
        $consumer! {
            ncclGetUniqueId / pncclGetUniqueId (id: *mut UniqueId) => identify(id);
            ncclCommInitRank / pncclCommInitRank (comm: *mut Comm, nranks: c_int, id: UniqueId, rank: c_int) => create(comm, nranks, rank, null_mut(), &id);
            ncclCommInitRankConfig / pncclCommInitRankConfig (comm: *mut Comm, nranks: c_int, id: UniqueId, rank: c_int, config: *mut Config) => create(comm, nranks, rank, config, &id);
            ncclCommInitRankScalable / pncclCommInitRankScalable (comm: *mut Comm, nranks: c_int, rank: c_int, id_count: c_int, ids: *mut UniqueId, config: *mut Config) => create_by_ids(comm, nranks, rank, config, ids, id_count);
            ncclCommInitAll / pncclCommInitAll (comms: *mut Comm, device_count: c_int, devices: *const c_int) => create_all(comms, device_count);
            ncclCommSplit / pncclCommSplit (comm: Comm, color: c_int, key: c_int, new_comm: *mut Comm, config: *mut Config) => derive(Split, comm, new_comm, config, color);
            ncclCommShrink / pncclCommShrink (comm: Comm, excluded: *mut c_int, excluded_count: c_int, new_comm: *mut Comm, config: *mut Config, flags: c_int) => shrink(comm, new_comm, config, flags, excluded, excluded_count);
            ncclCommGrow / pncclCommGrow (comm: Comm, nranks: c_int, id: *const UniqueId, rank: c_int, new_comm: *mut Comm, config: *mut Config) => derive(Grow, comm, new_comm, config, 0);
            ncclCommGetUniqueId / pncclCommGetUniqueId (comm: Comm, id: *mut UniqueId) => identify_growth();
            ncclCommFinalize / pncclCommFinalize (comm: Comm) => end(Finalize, comm);
            ncclCommDestroy / pncclCommDestroy (comm: Comm) => end(Destroy, comm);
            ncclCommAbort / pncclCommAbort (comm: Comm) => end(Abort, comm);
            ncclCommRevoke / pncclCommRevoke (comm: Comm, flags: c_int) => end(Revoke, comm);
            ncclCommSuspend / pncclCommSuspend (comm: Comm, flags: c_int) => end(Suspend, comm);
            ncclCommResume / pncclCommResume (comm: Comm) => end(Resume, comm);
            ncclCommGetAsyncError / pncclCommGetAsyncError (comm: Comm, error: *mut NcclResult) => health(comm, error);
            ncclGroupStart / pncclGroupStart () => group(Start);
            ncclGroupEnd / pncclGroupEnd () => group(End);
            ncclGroupSimulateEnd / pncclGroupSimulateEnd (info: *mut SimInfo) => simulate(info);
            ncclAllReduce / pncclAllReduce (send: *const c_void, recv: *mut c_void, count: usize, datatype: DataType, op: RedOp, comm: Comm, stream: Stream) => all_reduce(send, recv, count, datatype, op, comm, stream);
            ncclAllReduceConfig / pncclAllReduceConfig (send: *const c_void, recv: *mut c_void, count: usize, datatype: DataType, op: RedOp, comm: Comm, stream: Stream, config: *const CollConfig) => all_reduce_by_pointer(send, recv, count, datatype, op, comm, stream, config);
            ncclAllReduceWithBias / pncclAllReduceWithBias (send: *const c_void, recv: *mut c_void, count: usize, datatype: DataType, op: RedOp, comm: Comm, stream: Stream, bias: *const c_void) => collective(AllReduceWithBias, comm, count, datatype, -1, stream);
            ncclReduce / pncclReduce (send: *const c_void, recv: *mut c_void, count: usize, datatype: DataType, op: RedOp, root: c_int, comm: Comm, stream: Stream) => collective(Reduce, comm, count, datatype, root, stream);
            ncclReduceConfig / pncclReduceConfig (send: *const c_void, recv: *mut c_void, count: usize, datatype: DataType, op: RedOp, root: c_int, comm: Comm, stream: Stream, config: *const CollConfig) => collective_by_pointer(Reduce, comm, count, datatype, root, stream, config);
            ncclReduceScatter / pncclReduceScatter (send: *const c_void, recv: *mut c_void, count: usize, datatype: DataType, op: RedOp, comm: Comm, stream: Stream) => collective(ReduceScatter, comm, count, datatype, -1, stream);
            ncclReduceScatterConfig / pncclReduceScatterConfig (send: *const c_void, recv: *mut c_void, count: usize, datatype: DataType, op: RedOp, comm: Comm, stream: Stream, config: *const CollConfig) => collective_by_pointer(ReduceScatter, comm, count, datatype, -1, stream, config);
            ncclAllGather / pncclAllGather (send: *const c_void, recv: *mut c_void, count: usize, datatype: DataType, comm: Comm, stream: Stream) => collective(AllGather, comm, count, datatype, -1, stream);
            ncclAllGatherConfig / pncclAllGatherConfig (send: *const c_void, recv: *mut c_void, count: usize, datatype: DataType, comm: Comm, stream: Stream, config: *const CollConfig) => collective_by_pointer(AllGather, comm, count, datatype, -1, stream, config);
            ncclBroadcast / pncclBroadcast (send: *const c_void, recv: *mut c_void, count: usize, datatype: DataType, root: c_int, comm: Comm, stream: Stream) => collective(Broadcast, comm, count, datatype, root, stream);
            ncclBroadcastConfig / pncclBroadcastConfig (send: *const c_void, recv: *mut c_void, count: usize, datatype: DataType, root: c_int, comm: Comm, stream: Stream, config: *const CollConfig) => collective_by_pointer(Broadcast, comm, count, datatype, root, stream, config);
            ncclBcast / pncclBcast (buffer: *mut c_void, count: usize, datatype: DataType, root: c_int, comm: Comm, stream: Stream) => collective(Broadcast, comm, count, datatype, root, stream);
            ncclAlltoAll / pncclAlltoAll (send: *const c_void, recv: *mut c_void, count: usize, datatype: DataType, comm: Comm, stream: Stream) => collective(AllToAll, comm, count, datatype, -1, stream);
            ncclAlltoAllConfig / pncclAlltoAllConfig (send: *const c_void, recv: *mut c_void, count: usize, datatype: DataType, comm: Comm, stream: Stream, config: *const CollConfig) => collective_by_pointer(AllToAll, comm, count, datatype, -1, stream, config);
            ncclAllToAll / pncclAllToAll (send: *const c_void, recv: *mut c_void, count: usize, datatype: DataType, comm: Comm, stream: Stream) => collective(AllToAll, comm, count, datatype, -1, stream);
            ncclAlltoAllv / pncclAlltoAllv (send: *const c_void, send_counts: *const usize, send_offsets: *const usize, recv: *mut c_void, recv_counts: *const usize, recv_offsets: *const usize, datatype: DataType, comm: Comm, stream: Stream) => all_to_all_v(comm, datatype, stream, send_counts);
            ncclAllToAllv / pncclAllToAllv (send: *const c_void, send_counts: *const usize, send_offsets: *const usize, recv: *mut c_void, recv_counts: *const usize, recv_offsets: *const usize, datatype: DataType, comm: Comm, stream: Stream) => all_to_all_v(comm, datatype, stream, send_counts);
            ncclGather / pncclGather (send: *const c_void, recv: *mut c_void, count: usize, datatype: DataType, root: c_int, comm: Comm, stream: Stream) => collective(Gather, comm, count, datatype, root, stream);
            ncclGatherConfig / pncclGatherConfig (send: *const c_void, recv: *mut c_void, count: usize, datatype: DataType, root: c_int, comm: Comm, stream: Stream, config: *const CollConfig) => collective_by_pointer(Gather, comm, count, datatype, root, stream, config);
            ncclScatter / pncclScatter (send: *const c_void, recv: *mut c_void, count: usize, datatype: DataType, root: c_int, comm: Comm, stream: Stream) => collective(Scatter, comm, count, datatype, root, stream);
            ncclScatterConfig / pncclScatterConfig (send: *const c_void, recv: *mut c_void, count: usize, datatype: DataType, root: c_int, comm: Comm, stream: Stream, config: *const CollConfig) => collective_by_pointer(Scatter, comm, count, datatype, root, stream, config);
            ncclSend / pncclSend (send: *const c_void, count: usize, datatype: DataType, peer: c_int, comm: Comm, stream: Stream) => collective(Send, comm, count, datatype, peer, stream);
            ncclRecv / pncclRecv (recv: *mut c_void, count: usize, datatype: DataType, peer: c_int, comm: Comm, stream: Stream) => collective(Recv, comm, count, datatype, peer, stream);
            ncclRedOpCreatePreMulSum / pncclRedOpCreatePreMulSum (op: *mut RedOp, scalar: *mut c_void, datatype: DataType, residence: ScalarResidence, comm: Comm) => operator();
            ncclRedOpDestroy / pncclRedOpDestroy (op: RedOp, comm: Comm) => drop_operator(comm);
        }
    };
}

/// Hands `$consumer!` every function that is forwarded by a jump, whatever its
/// signature: `name / pname => what it returns;`.
#[macro_export]
macro_rules! for_each_forwarded_function {
    ($consumer:ident) => {
        $consumer! {
            ncclGetVersion / pncclGetVersion => Result;
            ncclGetErrorString / pncclGetErrorString => Text;
            ncclGetLastError / pncclGetLastError => Text;
            ncclResetDebugInit / pncclResetDebugInit => Result;
            ncclMemAlloc / pncclMemAlloc => Result;
            ncclMemFree / pncclMemFree => Result;
            ncclCommCount / pncclCommCount => Result;
            ncclCommCuDevice / pncclCommCuDevice => Result;
            ncclCommUserRank / pncclCommUserRank => Result;
            ncclCommRegister / pncclCommRegister => Result;
            ncclCommDeregister / pncclCommDeregister => Result;
            ncclCommMemStats / pncclCommMemStats => Result;
            ncclCommQueryProperties / pncclCommQueryProperties => Result;
            ncclCommWindowRegister / pncclCommWindowRegister => Result;
            ncclCommWindowDeregister / pncclCommWindowDeregister => Result;
            ncclWinGetUserPtr / pncclWinGetUserPtr => Result;
            ncclPutSignal / pncclPutSignal => Result;
            ncclSignal / pncclSignal => Result;
            ncclWaitSignal / pncclWaitSignal => Result;
            ncclSetEncryption / pncclSetEncryption => Result;
            ncclParamBind / pncclParamBind => Result;
            ncclParamGetI8 / pncclParamGetI8 => Result;
            ncclParamGetI16 / pncclParamGetI16 => Result;
            ncclParamGetI32 / pncclParamGetI32 => Result;
            ncclParamGetI64 / pncclParamGetI64 => Result;
            ncclParamGetU8 / pncclParamGetU8 => Result;
            ncclParamGetU16 / pncclParamGetU16 => Result;
            ncclParamGetU32 / pncclParamGetU32 => Result;
            ncclParamGetU64 / pncclParamGetU64 => Result;
            ncclParamGetStr / pncclParamGetStr => Result;
            ncclParamGet / pncclParamGet => Result;
            ncclParamGetParameter / pncclParamGetParameter => Result;
            ncclParamGetAllParameterKeys / pncclParamGetAllParameterKeys => Result;
            ncclParamDumpAll / pncclParamDumpAll => Result;
            ncclDevCommCreate / pncclDevCommCreate => Result;
            ncclDevCommDestroy / pncclDevCommDestroy => Result;
            ncclGetLsaMultimemDevicePointer / pncclGetLsaMultimemDevicePointer => Result;
            ncclGetMultimemDevicePointer / pncclGetMultimemDevicePointer => Result;
            ncclGetLsaDevicePointer / pncclGetLsaDevicePointer => Result;
            ncclGetPeerDevicePointer / pncclGetPeerDevicePointer => Result;
            ncclGetMultimemDeviceLeInfo / pncclGetMultimemDeviceLeInfo => Result;
            ncclGetCftDeviceLeInfo / pncclGetCftDeviceLeInfo => Result;
            ncclGetPeerDeviceLeInfo / pncclGetPeerDeviceLeInfo => Result;
            ncclTeamWorld / pncclTeamWorld => Result;
            ncclTeamLsa / pncclTeamLsa => Result;
            ncclTeamRail / pncclTeamRail => Result;
            ncclTeamCft / pncclTeamCft => Result;
            ncclTeamCftMultimem / pncclTeamCftMultimem => Result;
            ncclTeamRankToWorld / pncclTeamRankToWorld => Result;
            ncclTeamRankToLsa / pncclTeamRankToLsa => Result;
            ncclLsaBarrierCreateRequirement / pncclLsaBarrierCreateRequirement => Result;
            ncclGinBarrierCreateRequirement / pncclGinBarrierCreateRequirement => Result;
            ncclCftBarrierCreateRequirement / pncclCftBarrierCreateRequirement => Result;
            ncclGinInboxA2ACreateRequirement / pncclGinInboxA2ACreateRequirement => Result;
            ncclGinOutboxCreateRequirement / pncclGinOutboxCreateRequirement => Result;
            ncclLLA2ACalcSlots / pncclLLA2ACalcSlots => Result;
            ncclLLA2ACreateRequirement / pncclLLA2ACreateRequirement => Result;
            ncclResetDebugInitInternal / pncclResetDebugInitInternal => Result;
            mscclLoadAlgo / pmscclLoadAlgo => Result;
            mscclRunAlgo / pmscclRunAlgo => Result;
            mscclUnloadAlgo / pmscclUnloadAlgo => Result;
        }
    };
}
