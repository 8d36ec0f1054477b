//! The exported functions of `nccl.h` (2.32.3, device-API host functions
//! included) and of `rccl.h`, each named once. `nccl*` and `pnccl*` come in pairs.

/// Hands `$consumer!` every function whose call the interposer takes part in, with its
/// signature, as `ncclName / pncclName (argument: Type, …);`. All return `NcclResult`.
#[macro_export]
macro_rules! for_each_typed_function {
    ($consumer:ident) => {
        $consumer! {
            ncclGetUniqueId / pncclGetUniqueId (id: *mut UniqueId);
            ncclCommInitRank / pncclCommInitRank (comm: *mut Comm, nranks: c_int, id: UniqueId, rank: c_int);
            ncclCommInitRankConfig / pncclCommInitRankConfig (comm: *mut Comm, nranks: c_int, id: UniqueId, rank: c_int, config: *mut Config);
            ncclCommInitRankScalable / pncclCommInitRankScalable (comm: *mut Comm, nranks: c_int, rank: c_int, id_count: c_int, ids: *mut UniqueId, config: *mut Config);
            ncclCommInitAll / pncclCommInitAll (comms: *mut Comm, device_count: c_int, devices: *const c_int);
            ncclCommSplit / pncclCommSplit (comm: Comm, color: c_int, key: c_int, new_comm: *mut Comm, config: *mut Config);
            ncclCommShrink / pncclCommShrink (comm: Comm, excluded: *mut c_int, excluded_count: c_int, new_comm: *mut Comm, config: *mut Config, flags: c_int);
            ncclCommGrow / pncclCommGrow (comm: Comm, nranks: c_int, id: *const UniqueId, rank: c_int, new_comm: *mut Comm, config: *mut Config);
            ncclCommGetUniqueId / pncclCommGetUniqueId (comm: Comm, id: *mut UniqueId);
            ncclCommFinalize / pncclCommFinalize (comm: Comm);
            ncclCommDestroy / pncclCommDestroy (comm: Comm);
            ncclCommAbort / pncclCommAbort (comm: Comm);
            ncclCommRevoke / pncclCommRevoke (comm: Comm, flags: c_int);
            ncclCommSuspend / pncclCommSuspend (comm: Comm, flags: c_int);
            ncclCommResume / pncclCommResume (comm: Comm);
            ncclGroupStart / pncclGroupStart ();
            ncclGroupEnd / pncclGroupEnd ();
            ncclGroupSimulateEnd / pncclGroupSimulateEnd (info: *mut SimInfo);
            ncclAllReduce / pncclAllReduce (send: *const c_void, recv: *mut c_void, count: usize, datatype: DataType, op: RedOp, comm: Comm, stream: Stream);
            ncclAllReduceConfig / pncclAllReduceConfig (send: *const c_void, recv: *mut c_void, count: usize, datatype: DataType, op: RedOp, comm: Comm, stream: Stream, config: *const CollConfig);
            ncclAllReduceWithBias / pncclAllReduceWithBias (send: *const c_void, recv: *mut c_void, count: usize, datatype: DataType, op: RedOp, comm: Comm, stream: Stream, bias: *const c_void);
            ncclReduce / pncclReduce (send: *const c_void, recv: *mut c_void, count: usize, datatype: DataType, op: RedOp, root: c_int, comm: Comm, stream: Stream);
            ncclReduceConfig / pncclReduceConfig (send: *const c_void, recv: *mut c_void, count: usize, datatype: DataType, op: RedOp, root: c_int, comm: Comm, stream: Stream, config: *const CollConfig);
            ncclReduceScatter / pncclReduceScatter (send: *const c_void, recv: *mut c_void, count: usize, datatype: DataType, op: RedOp, comm: Comm, stream: Stream);
            ncclReduceScatterConfig / pncclReduceScatterConfig (send: *const c_void, recv: *mut c_void, count: usize, datatype: DataType, op: RedOp, comm: Comm, stream: Stream, config: *const CollConfig);
            ncclAllGather / pncclAllGather (send: *const c_void, recv: *mut c_void, count: usize, datatype: DataType, comm: Comm, stream: Stream);
            ncclAllGatherConfig / pncclAllGatherConfig (send: *const c_void, recv: *mut c_void, count: usize, datatype: DataType, comm: Comm, stream: Stream, config: *const CollConfig);
            ncclBroadcast / pncclBroadcast (send: *const c_void, recv: *mut c_void, count: usize, datatype: DataType, root: c_int, comm: Comm, stream: Stream);
            ncclBroadcastConfig / pncclBroadcastConfig (send: *const c_void, recv: *mut c_void, count: usize, datatype: DataType, root: c_int, comm: Comm, stream: Stream, config: *const CollConfig);
            ncclBcast / pncclBcast (buffer: *mut c_void, count: usize, datatype: DataType, root: c_int, comm: Comm, stream: Stream);
            ncclAlltoAll / pncclAlltoAll (send: *const c_void, recv: *mut c_void, count: usize, datatype: DataType, comm: Comm, stream: Stream);
            ncclAlltoAllConfig / pncclAlltoAllConfig (send: *const c_void, recv: *mut c_void, count: usize, datatype: DataType, comm: Comm, stream: Stream, config: *const CollConfig);
            ncclAllToAll / pncclAllToAll (send: *const c_void, recv: *mut c_void, count: usize, datatype: DataType, comm: Comm, stream: Stream);
            ncclAlltoAllv / pncclAlltoAllv (send: *const c_void, send_counts: *const usize, send_offsets: *const usize, recv: *mut c_void, recv_counts: *const usize, recv_offsets: *const usize, datatype: DataType, comm: Comm, stream: Stream);
            ncclAllToAllv / pncclAllToAllv (send: *const c_void, send_counts: *const usize, send_offsets: *const usize, recv: *mut c_void, recv_counts: *const usize, recv_offsets: *const usize, datatype: DataType, comm: Comm, stream: Stream);
            ncclGather / pncclGather (send: *const c_void, recv: *mut c_void, count: usize, datatype: DataType, root: c_int, comm: Comm, stream: Stream);
            ncclGatherConfig / pncclGatherConfig (send: *const c_void, recv: *mut c_void, count: usize, datatype: DataType, root: c_int, comm: Comm, stream: Stream, config: *const CollConfig);
            ncclScatter / pncclScatter (send: *const c_void, recv: *mut c_void, count: usize, datatype: DataType, root: c_int, comm: Comm, stream: Stream);
            ncclScatterConfig / pncclScatterConfig (send: *const c_void, recv: *mut c_void, count: usize, datatype: DataType, root: c_int, comm: Comm, stream: Stream, config: *const CollConfig);
            ncclSend / pncclSend (send: *const c_void, count: usize, datatype: DataType, peer: c_int, comm: Comm, stream: Stream);
            ncclRecv / pncclRecv (recv: *mut c_void, count: usize, datatype: DataType, peer: c_int, comm: Comm, stream: Stream);
            ncclRedOpCreatePreMulSum / pncclRedOpCreatePreMulSum (op: *mut RedOp, scalar: *mut c_void, datatype: DataType, residence: ScalarResidence, comm: Comm);
            ncclRedOpDestroy / pncclRedOpDestroy (op: RedOp, comm: Comm);
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
            ncclCommGetAsyncError / pncclCommGetAsyncError => Result;
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
