//! How many bytes of the heap are in use: the system's allocator, counted.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

static IN_USE: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static COUNTED: Counted = Counted;

struct Counted;

// SAFETY: every call goes to the system's allocator unchanged; counting touches no memory but the counter's.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(layout.size(), Relaxed);
        // SAFETY: the caller's promises are those that the system's allocator asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// What a copy of a value takes on the heap and in itself.
pub(crate) fn bytes_of<T: Clone>(value: &T) -> usize {
    let before = IN_USE.load(Relaxed);
    let copy = Box::new(value.clone());
    let after = IN_USE.load(Relaxed);
    drop(copy);
    after - before
}
