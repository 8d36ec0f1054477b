//! What one check is about: the programs of the ranks, what may go wrong and how often, and which mistake, if any,
//! is made on purpose. Holds no state.

use airamp_agreement::Rank;

/// What an application does, one after the other. Every communicator holds all ranks, under the same numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Create(usize),
    AllReduce(usize),
    /// An AllReduce goes into a graph: it takes no index, and goes by the plan of the next one.
    Capture(usize),
    Send(usize, Rank),
    Receive(usize, Rank),
    /// The host waits until all that it has enqueued on the communicator is done.
    Wait(usize),
    GroupStart,
    GroupEnd,
    /// The group ends without effect: its calls failed on every rank, or were only simulated.
    GroupUndone,
    End(usize),
    /// The process ends. Not a fault: a program may be over on one rank while another still computes.
    Exit,
}

/// What the design forbids, done on purpose: the checker must find out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mistake {
    None,
    /// A host thread waits in a call under a new plan until the call is done on the device.
    BlockingWarmUp,
    /// The peers are connected in the first compressed call, which blocks the host until all are there.
    LateConnection,
    /// This rank sends the vendor's operation where the plan says another, because something failed locally.
    LocalFallback(Rank),
    /// A call in a group is not eligible.
    EligibilityByGroup,
    /// A rank answers a proposal only after it acquired something for which its device must be idle.
    AcquisitionInVote,
    /// The pledge is compared with the calls that are launched, not with those that are reserved.
    PledgeInsideGroup,
    /// The gate is not asked: every proposal is accepted at once and committed.
    CommitWithoutPledge,
    /// The gate looks at the counter first and stores the pledge afterwards.
    PledgeAfterLoad,
    /// The pledge is compared with the calls that took an index, not with the captures that went by one.
    PledgeAtCapture,
}

/// What a scene must reach somewhere, so that its claims are not empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Creation ends on, for all.
    On,
    /// Creation ends off, for all.
    Off,
    /// Every rank has issued a call under the newest plan.
    Switch,
    /// A switch was proposed and given up.
    Abort,
    /// A thread waits in front of a pledged index.
    Wait,
    /// A call, or creation, ended in an error.
    Error,
}

#[derive(Clone, Debug)]
pub(crate) struct Scene {
    pub(crate) reaches: Vec<Reach>,
    pub(crate) programs: Vec<Vec<Op>>,
    pub(crate) communicators: usize,
    /// Start where every communicator is on with the first plan, and no message is under way.
    pub(crate) created: bool,
    /// Switches that the leader's brain asks for, per communicator.
    pub(crate) changes: u8,
    /// The first distance of a switch from the leader's own index.
    pub(crate) margin: u64,
    pub(crate) crashes: u8,
    pub(crate) cuts: u8,
    /// Timers fire when nothing else can happen. Otherwise none ever does.
    pub(crate) time: bool,
    /// So many timers fire before that, at any moment.
    pub(crate) early: u8,
    /// Only time can end some waits of this scene, although nothing is broken.
    pub(crate) needs_time: bool,
    /// Operations that the device takes before a launch makes the host wait.
    pub(crate) queue: usize,
    /// Allocations wait until the device is idle.
    pub(crate) busy_device: bool,
    /// Hellos arrive and links open as soon as they can, before anything else.
    pub(crate) prompt: bool,
    /// Reading the pledge and reading the plan are separate steps of a call.
    pub(crate) fine: bool,
    pub(crate) without_library: Option<Rank>,
    pub(crate) incapable: Option<Rank>,
    pub(crate) other_terms: Option<Rank>,
    pub(crate) unreachable_for: Option<Rank>,
    pub(crate) fails_to_connect: Option<Rank>,
    pub(crate) mistake: Mistake,
}

impl Scene {
    pub(crate) fn of(programs: Vec<Vec<Op>>) -> Self {
        Self {
            reaches: Vec::new(),
            programs,
            communicators: 1,
            created: false,
            changes: 0,
            margin: 1,
            crashes: 0,
            cuts: 0,
            time: false,
            early: 0,
            needs_time: false,
            queue: usize::MAX,
            busy_device: false,
            prompt: false,
            fine: false,
            without_library: None,
            incapable: None,
            other_terms: None,
            unreachable_for: None,
            fails_to_connect: None,
            mistake: Mistake::None,
        }
    }

    /// The same program on every rank.
    pub(crate) fn alike(ranks: usize, program: &[Op]) -> Self {
        Self::of(vec![program.to_vec(); ranks])
    }

    pub(crate) fn ranks(&self) -> usize {
        self.programs.len()
    }
}
