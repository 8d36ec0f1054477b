//! Contexts, and which one is current in each thread.
//!
//! A device has one primary context; created ones are further names for the same
//! device. The runtime interface takes device 0 where nothing is current; the driver
//! interface does not.

use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::sync::Mutex;

use airamp_vendor_abi::cuda::CudaError;

use super::completion::lock;
use super::device::Device;
use super::handles::{self, Handles, Seen};
use super::{Answer, process};

pub struct Context {
    pub ordinal: i32,
}

static CREATED: Handles<Context> = Handles::new();
static PRIMARY: Mutex<Vec<Primary>> = Mutex::new(Vec::new());

struct Primary {
    ordinal: i32,
    handle: usize,
    retained: usize,
}

/// The contexts of a thread, the current one on top. That one lies in place and the list has no memory while it is
/// empty, so that a thread which ends with a device and nothing below it leaves nothing behind.
struct Stack {
    top: Option<usize>,
    below: ManuallyDrop<Vec<usize>>,
}

thread_local! {
    /// Never dropped: destructors of other thread-locals may still call the device.
    static CURRENT: RefCell<Stack> =
        const { RefCell::new(Stack { top: None, below: ManuallyDrop::new(Vec::new()) }) };
    static SEEN: Cell<Seen> = const { Cell::new(Seen::NOTHING) };
}

impl Stack {
    fn push(&mut self, handle: usize) {
        let covered = self.top.replace(handle);
        self.below.extend(covered);
    }

    fn pop(&mut self) -> Option<usize> {
        let popped = self.top.take();
        self.top = self.below.pop();
        self.give_back_if_empty();
        popped
    }

    fn remove(&mut self, handle: usize) {
        self.below.retain(|other| *other != handle);
        if self.top == Some(handle) {
            self.top = self.below.pop();
        }
        self.give_back_if_empty();
    }

    fn give_back_if_empty(&mut self) {
        if self.below.is_empty() {
            self.below.shrink_to_fit();
        }
    }
}

/// The device of the calling thread; device 0 becomes current where none is.
pub fn current_device() -> Answer<i32> {
    Ok(current()?.ordinal)
}

/// Makes a device's primary context current (`cudaSetDevice`).
pub fn set_current(ordinal: i32) -> Answer<()> {
    process::device(ordinal)?;
    replace_top(primary(ordinal)?);
    Ok(())
}

/// The current device by the rules of the runtime interface.
pub fn current() -> Answer<&'static Device> {
    process::init()?;
    if top().is_none() {
        set_current(0)?;
    }
    current_strict()
}

/// The current device by the rules of the driver interface.
pub fn current_strict() -> Answer<&'static Device> {
    process::devices()?;
    let handle = top().ok_or(CudaError::INVALID_CONTEXT)?;
    device_of(handle)
}

/// Refuses a thread without a current device, as [`current_strict`] does.
#[inline]
pub fn require_current() -> Answer<()> {
    process::devices()?;
    let handle = top().ok_or(CudaError::INVALID_CONTEXT)?;
    CREATED.require(handle, &SEEN).map_err(|_| CudaError::INVALID_CONTEXT)
}

/// The handle of the current context, 0 for none.
pub fn current_handle() -> Answer<usize> {
    process::devices()?;
    Ok(top().unwrap_or(0))
}

pub fn device_of(handle: usize) -> Answer<&'static Device> {
    let ordinal = CREATED.look_at(handle, |context| context.ordinal);
    process::device(ordinal.map_err(|_| CudaError::INVALID_CONTEXT)?)
}

/// A number that no other context has or had, of the current one for 0. A reset leaves a handle as it is and gives its context
/// another number.
pub fn id_of(handle: usize) -> Answer<u64> {
    let handle = if handle == 0 { top().ok_or(CudaError::INVALID_CONTEXT)? } else { handle };
    Ok(device_of(handle)?.resets() << 48 | handle as u64)
}

/// Makes `handle` current in place of what was; 0 leaves nothing.
pub fn set_current_handle(handle: usize) -> Answer<()> {
    process::devices()?;
    if handle == 0 {
        pop()?;
        return Ok(());
    }
    device_of(handle)?;
    replace_top(handle);
    Ok(())
}

pub fn push(handle: usize) -> Answer<()> {
    device_of(handle)?;
    CURRENT.with_borrow_mut(|stack| stack.push(handle));
    Ok(())
}

pub fn pop() -> Answer<usize> {
    process::devices()?;
    let popped = CURRENT.with_borrow_mut(|stack| stack.pop());
    popped.ok_or(CudaError::INVALID_CONTEXT)
}

/// Creates a context on the device and makes it current.
pub fn create(ordinal: i32) -> Answer<usize> {
    process::devices()?;
    process::device(ordinal)?;
    let handle = CREATED.insert(Context { ordinal });
    push(handle)?;
    Ok(handle)
}

/// Destroys a created context; a primary one only ever goes by releasing it.
pub fn destroy(handle: usize) -> Answer<()> {
    if lock(&PRIMARY).iter().any(|primary| primary.handle == handle) {
        return Err(CudaError::INVALID_CONTEXT);
    }
    let removed = CREATED.remove(handle);
    removed.map_err(|_| CudaError::INVALID_CONTEXT)?;
    CURRENT.with_borrow_mut(|stack| stack.remove(handle));
    Ok(())
}

/// The primary context of a device, which is counted as used once more.
pub fn retain_primary(ordinal: i32) -> Answer<usize> {
    let handle = primary(ordinal)?;
    with_primary(ordinal, |primary| primary.retained += 1);
    Ok(handle)
}

pub fn release_primary(ordinal: i32) -> Answer<()> {
    process::devices()?;
    let released = with_primary(ordinal, |primary| {
        let held = primary.retained > 0;
        primary.retained = primary.retained.saturating_sub(1);
        held
    });
    match released {
        Some(true) => Ok(()),
        _ => Err(CudaError::INVALID_CONTEXT),
    }
}

/// Whether somebody holds the primary context.
pub fn primary_is_active(ordinal: i32) -> Answer<bool> {
    process::devices()?;
    process::device(ordinal)?;
    Ok(with_primary(ordinal, |primary| primary.retained > 0).unwrap_or(false))
}

fn primary(ordinal: i32) -> Answer<usize> {
    process::device(ordinal)?;
    let mut all = lock(&PRIMARY);
    if let Some(known) = all.iter().find(|primary| primary.ordinal == ordinal) {
        return Ok(known.handle);
    }
    let handle = handles::fresh();
    CREATED.insert_as(handle, Context { ordinal }.into());
    all.push(Primary { ordinal, handle, retained: 0 });
    Ok(handle)
}

fn with_primary<T>(ordinal: i32, change: impl FnOnce(&mut Primary) -> T) -> Option<T> {
    let mut all = lock(&PRIMARY);
    let primary = all.iter_mut().find(|primary| primary.ordinal == ordinal);
    primary.map(change)
}

#[inline]
fn top() -> Option<usize> {
    CURRENT.with_borrow(|stack| stack.top)
}

fn replace_top(handle: usize) {
    CURRENT.with_borrow_mut(|stack| stack.top = Some(handle));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_goes_back_to_what_it_covered_and_holds_no_memory_with_one_context() {
        let mut stack = Stack { top: None, below: ManuallyDrop::new(Vec::new()) };
        assert_eq!(stack.pop(), None);
        stack.push(1);
        assert_eq!((stack.top, stack.below.capacity()), (Some(1), 0));
        stack.push(2);
        stack.push(1);
        stack.push(3);
        stack.remove(1);
        assert_eq!((stack.pop(), stack.pop(), stack.pop()), (Some(3), Some(2), None));
        assert_eq!(stack.below.capacity(), 0);
    }
}
