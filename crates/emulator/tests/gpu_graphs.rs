//! Captures and graphs: what a capture refuses, what a graph replays, when it may be
//! updated.

mod gpu;

use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};

use airamp_emulator::gpu::replay::Mismatch;
use airamp_emulator::gpu::{
    Fault, Operation, Run, Touch, capture, copy, current_device, event, graph, host_memory, memory, module,
    replay, set_current, stream, user_object,
};
use airamp_vendor_abi::cuda::{
    CAPTURE_MODE_GLOBAL, CAPTURE_MODE_RELAXED, CAPTURE_MODE_THREAD_LOCAL, CudaError, EVENT_DISABLE_TIMING,
    EVENT_RECORD_EXTERNAL, EVENT_WAIT_EXTERNAL, STREAM_LEGACY, STREAM_NON_BLOCKING, STREAM_PER_THREAD,
};
use gpu::{A_WHILE, Gate, STUCK, in_own_process, operation, short_of_addresses, signal, touch};

/// Captures in global mode forbid calls in other threads, which are other tests here.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> std::sync::MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

type Call<'a> = &'a dyn Fn() -> Result<(), CudaError>;

fn non_blocking() -> usize {
    stream::create(STREAM_NON_BLOCKING, 0).unwrap()
}

fn mark() -> usize {
    event::create(EVENT_DISABLE_TIMING).unwrap()
}

fn nothing() -> Operation {
    operation("nothing", || Ok(()))
}

/// Captures what `body` puts on a stream, and gives the graph.
fn captured(stream: usize, body: impl FnOnce(usize)) -> Result<usize, CudaError> {
    capture::begin(stream, CAPTURE_MODE_GLOBAL).unwrap();
    body(stream);
    capture::end(stream)
}

#[test]
fn the_question_for_a_capture_is_answered_in_every_state() {
    let _alone = alone();
    let (stream, other) = (non_blocking(), non_blocking());
    let gone = non_blocking();
    let ask = |of| capture::status_of(of).map(|status| status.map(|status| status.valid));
    assert_eq!(ask(gone), Ok(None));
    stream::destroy(gone).unwrap();
    assert_eq!(ask(gone), Err(CudaError::INVALID_HANDLE));
    let ask_all = || [stream, other, STREAM_LEGACY, STREAM_PER_THREAD, gone, 7].map(ask);
    let refused = Err(CudaError::INVALID_HANDLE);
    let idle = [Ok(None), Ok(None), Ok(None), Ok(None), refused, refused];
    assert_eq!(ask_all(), idle);
    capture::begin(stream, CAPTURE_MODE_GLOBAL).unwrap();
    assert_eq!(ask_all(), [Ok(Some(true)), Ok(None), Ok(None), Ok(None), refused, refused]);
    assert_eq!(stream::query(stream), Err(CudaError::STREAM_CAPTURE_UNSUPPORTED));
    assert_eq!(ask(stream), Ok(Some(false)));
    assert_eq!(capture::end(stream), Err(CudaError::STREAM_CAPTURE_INVALIDATED));
    assert_eq!(ask_all(), idle);
    let blocking = stream::create(0, 0).unwrap();
    capture::begin(blocking, CAPTURE_MODE_GLOBAL).unwrap();
    assert_eq!(ask(STREAM_LEGACY), Err(CudaError::STREAM_CAPTURE_IMPLICIT));
    assert_eq!(ask(blocking), Ok(Some(false)), "the question has spoilt it, as in CUDA");
    assert_eq!(capture::end(blocking), Err(CudaError::STREAM_CAPTURE_INVALIDATED));
    assert_eq!(ask(STREAM_LEGACY), Ok(None));
}

#[test]
fn allocating_during_a_global_capture_is_refused_in_every_thread() {
    let _alone = alone();
    let stream = non_blocking();
    let graph = captured(stream, |_| {
        let elsewhere = std::thread::spawn(|| memory::alloc(64)).join().unwrap();
        assert_eq!(elsewhere, Err(CudaError::STREAM_CAPTURE_UNSUPPORTED));
    });
    assert_eq!(graph, Err(CudaError::STREAM_CAPTURE_INVALIDATED));
    assert!(memory::alloc(64).is_ok(), "it is over");
}

#[test]
fn what_may_synchronise_is_refused_during_a_capture() {
    let _alone = alone();
    let (stream, event) = (non_blocking(), mark());
    let (device, host) = (memory::alloc(64).unwrap(), host_memory::alloc(64).unwrap());
    let ptx = b".version 7.0\n.target sm_80\n.entry kernel()\0";
    let calls: [(&str, Call<'_>); 6] = [
        ("module load", &|| module::load(ptx).map(drop)),
        ("event query", &|| event::query(event)),
        ("host alloc", &|| host_memory::alloc(64).map(drop)),
        ("host free", &|| host_memory::free(host)),
        ("alloc", &|| memory::alloc(64).map(drop)),
        ("free", &|| memory::free(device).map_err(|fault| fault.code)),
    ];
    for (name, call) in calls {
        let graph = captured(stream, |_| {
            assert_eq!(call(), Err(CudaError::STREAM_CAPTURE_UNSUPPORTED), "{name}");
        });
        assert_eq!(graph, Err(CudaError::STREAM_CAPTURE_INVALIDATED), "{name}");
        assert_eq!(call(), Ok(()), "{name} after the capture");
    }
}

#[test]
fn a_graph_launch_takes_one_place_in_the_launch_queue() {
    let variables = [("AIRAMP_EMU_LAUNCH_QUEUE", "2")];
    let ended = in_own_process("a_graph_launch_takes_one_place_in_the_launch_queue", &variables, || {
        let stream = non_blocking();
        let graph = captured(stream, |stream| {
            (0..5).for_each(|_| stream::submit(stream, nothing()).unwrap());
        });
        let executable = replay::instantiate(graph.unwrap()).unwrap();
        let (gate, hold) = Gate::new();
        stream::submit(stream, hold).unwrap();
        replay::launch(executable, stream).unwrap();
        let third = std::thread::spawn(move || replay::launch(executable, stream));
        std::thread::sleep(A_WHILE);
        assert!(!third.is_finished());
        gate.open();
        assert_eq!(third.join().unwrap(), Ok(()));
    });
    ended.expect_success();
}

#[test]
fn a_graph_whose_branch_finds_no_thread_is_not_launched() {
    let ended = in_own_process("a_graph_whose_branch_finds_no_thread_is_not_launched", &[], || {
        let (origin, side) = (non_blocking(), non_blocking());
        let (fork, join) = (mark(), mark());
        let graph = captured(origin, |origin| {
            event::record(origin, fork).unwrap();
            event::wait(side, fork).unwrap();
            stream::submit(side, nothing()).unwrap();
            event::record(side, join).unwrap();
            event::wait(origin, join).unwrap();
        });
        let executable = replay::instantiate(graph.unwrap()).unwrap();
        stream::submit(origin, nothing()).unwrap();
        stream::synchronize(origin).unwrap();
        let refused = short_of_addresses(|| replay::launch(executable, origin));
        assert_eq!(refused, Err(CudaError::OUT_OF_MEMORY));
        assert_eq!(stream::synchronize(origin), Ok(()));
    });
    ended.expect_success();
}

#[test]
fn a_thread_local_capture_leaves_other_threads_alone() {
    let _alone = alone();
    let stream = non_blocking();
    capture::begin(stream, CAPTURE_MODE_THREAD_LOCAL).unwrap();
    assert!(std::thread::spawn(|| memory::alloc(64)).join().unwrap().is_ok());
    assert_eq!(memory::alloc(64), Err(CudaError::STREAM_CAPTURE_UNSUPPORTED));
    assert_eq!(capture::end(stream), Err(CudaError::STREAM_CAPTURE_INVALIDATED));
}

#[test]
fn relaxed_captures_and_relaxed_threads_may_allocate() {
    let _alone = alone();
    let stream = non_blocking();
    capture::begin(stream, CAPTURE_MODE_RELAXED).unwrap();
    assert!(memory::alloc(64).is_ok());
    assert!(capture::end(stream).is_ok());
    let graph = captured(stream, |_| {
        let before = capture::exchange_thread_mode(CAPTURE_MODE_RELAXED).unwrap();
        assert!(memory::alloc(64).is_ok());
        capture::exchange_thread_mode(before).unwrap();
    });
    assert!(graph.is_ok());
}

#[test]
fn a_capturing_stream_cannot_be_waited_for() {
    let _alone = alone();
    let stream = non_blocking();
    let graph = captured(stream, |stream| {
        assert_eq!(stream::synchronize(stream), Err(CudaError::STREAM_CAPTURE_UNSUPPORTED));
        assert_eq!(stream::submit(stream, nothing()), Err(CudaError::STREAM_CAPTURE_INVALIDATED));
    });
    assert_eq!(graph, Err(CudaError::STREAM_CAPTURE_INVALIDATED));
    assert_eq!(stream::synchronize(stream), Ok(()));
}

#[test]
fn the_default_stream_cannot_be_used_beside_a_capture_on_a_blocking_stream() {
    let _alone = alone();
    let stream = stream::create(0, 0).unwrap();
    let graph = captured(stream, |_| {
        assert_eq!(stream::submit(0, nothing()), Err(CudaError::STREAM_CAPTURE_IMPLICIT));
    });
    assert_eq!(graph, Err(CudaError::STREAM_CAPTURE_INVALIDATED));
    assert!(captured(non_blocking(), |_| stream::submit(0, nothing()).unwrap()).is_ok());
    assert_eq!(capture::begin(0, CAPTURE_MODE_GLOBAL), Err(CudaError::STREAM_CAPTURE_UNSUPPORTED));
}

#[test]
fn a_fork_that_is_not_joined_is_an_error() {
    let _alone = alone();
    let (origin, side) = (non_blocking(), non_blocking());
    let (fork, join) = (mark(), mark());
    let forked = |joined: bool| {
        captured(origin, |origin| {
            event::record(origin, fork).unwrap();
            event::wait(side, fork).unwrap();
            assert_eq!(stream::is_capturing(side), Ok(true));
            stream::submit(side, nothing()).unwrap();
            event::record(side, join).unwrap();
            if joined {
                event::wait(origin, join).unwrap();
            }
        })
    };
    assert_eq!(forked(false), Err(CudaError::STREAM_CAPTURE_UNJOINED));
    assert_eq!(graph::node_count(forked(true).unwrap()), Ok(1));
    assert_eq!(stream::is_capturing(side), Ok(false));
}

#[test]
fn work_from_outside_cannot_be_waited_for_in_a_capture() {
    let _alone = alone();
    let (stream, outside) = (non_blocking(), mark());
    event::record(non_blocking(), outside).unwrap();
    let graph = captured(stream, |stream| {
        assert_eq!(event::wait(stream, outside), Err(CudaError::STREAM_CAPTURE_ISOLATION));
    });
    assert_eq!(graph, Err(CudaError::STREAM_CAPTURE_INVALIDATED));
}

#[test]
fn two_captures_cannot_become_one() {
    let _alone = alone();
    let (one, other, event) = (non_blocking(), non_blocking(), mark());
    capture::begin(one, CAPTURE_MODE_RELAXED).unwrap();
    capture::begin(other, CAPTURE_MODE_RELAXED).unwrap();
    event::record(one, event).unwrap();
    assert_eq!(event::wait(other, event), Err(CudaError::STREAM_CAPTURE_MERGE));
    assert_eq!(event::synchronize(event), Err(CudaError::CAPTURED_EVENT));
    assert_eq!(capture::end(one), Err(CudaError::STREAM_CAPTURE_INVALIDATED));
    assert_eq!(capture::end(other), Err(CudaError::STREAM_CAPTURE_INVALIDATED));
}

#[test]
fn a_capture_ends_where_it_began() {
    let _alone = alone();
    let (origin, side, fork) = (non_blocking(), non_blocking(), mark());
    let graph = captured(origin, |origin| {
        let elsewhere = std::thread::spawn(move || capture::end(origin)).join().unwrap();
        assert_eq!(elsewhere, Err(CudaError::STREAM_CAPTURE_WRONG_THREAD));
        event::record(origin, fork).unwrap();
        event::wait(side, fork).unwrap();
        assert_eq!(capture::end(side), Err(CudaError::STREAM_CAPTURE_UNMATCHED));
    });
    assert_eq!(graph, Err(CudaError::STREAM_CAPTURE_INVALIDATED));
    assert_eq!(capture::end(origin), Err(capture::ILLEGAL_STATE));
}

#[test]
fn a_captured_operation_is_prepared_once_per_launch_in_order() {
    let _alone = alone();
    let stream = non_blocking();
    let prepared = Arc::new(Mutex::new(Vec::new()));
    let counted = |name: &'static str| {
        let prepared = Arc::clone(&prepared);
        let prepare = move || -> Run {
            prepared.lock().unwrap().push(name);
            Box::new(|| Ok(()))
        };
        Operation { label: name.to_owned(), touches: Vec::new(), prepare: Arc::new(prepare) }
    };
    let graph = captured(stream, |stream| {
        stream::submit(stream, counted("first")).unwrap();
        stream::submit(stream, counted("second")).unwrap();
    });
    assert!(prepared.lock().unwrap().is_empty(), "nothing runs in a capture");
    let executable = replay::instantiate(graph.unwrap()).unwrap();
    for _ in 0..2 {
        replay::launch(executable, stream).unwrap();
    }
    stream::synchronize(stream).unwrap();
    assert_eq!(*prepared.lock().unwrap(), ["first", "second", "first", "second"]);
}

#[test]
fn a_replay_does_the_work_again() {
    let _alone = alone();
    let stream = non_blocking();
    let (target, source) = (memory::alloc(16).unwrap(), memory::alloc(16).unwrap());
    let both = |to, from| copy::Copy { to, from, len: 16, direction: 3 };
    let graph = captured(stream, |stream| {
        copy::asynchronous(stream, both(target, source)).unwrap();
    });
    let executable = replay::instantiate(graph.unwrap()).unwrap();
    for value in [7u8, 9] {
        copy::fill(stream, source, &[value], 16).unwrap();
        replay::launch(executable, stream).unwrap();
        let mut back = [0u8; 16];
        let to_host = copy::Copy { to: back.as_mut_ptr() as u64, from: target, len: 16, direction: 2 };
        copy::asynchronous(stream, to_host).unwrap();
        assert_eq!(back, [value; 16]);
    }
}

#[test]
fn branches_of_a_graph_run_side_by_side() {
    let _alone = alone();
    let (origin, side) = (non_blocking(), non_blocking());
    let (fork, join) = (mark(), mark());
    let (here, there) = (channel::<()>(), channel::<()>());
    // Each branch goes on only when the other has come as far.
    let meet = |tell: std::sync::mpsc::Sender<()>, hear: std::sync::mpsc::Receiver<()>| {
        let hear = Mutex::new(hear);
        operation("meeting", move || {
            tell.send(()).ok();
            let alone = |_| Fault::new(CudaError::LAUNCH_FAILED, "the other branch did not come");
            hear.lock().unwrap().recv_timeout(STUCK).map_err(alone)
        })
    };
    let graph = captured(origin, |origin| {
        event::record(origin, fork).unwrap();
        event::wait(side, fork).unwrap();
        stream::submit(origin, meet(here.0, there.1)).unwrap();
        stream::submit(side, meet(there.0, here.1)).unwrap();
        event::record(side, join).unwrap();
        event::wait(origin, join).unwrap();
    });
    let executable = replay::instantiate(graph.unwrap()).unwrap();
    replay::launch(executable, origin).unwrap();
    assert_eq!(stream::synchronize(origin), Ok(()));
}

#[test]
fn two_launches_of_one_executable_follow_each_other() {
    let _alone = alone();
    set_current(1).unwrap();
    let (one, other) = (non_blocking(), non_blocking());
    let (gate, hold) = Gate::new();
    let graph = captured(one, |stream| stream::submit(stream, hold).unwrap());
    let executable = replay::instantiate(graph.unwrap()).unwrap();
    replay::launch(executable, one).unwrap();
    replay::launch(executable, other).unwrap();
    gate.wait_for_start();
    assert_eq!(gate.started.recv_timeout(A_WHILE), Err(RecvTimeoutError::Timeout));
    gate.open();
    gate.wait_for_start();
    gate.open();
    stream::synchronize(other).unwrap();
    set_current(0).unwrap();
}

#[test]
fn external_use_of_an_event_is_refused_outside_of_a_capture() {
    let stream = stream::create(STREAM_NON_BLOCKING, 0).unwrap();
    let event = event::create(0).unwrap();
    let refused = Err(CudaError::INVALID_VALUE);
    assert_eq!(event::record_with_flags(stream, event, EVENT_RECORD_EXTERNAL), refused);
    assert_eq!(event::wait_with_flags(stream, event, EVENT_WAIT_EXTERNAL), refused);
}

#[test]
fn external_events_tie_graphs_to_live_streams() {
    let _alone = alone();
    let (stream, live) = (non_blocking(), non_blocking());
    let (before, after) = (mark(), mark());
    let (ran, run) = signal("in the graph");
    let graph = captured(stream, |stream| {
        event::wait_with_flags(stream, before, EVENT_WAIT_EXTERNAL).unwrap();
        stream::submit(stream, run).unwrap();
        event::record_with_flags(stream, after, EVENT_RECORD_EXTERNAL).unwrap();
    });
    let graph = graph.unwrap();
    assert_eq!(graph::node_count(graph), Ok(3));
    let executable = replay::instantiate(graph).unwrap();
    let (gate, hold) = Gate::new();
    stream::submit(live, hold).unwrap();
    event::record(live, before).unwrap();
    replay::launch(executable, stream).unwrap();
    assert_eq!(ran.recv_timeout(A_WHILE), Err(RecvTimeoutError::Timeout));
    assert_eq!(event::query(after), Err(CudaError::NOT_READY));
    gate.open();
    event::synchronize(after).unwrap();
    ran.try_recv().expect("the graph recorded the event behind its work");
}

#[test]
fn an_update_checks_the_shape_of_the_graph() {
    let _alone = alone();
    let (origin, side) = (non_blocking(), non_blocking());
    let (fork, join) = (mark(), mark());
    let (ran, run) = signal("updated");
    let ptr = memory::alloc(64).unwrap();
    let chain = |operations: Vec<Operation>| {
        captured(origin, |stream| {
            operations.into_iter().for_each(|operation| stream::submit(stream, operation).unwrap());
        })
        .unwrap()
    };
    let executable = replay::instantiate(chain(vec![nothing(), nothing()])).unwrap();
    let update = |graph| replay::update(executable, graph).unwrap();
    assert_eq!(update(chain(vec![nothing()])), Err(Mismatch::Topology));
    let parallel = captured(origin, |origin| {
        event::record(origin, fork).unwrap();
        event::wait(side, fork).unwrap();
        stream::submit(origin, nothing()).unwrap();
        stream::submit(side, nothing()).unwrap();
        event::record(side, join).unwrap();
        event::wait(origin, join).unwrap();
    });
    assert_eq!(update(parallel.unwrap()), Err(Mismatch::Topology), "as many nodes, other edges");
    let other_kind = captured(origin, |stream| {
        stream::submit(stream, nothing()).unwrap();
        copy::fill(stream, ptr, &[0], 64).unwrap();
    });
    assert_eq!(update(other_kind.unwrap()), Err(Mismatch::NodeKind));
    assert_eq!(update(chain(vec![nothing(), run])), Ok(()));
    replay::launch(executable, origin).unwrap();
    ran.recv_timeout(STUCK).expect("the new operation runs");
}

#[test]
fn a_graph_and_a_live_stream_can_race_too() {
    let ended = in_own_process("a_graph_and_a_live_stream_can_race_too", &[], || {
        let (stream, live) = (non_blocking(), non_blocking());
        let ptr = memory::alloc(64).unwrap();
        let graph = captured(stream, |stream| {
            stream::submit(stream, touch("captured write", Touch::write(ptr, 64))).unwrap();
        });
        let executable = replay::instantiate(graph.unwrap()).unwrap();
        replay::launch(executable, stream).unwrap();
        replay::launch(executable, stream).unwrap();
        assert_eq!(stream::synchronize(stream), Ok(()), "a graph does not race with itself");
        replay::launch(executable, stream).unwrap();
        stream::submit(live, touch("live write", Touch::write(ptr, 64))).unwrap();
        assert_eq!(stream::synchronize(live), Err(CudaError::LAUNCH_FAILED));
    });
    ended.expect_success();
    for part in ["captured write on graph branch 0", "live write on stream"] {
        assert!(ended.errors.contains(part), "{}", ended.errors);
    }
}

#[test]
fn a_user_object_lives_as_long_as_what_holds_it() {
    static DESTROYED: AtomicUsize = AtomicUsize::new(0);
    unsafe extern "C" fn count(_data: *mut c_void) {
        DESTROYED.fetch_add(1, Ordering::SeqCst);
    }
    let _alone = alone();
    let stream = non_blocking();
    let (gate, hold) = Gate::new();
    let graph = captured(stream, |stream| stream::submit(stream, hold).unwrap()).unwrap();
    let object = user_object::create(std::ptr::null_mut(), count, 1).unwrap();
    graph::retain_user_object(graph, object, 1, true).unwrap();
    let executable = replay::instantiate(graph).unwrap();
    graph::destroy(graph).unwrap();
    replay::launch(executable, stream).unwrap();
    gate.wait_for_start();
    replay::destroy(executable).unwrap();
    assert_eq!(DESTROYED.load(Ordering::SeqCst), 0, "the launch is still under way");
    gate.open();
    stream::synchronize(stream).unwrap();
    assert_eq!(DESTROYED.load(Ordering::SeqCst), 1);
    assert_eq!(current_device(), Ok(0));
}
