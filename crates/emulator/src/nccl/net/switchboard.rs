//! The process's one listener, and the place where incoming links wait to be claimed.
//!
//! A peer may dial before this process enters the same call, so a link is parked under its
//! name until somebody asks for it. Joins go to [`gathering`]. A child of fork inherits no
//! thread and opens its own.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::wire::{PREAMBLE_BYTES, Preamble, Purpose};
use super::{gathering, interfaces};
use crate::nccl::error::{NcclError, Outcome};
use crate::nccl::lock;

/// How often a wait looks whether it was called off.
const GLANCE: Duration = Duration::from_millis(20);
/// How long a root that is not there yet is dialled.
const DIAL_LIMIT: Duration = Duration::from_secs(30);
/// A dialler sends its preamble at once; one that does not is no rank of ours.
const PREAMBLE_LIMIT: Duration = Duration::from_secs(2);

/// Where this process is reached.
#[derive(Clone, Copy)]
pub(crate) struct Board {
    pub(crate) address: SocketAddr,
    /// Random, so that ranks can tell who shares their process.
    pub(crate) process: u64,
}

/// The name of a link: whose communicator, from whom to whom, for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LinkName {
    pub(crate) key: u64,
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) purpose: Purpose,
}

/// Says with an error that a wait is to end.
pub(crate) type Stop<'a> = &'a dyn Fn() -> Outcome;

static BOARD: Mutex<Option<(u32, Board)>> = Mutex::new(None);
static PARKED: Mutex<Option<HashMap<LinkName, TcpStream>>> = Mutex::new(None);
static ARRIVED: Condvar = Condvar::new();

/// The listener of this process, opened on first use.
pub(crate) fn open() -> Outcome<Board> {
    let mut board = lock(&BOARD);
    let pid = std::process::id();
    if let Some((owner, board)) = *board
        && owner == pid
    {
        return Ok(board);
    }
    let ip = interfaces::choose()?;
    let listener = TcpListener::bind((ip, 0)).map_err(|error| system("listening", &error))?;
    let address = listener.local_addr().map_err(|error| system("listening", &error))?;
    drop(spawn(listener, Arc::default())?);
    let opened = Board { address, process: random() };
    *board = Some((pid, opened));
    Ok(opened)
}

/// A further listener at an address that NCCL_COMM_ID names; its port is free again once it
/// is dropped.
pub(crate) struct Doorway {
    address: SocketAddr,
    closed: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Doorway {
    pub(crate) fn open(address: SocketAddr) -> Outcome<Self> {
        let listener = TcpListener::bind(address)
            .map_err(|error| system(&format!("listening at NCCL_COMM_ID ({address})"), &error))?;
        let closed = Arc::new(AtomicBool::new(false));
        let thread = Some(spawn(listener, closed.clone())?);
        Ok(Self { address, closed, thread })
    }
}

impl Drop for Doorway {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Relaxed);
        // Its thread waits for callers: be one, and hang up at once.
        let woken = TcpStream::connect_timeout(&self.address, Duration::from_secs(1)).is_ok();
        if let (true, Some(thread)) = (woken, self.thread.take()) {
            let _ = thread.join();
        }
    }
}

fn spawn(listener: TcpListener, closed: Arc<AtomicBool>) -> Outcome<JoinHandle<()>> {
    let thread = std::thread::Builder::new().name("airamp-nccl-door".into());
    let run = move || {
        while !closed.load(Ordering::Relaxed) {
            match listener.accept() {
                Ok((stream, _)) => receive(stream),
                // Out of descriptors, say: it may pass.
                Err(_) => std::thread::sleep(GLANCE),
            }
        }
    };
    thread.spawn(run).map_err(|error| system("starting a thread", &error))
}

fn receive(mut stream: TcpStream) {
    let mut bytes = [0; PREAMBLE_BYTES];
    let read = stream.set_read_timeout(Some(PREAMBLE_LIMIT)).and_then(|()| stream.read_exact(&mut bytes));
    let Ok(()) = read.and_then(|()| stream.set_nodelay(true)) else {
        return;
    };
    match Preamble::decode(&bytes) {
        Some(Preamble::Join { key, size, rank, member }) => {
            gathering::arrive(key, size, rank, member, stream)
        }
        Some(Preamble::Link { key, from, to, purpose }) => {
            let name = LinkName { key, from: from as usize, to: to as usize, purpose };
            lock(&PARKED).get_or_insert_default().insert(name, stream);
            ARRIVED.notify_all();
        }
        None => {}
    }
}

/// Waits until the peer has dialled the link.
pub(crate) fn claim(name: LinkName, stop: Stop<'_>) -> Outcome<TcpStream> {
    let mut parked = lock(&PARKED);
    loop {
        if let Some(stream) = parked.get_or_insert_default().remove(&name) {
            return Ok(stream);
        }
        stop()?;
        let waited = ARRIVED.wait_timeout(parked, GLANCE);
        parked = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
    }
}

/// Drops what still waits for a communicator that is gone.
pub(crate) fn forget(key: u64) {
    lock(&PARKED).get_or_insert_default().retain(|name, _| name.key != key);
}

/// Opens a connection and sends its preamble. A peer that is not there yet is tried again.
pub(crate) fn dial(address: SocketAddr, preamble: &Preamble, stop: Stop<'_>) -> Outcome<TcpStream> {
    let deadline = Instant::now() + DIAL_LIMIT;
    loop {
        stop()?;
        match TcpStream::connect_timeout(&address, Duration::from_secs(2)) {
            Ok(mut stream) => {
                let sent = stream.set_nodelay(true).and_then(|()| stream.write_all(&preamble.encode()));
                sent.map_err(|error| remote(address, &error))?;
                return Ok(stream);
            }
            Err(error) if Instant::now() > deadline => return Err(remote(address, &error)),
            Err(_) => std::thread::sleep(GLANCE),
        }
    }
}

/// Reads exactly `bytes`, and looks now and then whether to give up.
pub(crate) fn read_exact(mut stream: &TcpStream, bytes: &mut [u8], stop: Stop<'_>) -> Outcome {
    let peer = || stream.peer_addr().map_or_else(|_| "a peer".into(), |address| address.to_string());
    let lost = |why: &str| NcclError::Remote(format!("the connection to {} was lost: {why}", peer()));
    stream.set_read_timeout(Some(GLANCE)).map_err(|error| lost(&error.to_string()))?;
    let mut filled = 0;
    while filled < bytes.len() {
        match stream.read(&mut bytes[filled..]) {
            Ok(0) => return Err(lost("closed")),
            Ok(count) => filled += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => stop()?,
            Err(error) => return Err(lost(&error.to_string())),
        }
    }
    Ok(())
}

pub(crate) fn random() -> u64 {
    let mut bytes = [0u8; 8];
    // SAFETY: the buffer is as long as it is said to be.
    let filled = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if filled != 8 {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        return now.map_or(1, |now| now.as_nanos() as u64) ^ (u64::from(std::process::id()) << 32);
    }
    u64::from_ne_bytes(bytes)
}

fn system(what: &str, error: &std::io::Error) -> NcclError {
    NcclError::System(format!("{what} failed: {error}"))
}

fn remote(address: SocketAddr, error: &std::io::Error) -> NcclError {
    NcclError::Remote(format!("no connection to {address}: {error}"))
}
