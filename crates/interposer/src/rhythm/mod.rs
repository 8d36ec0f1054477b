//! The rhythm of this process's communicators: feeds each call that took effect to the `Rhythm` of its communicator,
//! tells what was learnt, and shows the rest of the library what comes next. Nothing that it learns changes what a
//! rank puts on the wire; where a change would pay, the leader is told, as of any other measurement.
//!
//! On the path of a call: no allocation, no system call, no lock that is waited for. Captured calls are not fed: they
//! run when their graph does, which nobody sees.

mod effects;
mod outlook;
mod places;
mod telling;

pub(crate) use effects::{begin, effects};
pub(crate) use outlook::{Outlook, call_came, calls, now_ns, outlook};
pub(crate) use places::{Held, abandon, close, each_call_of_step, has_news, hear, measured, open, take};
