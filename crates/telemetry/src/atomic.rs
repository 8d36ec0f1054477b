//! The atomics that shared memory is made of, by one name, so that a model of `guarded` can put others in their place.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};
