//! The outermost end of a group whose calls were kept back.
//!
//! The ranks of one communicator that this thread drives (a clique) advance together. Cliques that
//! compress or try something go first, in an order that is the same on every rank, each with all its collectives
//! in the application's order. A call that is tried has its dry run in that order, and is the vendor's behind
//! it. Then all else, messages among it, goes into one group of the vendor's:
//! of a communicator the collectives run before the messages, as the vendor has it. A group that compresses
//! nothing is the vendor's as if it had never been kept back.

use super::active::Failure;
use super::choice::{
    Next, awaits_its_turn, choose, choose_next, drop_unusable, is_chosen, is_one_call, poison_chosen,
    settle_chosen, settle_turns,
};
use super::doubt::{InTheGroup, Kept, fail_posted, fail_those, is_refusal};
use super::held::{self, Afterwards, Held, HeldCalls, State};
use super::meeting::all_meet;
use crate::boundary::{Moment, ours};
use crate::calls::{Call, GroupCall};
use crate::communicators::Pin;
use crate::deferred::Deferred;
use crate::dispatch::observe;
use crate::thread::Thread;
use crate::{log, startup, telemetry, vendors};
use airamp_fast_path::{FastPathError, MOST_LANES, Post, UNMEASURED, enqueue};
use airamp_vendor_abi::nccl::{Comm, NcclResult};
use arrayvec::ArrayVec;

pub(super) fn run(
    thread: &Thread,
    function: &'static str,
    vendor: u8,
    how: GroupCall,
    forward: Deferred,
) -> NcclResult {
    let list = List::take(thread, vendor);
    // SAFETY: the list is ours alone.
    let list = unsafe { &mut *list.0 };
    ours(function, Moment::Before, || telemetry::entering_held(thread, runs(&list.calls)));
    let result = end(thread, function, vendor, how, forward, list);
    let HeldCalls { calls, afterwards, .. } = list;
    ours(function, Moment::After, || telemetry::left_held(thread, runs(calls)));
    thread.inside_vendor(|| afterwards.iter().for_each(Afterwards::run));
    result
}

/// The communicators of the group, each once for each run of its calls.
fn runs(calls: &[Held]) -> impl Iterator<Item = telemetry::Run> {
    let runs = calls.chunk_by(|one, next| one.known == next.known);
    runs.filter_map(|run| {
        let first = run.first()?;
        let has_collectives = run.iter().any(|held| telemetry::is_collective(held.operation.kind));
        Some(telemetry::Run { known: first.known?, stream: first.operation.stream, has_collectives })
    })
}

/// The end of a group of which nothing is kept back.
pub(super) fn run_unheld(
    thread: &Thread,
    function: &'static str,
    vendor: u8,
    forward: Deferred,
) -> NcclResult {
    let in_the_group = InTheGroup::of(thread, vendor, GroupCall::End);
    let result = observe(thread, function, vendor, &Call::Group(GroupCall::End), forward);
    in_the_group.settle(result, result, false);
    result
}

fn end(
    thread: &Thread,
    function: &'static str,
    vendor: u8,
    how: GroupCall,
    forward: Deferred,
    list: &mut HeldCalls,
) -> NcclResult {
    let HeldCalls { calls, at_once, streams, .. } = list;
    let in_the_group = InTheGroup::of(thread, vendor, how);
    let end = || observe(thread, function, vendor, &Call::Group(how), forward);
    let refused = thread.take_group_error(vendor);
    let failed = first_error(refused, drop_unusable(calls));
    let is_posted_in_parts = how == GroupCall::End && calls.iter().any(awaits_its_turn);
    if failed.is_accepted() && !is_posted_in_parts {
        return hand_over(thread, how, in_the_group, calls, end);
    }
    let mut meet = |moment, calls: &[Held]| {
        let met = ours(function, moment, || all_meet(calls, at_once, streams));
        met.map_or(NcclResult::INTERNAL_ERROR, |met| {
            met.map_or_else(|failure| told(&failure), |()| NcclResult::SUCCESS)
        })
    };
    let refused = if failed.is_accepted() { meet(Moment::Before, calls) } else { refused };
    let failed = first_error(failed, refused);
    if !failed.is_accepted() {
        abandon(calls, how, failed, is_refusal(refused));
        let result = end();
        in_the_group.settle(result, failed, is_refusal(refused));
        return first_error(failed, result);
    }
    // Whatever else is in the vendor's group, communicators being made for example.
    let kept = Kept(calls);
    let result = end();
    kept.returned();
    let whole = if startup::is_inert() || !result.is_accepted() {
        let failed = if result.is_accepted() { NcclResult::INTERNAL_ERROR } else { result };
        abandon(calls, how, failed, is_refusal(failed));
        failed
    } else {
        let posted = first_error(result, Group { thread, function, vendor, calls }.run());
        let met = if posted.is_accepted() { meet(Moment::After, calls) } else { posted };
        if posted.is_accepted() && !met.is_accepted() {
            fail_posted(calls);
        }
        first_error(posted, met)
    };
    in_the_group.settle(result, whole, false);
    whole
}

/// The vendor has the group as if nothing had been kept back.
fn hand_over(
    thread: &Thread,
    how: GroupCall,
    in_the_group: InTheGroup,
    calls: &mut [Held],
    end: impl FnOnce() -> NcclResult,
) -> NcclResult {
    choose(calls, |_| true);
    let kept = Kept(calls);
    let posted = thread.inside_vendor(|| post_chosen(kept.0));
    let result = first_error(posted, end());
    let calls_in_it = kept.returned();
    if how == GroupCall::End && !result.is_accepted() && !is_refusal(posted) {
        fail_those(calls_in_it, |held| held.state == State::Chosen, result);
    }
    in_the_group.settle(result, result, is_refusal(posted));
    settle_chosen(calls, how == GroupCall::End && result.is_accepted());
    result
}

/// The group has failed: no call that still waits takes effect. The peers have issued theirs, unless a call was refused,
/// for which the application is to blame. It is not where a communicator ends meanwhile, whatever error that gives.
fn abandon(calls: &mut [Held], how: GroupCall, result: NcclResult, refused: bool) {
    if how == GroupCall::End && !refused {
        fail_those(calls, |held| held.state == State::Waiting, result);
    }
    choose(calls, |_| true);
    settle_chosen(calls, false);
}

/// Whether calls of the communicator are kept back in the thread's open group.
pub(super) fn holds_calls_of(thread: &Thread, vendor: u8, comm: Comm) -> bool {
    let list = thread.take_held(vendor);
    // SAFETY: null, or this thread's until it is put back.
    let holds = unsafe { list.as_ref() }.is_some_and(|list| list.has_calls_of(comm));
    thread.put_held(vendor, list);
    holds
}

/// Forgets what is kept back of a communicator that ends; the group fails then, as the vendor's would.
pub(super) fn drop_calls_of(thread: &Thread, vendor: u8, comm: Comm) {
    let list = thread.take_held(vendor);
    if list.is_null() {
        return;
    }
    // SAFETY: the list is this thread's until it is put back.
    let calls = &mut unsafe { &mut *list }.calls;
    if choose(calls, |held| held.operation.comm == comm) {
        settle_chosen(calls, false);
        thread.fail_group(vendor, NcclResult::INVALID_USAGE);
    }
    thread.put_held(vendor, list);
}

/// A list that goes back to the others at its end, also where the vendor leaves by an exception.
struct List(*mut HeldCalls);

impl List {
    fn take(thread: &Thread, vendor: u8) -> Self {
        let list = thread.take_held(vendor);
        Self(if list.is_null() { held::take_spare() } else { list })
    }
}

impl Drop for List {
    fn drop(&mut self) {
        // SAFETY: it came from the spare ones, and is ours alone.
        unsafe { held::give_back(self.0) };
    }
}

fn post_chosen(calls: &[Held]) -> NcclResult {
    calls
        .iter()
        .filter(is_chosen)
        .fold(NcclResult::SUCCESS, |result, held| first_error(result, held.forward.run()))
}

/// The first that is no success; work in progress only if nothing has failed.
fn first_error(first: NcclResult, second: NcclResult) -> NcclResult {
    if first == NcclResult::SUCCESS || (first.is_accepted() && !second.is_accepted()) {
        second
    } else {
        first
    }
}

struct Group<'a> {
    thread: &'a Thread,
    function: &'static str,
    vendor: u8,
    calls: &'a mut [Held],
}

impl Group<'_> {
    fn run(mut self) -> NcclResult {
        let mut part = NcclResult::SUCCESS;
        loop {
            // Before the first part too: the streams' meeting may have waited until somebody's abort was through.
            let result = first_error(part, drop_unusable(self.calls));
            if !result.is_accepted() {
                // What waits has indices above that of the call that failed, which is free again.
                fail_posted(self.calls);
                abandon(self.calls, GroupCall::End, result, is_refusal(part));
                return result;
            }
            part = match ours(self.function, Moment::After, || choose_next(self.calls)) {
                Some(Next::Nothing) => return result,
                // Outside our own part, so that an exception of the vendor's passes through.
                Some(Next::PassOn) => self.pass_on(),
                Some(Next::FastPath) => match ours(self.function, Moment::After, || self.take_turns()) {
                    Some(result) => result,
                    None => return NcclResult::INTERNAL_ERROR,
                },
                None => return NcclResult::INTERNAL_ERROR,
            };
        }
    }

    /// Posts what is chosen in one group of the vendor's.
    fn pass_on(&mut self) -> NcclResult {
        let functions = vendors::at(usize::from(self.vendor)).map(|vendor| &vendor.functions);
        let functions = functions.and_then(|it| it.ncclGroupStart.zip(it.ncclGroupEnd));
        let kept = Kept(self.calls);
        let (posted, result) = match functions {
            None => (NcclResult::INTERNAL_ERROR, NcclResult::INTERNAL_ERROR),
            Some((start, end)) => self.thread.inside_vendor(|| {
                // SAFETY: no arguments.
                let started = unsafe { start() };
                if !started.is_accepted() {
                    return (started, started);
                }
                let posted = post_chosen(kept.0);
                // SAFETY: as above.
                (posted, first_error(posted, unsafe { end() }))
            }),
        };
        kept.returned();
        let ended = ours(self.function, Moment::After, || end_trials(self.calls, result.is_accepted()));
        if !result.is_accepted() {
            fail_posted(self.calls);
        }
        if !result.is_accepted() && !is_refusal(posted) {
            fail_those(self.calls, |held| held.state == State::Chosen, result);
        }
        settle_chosen(self.calls, result.is_accepted());
        if ended.is_none() { NcclResult::INTERNAL_ERROR } else { result }
    }

    /// Compresses what is chosen, or makes its dry run.
    fn take_turns(&mut self) -> NcclResult {
        let result = match self.thread.inside_vendor(|| post_turns(self.calls)) {
            Ok(()) => {
                settle_turns(self.calls);
                return NcclResult::SUCCESS;
            }
            Err(failure) => {
                if !failure.is_refusal() {
                    poison_chosen(self.calls, &failure);
                }
                told(&failure)
            }
        };
        settle_chosen(self.calls, false);
        result
    }
}

/// What the application gets.
fn told(failure: &Failure) -> NcclResult {
    if !failure.is_refusal() {
        return failure.result();
    }
    log::warn(format_args!("calls of a group were refused: {failure}"));
    NcclResult::INVALID_USAGE
}

/// Hands the chosen calls to the fast path.
fn post_turns(calls: &mut [Held]) -> Result<(), Failure> {
    let alone = is_one_call(calls);
    let chosen = || calls.iter().filter(is_chosen);
    let mut pins = ArrayVec::<Pin, MOST_LANES>::new();
    for held in chosen() {
        let pin = pin(held)?;
        let (active, fast) = pin.active().zip(held.fast.as_ref()).ok_or(Failure::Ending)?;
        // Decided at the call, when its stream was in a capture or was not. Before anything is taken for any of them.
        if active.is_captured(&held.operation)? != fast.captured {
            return Err(FastPathError::MixedCapture.into());
        }
        pins.push(pin);
    }
    let mut posts = ArrayVec::<Post<'_>, MOST_LANES>::new();
    let mut observed = ArrayVec::<Option<usize>, MOST_LANES>::new();
    for (held, pin) in chosen().zip(&pins) {
        let (active, fast) = pin.active().zip(held.fast.as_ref()).ok_or(Failure::Ending)?;
        let measurement = || alone.then(|| active.lane().take_measurement()).flatten().unwrap_or(UNMEASURED);
        posts.push(active.post(&held.operation, fast, fast.trial.map(|_| measurement()))?);
        observed.push(active.observe(&held.operation, fast, alone));
    }
    // SAFETY: the buffers and streams are the application's, as they would be for the vendor.
    let posted = unsafe { enqueue(&posts) };
    let turns = calls.iter_mut().filter(|held| held.state == State::Chosen);
    for (((held, pin), post), observed) in turns.zip(&pins).zip(&posts).zip(observed) {
        let (active, fast) = pin.active().zip(held.fast.as_ref()).ok_or(Failure::Ending)?;
        active.end_observation(observed, &held.operation, fast, posted.is_ok());
        match (&posted, post.dry) {
            (Ok(()), _) => active.count_one(fast),
            (Err(_), Some(measurement)) => active.lane().drop_measurement(measurement),
            (Err(_), None) => {}
        }
        held.tried = post.dry.filter(|_| posted.is_ok());
    }
    Ok(posted?)
}

/// Behind the vendor's part of the chosen calls, which was accepted or not.
fn end_trials(calls: &[Held], accepted: bool) {
    for held in calls.iter().filter(is_chosen) {
        if let (Some(fast), Some(measurement), Ok(pin)) = (&held.fast, held.tried, pin(held))
            && let Some(active) = pin.active()
        {
            active.end_trial(&held.operation, fast, measurement, accepted);
        }
    }
}

fn pin(held: &Held) -> Result<Pin, Failure> {
    held.known.and_then(|known| known.pin()).ok_or(Failure::Ending)
}
