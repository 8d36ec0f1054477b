//! What the interposer tells those who watch it: a file of fixed layout per process, in shared memory, written
//! without locks and read without trust. docs/telemetry.md describes the format.
//!
//! [`create`] gives the [`Writer`]; [`folders`] finds the files and [`Reader`] copies them out. Nothing here decides
//! anything: what numbers mean together is the observer's business.

mod atomic;
mod clock;
mod copy;
mod create;
mod decode;
mod facts;
mod folder;
mod guarded;
mod header;
mod hot;
mod identity;
mod layout;
mod liveness;
mod names;
mod process;
mod reader;
mod rings;
pub mod sizes;
mod slot;
pub mod snapshot;
mod stale;
mod standing;
mod text;
mod time_namespace;
mod writer;

pub use clock::{Ticks, counter_now, is_counter, now};
pub use create::create;
pub use facts::{CallRecord, CodecCounters, CommunicatorFacts};
pub use folder::{Found, Listing, folders};
pub use hot::{Recipe, Shape, Times, Usual};
pub use identity::Identity;
pub use layout::Issuing;
pub use names::{
    AgreementState, Datatype, Deviation, Ended, EventKind, Grew, JobSource, Kind, Path, PatternState, Reason,
    State,
};
pub use process::abandon_in_child;
pub use reader::{Liveness, Reader, Unreadable};
pub use sizes::size_class;
pub use slot::Slot;
pub use snapshot::Snapshot;
pub use stale::KEPT_AFTER_DEATH;
pub use standing::Standing;
pub use writer::Writer;
