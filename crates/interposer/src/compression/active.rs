//! What a communicator compresses with, once all its ranks have agreed, and what becomes of each of its
//! calls: the vendor's, compressed, or tried. Decides by the plan of the call's index and by facts
//! that all ranks share; `route` and `group_end` carry it out.

use super::fitting::tell_what_fits;
use super::measuring::{Measuring, Watched, is_due};
use super::trials::Trials;
use crate::calls::Operation;
use crate::communicators::Known;
use crate::{rhythm, telemetry};
use airamp_agreement::{Gate, GateError};
use airamp_codec::{Element, Stats};
use airamp_control::Seat;
use airamp_fast_path::{CAPTURED, Call, FastPathError, Lane, Plan, Post, WireError};
use airamp_policy::{AllReduce, Class, Entry, PassedOn, Reduction, Rules, eligible};
use airamp_telemetry::Reason;
use airamp_vendor_abi::cuda::STREAM_LEGACY;
use airamp_vendor_abi::nccl::{DataType, NcclResult, RedOp};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) struct Active {
    lane: Lane,
    rules: Rules,
    ranks: u32,
    /// Whether every rank can order captured calls; if not, they go to the vendor.
    captures: bool,
    gate: Arc<Gate>,
    trials: Trials,
    pub(super) measuring: Measuring,
    compressed: AtomicU64,
}

/// A call that could be compressed, whatever the plan says.
#[derive(Clone, Copy)]
pub(super) struct Candidate {
    pub(super) class: Class,
    average: bool,
}

/// Where a call stands among those of its communicator.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    /// The index whose plan it goes by.
    pub(super) index: u64,
    /// It goes into a graph, which will repeat it, and has not taken the index. NCCL asks for the same on all ranks.
    pub(super) captured: bool,
    /// Outside any group, so that it may be timed.
    pub(super) alone: bool,
}

/// What becomes of a call: the same on every rank.
#[derive(Clone, Copy)]
pub(super) enum Decision {
    /// The vendor's; and where it is timed, if it is.
    Vendor(Option<usize>),
    FastPath(FastCall),
}

/// A call that takes a turn on the fast path.
#[derive(Clone, Copy)]
pub(crate) struct FastCall {
    pub(crate) index: u64,
    /// The index is not its own.
    pub(super) captured: bool,
    pub(super) class: Class,
    pub(super) variant: u8,
    /// Of a trial, which of the round it is: a dry run, and then the vendor's function has the call.
    pub(super) trial: Option<u8>,
    plan: Plan,
    element: Element,
    average: bool,
}

/// Why an operation cannot go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    FastPath(#[from] FastPathError),
    #[error("a message of somebody else's was taken for one of ours")]
    ForeignMessage,
    #[error("the communicator is ending")]
    Ending,
    #[error("there is no memory for the streams of a group")]
    Streams,
    #[error("its calls can no longer be counted")]
    Uncounted,
    #[error("the ranks were changing the plan, and the verdict did not come")]
    Lost,
}

impl Failure {
    /// Whether the call has had no effect, for a reason of the application's own.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(self, Self::FastPath(error) if error.is_refusal())
    }

    /// What the application gets: where a function of the vendor's failed, what that one said.
    pub(super) fn result(&self) -> NcclResult {
        match self {
            Self::FastPath(FastPathError::Wire(WireError::Refused(_, result)))
                if !NcclResult(*result).is_accepted() =>
            {
                NcclResult(*result)
            }
            Self::Lost => NcclResult::REMOTE_ERROR,
            _ => NcclResult::INTERNAL_ERROR,
        }
    }
}

impl From<GateError> for Failure {
    fn from(error: GateError) -> Self {
        match error {
            GateError::Lost => Self::Lost,
            GateError::Ended => Self::Ending,
        }
    }
}

impl Active {
    /// Whether this process decides for all ranks.
    pub(super) fn is_leaders(&self) -> bool {
        self.measuring.is_leaders()
    }

    pub(super) fn new(
        lane: Lane,
        rules: Rules,
        ranks: u32,
        captures: bool,
        gate: Arc<Gate>,
        seat: Seat,
        known: Known,
    ) -> Self {
        let (trials, measuring) = (Trials::new(), Measuring::new(seat, known));
        Self { lane, rules, ranks, captures, gate, trials, measuring, compressed: AtomicU64::new(0) }
    }

    pub(crate) fn lane(&self) -> &Lane {
        &self.lane
    }

    pub(crate) fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    pub(super) fn compressed_calls(&self) -> u64 {
        self.compressed.load(Ordering::Relaxed)
    }

    pub(super) fn trial_calls(&self) -> u64 {
        self.trials.count()
    }

    /// Tells telemetry what the device has counted.
    pub(super) fn tell_counters(&self) {
        self.measuring.tell_counters(&self.lane);
    }

    pub(super) fn stats(&self) -> Stats {
        self.lane.stats()
    }

    /// Whether the plan of this index matters to the call: one that cannot be compressed is the vendor's
    /// whatever is agreed.
    pub(super) fn candidate(&self, operation: &Operation, index: u64) -> Result<Candidate, Reason> {
        // Whoever uses an index again makes undone what was tried at it, whatever the call is.
        self.trials.forget_from(index);
        let all_reduce = operation.all_reduce.ok_or(Reason::Collective)?;
        let call = AllReduce {
            count: operation.count as u64,
            element: element_of(operation.datatype),
            reduction: reduction_of(all_reduce.op),
            ranks: self.ranks,
        };
        let (element, reduction) = eligible(&call, &self.rules).map_err(reason_of)?;
        let class = Class::of(element, call.count);
        Ok(Candidate { class, average: reduction == Reduction::Average })
    }

    /// What becomes of a candidate, by what the plan of its index says about its class.
    pub(super) fn decide(
        &self,
        operation: &Operation,
        candidate: Candidate,
        entry: Entry,
        standing: Standing,
    ) -> Result<Decision, Failure> {
        self.measuring.poll(&self.lane, self.trials.count());
        self.measuring.see(candidate.class);
        tell_what_fits(self, self.measuring.slot());
        match entry {
            Entry::Vendor { .. } => {
                telemetry::fall_back(Reason::PlanVendor);
                Ok(Decision::Vendor(self.watch(operation, candidate.class, standing)))
            }
            Entry::Compressed { variant } => Ok(self.compress(operation, candidate, variant, standing)),
            Entry::Trial { variant, round } => {
                Ok(self.try_out(operation, candidate, (variant, round), standing))
            }
        }
    }

    fn compress(
        &self,
        operation: &Operation,
        Candidate { class, average }: Candidate,
        variant: u8,
        Standing { index, captured, .. }: Standing,
    ) -> Decision {
        let Some(plan) = self.plan(operation.count, variant) else {
            telemetry::fall_back(Reason::PlanRefused);
            return Decision::Vendor(None);
        };
        if captured && !self.captures {
            telemetry::fall_back(Reason::CapturedWithoutSupport);
            return Decision::Vendor(None);
        }
        let (trial, element) = (None, element_in(class));
        Decision::FastPath(FastCall { index, captured, class, variant, trial, plan, element, average })
    }

    /// How the call is cut, in that variant.
    fn plan(&self, count: usize, variant: u8) -> Option<Plan> {
        let shape = *self.lane.shapes().get(usize::from(variant))?;
        let plan = match rhythm::effects().plans() {
            true => self.lane.known_plan(count, shape),
            false => self.lane.plan(count, shape),
        };
        plan.ok()
    }

    fn try_out(
        &self,
        operation: &Operation,
        Candidate { class, average }: Candidate,
        (variant, round): (u8, u8),
        standing: Standing,
    ) -> Decision {
        let Standing { index, captured, .. } = standing;
        let shape = self.lane.shapes().get(usize::from(variant));
        let Some(plan) = shape.and_then(|shape| self.lane.dry_plan(operation.count, *shape).ok()) else {
            self.measuring.tell_unsuitable(class, (variant, round), standing);
            telemetry::fall_back(Reason::PlanRefused);
            return Decision::Vendor(None);
        };
        // A graph would repeat the trial for ever.
        if captured {
            self.measuring.tell_captured(class, false);
            telemetry::fall_back(Reason::PlanVendor);
            return Decision::Vendor(None);
        }
        let Some(iteration) = self.trials.take(class, round, index) else {
            telemetry::fall_back(Reason::PlanVendor);
            return Decision::Vendor(None);
        };
        let (trial, element) = (Some(iteration), element_in(class));
        Decision::FastPath(FastCall { index, captured, class, variant, trial, plan, element, average })
    }

    /// Begins to time a call of the vendor's, if it is its turn.
    fn watch(&self, operation: &Operation, class: Class, standing: Standing) -> Option<usize> {
        let Standing { index, captured, alone } = standing;
        let watched = Watched { class, index, compressed: false, dry_runs: self.trials.count() };
        let due = alone && !captured && is_due(index);
        due.then(|| self.measuring.start_watch(&self.lane, watched, operation)).flatten()
    }

    /// Behind the vendor's call that follows a dry run, which was accepted or not.
    pub(super) fn end_trial(
        &self,
        operation: &Operation,
        fast: &FastCall,
        measurement: usize,
        accepted: bool,
    ) {
        if accepted {
            self.measuring.end_trial(&self.lane, measurement, fast, operation);
        } else {
            self.lane.drop_measurement(measurement);
        }
    }

    /// Begins to time a compressed call that is about to be posted, if it is `alone` and its turn; where.
    pub(super) fn observe(&self, operation: &Operation, fast: &FastCall, alone: bool) -> Option<usize> {
        let dry_runs = self.trials.count();
        let watched = Watched { class: fast.class, index: fast.index, compressed: true, dry_runs };
        let due = alone && fast.trial.is_none() && fast.is_watched();
        due.then(|| self.measuring.start_watch(&self.lane, watched, operation)).flatten()
    }

    /// The call was posted, or was not.
    pub(super) fn end_observation(
        &self,
        watch: Option<usize>,
        operation: &Operation,
        fast: &FastCall,
        posted: bool,
    ) {
        if let Some(measurement) = watch {
            self.measuring.end_watch(&self.lane, measurement, operation, posted);
        }
        if posted && fast.captured {
            self.measuring.tell_captured(fast.class, true);
        }
    }

    /// Whether the call goes into a graph. The default stream cannot be captured, and asking about it may fail.
    pub(super) fn is_captured(&self, operation: &Operation) -> Result<bool, Failure> {
        if operation.stream as usize <= STREAM_LEGACY {
            return Ok(false);
        }
        Ok(self.lane.is_capturing(operation.stream).map_err(FastPathError::from)?)
    }

    /// What the fast path needs of a call; of a trial, `dry` is where it is measured.
    pub(super) fn post(
        &self,
        operation: &Operation,
        fast: &FastCall,
        dry: Option<usize>,
    ) -> Result<Post<'_>, Failure> {
        if self.stats().foreign != 0 {
            return Err(Failure::ForeignMessage);
        }
        let index = if fast.captured { CAPTURED } else { fast.index };
        let (plan, call) = (fast.plan, fast.call(operation));
        Ok(Post { lane: &self.lane, plan, call, stream: operation.stream, index, dry })
    }

    /// A call was compressed, or tried.
    pub(super) fn count_one(&self, fast: &FastCall) {
        let bytes = fast.plan.count as u64 * fast.element.size() as u64;
        self.measuring.tell_codec(self.lane.codec_ns(bytes), bytes, &fast.plan);
        match fast.trial {
            None => _ = self.compressed.fetch_add(1, Ordering::Relaxed),
            Some(_) => self.trials.count_one(),
        }
    }
}

impl FastCall {
    /// A call of 2 ranks, a trial or not.
    #[cfg(test)]
    pub(super) fn for_tests(index: u64, trial: Option<u8>) -> Self {
        let shape = airamp_fast_path::Shape::usual(2);
        let plan = Plan::new(1 << 20, 2, 16 << 20, shape).expect("a plan");
        let class = Class::of(airamp_policy::Element::F16, 1 << 20);
        let (captured, element) = (false, Element::F16);
        Self { index, captured, class, variant: 0, trial, plan, element, average: false }
    }

    /// Bytes that this rank sends to its peers on the fast path.
    pub(super) fn sent_bytes(&self, known: Known) -> u64 {
        self.plan.sent_bytes(known.entry.rank().unsigned_abs() as usize) as u64
    }

    /// Whether the tuner times the call, where it can.
    pub(super) fn is_watched(&self) -> bool {
        !self.captured && is_due(self.index)
    }

    pub(super) fn call(&self, operation: &Operation) -> Call {
        let (input, output) = operation.all_reduce.map_or((0, 0), |it| (it.send as u64, it.recv as u64));
        Call { input, output, element: self.element, average: self.average }
    }
}

fn reason_of(passed_on: PassedOn) -> Reason {
    match passed_on {
        PassedOn::SingleRank => Reason::Ranks,
        PassedOn::Empty | PassedOn::Small => Reason::Size,
        PassedOn::Datatype => Reason::Datatype,
        PassedOn::Reduction => Reason::Reduction,
    }
}

pub(super) fn element_of(datatype: DataType) -> Option<airamp_policy::Element> {
    match datatype {
        DataType::FLOAT16 => Some(airamp_policy::Element::F16),
        DataType::BFLOAT16 => Some(airamp_policy::Element::Bf16),
        DataType::FLOAT32 => Some(airamp_policy::Element::F32),
        _ => None,
    }
}

fn element_in(class: Class) -> Element {
    match class.element() {
        airamp_policy::Element::F16 => Element::F16,
        airamp_policy::Element::Bf16 => Element::Bf16,
        airamp_policy::Element::F32 => Element::F32,
    }
}

fn reduction_of(op: RedOp) -> Option<Reduction> {
    match op {
        RedOp::SUM => Some(Reduction::Sum),
        RedOp::AVG => Some(Reduction::Average),
        _ => None,
    }
}
