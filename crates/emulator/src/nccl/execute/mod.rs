//! The work of one group on one communicator, on the worker thread of a stream.
//!
//! Collectives run in the order of their calls, then all point-to-point messages make
//! progress together. Memory is resolved here, when the operation runs, so that a buffer freed
//! too early is found. What ends an operation is told apart: an application's mistake faults the
//! device; a lost peer or an abort only ends the wait, since the device is well.

mod buffers;
pub(crate) mod header;
mod pairs;
mod plans;
mod ring;

use std::time::Duration;

use airamp_vendor_abi::cuda::CudaError;

use super::call::Collective;
use super::communicator::health::Phase;
use super::communicator::turns::Ticket;
use super::communicator::{Communicator, LONG_WAIT, PATIENCE};
use super::error::{NcclError, announce};
use super::faults;
use super::launch::Batch;
use super::net::link;
use crate::gpu::{Fault, memory};
use header::{Entry, Header};

/// Why an operation did not come to its end.
pub(crate) enum Broken {
    /// The user's memory is not what it should be.
    Memory(Fault),
    /// A link of this rank's closed.
    Closed(usize),
    /// A peer's header does not fit.
    Disagreement(usize, header::Mismatch),
    /// The communicator was aborted, revoked or failed meanwhile.
    Interrupted,
}

impl From<Fault> for Broken {
    fn from(fault: Fault) -> Self {
        Self::Memory(fault)
    }
}

/// A stretch of the user's memory that was checked when the operation began.
#[derive(Clone, Copy)]
pub(crate) struct Region {
    ptr: *mut u8,
    len: usize,
}

// SAFETY: a region is used by the thread that runs the operation, while the user leaves the
// memory to it, as the interface demands.
unsafe impl Send for Region {}

impl Region {
    fn resolve(ptr: u64, len: usize) -> Result<Self, Broken> {
        Ok(Self { ptr: memory::resolve(ptr, len)?, len })
    }

    fn part(self, offset: usize, len: usize) -> Self {
        assert!(offset + len <= self.len, "a part lies within its region");
        // SAFETY: the assertion keeps the address inside the region.
        Self { ptr: unsafe { self.ptr.add(offset) }, len }
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: `resolve` checked pointer and length; the user does not write meanwhile.
        unsafe { std::slice::from_raw_parts(self.ptr, self.len) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and the operation owns what it writes.
        unsafe { std::slice::from_raw_parts_mut(self.ptr, self.len) }
    }

    /// Copies all of `source` here; in place it is the same memory and nothing happens.
    fn copy_from(self, source: Self) {
        // SAFETY: both regions were resolved with their lengths; `copy` bears overlap.
        unsafe { std::ptr::copy(source.ptr, self.ptr, self.len.min(source.len)) };
    }
}

/// Runs a batch when its turn has come.
pub(crate) fn run(batch: &Batch, mut ticket: Ticket) -> Result<(), Fault> {
    let comm = &batch.comm;
    if ticket.too_late {
        ticket.give_up();
        let text = "an operation was replayed on a communicator that was destroyed";
        return Err(Fault::new(CudaError::LAUNCH_FAILED, text));
    }
    if ticket.wait().is_err() {
        return conclude(comm, Broken::Interrupted);
    }
    if let Some(delay) = faults::delay(comm.job_rank) {
        comm.health.pause(delay);
    }
    match attempt(batch, ticket.first_collective) {
        // The next operation has to wait until what went wrong is on record.
        Err(broken) => conclude(comm, broken),
        Ok(()) => show_mistake(comm),
    }
}

fn attempt(batch: &Batch, first: u64) -> Result<(), Broken> {
    for (collective, sequence) in batch.collectives.iter().zip(first..) {
        ring::run(&batch.comm, collective, sequence)?;
    }
    pairs::run(&batch.comm, &batch.sends, &batch.recvs)
}

fn conclude(comm: &Communicator, broken: Broken) -> Result<(), Fault> {
    match broken {
        Broken::Memory(fault) => {
            comm.fail(NcclError::Device(fault.message.clone()));
            return Err(fault);
        }
        Broken::Disagreement(rank, mismatch) => {
            comm.disagree(rank, &mismatch);
            // Whoever heard of it from the peer a moment before has yet to show it.
            comm.health.explanation(PATIENCE);
        }
        Broken::Closed(rank) => {
            if comm.health.explanation(PATIENCE).is_none() && comm.health.phase() == Phase::Ready {
                let text = format!("rank {rank} closed its connection in the middle of an operation");
                comm.fail(NcclError::Remote(text));
            }
        }
        Broken::Interrupted => {}
    }
    comm.name_trouble();
    show_mistake(comm)
}

/// A mistake of the application, which was told when it was found, faults the device.
fn show_mistake(comm: &Communicator) -> Result<(), Fault> {
    match comm.health.trouble() {
        Some(NcclError::InvalidUsage(_)) => {
            let text = "the device fails, since the ranks of a communicator in use on it disagree";
            Err(Fault::new(CudaError::LAUNCH_FAILED, text))
        }
        Some(_) | None => Ok(()),
    }
}

/// Says what the next operation will be, before the host waits for peers that may mean another.
pub(crate) fn intend(comm: &Communicator, collectives: &[Collective]) {
    for (collective, sequence) in collectives.iter().zip(comm.turns.next_collective()..) {
        // Those who meet on the ring find out there, as soon as it is made.
        let only_ring = !collective.kind.has_root() && !collective.kind.is_all_to_all();
        enter(comm, &Header::of(collective, sequence), !only_ring);
    }
}

/// Puts a collective on record. It is announced to the next rank where its data would not show
/// everybody what it is.
fn enter(comm: &Communicator, header: &Header, announced: bool) {
    let (Ok(own), Some(control)) = (comm.membership(), comm.control()) else {
        return;
    };
    let entry = comm.log.mine(header);
    if announced && !matches!(entry, Entry::Known) {
        control.announce(&header.encode());
    }
    if let Entry::Wrong(mismatch) = entry {
        comm.disagree(own.previous(), &mismatch);
    }
}

/// Sleeps until a link is ready or the pause is over. A sleep that takes long is told: `whom`
/// says which rank it is for, and in what.
fn await_links(
    comm: &Communicator,
    wanted: &mut [libc::pollfd],
    pause: Option<Duration>,
    whom: impl FnOnce() -> (usize, String),
) -> Result<(), Broken> {
    let ready = link::wait(wanted, pause.or(Some(LONG_WAIT))).map_err(|_| Broken::Interrupted)?;
    if !ready && pause.is_none() {
        let (rank, what) = whom();
        comm.name_long_wait(rank, &format!("in {what}"));
    }
    Ok(())
}

/// A link that ended says so; what the operating system calls it helps nobody.
fn closed(rank: usize) -> impl Fn(std::io::Error) -> Broken {
    move |error| {
        if !matches!(
            error.kind(),
            std::io::ErrorKind::UnexpectedEof
                | std::io::ErrorKind::ConnectionReset
                | std::io::ErrorKind::BrokenPipe
        ) {
            announce(&format!("the link to rank {rank} failed: {error}"));
        }
        Broken::Closed(rank)
    }
}
