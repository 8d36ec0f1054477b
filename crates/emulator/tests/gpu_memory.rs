//! Device memory: what the host cannot do with it and which mistakes are named.

mod gpu;

use airamp_emulator::gpu::copy::{self, Copy};
use airamp_emulator::gpu::{context, host_memory, memory, process, set_current, stream};
use airamp_vendor_abi::cuda::{CudaError, MEMCPY_DEVICE_TO_HOST, MEMCPY_HOST_TO_DEVICE, STREAM_NON_BLOCKING};
use gpu::{A_WHILE, Gate, in_own_process, operation, short_of_addresses};

#[test]
fn the_host_cannot_touch_device_memory() {
    let ended = in_own_process("the_host_cannot_touch_device_memory", &[], || {
        let ptr = memory::alloc(4096).unwrap();
        // SAFETY: none; the point is that this ends the process.
        unsafe { (ptr as *mut u8).write_volatile(1) };
    });
    assert_eq!(ended.signal, Some(libc::SIGSEGV));
}

#[test]
fn copies_reach_what_the_host_cannot() {
    let data: Vec<u8> = (0..=255).collect();
    let mut back = vec![0u8; data.len()];
    let ptr = memory::alloc(data.len()).unwrap();
    let (from, to) = (data.as_ptr() as u64, back.as_mut_ptr() as u64);
    let len = data.len();
    copy::synchronous(Copy { to: ptr, from, len, direction: MEMCPY_HOST_TO_DEVICE }).unwrap();
    copy::synchronous(Copy { to, from: ptr, len, direction: MEMCPY_DEVICE_TO_HOST }).unwrap();
    assert_eq!(back, data);
    memory::free(ptr).unwrap();
}

#[test]
fn a_copy_in_the_wrong_direction_is_refused() {
    let ptr = memory::alloc(16).unwrap();
    let wrong = Copy { to: ptr, from: ptr, len: 16, direction: MEMCPY_HOST_TO_DEVICE };
    assert_eq!(copy::synchronous(wrong), Err(CudaError::INVALID_VALUE));
    memory::free(ptr).unwrap();
}

#[test]
fn a_freed_pointer_is_named_in_the_error() {
    let ptr = memory::alloc(1000).unwrap();
    memory::free(ptr).unwrap();
    // Others that come after it must not take its place.
    let later: Vec<u64> = (0..100).map(|_| memory::alloc(1000).unwrap()).collect();
    let fault = memory::resolve(ptr + 10, 4).unwrap_err();
    assert_eq!(fault.code, CudaError::ILLEGAL_ADDRESS);
    assert!(fault.message.contains("use after free"), "{}", fault.message);
    later.into_iter().for_each(|ptr| memory::free(ptr).unwrap());
}

#[test]
fn a_double_free_is_named() {
    let ptr = memory::alloc(64).unwrap();
    memory::free(ptr).unwrap();
    let fault = memory::free(ptr).unwrap_err();
    assert!(fault.message.contains("double free"), "{}", fault.message);
    assert_eq!(fault.code, CudaError::INVALID_VALUE);
}

#[test]
fn a_pointer_into_an_allocation_cannot_be_freed() {
    let ptr = memory::alloc(1024).unwrap();
    let fault = memory::free(ptr + 512).unwrap_err();
    assert!(fault.message.contains("512 bytes inside"), "{}", fault.message);
    memory::free(ptr).unwrap();
}

#[test]
fn an_access_past_the_end_is_refused_even_by_one_byte() {
    let ptr = memory::alloc(512).unwrap();
    let _neighbour = memory::alloc(512).unwrap();
    assert!(memory::resolve(ptr, 512).is_ok());
    let fault = memory::resolve(ptr + 256, 257).unwrap_err();
    assert!(fault.message.contains("past the end"), "{}", fault.message);
}

#[test]
fn host_memory_is_no_device_memory() {
    let host = [0u8; 16];
    assert_eq!(memory::resolve(host.as_ptr() as u64, 16).unwrap_err().code, CudaError::ILLEGAL_ADDRESS);
}

#[test]
fn an_operation_on_freed_memory_is_an_error_of_the_device() {
    let variables = [("AIRAMP_EMU_ALLOC_SYNC", "0")];
    let ended = in_own_process("an_operation_on_freed_memory_is_an_error_of_the_device", &variables, || {
        let stream = stream::create(STREAM_NON_BLOCKING, 0).unwrap();
        let ptr = memory::alloc(64).unwrap();
        let (gate, hold) = Gate::new();
        stream::submit(stream, hold).unwrap();
        copy::fill(stream, ptr, &[1], 64).unwrap();
        memory::free(ptr).unwrap();
        gate.open();
        assert_eq!(stream::synchronize(stream), Err(CudaError::ILLEGAL_ADDRESS));
        assert_eq!(memory::alloc(64), Err(CudaError::ILLEGAL_ADDRESS), "the error is sticky");
    });
    ended.expect_success();
    assert!(ended.errors.contains("airamp emulator: use after free"), "{}", ended.errors);
}

#[test]
fn memory_info_counts_what_is_allocated() {
    set_current(1).unwrap();
    let device = context::current().unwrap();
    let (before, total) = memory::info(device);
    let ptr = memory::alloc(100_000).unwrap();
    let (during, _) = memory::info(device);
    assert!(before - during >= 100_000 && before - during < 110_000);
    memory::free(ptr).unwrap();
    assert_eq!(memory::info(device), (before, total));
}

#[test]
fn the_device_gives_no_more_than_it_has() {
    let variables = [("AIRAMP_EMU_MEMORY_BYTES", "1048576")];
    let ended = in_own_process("the_device_gives_no_more_than_it_has", &variables, || {
        let most = memory::alloc(1_000_000).unwrap();
        assert_eq!(memory::alloc(100_000), Err(CudaError::OUT_OF_MEMORY));
        memory::free(most).unwrap();
        for _ in 0..1000 {
            memory::free(memory::alloc(1_048_576).unwrap()).unwrap();
        }
    });
    ended.expect_success();
}

#[test]
fn addresses_are_used_again_only_when_they_run_out() {
    let variables = [("AIRAMP_EMU_MEMORY_BYTES", "1073741824")];
    let ended = in_own_process("addresses_are_used_again_only_when_they_run_out", &variables, || {
        let mut seen = Vec::new();
        for _ in 0..200 {
            let ptr = memory::alloc(1 << 30).unwrap();
            memory::free(ptr).unwrap();
            let fault = memory::resolve(ptr, 1).unwrap_err();
            assert!(fault.message.contains("use after free"), "{}", fault.message);
            seen.push(ptr);
        }
        let again = (1..seen.len()).find(|index| seen[..*index].contains(&seen[*index]));
        assert!(again.is_some_and(|index| index > 50), "first used again at {again:?}");
    });
    ended.expect_success();
}

#[test]
fn the_nth_allocation_fails_as_asked() {
    let variables = [("AIRAMP_EMU_FAIL_ALLOC", "3")];
    let ended = in_own_process("the_nth_allocation_fails_as_asked", &variables, || {
        let answers: Vec<bool> = (0..4).map(|_| memory::alloc(8).is_ok()).collect();
        assert_eq!(answers, [true, true, false, true]);
    });
    ended.expect_success();
}

#[test]
fn freeing_waits_for_the_work_of_the_device() {
    set_current(2).unwrap();
    let stream = stream::create(STREAM_NON_BLOCKING, 0).unwrap();
    let ptr = memory::alloc(64).unwrap();
    let (gate, hold) = Gate::new();
    stream::submit(stream, hold).unwrap();
    gate.wait_for_start();
    let freeing = std::thread::spawn(move || {
        set_current(2).unwrap();
        memory::free(ptr).unwrap();
    });
    std::thread::sleep(A_WHILE);
    assert!(!freeing.is_finished());
    gate.open();
    freeing.join().unwrap();
}

#[test]
fn a_forked_child_gets_an_error_and_does_not_hang() {
    let ended = in_own_process("a_forked_child_gets_an_error_and_does_not_hang", &[], || {
        let stream = stream::create(0, 0).unwrap();
        let (gate, hold) = Gate::new();
        stream::submit(stream, hold).unwrap();
        gate.wait_for_start();
        // SAFETY: the child only makes calls that check for the fork first, then leaves.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let answers = [
                process::init().map(drop),
                memory::alloc(64).map(drop),
                stream::synchronize(stream),
                stream::submit(stream, operation("nothing", || Ok(()))),
            ];
            let refused = answers.iter().all(|answer| *answer == Err(CudaError::NOT_INITIALIZED));
            // SAFETY: ends the child without running anything of the parent's.
            unsafe { libc::_exit(if refused { 0 } else { 1 }) };
        }
        let mut status = 0;
        // SAFETY: waits for the child that was just made.
        unsafe { libc::waitpid(child, &mut status, 0) };
        gate.open();
        assert_eq!(stream::synchronize(stream), Ok(()));
        assert_eq!(status, 0, "the child was refused each time and went");
    });
    ended.expect_success();
}

#[test]
fn a_copy_of_more_than_there_is_is_a_fault_and_not_the_end_of_the_process() {
    let test = "a_copy_of_more_than_there_is_is_a_fault_and_not_the_end_of_the_process";
    let ended = in_own_process(test, &[], || {
        let stream = stream::create(STREAM_NON_BLOCKING, 0).unwrap();
        let (to, host) = (memory::alloc(64).unwrap(), [0u8; 64]);
        let from = host.as_ptr() as u64;
        let huge = Copy { to, from, len: 1 << 45, direction: MEMCPY_HOST_TO_DEVICE };
        copy::asynchronous(stream, huge).unwrap();
        assert_eq!(stream::synchronize(stream), Err(CudaError::ILLEGAL_ADDRESS));
    });
    ended.expect_success();
    assert!(ended.errors.contains("past the end"), "{}", ended.errors);
}

#[test]
fn memory_for_a_copy_that_the_host_lacks_is_out_of_memory() {
    let test = "memory_for_a_copy_that_the_host_lacks_is_out_of_memory";
    let ended = in_own_process(test, &[], || {
        let stream = stream::create(STREAM_NON_BLOCKING, 0).unwrap();
        let host = vec![0u8; 64 << 20];
        let (to, from) = (memory::alloc(host.len()).unwrap(), host.as_ptr() as u64);
        let start = Copy { to, from, len: 8, direction: MEMCPY_HOST_TO_DEVICE };
        copy::asynchronous(stream, start).unwrap();
        stream::synchronize(stream).unwrap();
        let refused = short_of_addresses(|| copy::asynchronous(stream, Copy { len: host.len(), ..start }));
        assert_eq!(refused.and_then(|()| stream::synchronize(stream)), Err(CudaError::OUT_OF_MEMORY));
    });
    ended.expect_success();
}

#[test]
fn addresses_that_cannot_be_reserved_are_named() {
    let ended = in_own_process("addresses_that_cannot_be_reserved_are_named", &[], || {
        process::init().unwrap();
        let refused = short_of_addresses(|| memory::alloc(64));
        assert_eq!(refused, Err(CudaError::OUT_OF_MEMORY));
    });
    ended.expect_success();
    assert!(ended.errors.contains("addresses"), "{}", ended.errors);
}

#[test]
fn allocating_waits_too_if_that_is_set() {
    let variables = [("AIRAMP_EMU_ALLOC_SYNC", "2")];
    let ended = in_own_process("allocating_waits_too_if_that_is_set", &variables, || {
        let stream = stream::create(STREAM_NON_BLOCKING, 0).unwrap();
        let (gate, hold) = Gate::new();
        stream::submit(stream, hold).unwrap();
        let allocating = std::thread::spawn(|| memory::alloc(64));
        std::thread::sleep(A_WHILE);
        assert!(!allocating.is_finished());
        gate.open();
        assert!(allocating.join().unwrap().is_ok());
    });
    ended.expect_success();
}

#[test]
fn freeing_page_locked_memory_waits_for_every_device() {
    set_current(4).unwrap();
    let stream = stream::create(STREAM_NON_BLOCKING, 0).unwrap();
    let ptr = host_memory::alloc(64).unwrap();
    let (gate, hold) = Gate::new();
    stream::submit(stream, hold).unwrap();
    let freeing = std::thread::spawn(move || {
        set_current(5).unwrap();
        host_memory::free(ptr)
    });
    std::thread::sleep(A_WHILE);
    assert!(!freeing.is_finished());
    gate.open();
    assert_eq!(freeing.join().unwrap(), Ok(()));
}

#[test]
fn ordinary_memory_is_read_when_a_copy_is_submitted_and_page_locked_memory_when_it_runs() {
    set_current(6).unwrap();
    let stream = stream::create(STREAM_NON_BLOCKING, 0).unwrap();
    let mut ordinary = [1u8];
    let locked = host_memory::alloc(1).unwrap();
    let write = |to: u64, value| {
        // SAFETY: one byte of this test, which no copy writes.
        unsafe { (to as *mut u8).write_volatile(value) }
    };
    for (from, expected) in [(ordinary.as_mut_ptr() as u64, 1), (locked, 2)] {
        let to = memory::alloc(1).unwrap();
        write(from, 1);
        let (gate, hold) = Gate::new();
        stream::submit(stream, hold).unwrap();
        copy::asynchronous(stream, Copy { to, from, len: 1, direction: MEMCPY_HOST_TO_DEVICE }).unwrap();
        write(from, 2);
        gate.open();
        let mut back = 0u8;
        let back_at = &raw mut back as u64;
        copy::asynchronous(stream, Copy { to: back_at, from: to, len: 1, direction: MEMCPY_DEVICE_TO_HOST })
            .unwrap();
        assert_eq!(back, expected);
    }
}
