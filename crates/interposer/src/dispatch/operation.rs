//! An operation of which the vendor's function is all there is, as most calls are: what the dispatcher does with every
//! call, with less to carry from one part to the next. What does not come out as usual goes back to the dispatcher.

use super::{Forward, Ticket, after_operation, counts};
use crate::boundary::{Moment, ours};
use crate::call_index::Generation;
use crate::calls::{Kind, Operation};
use crate::communicators::{self, Entry, Known};
use crate::thread::Thread;
use crate::{log, telemetry};
use airamp_vendor_abi::nccl::{Comm, NcclResult};

/// What the part before an operation leaves for the part after, in two words.
#[derive(Clone, Copy)]
struct Found {
    entry: Option<&'static Entry>,
    /// The generation, and whether an index is reserved.
    marks: u32,
}

impl Found {
    const RESERVED: u32 = 1 << 16;

    #[inline(always)]
    fn known(self) -> Option<Known> {
        self.entry.map(|entry| Known { entry, generation: Generation(self.marks as u16) })
    }

    #[inline(always)]
    fn is_reserved(self) -> bool {
        self.marks & Self::RESERVED != 0
    }

    fn ticket(self) -> Ticket {
        match self.known() {
            // Nobody asks for the index after the call.
            Some(known) if self.is_reserved() => Ticket::Reserved(known, 0),
            Some(known) => Ticket::Unnumbered(known),
            None => Ticket::Stranger,
        }
    }
}

/// `Undo`, for operations.
struct UndoOperation {
    entry: Option<&'static Entry>,
    marks: u32,
    thread: &'static Thread,
}

impl Drop for UndoOperation {
    fn drop(&mut self) {
        let found = Found { entry: self.entry, marks: self.marks };
        if let Some(known) = found.known() {
            if found.is_reserved() {
                known.entry.index.roll_back(known.generation, 1);
            }
            telemetry::left(known);
        }
        telemetry::forget_sample(self.thread);
    }
}

/// Watches an operation of which the vendor's function is all there is. What `observe_as` does, with the operation in
/// registers and what is known of it at compile time decided there: most calls come here. Whoever is called on the way
/// and not inlined gets a copy that is made for it (`apart`): the compiler keeps what somebody has the address of in
/// memory from the beginning.
#[inline(always)]
pub(super) fn observe_operation(
    thread: &'static Thread,
    function: &'static str,
    vendor: u8,
    operation: Operation,
    forward: impl Forward,
) -> NcclResult {
    let found = ours(function, Moment::Before, || {
        telemetry::arrive(thread);
        let found = find_and_reserve(function, operation.kind, operation.comm, operation.count);
        if let Some(known) = found.known()
            && thread.group_depth(vendor) == 0
        {
            telemetry::entering_with(thread, known, operation.stream, operation.count);
            if !telemetry::is_collective(operation.kind) {
                telemetry::entering_message(known);
            }
        }
        found
    });
    let (entry, marks, is_ours) = match found {
        Some(Found { entry, marks }) => (entry, marks, true),
        None => (None, 0, false),
    };
    let exception = UndoOperation { entry, marks, thread };
    let result = thread.inside_vendor(forward);
    std::mem::forget(exception);
    if is_ours {
        ours(function, Moment::After, || {
            after_plain(thread, vendor, operation, Found { entry, marks }, result);
            telemetry::depart(thread, function, result);
        });
    }
    result
}

#[inline(always)]
fn find_and_reserve(function: &'static str, kind: Kind, comm: Comm, count: usize) -> Found {
    if log::is_on(log::Level::Debug) {
        say(function, comm, count);
    }
    let Some(Known { entry, generation }) = communicators::find(comm as usize) else {
        return Found { entry: None, marks: 0 };
    };
    let is_reserved = counts(kind, count) && entry.index.reserve(generation).is_some();
    let marks = u32::from(generation.0) | if is_reserved { Found::RESERVED } else { 0 };
    Found { entry: Some(entry), marks }
}

#[cold]
#[inline(never)]
fn say(function: &str, comm: Comm, count: usize) {
    log::debug(format_args!("{function} comm={comm:p} count={count}"));
}

#[inline(always)]
fn after_plain(thread: &Thread, vendor: u8, operation: Operation, found: Found, result: NcclResult) {
    let is_done = result == NcclResult::SUCCESS && thread.group_depth(vendor) == 0;
    if let Some(known) = found.known()
        && is_done
    {
        if found.is_reserved() {
            known.entry.index.commit_one(known.generation);
        }
        if telemetry::posted_as_usual::<true>(thread, operation, known) {
            return;
        }
        return telemetry::posted_alone(thread, vendor, &apart(operation), known);
    }
    after_unusual(thread, vendor, &apart(operation), found, result);
}

/// The same operation, in memory of its own.
#[inline(always)]
fn apart(operation: Operation) -> Operation {
    let Operation { kind, comm, count, datatype, peer, stream, all_reduce, by_pointer, send_counts } =
        operation;
    Operation { kind, comm, count, datatype, peer, stream, all_reduce, by_pointer, send_counts }
}

#[inline(never)]
fn after_unusual(thread: &Thread, vendor: u8, operation: &Operation, found: Found, result: NcclResult) {
    after_operation(thread, vendor, operation, &found.ticket(), result);
}
