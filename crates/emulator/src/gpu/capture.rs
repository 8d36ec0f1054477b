//! Capture of streams into a graph: which streams take part, what each next node will
//! depend on, and what the rules of captures forbid meanwhile.
//!
//! Owns no execution. A call that breaks a rule invalidates the captures that it
//! endangers, as in CUDA, and the end of each of those then says so.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::thread::ThreadId;

use airamp_vendor_abi::cuda::{
    CAPTURE_MODE_GLOBAL, CAPTURE_MODE_RELAXED, CAPTURE_MODE_THREAD_LOCAL, CudaError,
};

use super::completion::lock;
use super::event::{Event, Mark};
use super::graph::{self, Graph};
use super::handles::ByNumber;
use super::stream::{self, Stream};
use super::work::Work;
use super::{Answer, process};

/// `CUDA_ERROR_ILLEGAL_STATE`
pub const ILLEGAL_STATE: CudaError = CudaError(401);

struct Session {
    mode: i32,
    thread: ThreadId,
    origin: usize,
    valid: bool,
    handle: usize,
    graph: Arc<Graph>,
}

/// A stream that takes part in a capture.
struct Member {
    session: u64,
    lane: usize,
    /// The nodes that the next one depends on.
    next_after: Vec<usize>,
    blocking: bool,
    device: i32,
}

#[derive(Default)]
struct Captures {
    sessions: ByNumber<u64, Session>,
    members: ByNumber<usize, Member>,
}

static CAPTURES: LazyLock<Mutex<Captures>> = LazyLock::new(Mutex::default);
/// Lets everything outside of captures go without the lock.
static ACTIVE: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static THREAD_MODE: Cell<i32> = const { Cell::new(CAPTURE_MODE_GLOBAL) };
}

/// How a capture stands, seen from one of its streams.
#[derive(Clone, Debug)]
pub struct Status {
    pub id: u64,
    pub valid: bool,
    pub graph: usize,
    pub next_after: Vec<usize>,
}

pub fn begin(stream: usize, mode: i32) -> Answer<()> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let stream = stream::find(stream)?;
    stream.device.check()?;
    if !(CAPTURE_MODE_GLOBAL..=CAPTURE_MODE_RELAXED).contains(&mode) {
        return Err(CudaError::INVALID_VALUE);
    }
    if stream.legacy {
        return Err(CudaError::STREAM_CAPTURE_UNSUPPORTED);
    }
    let mut captures = lock(&CAPTURES);
    if captures.members.contains_key(&stream.handle) {
        return Err(ILLEGAL_STATE);
    }
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    let (handle, graph) = graph::create_captured();
    let session = Session {
        mode,
        thread: std::thread::current().id(),
        origin: stream.handle,
        valid: true,
        handle,
        graph,
    };
    captures.sessions.insert(id, session);
    captures.join(id, &stream, Vec::new());
    ACTIVE.fetch_add(1, Ordering::SeqCst);
    Ok(())
}

/// Ends a capture on the stream that began it, and returns the graph's handle.
pub fn end(stream: usize) -> Answer<usize> {
    let stream = stream::find(stream)?;
    let mut captures = lock(&CAPTURES);
    let member = captures.members.get(&stream.handle).ok_or(ILLEGAL_STATE)?;
    let id = member.session;
    let session = captures.sessions.get_mut(&id).ok_or(ILLEGAL_STATE)?;
    if session.origin != stream.handle {
        session.valid = false;
        return Err(CudaError::STREAM_CAPTURE_UNMATCHED);
    }
    if session.mode != CAPTURE_MODE_RELAXED && session.thread != std::thread::current().id() {
        return Err(CudaError::STREAM_CAPTURE_WRONG_THREAD);
    }
    let joined = member_ends(&captures, stream.handle);
    let session = captures.close(id).ok_or(ILLEGAL_STATE)?;
    drop(captures);
    let outcome = match (session.valid, session.graph.all_lead_to(&joined)) {
        (false, _) => Err(CudaError::STREAM_CAPTURE_INVALIDATED),
        (true, false) => Err(CudaError::STREAM_CAPTURE_UNJOINED),
        (true, true) => Ok(session.handle),
    };
    if outcome.is_err() {
        graph::destroy(session.handle)?;
    }
    outcome
}

fn member_ends(captures: &Captures, stream: usize) -> Vec<usize> {
    let member = captures.members.get(&stream);
    member.map(|member| member.next_after.clone()).unwrap_or_default()
}

/// How the capture of a stream stands; `None` for a stream that is not capturing.
#[inline]
pub fn status_of(stream: usize) -> Answer<Option<Status>> {
    if idle() {
        return stream::require(stream).map(|()| None);
    }
    let stream = stream::find(stream)?;
    if stream.legacy {
        lock(&CAPTURES).refuse_implicit(&stream)?;
    }
    Ok(status(stream.handle))
}

pub(super) fn status(stream: usize) -> Option<Status> {
    if idle() {
        return None;
    }
    let captures = lock(&CAPTURES);
    let member = captures.members.get(&stream)?;
    let session = captures.sessions.get(&member.session)?;
    Some(Status {
        id: member.session,
        valid: session.valid,
        graph: session.handle,
        next_after: member.next_after.clone(),
    })
}

/// Sets which unsafe calls the thread may make during captures; returns what it was.
pub fn exchange_thread_mode(mode: i32) -> Answer<i32> {
    if !(CAPTURE_MODE_GLOBAL..=CAPTURE_MODE_RELAXED).contains(&mode) {
        return Err(CudaError::INVALID_VALUE);
    }
    Ok(THREAD_MODE.replace(mode))
}

/// Refuses a call that a capture cannot hold and that may synchronise (allocation,
/// freeing, module loads, event queries), by the mode of the thread and of each capture.
pub(super) fn refuse_unsafe_call() -> Answer<()> {
    if process::is_forked_child() {
        return Err(CudaError::NOT_INITIALIZED);
    }
    let mode = THREAD_MODE.get();
    if idle() || mode == CAPTURE_MODE_RELAXED {
        return Ok(());
    }
    let here = std::thread::current().id();
    let endangers = |session: &Session| match session.mode {
        CAPTURE_MODE_GLOBAL => session.thread == here || mode == CAPTURE_MODE_GLOBAL,
        CAPTURE_MODE_THREAD_LOCAL => session.thread == here,
        _ => false,
    };
    let mut captures = lock(&CAPTURES);
    captures.refuse(endangers, CudaError::STREAM_CAPTURE_UNSUPPORTED)
}

/// Refuses to wait for, or ask about, a stream that is capturing.
pub(super) fn refuse_synchronization(stream: &Stream) -> Answer<()> {
    if idle() {
        return Ok(());
    }
    let mut captures = lock(&CAPTURES);
    captures.refuse_implicit(stream)?;
    let Some(id) = captures.members.get(&stream.handle).map(|m| m.session) else {
        return Ok(());
    };
    captures.invalidate(id);
    Err(CudaError::STREAM_CAPTURE_UNSUPPORTED)
}

pub(super) fn refuse_device_synchronization(device: i32) -> Answer<()> {
    if idle() {
        return Ok(());
    }
    let mut captures = lock(&CAPTURES);
    let ids = captures.sessions_with(|member| member.device == device);
    captures.refuse_all(&ids, CudaError::STREAM_CAPTURE_UNSUPPORTED)
}

/// Puts work into the capture of its stream. `false`: there is none, it is to be run.
pub(super) fn take(stream: &Stream, work: &Work) -> Answer<bool> {
    if idle() {
        return Ok(false);
    }
    let mut captures = lock(&CAPTURES);
    captures.refuse_implicit(stream)?;
    let Captures { sessions, members } = &mut *captures;
    let Some(member) = members.get_mut(&stream.handle) else {
        return Ok(false);
    };
    let session = sessions.get(&member.session).ok_or(ILLEGAL_STATE)?;
    if !session.valid {
        return Err(CudaError::STREAM_CAPTURE_INVALIDATED);
    }
    let after = std::mem::take(&mut member.next_after);
    member.next_after = vec![session.graph.add(work.clone(), after, member.lane)];
    Ok(true)
}

/// Records an event into the capture of its stream. `false`: there is none.
pub(super) fn record(stream: &Stream, event: &Event) -> Answer<bool> {
    if idle() {
        return Ok(false);
    }
    let mut captures = lock(&CAPTURES);
    captures.refuse_implicit(stream)?;
    let Some(member) = captures.members.get(&stream.handle) else {
        return Ok(false);
    };
    captures.require_valid(member.session)?;
    *lock(&event.mark) = Mark::Captured { session: member.session, nodes: member.next_after.clone() };
    Ok(true)
}

/// A wait for an event that was captured brings the stream into that capture; a wait
/// for another one has no place in a capture. `false`: neither is captured.
pub(super) fn wait(stream: &Stream, event: &Event) -> Answer<bool> {
    let mark = lock(&event.mark).clone();
    let Mark::Captured { session, nodes } = mark else {
        return refuse_outside_event(stream);
    };
    let mut captures = lock(&CAPTURES);
    if !captures.sessions.contains_key(&session) {
        return Err(CudaError::INVALID_VALUE);
    }
    if stream.legacy {
        captures.invalidate(session);
        return Err(CudaError::STREAM_CAPTURE_IMPLICIT);
    }
    captures.require_valid(session)?;
    match captures.members.get_mut(&stream.handle) {
        None => captures.join(session, stream, nodes),
        Some(member) if member.session == session => {
            let new = nodes.into_iter().filter(|n| !member.next_after.contains(n));
            let new: Vec<usize> = new.collect();
            member.next_after.extend(new);
        }
        Some(member) => {
            let both = [session, member.session];
            return captures.refuse_all(&both, CudaError::STREAM_CAPTURE_MERGE).map(|()| true);
        }
    }
    Ok(true)
}

fn refuse_outside_event(stream: &Stream) -> Answer<bool> {
    if idle() {
        return Ok(false);
    }
    let mut captures = lock(&CAPTURES);
    captures.refuse_implicit(stream)?;
    let Some(id) = captures.members.get(&stream.handle).map(|m| m.session) else {
        return Ok(false);
    };
    captures.invalidate(id);
    Err(CudaError::STREAM_CAPTURE_ISOLATION)
}

pub(super) fn invalidate(session: u64) {
    lock(&CAPTURES).invalidate(session);
}

/// A stream that is capturing may not be destroyed without spoiling the capture.
pub(super) fn stream_destroyed(stream: usize) {
    if let Some(status) = status(stream) {
        let mut captures = lock(&CAPTURES);
        captures.invalidate(status.id);
        let origin = captures.sessions.get(&status.id).map(|s| s.origin);
        if origin == Some(stream) {
            captures.close(status.id);
        }
    }
}

#[inline]
fn idle() -> bool {
    ACTIVE.load(Ordering::SeqCst) == 0
}

impl Captures {
    fn join(&mut self, session: u64, stream: &Stream, next_after: Vec<usize>) {
        let Some(graph) = self.sessions.get(&session).map(|s| Arc::clone(&s.graph)) else {
            return;
        };
        let member = Member {
            session,
            lane: graph.add_lane(stream.device),
            next_after,
            blocking: stream.blocking,
            device: stream.device.ordinal,
        };
        self.members.insert(stream.handle, member);
    }

    fn close(&mut self, id: u64) -> Option<Session> {
        let session = self.sessions.remove(&id)?;
        self.members.retain(|_, member| member.session != id);
        ACTIVE.fetch_sub(1, Ordering::SeqCst);
        Some(session)
    }

    fn require_valid(&self, id: u64) -> Answer<()> {
        match self.sessions.get(&id) {
            Some(session) if session.valid => Ok(()),
            _ => Err(CudaError::STREAM_CAPTURE_INVALIDATED),
        }
    }

    fn invalidate(&mut self, id: u64) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.valid = false;
        }
    }

    /// The legacy stream would have to wait for streams that are not running.
    fn refuse_implicit(&mut self, stream: &Stream) -> Answer<()> {
        if !stream.legacy {
            return Ok(());
        }
        let device = stream.device.ordinal;
        let ids = self.sessions_with(|member| member.blocking && member.device == device);
        self.refuse_all(&ids, CudaError::STREAM_CAPTURE_IMPLICIT)
    }

    fn sessions_with(&self, wanted: impl Fn(&Member) -> bool) -> Vec<u64> {
        let found = self.members.values().filter(|member| wanted(member));
        found.map(|member| member.session).collect()
    }

    fn refuse(&mut self, endangered: impl Fn(&Session) -> bool, code: CudaError) -> Answer<()> {
        let found = self.sessions.iter().filter(|(_, session)| endangered(session));
        let ids: Vec<u64> = found.map(|(id, _)| *id).collect();
        self.refuse_all(&ids, code)
    }

    fn refuse_all(&mut self, ids: &[u64], code: CudaError) -> Answer<()> {
        for id in ids {
            self.invalidate(*id);
        }
        if ids.is_empty() { Ok(()) } else { Err(code) }
    }
}
