//! The library as programs use it: by the C names of the driver and the runtime.

#[path = "../../tests/gpu/mod.rs"]
mod gpu;
#[path = "../../tests/gpu/library.rs"]
mod library;

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicI32, Ordering};

use airamp_vendor_abi::cuda::CudaError;
use gpu::in_own_process;
use library::Library;

const PTX: &CStr = c".version 7.0\n.target sm_80\n.visible .entry airamp_emu_fill_u32(\n)\n{}\n";

fn open() -> Library {
    Library::open("libairamp_emulated_cuda.so")
}

#[test]
fn driver_runtime_and_nccl_are_in_one_file() {
    let library = open();
    for name in [
        "cuInit",
        "cuMemAlloc_v2",
        "cuStreamGetCaptureInfo_v2",
        "cuGraphExecUpdate_v2",
        "cuGetProcAddress_v2",
        "cudaMalloc",
        "cudaStreamBeginCapture",
        "cudaGetDriverEntryPoint",
        "ncclAllReduce",
        "pncclGetVersion",
    ] {
        assert!(library.has(name), "{name}");
    }
    assert!(!library.has("hipMalloc"));
}

#[test]
fn the_driver_asks_for_init_and_then_for_a_context() {
    let ended = in_own_process("the_driver_asks_for_init_and_then_for_a_context", &[], || {
        let library = open();
        let mut ptr = 0usize;
        let mut alloc = || CudaError(library.call("cuMemAlloc_v2", &[&raw mut ptr as usize, 64]));
        assert_eq!(alloc(), CudaError::NOT_INITIALIZED);
        library.must("cuInit", &[0]);
        assert_eq!(alloc(), CudaError::INVALID_CONTEXT);
        let context = library.make("cuDevicePrimaryCtxRetain", &[0]);
        library.must("cuCtxSetCurrent", &[context]);
        assert_eq!(alloc(), CudaError::SUCCESS);
    });
    ended.expect_success();
}

#[test]
fn a_kernel_runs_by_the_names_of_the_driver() {
    let library = open();
    library.must("cuInit", &[0]);
    let context = library.make("cuDevicePrimaryCtxRetain", &[1]);
    library.must("cuCtxSetCurrent", &[context]);
    let stream = library.make("cuStreamCreate", &[1]);
    let module = library.make("cuModuleLoadData", &[PTX.as_ptr() as usize]);
    let name = c"airamp_emu_fill_u32".as_ptr() as usize;
    let function = library.make("cuModuleGetFunction", &[module, name]);
    let (ptr, value, count) = (library.make("cuMemAlloc_v2", &[40]) as u64, 5u32, 10u64);
    let each = [&raw const ptr as usize, &raw const value as usize, &raw const count as usize];
    let each = each.as_ptr() as usize;
    library.must("cuLaunchKernel", &[function, 1, 1, 1, 32, 1, 1, 0, stream, each, 0]);
    let mut back = [0u32; 10];
    library.must("cuMemcpyDtoHAsync_v2", &[back.as_mut_ptr() as usize, ptr as usize, 40, stream]);
    assert_eq!(back, [5; 10]);
    library.must("cuMemFree_v2", &[ptr as usize]);
}

#[test]
fn a_graph_is_captured_and_launched_by_the_names_of_the_runtime() {
    let library = open();
    library.must("cudaSetDevice", &[2]);
    let stream = library.make("cudaStreamCreateWithFlags", &[1]);
    let ptr = library.make("cudaMalloc", &[16]);
    library.must("cudaStreamBeginCapture", &[stream, 0]);
    library.must("cudaMemsetAsync", &[ptr, 3, 16, stream]);
    let mut graph = 0usize;
    library.must("cudaStreamEndCapture", &[stream, &raw mut graph as usize]);
    let mut count = 0usize;
    library.must("cudaGraphGetNodes", &[graph, 0, &raw mut count as usize]);
    assert_eq!(count, 1);
    let executable = library.make("cudaGraphInstantiate", &[graph, 0]);
    library.must("cudaGraphLaunch", &[executable, stream]);
    library.must("cudaStreamSynchronize", &[stream]);
    let mut back = [0u8; 16];
    library.must("cudaMemcpy", &[back.as_mut_ptr() as usize, ptr, 16, 2]);
    assert_eq!(back, [3; 16]);
}

#[test]
fn the_runtime_remembers_the_last_error_once() {
    let library = open();
    let invalid = CudaError::INVALID_DEVICE.0;
    assert_eq!(library.call("cudaSetDevice", &[1000]), invalid);
    assert_eq!(library.call("cudaPeekAtLastError", &[]), invalid);
    assert_eq!(library.call("cudaGetLastError", &[]), invalid);
    assert_eq!(library.call("cudaGetLastError", &[]), 0);
}

#[test]
fn entry_points_are_found_in_their_newest_form() {
    let library = open();
    let mut status = 9i32;
    let name = c"cuMemAlloc".as_ptr() as usize;
    let mut found = 0usize;
    let place = &raw mut found as usize;
    library.must("cuGetProcAddress_v2", &[name, place, 12090, 0, &raw mut status as usize]);
    assert_eq!((found, status), (library.address("cuMemAlloc_v2") as usize, 0));
    let name = c"cuNoSuchThing".as_ptr() as usize;
    let code = library.call("cuGetProcAddress_v2", &[name, place, 12090, 0, &raw mut status as usize]);
    assert_eq!((code, found, status), (CudaError::NOT_FOUND.0, 0, 1));
}

#[test]
fn a_hidden_function_is_absent_for_every_way_of_asking() {
    let variables = [("AIRAMP_EMU_HIDE_SYMBOLS", "cuMemAlloc_v2, cudaMalloc")];
    let ended = in_own_process("a_hidden_function_is_absent_for_every_way_of_asking", &variables, || {
        let library = open();
        assert!(!library.has("cuMemAlloc_v2"));
        assert!(!library.has("cudaMalloc"));
        assert!(library.has("cudaFree"));
        let (name, mut found) = (c"cuMemAlloc".as_ptr() as usize, 0usize);
        let code = library.call("cuGetProcAddress", &[name, &raw mut found as usize, 12090, 0]);
        assert_eq!(code, CudaError::NOT_FOUND.0);
    });
    ended.expect_success();
}

#[test]
fn a_name_that_the_library_does_not_have_is_reported_once() {
    let variables = [
        ("AIRAMP_EMU_HIDE_SYMBOLS", "cudaFree,nosuch"),
        ("AIRAMP_EMU_FAIL_CALL", "AllReduce:1:3,ncclBroadcast:1:3"),
        ("AIRAMP_EMU_SLOW_CALL", "ncclAlReduce:5"),
    ];
    let ended = in_own_process("a_name_that_the_library_does_not_have_is_reported_once", &variables, || {
        assert!(!open().has("cudaFree"));
    });
    ended.expect_success();
    for (name, count) in
        [("nosuch", 1), ("\"AllReduce", 1), ("ncclAlReduce", 1), ("Broadcast", 0), ("Free", 0)]
    {
        assert_eq!(ended.errors.matches(name).count(), count, "{name}: {}", ended.errors);
    }
}

#[test]
fn nothing_of_no_bytes_is_allocated_and_only_the_driver_minds() {
    let library = open();
    let mut ptr = 1usize;
    library.must("cudaMalloc", &[&raw mut ptr as usize, 0]);
    assert_eq!(ptr, 0);
    let driver = library.call("cuMemAlloc_v2", &[&raw mut ptr as usize, 0]);
    assert_eq!(CudaError(driver), CudaError::INVALID_VALUE);
}

#[test]
fn the_primary_context_cannot_be_destroyed() {
    let library = open();
    library.must("cuInit", &[0]);
    let context = library.make("cuDevicePrimaryCtxRetain", &[3]);
    assert_eq!(CudaError(library.call("cuCtxDestroy_v2", &[context])), CudaError::INVALID_CONTEXT);
    library.must("cuCtxSetCurrent", &[context]);
    library.make("cuMemAlloc_v2", &[64]);
    let created = library.make("cuCtxCreate_v2", &[0, 3]);
    library.must("cuCtxDestroy_v2", &[created]);
}

#[test]
fn a_host_function_may_not_call_the_device() {
    static ANSWERS: [AtomicI32; 2] = [const { AtomicI32::new(0) }; 2];
    unsafe extern "C" fn ask(stream: *mut c_void) {
        let (library, stream) = (open(), stream as usize);
        let answers = [
            library.call("cudaStreamSynchronize", &[stream]),
            library.call("cuStreamSynchronize", &[stream]),
        ];
        for (kept, answer) in ANSWERS.iter().zip(answers) {
            kept.store(answer, Ordering::SeqCst);
        }
    }
    let ended = in_own_process("a_host_function_may_not_call_the_device", &[], || {
        let library = open();
        let stream = library.make("cudaStreamCreateWithFlags", &[1]);
        library.must("cudaLaunchHostFunc", &[stream, ask as *const () as usize, stream]);
        library.must("cudaStreamSynchronize", &[stream]);
        assert_eq!(ANSWERS.each_ref().map(|answer| answer.load(Ordering::SeqCst)), [800, 800]);
    });
    ended.expect_success();
    assert!(ended.errors.contains("host function"), "{}", ended.errors);
}
