//! The one GPU interface for CUDA and HIP, as the interposer uses it inside an
//! application: on both emulated vendors, the thread, its captures and its memory are
//! afterwards as they were.

use std::ffi::CStr;
use std::sync::Arc;

use airamp_codec::{Element, Format, Tag, packet_bytes};
use airamp_kernels::loader::{Packets, Quantise, STATS_BYTES, read_stats};
use airamp_kernels::{KernelSet, Loader};
use airamp_tests::code_object::BlobFolder;
use airamp_tests::{Outcome, Run, emulator_dir};
use airamp_vendor::gpu::{Buffer, CaptureStatus, Gpu, GpuError, Kind, Priority, Stream};

const TAG: Tag = Tag { call: 1, part: 2 };
const ROLE: &str = "AIRAMP_TEST_BODY";

/// Runs `body` once per vendor, in processes of their own that find the emulator.
/// `test` is the name of the calling test.
fn on_both(test: &str, body: fn(&Gpu)) {
    if let Ok(role) = std::env::var(ROLE) {
        let gpu = Gpu::open(if role == "hip" { Kind::Hip } else { Kind::Cuda }).expect("the emulator");
        gpu.set_device(0).expect("a device");
        body(&gpu);
        return;
    }
    for vendor in ["cuda", "hip"] {
        let outcome = in_role(test, vendor);
        outcome.assert_success();
        // A name that no test has would succeed too.
        assert!(outcome.stdout_text().contains("1 passed"), "{outcome}");
    }
}

fn in_role(test: &str, role: &str) -> Outcome {
    let program = std::env::current_exe().expect("the test's program");
    let run = Run::new(program).args([test, "--exact", "--nocapture", "--test-threads=1"]);
    run.library_dir(emulator_dir()).env(ROLE, role).run()
}

fn kernels(gpu: &Gpu) -> KernelSet {
    let folder = BlobFolder::whole();
    Loader::new(Some(folder.path().to_owned())).load(gpu).expect("kernels")
}

/// 256 elements of bf16, their packet, and counters.
struct Work {
    kernels: KernelSet,
    input: Vec<u8>,
    buffer: Buffer,
}

impl Work {
    const COUNT: usize = 256;
    const PACKET: usize = 1024;
    const STATS: usize = 2048;

    fn new(gpu: &Gpu) -> Self {
        let input: Vec<u8> = (0..Self::COUNT).flat_map(|index| [index as u8, 0x3f]).collect();
        let buffer = gpu.alloc(4096).unwrap();
        buffer.fill(0, 4096, 0).unwrap();
        buffer.write(0, &input).unwrap();
        Self { kernels: kernels(gpu), input, buffer }
    }

    fn enqueue(&self, stream: &Stream) -> Result<(), GpuError> {
        self.enqueue_to(Self::PACKET, stream)
    }

    fn enqueue_to(&self, packet: usize, stream: &Stream) -> Result<(), GpuError> {
        let call = Quantise {
            input: self.buffer.address(),
            count: Self::COUNT as u64,
            packets: Packets { address: self.buffer.at(packet) as u64, stride: 288 },
            blocks_per_packet: 2,
            format: Format::Auto,
            tag: TAG,
            stats: self.buffer.at(Self::STATS) as u64,
        };
        // SAFETY: all of it lies in the buffer, which outlives the work.
        unsafe { self.kernels.quantise(Element::Bf16, &call, stream) }
    }

    fn assert_done(&self) {
        let mut expected = vec![0; packet_bytes(Self::COUNT)];
        airamp_codec::quantise(Element::Bf16, &self.input, Format::Auto, TAG, &mut expected);
        let mut found = vec![0; expected.len()];
        self.buffer.read(Self::PACKET, &mut found).unwrap();
        assert_eq!(found, expected);
    }

    fn signal(&self) -> f64 {
        let mut bytes = [0; STATS_BYTES];
        self.buffer.read(Self::STATS, &mut bytes).unwrap();
        read_stats(&bytes).signal
    }
}

#[test]
fn a_devices_context_is_found_without_being_kept_or_made_current() {
    on_both("a_devices_context_is_found_without_being_kept_or_made_current", |gpu| {
        let before = gpu.current_context().unwrap();
        let other = gpu.primary_context(1).unwrap();
        assert_eq!(gpu.primary_context(1).unwrap(), other);
        assert_eq!(gpu.primary_context(0).ok(), before);
        assert_eq!((gpu.current_context().unwrap(), gpu.current_device().unwrap()), (before, 0));
        if gpu.kind() == Kind::Cuda {
            assert_eq!((is_kept(0), is_kept(1)), (true, false), "the program itself keeps the first alone");
        }
        let _entered = gpu.enter(other).unwrap();
        assert_eq!(gpu.current_device().unwrap(), 1);
    });
}

/// Whether somebody holds the device's primary context, by the driver's own word.
fn is_kept(device: i32) -> bool {
    type GetState = unsafe extern "C" fn(i32, *mut u32, *mut i32) -> i32;
    let (mut flags, mut active) = (0, 0);
    let address = of_the_driver(c"cuDevicePrimaryCtxGetState");
    // SAFETY: the function has the signature of CUDA's header.
    let returned = unsafe {
        std::mem::transmute::<*mut libc::c_void, GetState>(address)(device, &raw mut flags, &raw mut active)
    };
    assert_eq!(returned, 0);
    active != 0
}

fn of_the_driver(name: &CStr) -> *mut libc::c_void {
    // SAFETY: the emulator's library is loaded and never closed.
    let address = unsafe {
        let library = libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD);
        libc::dlsym(library, name.as_ptr())
    };
    assert!(!address.is_null(), "{name:?}");
    address
}

#[test]
fn a_context_is_told_from_the_one_that_was_at_its_place_before_a_reset() {
    on_both("a_context_is_told_from_the_one_that_was_at_its_place_before_a_reset", |gpu| {
        let (context, other) = (gpu.primary_context(0).unwrap(), gpu.primary_context(1).unwrap());
        let before = gpu.context_id(context);
        if gpu.kind() == Kind::Hip {
            return assert_eq!(before, None, "HIP has no number for it");
        }
        assert!(before.is_some() && gpu.context_id(context) == before);
        assert_ne!(gpu.context_id(other), before);
        type Reset = unsafe extern "C" fn(i32) -> i32;
        // SAFETY: the function has the signature of CUDA's header.
        let reset = unsafe {
            std::mem::transmute::<*mut libc::c_void, Reset>(of_the_driver(c"cuDevicePrimaryCtxReset_v2"))
        };
        // SAFETY: nothing of the device is in use.
        assert_eq!(unsafe { reset(0) }, 0);
        assert_eq!(gpu.primary_context(0).unwrap(), context);
        assert_ne!(gpu.context_id(context), before);
    });
}

#[test]
fn a_launched_kernel_gives_the_codecs_bits() {
    on_both("a_launched_kernel_gives_the_codecs_bits", |gpu| {
        let (work, stream) = (Work::new(gpu), gpu.stream(true).unwrap());
        work.enqueue(&gpu.borrow_stream(stream.raw())).unwrap();
        stream.synchronize().unwrap();
        work.assert_done();
        assert!(work.signal() > 0.0);
    });
}

#[test]
fn a_captured_launch_runs_at_each_replay_and_not_before() {
    on_both("a_captured_launch_runs_at_each_replay_and_not_before", |gpu| {
        let (work, stream) = (Work::new(gpu), gpu.stream(true).unwrap());
        let graph = stream.capture(|| work.enqueue(&stream)).unwrap();
        assert_eq!(work.signal(), 0.0);
        graph.launch(&stream).unwrap();
        stream.synchronize().unwrap();
        work.assert_done();
        let once = work.signal();
        graph.launch(&stream).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(work.signal(), 2.0 * once);
    });
}

#[test]
fn kernels_are_loaded_and_unloaded_inside_a_capture_without_spoiling_it() {
    on_both("kernels_are_loaded_and_unloaded_inside_a_capture_without_spoiling_it", |gpu| {
        let (work, stream) = (Work::new(gpu), gpu.stream(true).unwrap());
        let free = gpu.memory_info().unwrap().free;
        let captured = stream.capture(|| {
            drop(kernels(gpu));
            work.enqueue(&stream)
        });
        captured.unwrap().launch(&stream).unwrap();
        stream.synchronize().unwrap();
        work.assert_done();
        assert_eq!(gpu.memory_info().unwrap().free, free);
    });
}

#[test]
fn a_call_that_a_capture_cannot_hold_spoils_it_unless_captures_are_relaxed() {
    on_both("a_call_that_a_capture_cannot_hold_spoils_it_unless_captures_are_relaxed", |gpu| {
        let stream = gpu.stream(true).unwrap();
        let strict = stream.capture(|| gpu.alloc(64).map(drop));
        assert!(strict.is_err());
        let relaxed = stream.capture(|| {
            let _relaxed = gpu.relax_captures()?;
            gpu.alloc(64).map(drop)
        });
        assert!(relaxed.is_ok());
        // And the guard has put the thread back.
        assert!(stream.capture(|| gpu.alloc(64).map(drop)).is_err());
    });
}

#[test]
fn a_stream_says_whether_and_by_which_capture_it_is_captured() {
    on_both("a_stream_says_whether_and_by_which_capture_it_is_captured", |gpu| {
        let (stream, side) =
            (gpu.stream(true).unwrap(), gpu.stream_with_priority(Priority::Highest).unwrap());
        let (fork, join) = (gpu.untimed_event().unwrap(), gpu.untimed_event().unwrap());
        assert_eq!(stream.capture_status().unwrap(), CaptureStatus::Live);
        let captured = stream.capture(|| {
            assert_eq!(side.capture_status()?, CaptureStatus::Live);
            fork.record(&stream)?;
            side.wait(&fork)?;
            assert_eq!(side.capture_status()?, stream.capture_status()?);
            assert!(matches!(side.capture_status()?, CaptureStatus::Capturing(_)));
            join.record(&side)?;
            stream.wait(&join)
        });
        assert!(captured.is_ok());
        assert_eq!(side.capture_status().unwrap(), CaptureStatus::Live);
    });
}

#[test]
fn a_graph_waits_for_and_records_events_outside_of_it() {
    on_both("a_graph_waits_for_and_records_events_outside_of_it", |gpu| {
        let (work, stream, other) =
            (Work::new(gpu), gpu.stream(true).unwrap(), gpu.stream_with_priority(Priority::Lowest).unwrap());
        let (before, after) = (gpu.untimed_event().unwrap(), gpu.untimed_event().unwrap());
        before.record(&other).unwrap();
        let graph = stream.capture(|| {
            stream.wait_external(&before)?;
            work.enqueue(&stream)?;
            after.record_external(&stream)
        });
        let graph = graph.unwrap();
        // The input is written anew on another stream, and the packet read there: only the
        // two events put the graph between them, and the emulator finds what is unordered.
        work.buffer.copy_from_async(0, &work.buffer, 3072, 16, &other).unwrap();
        before.record(&other).unwrap();
        graph.launch(&stream).unwrap();
        other.wait(&after).unwrap();
        work.buffer.copy_from_async(3072, &work.buffer, Work::PACKET, 16, &other).unwrap();
        other.synchronize().unwrap();
        assert!(after.is_reached().unwrap());
    });
}

#[test]
fn an_object_kept_in_a_graph_lives_as_long_as_the_graph() {
    on_both("an_object_kept_in_a_graph_lives_as_long_as_the_graph", |gpu| {
        let (stream, object) = (gpu.stream(true).unwrap(), Arc::new(()));
        let graph = stream.capture(|| match stream.capture_status()? {
            CaptureStatus::Capturing(capture) => stream.keep_in_graph(capture, Arc::clone(&object)),
            other => panic!("{other:?}"),
        });
        let graph = graph.unwrap();
        assert_eq!(Arc::strong_count(&object), 2);
        graph.launch(&stream).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(Arc::strong_count(&object), 2);
        drop(graph);
        stream.synchronize().unwrap();
        assert_eq!(Arc::strong_count(&object), 1);
    });
}

#[test]
fn entering_a_context_ends_with_the_one_before() {
    on_both("entering_a_context_ends_with_the_one_before", |gpu| {
        gpu.set_device(1).unwrap();
        let second = gpu.current_context().unwrap().expect("a context");
        gpu.set_device(0).unwrap();
        let buffer = {
            let _entered = gpu.enter(second).unwrap();
            assert_eq!(gpu.current_device().unwrap(), 1);
            gpu.alloc(64).unwrap()
        };
        assert_eq!(gpu.current_device().unwrap(), 0);
        assert_eq!(gpu.device_of(buffer.address()).unwrap(), Some(1));
        assert_eq!(gpu.device_of(&raw const buffer as u64).unwrap(), None);
    });
}

#[test]
fn memory_and_kernels_are_given_back_from_a_thread_without_a_context() {
    on_both("memory_and_kernels_are_given_back_from_a_thread_without_a_context", |gpu| {
        let free = gpu.memory_info().unwrap().free;
        let (work, pinned) = (Work::new(gpu), gpu.alloc_pinned(64).unwrap());
        assert!(gpu.memory_info().unwrap().free < free);
        std::thread::scope(|scope| {
            scope.spawn(move || drop((work, pinned)));
        });
        assert_eq!(gpu.memory_info().unwrap().free, free);
    });
}

#[test]
fn counters_reach_page_locked_memory_in_stream_order() {
    on_both("counters_reach_page_locked_memory_in_stream_order", |gpu| {
        let (work, stream) = (Work::new(gpu), gpu.stream(true).unwrap());
        let pinned = gpu.alloc_pinned(STATS_BYTES).unwrap();
        assert_eq!(pinned.read_u64(24).unwrap(), 0);
        work.enqueue(&stream).unwrap();
        pinned.copy_from_async(0, &work.buffer, Work::STATS, STATS_BYTES, &stream).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(f64::from_bits(pinned.read_u64(24).unwrap()), work.signal());
        assert!(pinned.read_u64(28).is_err());
    });
}

#[test]
fn launches_on_two_streams_may_share_counters() {
    on_both("launches_on_two_streams_may_share_counters", |gpu| {
        let (work, streams) = (Work::new(gpu), [gpu.stream(true).unwrap(), gpu.stream(true).unwrap()]);
        work.enqueue(&streams[0]).unwrap();
        work.enqueue_to(Work::PACKET + 512, &streams[1]).unwrap();
        for stream in &streams {
            stream.synchronize().unwrap();
        }
        work.assert_done();
    });
}

#[test]
fn nothing_is_loaded_or_initialised_to_attach_to_an_applications_driver() {
    on_both("nothing_is_loaded_or_initialised_to_attach_to_an_applications_driver", |gpu| {
        let other = if gpu.kind() == Kind::Cuda { Kind::Hip } else { Kind::Cuda };
        assert!(matches!(Gpu::attach(other), Err(GpuError::NoLibrary(_))));
        let attached = Gpu::attach(gpu.kind()).unwrap();
        assert_eq!(attached.current_device().unwrap(), 0);
        assert_eq!(attached.library(), gpu.library());
    });
}
