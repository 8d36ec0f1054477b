//! The wall between our code and the application: a panic of ours stops here.
//!
//! Falling back to the vendor is right only while the plan of the call's index is 'vendor'. So a panic
//! makes the process inert, and leaves its calls to the vendor, only while no communicator of it compresses; of one
//! that does, calls fail from then on (`compression::internal_error`, ARCHITECTURE.md).

use crate::log;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// Where in a call an injected panic strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    Before,
    After,
}

/// A panic for the tests: `AIRAMP_INJECT_PANIC=function|all[:before|after]`.
#[derive(Debug, PartialEq, Eq)]
struct Injection {
    function: String,
    moment: Option<Moment>,
}

/// Null unless a test asks for a panic: one load per call.
static INJECTION: AtomicPtr<Injection> = AtomicPtr::new(std::ptr::null_mut());
static WARNED: AtomicBool = AtomicBool::new(false);

impl Injection {
    fn parse(text: &str) -> Self {
        let (function, moment) = match text.split_once(':') {
            Some((function, "before")) => (function, Some(Moment::Before)),
            Some((function, "after")) => (function, Some(Moment::After)),
            _ => (text, None),
        };
        Self { function: function.to_owned(), moment }
    }

    fn strikes(&self, function: &str, moment: Moment) -> bool {
        (self.function == "all" || self.function == function) && self.moment.is_none_or(|at| at == moment)
    }
}

/// Reads what the tests ask for. Called once, when the library is loaded.
pub(crate) fn arm_injection() {
    if let Ok(text) = std::env::var("AIRAMP_INJECT_PANIC") {
        INJECTION.store(Box::leak(Box::new(Injection::parse(&text))), Ordering::Release);
    }
}

/// Runs our own part of a call. A panic in it is reported once and gives `None`, and we evaporate:
/// what we know of groups and indices may be wrong from here on.
#[inline]
pub(crate) fn ours<R>(function: &'static str, moment: Moment, part: impl FnOnce() -> R) -> Option<R> {
    contain(function, || {
        let injection = INJECTION.load(Ordering::Acquire);
        if !injection.is_null() {
            // SAFETY: set once from a leaked box, never changed since.
            strike(unsafe { &*injection }, function, moment);
        }
        part()
    })
}

/// The same for what is no part of a call, and without which no call could go on.
#[inline]
pub(crate) fn contain<R>(what: &'static str, part: impl FnOnce() -> R) -> Option<R> {
    match catch_unwind(AssertUnwindSafe(part)) {
        Ok(value) => Some(value),
        Err(payload) => {
            // Dropping the payload could panic in turn; what we throw is a string or nothing.
            std::mem::forget(payload);
            report(what);
            None
        }
    }
}

#[cold]
fn strike(injection: &Injection, function: &str, moment: Moment) {
    if injection.strikes(function, moment) {
        std::panic::resume_unwind(Box::new("injected"));
    }
}

#[cold]
fn report(function: &str) {
    crate::startup::become_inert();
    if !WARNED.swap(true, Ordering::Relaxed) {
        crate::telemetry::became_inert(function);
        log::warn(format_args!(
            "interposer inert: internal error in {function}; every call goes straight to the vendor from here on"
        ));
    }
}

/// Keeps the default hook from printing: the boundary reports.
pub(crate) fn silence_panic_messages() {
    std::panic::set_hook(Box::new(|info| log::debug(format_args!("panic: {info}"))));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_injection_names_a_function_and_a_moment() {
        let one = Injection::parse("ncclAllReduce:after");
        assert!(one.strikes("ncclAllReduce", Moment::After));
        assert!(!one.strikes("ncclAllReduce", Moment::Before));
        assert!(!one.strikes("ncclBroadcast", Moment::After));
        assert!(Injection::parse("all").strikes("ncclBroadcast", Moment::Before));
    }

    #[test]
    fn a_panic_stops_at_the_boundary() {
        silence_panic_messages();
        assert_eq!(ours("ncclAllReduce", Moment::Before, || 7), Some(7));
        let broken: Option<u32> = ours("ncclAllReduce", Moment::Before, || panic!("on purpose"));
        assert_eq!(broken, None);
    }
}
