//! Streams: asynchronous, in order, sharing few queues, and watched for races.

mod gpu;

use std::sync::mpsc::RecvTimeoutError;

use airamp_emulator::gpu::{Chain, Fault, Touch, context, event, memory, process, set_current, stream};
use airamp_vendor_abi::cuda::{
    CudaError, EVENT_DISABLE_TIMING, STREAM_LEGACY, STREAM_NON_BLOCKING, STREAM_PER_THREAD,
};
use gpu::{A_WHILE, Gate, STUCK, in_own_process, operation, short_of_addresses, signal, touch};

fn non_blocking() -> usize {
    stream::create(STREAM_NON_BLOCKING, 0).unwrap()
}

#[test]
fn submitting_returns_before_the_work_is_done() {
    let stream = non_blocking();
    let (gate, hold) = Gate::new();
    stream::submit(stream, hold).unwrap();
    assert_eq!(stream::query(stream), Err(CudaError::NOT_READY));
    gate.open();
    stream::synchronize(stream).unwrap();
    assert_eq!(stream::query(stream), Ok(()));
}

#[test]
fn no_thread_exists_before_there_is_work() {
    let ended = in_own_process("no_thread_exists_before_there_is_work", &[], || {
        let workers = || {
            let tasks = std::fs::read_dir("/proc/self/task").unwrap();
            let names = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")));
            names.filter(|name| name.as_ref().is_ok_and(|name| name.starts_with("emu-gpu"))).count()
        };
        process::init().unwrap();
        let stream = non_blocking();
        assert_eq!(workers(), 0);
        stream::submit(stream, operation("nothing", || Ok(()))).unwrap();
        stream::synchronize(stream).unwrap();
        assert_eq!(workers(), 1);
    });
    ended.expect_success();
}

#[test]
fn streams_with_queues_of_their_own_run_side_by_side() {
    set_current(1).unwrap();
    let (one, other) = (non_blocking(), non_blocking());
    let (gate, hold) = Gate::new();
    let (ran, run) = signal("beside");
    stream::submit(one, hold).unwrap();
    stream::submit(other, run).unwrap();
    ran.recv_timeout(STUCK).expect("runs although the other stream is held");
    gate.open();
    stream::synchronize(one).unwrap();
}

#[test]
fn with_one_connection_streams_wait_for_each_other() {
    let variables = [("CUDA_DEVICE_MAX_CONNECTIONS", "1")];
    let ended = in_own_process("with_one_connection_streams_wait_for_each_other", &variables, || {
        let (one, other) = (non_blocking(), non_blocking());
        let (gate, hold) = Gate::new();
        let (ran, run) = signal("behind");
        stream::submit(one, hold).unwrap();
        stream::submit(other, run).unwrap();
        assert_eq!(ran.recv_timeout(A_WHILE), Err(RecvTimeoutError::Timeout));
        gate.open();
        ran.recv_timeout(STUCK).expect("runs once the queue is free");
    });
    ended.expect_success();
}

#[test]
fn a_full_launch_queue_blocks_the_submitting_thread() {
    let variables = [("AIRAMP_EMU_LAUNCH_QUEUE", "4")];
    let ended = in_own_process("a_full_launch_queue_blocks_the_submitting_thread", &variables, || {
        let stream = non_blocking();
        let (gate, hold) = Gate::new();
        stream::submit(stream, hold).unwrap();
        for _ in 0..3 {
            stream::submit(stream, operation("nothing", || Ok(()))).unwrap();
        }
        let fifth = std::thread::spawn(move || stream::submit(stream, operation("fifth", || Ok(()))));
        std::thread::sleep(A_WHILE);
        assert!(!fifth.is_finished());
        gate.open();
        fifth.join().unwrap().unwrap();
    });
    ended.expect_success();
}

#[test]
fn the_default_stream_waits_for_blocking_streams_and_not_for_others() {
    set_current(2).unwrap();
    let (blocking, free) = (stream::create(0, 0).unwrap(), non_blocking());
    let (gate, hold) = Gate::new();
    stream::submit(blocking, hold).unwrap();
    let (behind, run) = signal("on the default stream");
    stream::submit(0, run).unwrap();
    let (beside, run) = signal("on a non-blocking stream");
    stream::submit(free, run).unwrap();
    beside.recv_timeout(STUCK).expect("a non-blocking stream waits for neither");
    assert_eq!(behind.recv_timeout(A_WHILE), Err(RecvTimeoutError::Timeout));
    gate.open();
    behind.recv_timeout(STUCK).unwrap();
}

#[test]
fn a_blocking_stream_waits_for_the_default_stream() {
    set_current(3).unwrap();
    let blocking = stream::create(0, 0).unwrap();
    let (gate, hold) = Gate::new();
    stream::submit(STREAM_LEGACY, hold).unwrap();
    let (behind, run) = signal("on a blocking stream");
    stream::submit(blocking, run).unwrap();
    assert_eq!(behind.recv_timeout(A_WHILE), Err(RecvTimeoutError::Timeout));
    gate.open();
    behind.recv_timeout(STUCK).unwrap();
}

#[test]
fn each_thread_has_its_own_per_thread_stream() {
    let handle = || stream::find(STREAM_PER_THREAD).map(|found| std::sync::Arc::as_ptr(&found) as usize);
    let here = handle().unwrap();
    assert_eq!(handle().unwrap(), here);
    assert_ne!(std::thread::spawn(move || handle().unwrap()).join().unwrap(), here);
}

#[test]
fn a_destroyed_stream_is_no_longer_valid_but_ends_its_work() {
    let stream = non_blocking();
    let (gate, hold) = Gate::new();
    let (ran, run) = signal("left over");
    stream::submit(stream, hold).unwrap();
    stream::submit(stream, run).unwrap();
    stream::destroy(stream).unwrap();
    assert_eq!(stream::synchronize(stream), Err(CudaError::INVALID_HANDLE));
    gate.open();
    ran.recv_timeout(STUCK).unwrap();
}

#[test]
fn a_fault_of_an_operation_is_sticky_and_told() {
    let ended = in_own_process("a_fault_of_an_operation_is_sticky_and_told", &[], || {
        let stream = non_blocking();
        let fault = || Err(Fault::new(CudaError::LAUNCH_FAILED, "it broke"));
        stream::submit(stream, operation("breaking", fault)).unwrap();
        assert_eq!(stream::synchronize(stream), Err(CudaError::LAUNCH_FAILED));
        assert_eq!(stream::create(0, 0), Err(CudaError::LAUNCH_FAILED));
        assert_eq!(event::create(0), Err(CudaError::LAUNCH_FAILED));
        set_current(1).unwrap();
        assert!(stream::create(0, 0).is_ok(), "another device is not concerned");
    });
    ended.expect_success();
    assert!(ended.errors.contains("airamp emulator: it broke"), "{}", ended.errors);
}

#[test]
fn a_panic_in_an_operation_is_an_error_of_the_device() {
    let ended = in_own_process("a_panic_in_an_operation_is_an_error_of_the_device", &[], || {
        let stream = non_blocking();
        stream::submit(stream, operation("panicking", || panic!("oh"))).unwrap();
        assert_eq!(stream::synchronize(stream), Err(CudaError::LAUNCH_FAILED));
    });
    ended.expect_success();
}

#[test]
fn events_measure_and_those_without_timing_do_not() {
    set_current(4).unwrap();
    let stream = non_blocking();
    let (start, end) = (event::create(0).unwrap(), event::create(0).unwrap());
    let untimed = event::create(EVENT_DISABLE_TIMING).unwrap();
    assert_eq!(event::elapsed_ms(start, end), Err(CudaError::INVALID_HANDLE), "not recorded yet");
    let (gate, hold) = Gate::new();
    event::record(stream, start).unwrap();
    stream::submit(stream, hold).unwrap();
    event::record(stream, end).unwrap();
    event::record(stream, untimed).unwrap();
    assert_eq!(event::query(end), Err(CudaError::NOT_READY));
    assert_eq!(event::elapsed_ms(start, end), Err(CudaError::NOT_READY));
    gate.wait_for_start();
    gate.open();
    event::synchronize(untimed).unwrap();
    assert!(event::elapsed_ms(start, end).unwrap() > 0.0);
    assert!(event::elapsed_ms(end, start).unwrap() < 0.0);
    assert_eq!(event::elapsed_ms(start, untimed), Err(CudaError::INVALID_HANDLE));
}

#[test]
fn an_event_makes_another_stream_wait() {
    set_current(5).unwrap();
    let (one, other) = (non_blocking(), non_blocking());
    let event = event::create(EVENT_DISABLE_TIMING).unwrap();
    let (gate, hold) = Gate::new();
    stream::submit(one, hold).unwrap();
    event::record(one, event).unwrap();
    event::wait(other, event).unwrap();
    let (ran, run) = signal("after the event");
    stream::submit(other, run).unwrap();
    assert_eq!(ran.recv_timeout(A_WHILE), Err(RecvTimeoutError::Timeout));
    gate.open();
    ran.recv_timeout(STUCK).unwrap();
}

#[test]
fn an_event_is_recorded_on_its_own_device_and_waited_for_on_any() {
    let ended = in_own_process("an_event_is_recorded_on_its_own_device_and_waited_for_on_any", &[], || {
        let (event, here) = (event::create(EVENT_DISABLE_TIMING).unwrap(), non_blocking());
        set_current(1).unwrap();
        let elsewhere = non_blocking();
        assert_eq!(event::record(elsewhere, event), Err(CudaError::INVALID_HANDLE));
        assert_eq!(event::record(here, event), Ok(()));
        assert_eq!(event::wait(elsewhere, event), Ok(()));
    });
    ended.expect_success();
}

#[test]
fn a_missing_event_wait_is_an_error_that_names_both_operations() {
    let test = "a_missing_event_wait_is_an_error_that_names_both_operations";
    let ended = in_own_process(test, &[], || {
        let ptr = memory::alloc(4096).unwrap();
        let (one, other) = (non_blocking(), non_blocking());
        stream::submit(one, touch("producer", Touch::write(ptr, 4096))).unwrap();
        // Runs after it in fact, and would be right by luck.
        std::thread::sleep(A_WHILE);
        stream::submit(other, touch("consumer", Touch::read(ptr + 1024, 16))).unwrap();
        assert_eq!(stream::synchronize(other), Err(CudaError::LAUNCH_FAILED));
    });
    ended.expect_success();
    for part in ["wrong stream order", "producer on stream", "consumer on stream"] {
        assert!(ended.errors.contains(part), "{}", ended.errors);
    }
}

#[test]
fn what_is_in_order_is_no_race() {
    set_current(6).unwrap();
    let ptr = memory::alloc(4096).unwrap();
    let (one, other) = (non_blocking(), non_blocking());
    let event = event::create(EVENT_DISABLE_TIMING).unwrap();
    let write = |stream| stream::submit(stream, touch("write", Touch::write(ptr, 4096))).unwrap();
    write(one);
    event::record(one, event).unwrap();
    event::wait(other, event).unwrap();
    write(other);
    stream::synchronize(other).unwrap();
    write(one);
    event::record(one, event).unwrap();
    while event::query(event) == Err(CudaError::NOT_READY) {
        std::thread::yield_now();
    }
    write(other);
    stream::launch_host_function(other, || ()).unwrap();
    stream::synchronize(other).unwrap();
    let (reader, next) = (non_blocking(), non_blocking());
    stream::submit(reader, touch("read", Touch::read(ptr, 64))).unwrap();
    stream::submit(next, touch("read too", Touch::read(ptr, 64))).unwrap();
    stream::submit(one, touch("write elsewhere", Touch::write(ptr + 64, 64))).unwrap();
    for stream in [one, other, reader, next] {
        assert_eq!(stream::synchronize(stream), Ok(()));
    }
    memory::free(ptr).unwrap();
}

#[test]
fn operations_of_one_chain_are_no_race() {
    set_current(6).unwrap();
    let ptr = memory::alloc(64).unwrap();
    let (one, other, chain) = (non_blocking(), non_blocking(), Chain::default());
    let write = |name| touch(name, Touch::write(ptr, 64));
    stream::submit_in(&chain, one, write("first")).unwrap();
    stream::submit_in(&chain, other, write("second")).unwrap();
    stream::submit(other, write("third")).unwrap();
    stream::synchronize(one).unwrap();
    assert_eq!(stream::synchronize(other), Ok(()));
}

#[test]
fn what_a_destroyed_stream_did_is_over_after_a_synchronisation() {
    let test = "what_a_destroyed_stream_did_is_over_after_a_synchronisation";
    let ended = in_own_process(test, &[], || {
        let ptr = memory::alloc(64).unwrap();
        let (one, other, later) = (non_blocking(), non_blocking(), non_blocking());
        stream::submit(one, touch("write", Touch::write(ptr, 64))).unwrap();
        let (ran, run) = signal("behind");
        stream::submit(one, run).unwrap();
        stream::submit(other, operation("nothing", || Ok(()))).unwrap();
        stream::destroy(one).unwrap();
        ran.recv_timeout(STUCK).unwrap();
        std::thread::sleep(A_WHILE);
        // The host has not asked about the first stream when the second one goes.
        stream::destroy(other).unwrap();
        context::current().unwrap().synchronize().unwrap();
        stream::submit(later, touch("write again", Touch::write(ptr, 64))).unwrap();
        assert_eq!(stream::synchronize(later), Ok(()));
    });
    ended.expect_success();
}

#[test]
fn a_race_with_a_destroyed_stream_is_found() {
    let ended = in_own_process("a_race_with_a_destroyed_stream_is_found", &[], || {
        let ptr = memory::alloc(64).unwrap();
        let one = non_blocking();
        let (gate, hold) = Gate::new();
        stream::submit(one, hold).unwrap();
        stream::submit(one, touch("old write", Touch::write(ptr, 64))).unwrap();
        stream::destroy(one).unwrap();
        let next = non_blocking();
        stream::submit(next, touch("new write", Touch::write(ptr, 64))).unwrap();
        gate.open();
        assert_eq!(context::current().unwrap().synchronize(), Err(CudaError::LAUNCH_FAILED));
    });
    ended.expect_success();
    assert!(ended.errors.contains("wrong stream order: new write"), "{}", ended.errors);
}

#[test]
fn the_default_stream_is_not_in_order_with_a_destroyed_non_blocking_one() {
    let test = "the_default_stream_is_not_in_order_with_a_destroyed_non_blocking_one";
    let ended = in_own_process(test, &[], || {
        let ptr = memory::alloc(64).unwrap();
        let one = non_blocking();
        stream::submit(one, touch("old write", Touch::write(ptr, 64))).unwrap();
        stream::destroy(one).unwrap();
        stream::submit(0, touch("new write", Touch::write(ptr, 64))).unwrap();
        assert_eq!(stream::synchronize(0), Err(CudaError::LAUNCH_FAILED));
    });
    ended.expect_success();
}

#[test]
fn a_queue_without_a_thread_is_out_of_memory_and_works_later() {
    let ended = in_own_process("a_queue_without_a_thread_is_out_of_memory_and_works_later", &[], || {
        let stream = non_blocking();
        let refused = short_of_addresses(|| stream::submit(stream, operation("nothing", || Ok(()))));
        assert_eq!(refused, Err(CudaError::OUT_OF_MEMORY));
        assert_eq!(context::current().unwrap().synchronize(), Ok(()), "nothing was left on the stream");
        stream::submit(stream, operation("nothing", || Ok(()))).unwrap();
        assert_eq!(stream::synchronize(stream), Ok(()));
    });
    ended.expect_success();
    assert!(ended.errors.contains("airamp emulator: the thread of"), "{}", ended.errors);
}

#[test]
fn queues_that_wait_for_each_other_come_to_an_end() {
    let variables = [("CUDA_DEVICE_MAX_CONNECTIONS", "2"), ("AIRAMP_EMU_LAUNCH_QUEUE", "8")];
    let ended = in_own_process("queues_that_wait_for_each_other_come_to_an_end", &variables, || {
        let streams: Vec<usize> = (0..5).map(|_| non_blocking()).chain([0]).collect();
        let events: Vec<usize> = (0..5).map(|_| event::create(EVENT_DISABLE_TIMING).unwrap()).collect();
        let use_all = |mut random: usize| {
            for _ in 0..500 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let stream = streams[(random >> 33) % streams.len()];
                let event = events[(random >> 45) % events.len()];
                match random >> 61 {
                    0..3 => event::record(stream, event).unwrap(),
                    3..6 => event::wait(stream, event).unwrap(),
                    _ => stream::submit(stream, operation("nothing", || Ok(()))).unwrap(),
                }
            }
        };
        std::thread::scope(|scope| {
            (1..5).for_each(|seed| drop(scope.spawn(move || use_all(seed))));
        });
        streams.iter().for_each(|stream| stream::synchronize(*stream).unwrap());
    });
    ended.expect_success();
}

#[test]
fn the_check_for_races_can_be_switched_off() {
    let variables = [("AIRAMP_EMU_RACECHECK", "0")];
    let ended = in_own_process("the_check_for_races_can_be_switched_off", &variables, || {
        let ptr = memory::alloc(64).unwrap();
        let (one, other) = (non_blocking(), non_blocking());
        stream::submit(one, touch("write", Touch::write(ptr, 64))).unwrap();
        stream::submit(other, touch("write", Touch::write(ptr, 64))).unwrap();
        assert_eq!(stream::synchronize(one), Ok(()));
        assert_eq!(stream::synchronize(other), Ok(()));
    });
    ended.expect_success();
}

#[test]
fn a_machine_without_a_device_says_so() {
    let variables = [("AIRAMP_EMU_NO_DEVICE", "1")];
    let ended = in_own_process("a_machine_without_a_device_says_so", &variables, || {
        assert_eq!(process::init().map(drop), Err(CudaError::NO_DEVICE));
        assert_eq!(memory::alloc(1), Err(CudaError::NO_DEVICE));
    });
    ended.expect_success();
}
