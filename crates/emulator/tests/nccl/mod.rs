//! Ranks as real processes: a test runs itself again, once per rank, and waits for all.
//!
//! The parent makes the unique ids and is nobody's rank, like a launcher. Every run is bounded:
//! a rank that does not end is killed and the test fails.
#![allow(dead_code, reason = "each test file uses its own part of this")]

use std::ffi::c_void;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use airamp_emulator::gpu::copy::{self, Copy};
use airamp_emulator::gpu::{self, memory, stream};
use airamp_emulator::nccl::exports::*;
use airamp_vendor_abi::cuda::{CudaError, MEMCPY_DEFAULT, STREAM_NON_BLOCKING};
use airamp_vendor_abi::nccl::{Comm, DataType, NcclResult, RedOp, UNIQUE_ID_BYTES, UniqueId};

const LIMIT: Duration = Duration::from_secs(60);
const IDS: usize = 4;

/// How a rank's process ended.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// This process as one rank of a test.
pub(crate) struct Rank {
    pub(crate) rank: usize,
    pub(crate) size: usize,
    ids: Vec<UniqueId>,
    folder: PathBuf,
}

/// Runs `body` in `size` processes; every one has to succeed.
pub(crate) fn ranks(size: usize, body: impl FnOnce(Rank)) {
    ranks_with(size, &[], body, |ended| ended.iter().for_each(Ended::expect_success));
}

impl Ended {
    #[track_caller]
    pub(crate) fn expect_success(&self) {
        // A name that selects no test would succeed too.
        let ran = self.stdout.contains("1 passed");
        assert!(ran && self.code == Some(0), "a rank failed\n{}\n{}", self.stdout, self.stderr);
    }
}

/// Every rank comes to its end, and each has a line with all of these words.
pub(crate) fn named(words: &'static [&'static str]) -> impl Fn(&[Ended]) {
    move |ended| {
        for ended in ended {
            ended.expect_success();
            let mut lines = ended.stderr.lines().filter(|line| line.starts_with("airamp emulator: "));
            let named = lines.any(|line| words.iter().all(|word| line.contains(word)));
            assert!(named, "no line names {words:?} in\n{}", ended.stderr);
        }
    }
}

/// Runs `body` in `size` processes with variables of their own; `judge` sees how they ended.
pub(crate) fn ranks_with<F: FnOnce(Rank)>(
    size: usize,
    env: &[(&str, &str)],
    body: F,
    judge: impl FnOnce(&[Ended]),
) {
    match Rank::from_environment() {
        Some(rank) => body(rank),
        None => judge(&start(test_of::<F>(), size, env)),
    }
}

/// The test that a closure was written in, by the name of its type: `program::test::{{closure}}`.
fn test_of<F>() -> &'static str {
    let name = std::any::type_name::<F>();
    name.split("::").nth(1).expect("a closure inside of a test")
}

fn start(name: &str, size: usize, env: &[(&str, &str)]) -> Vec<Ended> {
    let folder = std::env::temp_dir().join(format!("airamp-{}-{}", std::process::id(), name));
    std::fs::create_dir_all(&folder).expect("a folder for signals");
    let ids: Vec<String> = (0..IDS).map(|_| hex(&new_id())).collect();
    let children: Vec<Child> = (0..size)
        .map(|rank| {
            Command::new(std::env::current_exe().expect("the test's own program"))
                .args([name, "--exact", "--nocapture", "--test-threads=1"])
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
    let pid = child.id() as i32;
    let (over, ended) = std::sync::mpsc::channel::<()>();
    let guard = std::thread::spawn(move || {
        if ended.recv_timeout(deadline.saturating_duration_since(Instant::now()))
            == Err(RecvTimeoutError::Timeout)
        {
            // SAFETY: a child that has outlived its time and was not waited for yet.
            unsafe { libc::kill(pid, libc::SIGKILL) };
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
    drop(over);
    guard.join().expect("the guard ended");
    let status = child.wait().expect("the child was waited for");
    Ended { code: status.code(), stdout: out, stderr }
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

    pub(crate) fn id(&self, index: usize) -> UniqueId {
        self.ids[index]
    }

    /// The communicator of all ranks that goes by this id.
    pub(crate) fn comm(&self, index: usize) -> Comm {
        let mut comm = std::ptr::null_mut();
        // SAFETY: the arguments are what the header asks for.
        ok(unsafe { ncclCommInitRank(&mut comm, self.size as i32, self.id(index), self.rank as i32) });
        comm
    }

    /// Tells the other ranks that something has happened.
    pub(crate) fn signal(&self, what: &str) {
        std::fs::write(self.folder.join(what), []).expect("a signal is written");
    }

    /// Waits until all ranks are at this place.
    pub(crate) fn meet(&self, place: &str) {
        self.signal(&format!("{place} {}", self.rank));
        (0..self.size).for_each(|rank| self.await_signal(&format!("{place} {rank}")));
    }

    pub(crate) fn has_signal(&self, what: &str) -> bool {
        self.folder.join(what).exists()
    }

    pub(crate) fn await_signal(&self, what: &str) {
        wait_until(what, || self.has_signal(what));
    }
}

/// Waits for something that has to come true; a test that waits in vain fails.
pub(crate) fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !done() {
        assert!(Instant::now() < deadline, "{what} did not come");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[track_caller]
pub(crate) fn ok(result: NcclResult) {
    assert_eq!(result, NcclResult::SUCCESS, "{}", last_error());
}

pub(crate) fn last_error() -> String {
    let text = ncclGetLastError(std::ptr::null_mut());
    // SAFETY: the function answers a C string that lives until the thread's next error.
    unsafe { std::ffi::CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

pub(crate) fn new_id() -> UniqueId {
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
pub(crate) struct Buffer {
    pub(crate) address: u64,
    pub(crate) len: usize,
}

impl Buffer {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        let address = memory::alloc(bytes.len().max(1)).expect("device memory");
        let buffer = Self { address, len: bytes.len() };
        let from = bytes.as_ptr() as u64;
        copy::synchronous(Copy { to: address, from, len: bytes.len(), direction: MEMCPY_DEFAULT })
            .expect("a copy");
        buffer
    }

    pub(crate) fn of(values: &[f32]) -> Self {
        Self::new(&values.iter().flat_map(|value| value.to_ne_bytes()).collect::<Vec<u8>>())
    }

    pub(crate) fn ptr(&self) -> *mut c_void {
        self.address as *mut c_void
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len];
        let to = bytes.as_mut_ptr() as u64;
        copy::synchronous(Copy { to, from: self.address, len: self.len, direction: MEMCPY_DEFAULT })
            .expect("a copy");
        bytes
    }

    pub(crate) fn values(&self) -> Vec<f32> {
        self.bytes().as_chunks::<4>().0.iter().map(|bytes| f32::from_ne_bytes(*bytes)).collect()
    }
}

pub(crate) fn new_stream() -> usize {
    stream::create(STREAM_NON_BLOCKING, 0).expect("a stream")
}

#[track_caller]
pub(crate) fn sync(handle: usize) {
    assert_eq!(try_sync(handle), CudaError::SUCCESS);
}

pub(crate) fn try_sync(handle: usize) -> CudaError {
    stream::synchronize(handle).err().unwrap_or(CudaError::SUCCESS)
}

pub(crate) fn use_device(ordinal: i32) {
    gpu::set_current(ordinal).expect("the device exists");
}

pub(crate) fn all_reduce(buffer: &Buffer, comm: Comm, handle: usize) -> NcclResult {
    // SAFETY: the arguments are what the header asks for.
    unsafe {
        ncclAllReduce(
            buffer.ptr(),
            buffer.ptr(),
            buffer.len / 4,
            DataType::FLOAT32,
            RedOp::SUM,
            comm,
            handle as _,
        )
    }
}

pub(crate) fn send(buffer: &Buffer, peer: usize, comm: Comm, handle: usize) -> NcclResult {
    // SAFETY: the arguments are what the header asks for.
    unsafe { ncclSend(buffer.ptr(), buffer.len / 4, DataType::FLOAT32, peer as i32, comm, handle as _) }
}

pub(crate) fn recv(buffer: &Buffer, peer: usize, comm: Comm, handle: usize) -> NcclResult {
    // SAFETY: the arguments are what the header asks for.
    unsafe { ncclRecv(buffer.ptr(), buffer.len / 4, DataType::FLOAT32, peer as i32, comm, handle as _) }
}

/// Runs `calls` inside one group.
pub(crate) fn group(calls: impl FnOnce()) -> NcclResult {
    // SAFETY: no arguments.
    ok(unsafe { ncclGroupStart() });
    calls();
    // SAFETY: no arguments.
    unsafe { ncclGroupEnd() }
}

pub(crate) fn async_error(comm: Comm) -> NcclResult {
    let mut result = NcclResult::SUCCESS;
    // SAFETY: the arguments are what the header asks for.
    ok(unsafe { ncclCommGetAsyncError(comm, &mut result) });
    result
}

#[track_caller]
pub(crate) fn destroy(comm: Comm) {
    // SAFETY: the argument is what the header asks for.
    ok(unsafe { ncclCommDestroy(comm) });
}
