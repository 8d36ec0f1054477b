//! Modules: code objects are read for what is in them, and nothing else is launched.

mod gpu;

use airamp_emulator::gpu::kernels::Launch;
use airamp_emulator::gpu::module::{self, Architecture};
use airamp_emulator::gpu::{attributes, context, copy, memory, set_current, stream};
use airamp_vendor_abi::cuda::{CudaError, STREAM_NON_BLOCKING};
use gpu::code_object::{EM_AMDGPU, EM_CUDA, GFX942, code_object, cubin};
use gpu::{A_WHILE, Gate, in_own_process};

fn arguments(values: &[&[u8]]) -> Launch {
    let arguments = values.iter().map(|bytes| Box::from(*bytes)).collect();
    Launch { grid: [1; 3], block: [32, 1, 1], shared_bytes: 0, arguments }
}

#[test]
fn a_kernel_that_the_code_object_has_is_launched_by_its_name() {
    let stream = stream::create(STREAM_NON_BLOCKING, 0).unwrap();
    let module = module::load(&cubin(&["airamp_emu_fill_u32"])).unwrap();
    let function = module::function(module, "airamp_emu_fill_u32").unwrap();
    let ptr = memory::alloc(400).unwrap();
    let launch = arguments(&[&ptr.to_le_bytes(), &7u32.to_le_bytes(), &100u64.to_le_bytes()]);
    module::launch(function, stream, launch).unwrap();
    let mut back = [0u32; 100];
    let to_host = copy::Copy { to: back.as_mut_ptr() as u64, from: ptr, len: 400, direction: 2 };
    copy::asynchronous(stream, to_host).unwrap();
    assert_eq!(back, [7; 100]);
    module::unload(module).unwrap();
    assert_eq!(module::function(module, "airamp_emu_fill_u32"), Err(CudaError::INVALID_HANDLE));
}

#[test]
fn a_kernel_that_the_code_object_lacks_is_not_found() {
    let module = module::load(&cubin(&["airamp_emu_add_f32"])).unwrap();
    assert_eq!(module::function(module, "airamp_emu_fill_u32"), Err(CudaError::NOT_FOUND));
}

#[test]
fn a_kernel_without_an_implementation_fails_at_launch_and_is_named() {
    let test = "a_kernel_without_an_implementation_fails_at_launch_and_is_named";
    let ended = in_own_process(test, &[], || {
        let module = module::load(&cubin(&["somebody_elses_kernel"])).unwrap();
        let function = module::function(module, "somebody_elses_kernel").unwrap();
        assert_eq!(module::launch(function, 0, arguments(&[])), Err(CudaError::NOT_SUPPORTED));
    });
    ended.expect_success();
    assert!(ended.errors.contains("somebody_elses_kernel"), "{}", ended.errors);
}

#[test]
fn code_for_another_architecture_is_refused() {
    for (machine, flags) in [(EM_CUDA, 100), (EM_CUDA, 80), (EM_AMDGPU, GFX942), (62, 0)] {
        let image = code_object(machine, flags, &[("kernel", true)]);
        assert_eq!(module::load(&image), Err(CudaError::NO_BINARY_FOR_GPU));
    }
    assert_eq!(module::load(b"\x7fELF and then noise"), Err(CudaError::INVALID_IMAGE));
    assert_eq!(module::load(b"noise"), Err(CudaError::INVALID_IMAGE));
}

#[test]
fn the_kernels_of_an_amd_code_object_are_those_with_a_descriptor() {
    let variables = [("AIRAMP_EMU_ARCH", "gfx942:sramecc+:xnack-")];
    let test = "the_kernels_of_an_amd_code_object_are_those_with_a_descriptor";
    let ended = in_own_process(test, &variables, || {
        let symbols = [("kernel", true), ("kernel.kd", false), ("device_function", true)];
        let module = module::load(&code_object(EM_AMDGPU, GFX942, &symbols)).unwrap();
        assert!(module::function(module, "kernel").is_ok());
        assert_eq!(module::function(module, "device_function"), Err(CudaError::NOT_FOUND));
        assert_eq!(module::load(&cubin(&["kernel"])), Err(CudaError::NO_BINARY_FOR_GPU));
    });
    ended.expect_success();
}

#[test]
fn ptx_is_read_for_its_entries() {
    let text = b".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry airamp_emu_spin_us(\n)\n\0";
    let module = module::load(text).unwrap();
    assert!(module::function(module, "airamp_emu_spin_us").is_ok());
    assert_eq!(module::function(module, "airamp_emu_fill_u32"), Err(CudaError::NOT_FOUND));
    let newer = b".version 7.0\n.target sm_120\n.entry kernel()";
    assert_eq!(module::load(newer), Err(CudaError::INVALID_PTX));
}

#[test]
fn the_length_of_an_image_is_found_in_it() {
    let mut image = cubin(&["kernel"]);
    let len = image.len();
    image.extend([0xaa; 100]);
    // SAFETY: the image is whole.
    assert_eq!(unsafe { module::image_len(image.as_ptr()) }, Some(len));
    // SAFETY: a C string.
    assert_eq!(unsafe { module::image_len(c".version 7.0".as_ptr().cast()) }, Some(12));
}

#[test]
fn an_architecture_that_does_not_exist_can_be_reported() {
    let variables = [("AIRAMP_EMU_ARCH", "sm_999")];
    let ended = in_own_process("an_architecture_that_does_not_exist_can_be_reported", &variables, || {
        let device = context::current().unwrap();
        assert_eq!(attributes::attribute(device, 75), Ok(99));
        assert_eq!(attributes::attribute(device, 76), Ok(9));
        assert_eq!(module::load(&cubin(&["kernel"])), Err(CudaError::NO_BINARY_FOR_GPU));
    });
    ended.expect_success();
}

#[test]
fn amd_names_have_their_numbers() {
    let capability = |name| Architecture::parse(name).unwrap().capability();
    assert_eq!(capability("gfx942"), (9, 4));
    assert_eq!(capability("gfx90a"), (9, 0));
    assert_eq!(capability("gfx1100"), (11, 0));
    assert_eq!(capability("sm_90a"), (9, 0));
    assert_eq!(capability("sm_120"), (12, 0));
}

#[test]
fn the_nth_launch_fails_as_asked() {
    let variables = [("AIRAMP_EMU_FAIL_LAUNCH", "2")];
    let ended = in_own_process("the_nth_launch_fails_as_asked", &variables, || {
        let stream = stream::create(STREAM_NON_BLOCKING, 0).unwrap();
        let module = module::load(&cubin(&["airamp_emu_spin_us"])).unwrap();
        let function = module::function(module, "airamp_emu_spin_us").unwrap();
        let launch = || module::launch(function, stream, arguments(&[&1u64.to_le_bytes()]));
        launch().unwrap();
        assert_eq!(stream::synchronize(stream), Ok(()));
        launch().unwrap();
        assert_eq!(stream::synchronize(stream), Err(CudaError::LAUNCH_FAILED));
    });
    ended.expect_success();
}

#[test]
fn the_nth_launch_is_refused_as_asked_and_the_device_goes_on() {
    let variables = [("AIRAMP_EMU_REFUSE_LAUNCH", "2")];
    let ended =
        in_own_process("the_nth_launch_is_refused_as_asked_and_the_device_goes_on", &variables, || {
            let stream = stream::create(STREAM_NON_BLOCKING, 0).unwrap();
            let module = module::load(&cubin(&["airamp_emu_spin_us"])).unwrap();
            let function = module::function(module, "airamp_emu_spin_us").unwrap();
            let launch = || module::launch(function, stream, arguments(&[&1u64.to_le_bytes()]));
            let refused = Err(CudaError::LAUNCH_OUT_OF_RESOURCES);
            assert_eq!([launch(), launch(), launch()], [Ok(()), refused, Ok(())]);
            assert_eq!(stream::synchronize(stream), Ok(()));
        });
    ended.expect_success();
}

#[test]
fn a_launch_without_threads_is_refused() {
    let module = module::load(&cubin(&["airamp_emu_spin_us"])).unwrap();
    let function = module::function(module, "airamp_emu_spin_us").unwrap();
    let mut launch = arguments(&[&1u64.to_le_bytes()]);
    launch.block = [1025, 1, 1];
    assert_eq!(module::launch(function, 0, launch.clone()), Err(CudaError::INVALID_VALUE));
    launch.block = [0, 1, 1];
    assert_eq!(module::launch(function, 0, launch), Err(CudaError::INVALID_VALUE));
}

#[test]
fn loading_a_module_waits_for_the_work_of_the_device() {
    set_current(1).unwrap();
    let stream = stream::create(STREAM_NON_BLOCKING, 0).unwrap();
    let (gate, hold) = Gate::new();
    stream::submit(stream, hold).unwrap();
    let loading = std::thread::spawn(|| {
        set_current(1).unwrap();
        module::load(&cubin(&["kernel"]))
    });
    std::thread::sleep(A_WHILE);
    assert!(!loading.is_finished());
    gate.open();
    assert!(loading.join().unwrap().is_ok());
}

#[test]
fn a_kernel_is_launched_on_a_stream_of_the_current_device_only() {
    set_current(2).unwrap();
    let stream = stream::create(STREAM_NON_BLOCKING, 0).unwrap();
    set_current(3).unwrap();
    let module = module::load(&cubin(&["airamp_emu_spin_us"])).unwrap();
    let function = module::function(module, "airamp_emu_spin_us").unwrap();
    let launch = || module::launch(function, stream, arguments(&[&1u64.to_le_bytes()]));
    assert_eq!(launch(), Err(CudaError::INVALID_HANDLE));
    set_current(2).unwrap();
    assert_eq!(launch(), Ok(()));
}

#[test]
fn an_architecture_that_makes_no_sense_is_reported_once() {
    let variables = [("AIRAMP_EMU_ARCH", "hopper")];
    let ended = in_own_process("an_architecture_that_makes_no_sense_is_reported_once", &variables, || {
        assert_eq!(Architecture::reported(), Architecture::Sm(90));
        assert_eq!(Architecture::reported(), Architecture::Sm(90));
    });
    ended.expect_success();
    assert_eq!(ended.errors.matches("hopper").count(), 1, "{}", ended.errors);
}

#[test]
fn a_variable_that_does_not_exist_is_reported() {
    let variables = [("AIRAMP_EMU_FAIL_ALOC", "1")];
    let ended = in_own_process("a_variable_that_does_not_exist_is_reported", &variables, || {
        context::current().unwrap();
    });
    ended.expect_success();
    assert_eq!(ended.errors.matches("AIRAMP_EMU_FAIL_ALOC").count(), 1, "{}", ended.errors);
}
