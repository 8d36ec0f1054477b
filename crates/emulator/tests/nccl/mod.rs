//! Ranks as real processes: a test runs itself again, once per rank, and waits for all.
//!
//! The parent makes the unique ids and is nobody's rank, like a launcher. Every run is bounded:
//! a rank that does not end is killed and the test fails.
#![allow(dead_code, reason = "each test file uses its own part of this")]

use std::ffi::c_void;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use airamp_emulator::gpu::copy::{self, Copy};
use airamp_emulator::gpu::{self, memory, stream};
use airamp_emulator::nccl::exports::*;
use airamp_vendor_abi::cuda::{CudaError, MEMCPY_DEFAULT, STREAM_NON_BLOCKING};
use airamp_vendor_abi::nccl::{Comm, DataType, NcclResult, RedOp, UNIQUE_ID_BYTES, UniqueId};

const LIMIT: Duration = Duration::from_secs(60);
const IDS: usize = 4;

/// How a rank's process ended.
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// This process as one rank of a test.
pub struct Rank {
    pub rank: usize,
    pub size: usize,
    ids: Vec<UniqueId>,
    folder: PathBuf,
}

/// Runs `body` in `size` processes; every one has to succeed.
pub fn ranks(size: usize, body: impl FnOnce(Rank)) {
    ranks_with(size, &[], body, |ended| {
        for (rank, ended) in ended.iter().enumerate() {
            assert_eq!(ended.code, Some(0), "rank {rank} failed\n{}\n{}", ended.stdout, ended.stderr);
        }
    });
}

/// Runs `body` in `size` processes with variables of their own; `judge` sees how they ended.
pub fn ranks_with(size: usize, env: &[(&str, &str)], body: impl FnOnce(Rank), judge: impl FnOnce(&[Ended])) {
    match Rank::from_environment() {
        Some(rank) => body(rank),
        None => judge(&start(size, env)),
    }
}

fn start(size: usize, env: &[(&str, &str)]) -> Vec<Ended> {
    let name = std::thread::current().name().expect("a test's thread has its name").to_owned();
    let folder = std::env::temp_dir().join(format!("airamp-{}-{}", std::process::id(), name.replace("::", "-")));
    std::fs::create_dir_all(&folder).expect("a folder for signals");
    let ids: Vec<String> = (0..IDS).map(|_| hex(&new_id())).collect();
    let children: Vec<Child> = (0..size)
        .map(|rank| {
            Command::new(std::env::current_exe().expect("the test's own program"))
                .args([&name, "--exact", "--nocapture", "--test-threads=1"])
                .env("AIRAMP_TEST_RANK", rank.to_string())
                .env("AIRAMP_TEST_SIZE", size.to_string())
                .env("AIRAMP_TEST_IDS", ids.join(","))
                .env("AIRAMP_TEST_FOLDER", &folder)
                .envs(env.iter().copied())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("a rank starts")
        })
        .collect();
    let deadline = Instant::now() + LIMIT;
    let waiting: Vec<_> =
        children.into_iter().map(|child| std::thread::spawn(move || wait(child, deadline))).collect();
    let ended = waiting.into_iter().map(|thread| thread.join().expect("a rank was waited for")).collect();
    let _ = std::fs::remove_dir_all(folder);
    ended
}

fn wait(mut child: Child, deadline: Instant) -> Ended {
    let pid = child.id();
    let killer = std::thread::spawn(move || {
        while Instant::now() < deadline {
            std::thread::park_timeout(deadline.saturating_duration_since(Instant::now()));
            // SAFETY: asks only whether the child, which has not been waited for, is there.
            if unsafe { libc_kill(pid as i32, 0) } != 0 {
                return;
            }
            if Instant::now() >= deadline {
                // SAFETY: a child of this process that has outlived its time.
                unsafe { libc_kill(pid as i32, 9) };
            }
            return;
        }
    });
    let (mut out, mut err) = (String::new(), String::new());
    let mut stderr = child.stderr.take().expect("piped");
    let reader = std::thread::spawn(move || {
        let _ = std::io::Read::read_to_string(&mut stderr, &mut err);
        err
    });
    let _ = std::io::Read::read_to_string(&mut child.stdout.take().expect("piped"), &mut out);
    let stderr = reader.join().expect("stderr was read");
    let status = child.wait().expect("the child was waited for");
    killer.thread().unpark();
    Ended { code: status.code(), stdout: out, stderr }
}

unsafe extern "C" {
    #[link_name = "kill"]
    fn libc_kill(pid: i32, signal: i32) -> i32;
}

impl Rank {
    fn from_environment() -> Option<Self> {
        let number = |name| std::env::var(name).ok()?.parse().ok();
        Some(Self {
            rank: number("AIRAMP_TEST_RANK")?,
            size: number("AIRAMP_TEST_SIZE")?,
            ids: std::env::var("AIRAMP_TEST_IDS").ok()?.split(',').map(unhex).collect(),
            folder: std::env::var_os("AIRAMP_TEST_FOLDER")?.into(),
        })
    }

    pub fn id(&self, index: usize) -> UniqueId {
        self.ids[index]
    }

    /// The communicator of all ranks that goes by this id.
    pub fn comm(&self, index: usize) -> Comm {
        let mut comm = std::ptr::null_mut();
        // SAFETY: the arguments are what the header asks for.
        ok(unsafe { ncclCommInitRank(&mut comm, self.size as i32, self.id(index), self.rank as i32) });
        comm
    }

    /// Tells the other ranks that something has happened.
    pub fn signal(&self, what: &str) {
        std::fs::write(self.folder.join(what), []).expect("a signal is written");
    }

    pub fn has_signal(&self, what: &str) -> bool {
        self.folder.join(what).exists()
    }

    pub fn await_signal(&self, what: &str) {
        wait_until(what, || self.has_signal(what));
    }
}

/// Waits for something that has to come true; a test that waits in vain fails.
pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !done() {
        assert!(Instant::now() < deadline, "{what} did not come");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[track_caller]
pub fn ok(result: NcclResult) {
    assert_eq!(result, NcclResult::SUCCESS, "{}", last_error());
}

pub fn last_error() -> String {
    let text = ncclGetLastError(std::ptr::null_mut());
    // SAFETY: the function answers a C string that lives until the thread's next error.
    unsafe { std::ffi::CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

pub fn new_id() -> UniqueId {
    let mut id = UniqueId { internal: [0; UNIQUE_ID_BYTES] };
    // SAFETY: the argument is what the header asks for.
    ok(unsafe { ncclGetUniqueId(&mut id) });
    id
}

fn hex(id: &UniqueId) -> String {
    id.internal.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> UniqueId {
    let digits = |index: usize| u8::from_str_radix(&text[2 * index..2 * index + 2], 16).expect("hex digits");
    UniqueId { internal: std::array::from_fn(digits) }
}

/// Device memory with contents.
pub struct Buffer {
    pub address: u64,
    pub len: usize,
}

impl Buffer {
    pub fn new(bytes: &[u8]) -> Self {
        let address = memory::alloc(bytes.len().max(1)).expect("device memory");
        let buffer = Self { address, len: bytes.len() };
        let from = bytes.as_ptr() as u64;
        copy::synchronous(Copy { to: address, from, len: bytes.len(), direction: MEMCPY_DEFAULT }).expect("a copy");
        buffer
    }

    pub fn of(values: &[f32]) -> Self {
        Self::new(&values.iter().flat_map(|value| value.to_ne_bytes()).collect::<Vec<u8>>())
    }

    pub fn ptr(&self) -> *mut c_void {
        self.address as *mut c_void
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len];
        let to = bytes.as_mut_ptr() as u64;
        copy::synchronous(Copy { to, from: self.address, len: self.len, direction: MEMCPY_DEFAULT }).expect("a copy");
        bytes
    }

    pub fn values(&self) -> Vec<f32> {
        self.bytes().as_chunks::<4>().0.iter().map(|bytes| f32::from_ne_bytes(*bytes)).collect()
    }
}

pub fn new_stream() -> usize {
    stream::create(STREAM_NON_BLOCKING, 0).expect("a stream")
}

#[track_caller]
pub fn sync(handle: usize) {
    assert_eq!(try_sync(handle), CudaError::SUCCESS);
}

pub fn try_sync(handle: usize) -> CudaError {
    stream::synchronize(handle).err().unwrap_or(CudaError::SUCCESS)
}

pub fn use_device(ordinal: i32) {
    gpu::set_current(ordinal).expect("the device exists");
}

pub fn all_reduce(buffer: &Buffer, comm: Comm, handle: usize) -> NcclResult {
    // SAFETY: the arguments are what the header asks for.
    unsafe {
        ncclAllReduce(buffer.ptr(), buffer.ptr(), buffer.len / 4, DataType::FLOAT32, RedOp::SUM, comm, handle as _)
    }
}

pub fn send(buffer: &Buffer, peer: usize, comm: Comm, handle: usize) -> NcclResult {
    // SAFETY: the arguments are what the header asks for.
    unsafe { ncclSend(buffer.ptr(), buffer.len / 4, DataType::FLOAT32, peer as i32, comm, handle as _) }
}

pub fn recv(buffer: &Buffer, peer: usize, comm: Comm, handle: usize) -> NcclResult {
    // SAFETY: the arguments are what the header asks for.
    unsafe { ncclRecv(buffer.ptr(), buffer.len / 4, DataType::FLOAT32, peer as i32, comm, handle as _) }
}

/// Runs `calls` inside one group.
pub fn group(calls: impl FnOnce()) -> NcclResult {
    // SAFETY: no arguments.
    ok(unsafe { ncclGroupStart() });
    calls();
    // SAFETY: no arguments.
    unsafe { ncclGroupEnd() }
}

pub fn async_error(comm: Comm) -> NcclResult {
    let mut result = NcclResult::SUCCESS;
    // SAFETY: the arguments are what the header asks for.
    ok(unsafe { ncclCommGetAsyncError(comm, &mut result) });
    result
}

#[track_caller]
pub fn destroy(comm: Comm) {
    // SAFETY: the argument is what the header asks for.
    ok(unsafe { ncclCommDestroy(comm) });
}
