//! What is counted and by which name: kinds of calls, paths, datatypes, reasons, events, states. Each list is
//! defined once here; its numbers are part of the file format and are never given another meaning.

/// Defines an enumeration whose numbers go into the file and whose names go to readers.
macro_rules! numbered {
    ($(#[$meta:meta])* $name:ident { $($(#[$inner:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum $name { $($(#[$inner])* $variant),+ }

        impl $name {
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// In lower case with underscores, as in metrics and JSON.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }

            pub fn from_number(number: u64) -> Option<Self> {
                usize::try_from(number).ok().and_then(|place| Self::ALL.get(place)).copied()
            }

            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|one| one.name() == name)
            }
        }
    };
}

numbered! {
    Kind {
        AllReduce = "all_reduce",
        AllReduceWithBias = "all_reduce_with_bias",
        Reduce = "reduce",
        ReduceScatter = "reduce_scatter",
        AllGather = "all_gather",
        Broadcast = "broadcast",
        AllToAll = "all_to_all",
        AllToAllV = "all_to_all_v",
        Gather = "gather",
        Scatter = "scatter",
        Send = "send",
        Recv = "recv",
    }
}

numbered! {
    /// How a call was carried out.
    Path {
        Vendor = "vendor",
        Compressed = "compressed",
        /// A dry run of the compressed path, then the vendor's call on the user's data.
        Trial = "trial",
        VendorCaptured = "vendor_captured",
        CompressedCaptured = "compressed_captured",
    }
}

numbered! {
    /// Why a call that could have been compressed in principle, or was meant to be, went to the vendor.
    Reason {
        Ranks = "ranks",
        Datatype = "datatype",
        Reduction = "reduction",
        Size = "size",
        HostMemory = "host_memory",
        CapturedWithoutSupport = "captured_without_support",
        PlanVendor = "plan_vendor",
        PlanRefused = "plan_refused",
        NoAgreement = "no_agreement",
        NotConnected = "not_connected",
        Kernels = "kernels",
        Memory = "memory",
        Poisoned = "poisoned",
        Inert = "inert",
        Disabled = "disabled",
        Untracked = "untracked",
        GroupFull = "group_full",
        Mode = "mode",
        Collective = "collective",
        Other = "other",
    }
}

numbered! {
    EventKind {
        Started = "started",
        CommunicatorMade = "communicator_made",
        CommunicatorEnded = "communicator_ended",
        AgreementReached = "agreement_reached",
        AgreementOff = "agreement_off",
        PlanChanged = "plan_changed",
        TrialFinished = "trial_finished",
        Poisoned = "poisoned",
        Error = "error",
        Inert = "inert",
        OrderOff = "order_off",
        OrderOn = "order_on",
        Anomaly = "anomaly",
        Warning = "warning",
        Note = "note",
        Ended = "ended",
        /// `a` calls of a period, `b` its nanoseconds.
        PatternLocked = "pattern_locked",
        /// As `PatternLocked`: what the calls no longer follow.
        PatternDrifting = "pattern_drifting",
        /// `a` nanoseconds beyond the time foreseen, `b` bytes of the call. `about` is the call's `Kind`, here and in the next three.
        CallLate = "call_late",
        /// `a` bytes that were foreseen.
        CallMissing = "call_missing",
        /// `b` bytes that nobody foresaw.
        CallExtra = "call_extra",
        /// `a` bytes that were foreseen, `b` bytes that came.
        CallResized = "call_resized",
        /// `a` nanoseconds of a step before, `b` after; `about` is `Grew`; `step` the first with the new pace.
        PaceChanged = "pace_changed",
        /// The text says why.
        GhostsOff = "ghosts_off",
    }
}

numbered! {
    /// How a call differed from what its communicator's rhythm had foreseen.
    Deviation { Late = "late", Missing = "missing", Extra = "extra", Resized = "resized" }
}

numbered! {
    /// What of a step changed its length when the pace changed.
    Grew { Unknown = "unknown", Communication = "communication", Compute = "compute", Both = "both" }
}

numbered! {
    /// What the library does in this process.
    State {
        Observing = "observing",
        Shadow = "shadow",
        On = "on",
        /// It found a reason to keep out of everything, and says so in an event.
        Inert = "inert",
        Disabled = "disabled",
    }
}

numbered! {
    /// Where the ranks of a communicator are with each other.
    AgreementState {
        /// Nobody asked: the mode does not call for it.
        NotSought = "not_sought",
        Joining = "joining",
        Candidate = "candidate",
        Ready = "ready",
        On = "on",
        Off = "off",
        /// The leader is gone; the plan stays as it is.
        Frozen = "frozen",
        InDoubt = "in_doubt",
    }
}

numbered! {
    PatternState { Off = "off", Learning = "learning", Locked = "locked", Drifting = "drifting" }
}

numbered! {
    /// How a communicator's life went on or ended.
    Ended { Destroyed = "destroyed", Aborted = "aborted", Finalized = "finalized" }
}

numbered! {
    /// Where the job's name came from.
    JobSource { None = "none", Given = "given", Slurm = "slurm", Elastic = "elastic", Pod = "pod" }
}

/// NCCL's own number of a datatype; every number that is not NCCL's is `OTHER`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Datatype(pub u8);

impl Datatype {
    pub const OTHER: Self = Self(12);
    pub const COUNT: usize = 13;

    #[inline]
    pub fn of(number: i32) -> Self {
        Self((number as u32).min(Self::OTHER.0.into()) as u8)
    }

    pub fn all() -> impl Iterator<Item = Self> {
        (0..=Self::OTHER.0).map(Self)
    }

    pub fn name(self) -> &'static str {
        const NAMES: [&str; Datatype::COUNT] = [
            "int8",
            "uint8",
            "int32",
            "uint32",
            "int64",
            "uint64",
            "float16",
            "float32",
            "float64",
            "bfloat16",
            "float8e4m3",
            "float8e5m2",
            "other",
        ];
        NAMES[self.place()]
    }

    #[inline]
    pub(crate) fn place(self) -> usize {
        usize::from(self.0.min(Self::OTHER.0))
    }
}
