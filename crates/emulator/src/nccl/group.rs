//! Groups: what a thread has asked for since its outermost `ncclGroupStart`.
//!
//! A call outside of a group is a group of its own. An error inside a group is kept, and the
//! outermost end returns it and launches nothing. Simulated ends drop what was asked for.

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use airamp_vendor_abi::nccl::{Comm, SIM_INFO_MAGIC, SimInfo};

use super::call::Call;
use super::communicator::creation::{self, Recipe};
use super::communicator::{Communicator, registry};
use super::error::{NcclError, Outcome};
use super::launch::{self, Batch};

#[derive(Default)]
struct Group {
    depth: usize,
    error: Option<NcclError>,
    creations: Vec<Creation>,
    batches: Vec<Batch>,
}

/// A communicator that the end of the group will establish.
pub(crate) struct Creation {
    pub(crate) comm: Arc<Communicator>,
    pub(crate) recipe: Recipe,
    pub(crate) handle: Comm,
    /// Where the caller wants the handle; cleared again if it comes to nothing.
    pub(crate) out: *mut Comm,
}

thread_local! {
    /// Never dropped: destructors of other thread-locals, and exit handlers, may still call.
    static GROUP: RefCell<ManuallyDrop<Group>> = RefCell::default();
}

pub(crate) fn start() {
    GROUP.with_borrow_mut(|group| group.depth += 1);
}

pub(crate) fn end() -> Outcome {
    let Some(group) = close()? else {
        return Ok(());
    };
    if let Some(error) = group.error {
        group.creations.iter().for_each(Creation::discard);
        return Err(error);
    }
    if group.creations.is_empty() && group.batches.is_empty() {
        return Ok(());
    }
    match blocking(&group)? {
        true => run(group),
        false => run_in_background(group),
    }
}

/// Leaves one level; the outermost one gives what has gathered.
fn close() -> Outcome<Option<Group>> {
    GROUP.with_borrow_mut(|group| match group.depth {
        0 => Err(NcclError::InvalidUsage("ncclGroupEnd without ncclGroupStart".into())),
        1 => Ok(Some(std::mem::take(&mut **group))),
        _ => {
            group.depth -= 1;
            Ok(None)
        }
    })
}

/// Closes a level whose end fails by order: nothing of the group happens.
pub(crate) fn abandon(error: &NcclError) {
    match close() {
        Ok(Some(group)) => group.creations.iter().for_each(Creation::discard),
        Ok(None) => refuse(error.clone()),
        Err(_) => {}
    }
}

/// Ends the group without launching anything, and estimates what it would have taken.
pub(crate) fn simulate_end(info: *mut SimInfo) -> Outcome {
    let Some(group) = close()? else {
        return Ok(());
    };
    group.creations.iter().for_each(Creation::discard);
    if let Some(error) = group.error {
        return Err(error);
    }
    if info.is_null() {
        return Ok(());
    }
    // SAFETY: a non-null argument points to an ncclSimInfo_t, by the function's contract.
    let info = unsafe { &mut *info };
    if info.magic != SIM_INFO_MAGIC {
        return Err(NcclError::InvalidArgument("ncclSimInfo_t was not initialised".into()));
    }
    // A nominal wire of 10 GB/s and 10 us to start: only its being positive is a promise.
    let bytes: usize = group.batches.iter().map(Batch::bytes).sum();
    info.estimated_time = 10.0 + bytes as f32 / 1e4;
    Ok(())
}

/// Adds a collective or a point-to-point call.
pub(crate) fn enqueue(call: &Call) -> Outcome {
    start();
    let checked = call.check();
    let failed = checked.as_ref().err().cloned();
    GROUP.with_borrow_mut(|group| match checked {
        Ok(None) => {}
        Ok(Some((comm, work))) => {
            let known = group.batches.iter().position(|batch| Arc::ptr_eq(&batch.comm, &comm));
            let index = known.unwrap_or_else(|| {
                group.batches.push(Batch::new(comm));
                group.batches.len() - 1
            });
            group.batches[index].add(work, call.stream);
        }
        Err(error) => {
            group.error.get_or_insert(error);
        }
    });
    let ended = end();
    failed.map_or(ended, Err)
}

/// Adds a communicator to be made; its handle is valid from now on.
pub(crate) fn create(comm: Arc<Communicator>, recipe: Recipe, out: *mut Comm) -> Outcome {
    let handle = registry::register(comm.clone());
    // SAFETY: the exported function has checked that `out` is not null; the caller owns it.
    unsafe { *out = handle };
    start();
    GROUP.with_borrow_mut(|group| group.creations.push(Creation { comm, recipe, handle, out }));
    end()
}

/// Adds a child of a split. One without a colour takes part in the meeting and gets no handle.
pub(crate) fn create_child(
    comm: Arc<Communicator>,
    recipe: Recipe,
    out: *mut Comm,
    nameless: bool,
) -> Outcome {
    if !nameless {
        return create(comm, recipe, out);
    }
    // SAFETY: the exported function has checked that `out` is not null; the caller owns it.
    unsafe { *out = std::ptr::null_mut() };
    start();
    let handle = std::ptr::null_mut();
    GROUP.with_borrow_mut(|group| group.creations.push(Creation { comm, recipe, handle, out }));
    end()
}

/// Makes the group that is open fail at its end.
pub(crate) fn refuse(error: NcclError) {
    GROUP.with_borrow_mut(|group| {
        group.error.get_or_insert(error);
    });
}

fn blocking(group: &Group) -> Outcome<bool> {
    let mut modes = group.creations.iter().map(|creation| creation.comm.blocking);
    let mut batches = group.batches.iter().map(|batch| batch.comm.blocking);
    let first = modes.next().or_else(|| batches.next()).unwrap_or(true);
    if modes.chain(batches).all(|mode| mode == first) {
        return Ok(first);
    }
    let text = "blocking and non-blocking communicators cannot share a group";
    Err(NcclError::InvalidArgument(text.into()))
}

fn run(group: Group) -> Outcome {
    let outcomes = establish_all(&group.creations);
    let first_error = outcomes.iter().find_map(|outcome| outcome.as_ref().err().cloned());
    if let Some(error) = first_error {
        group.creations.iter().for_each(Creation::discard);
        return Err(error);
    }
    launch::launch(group.batches)
}

fn establish_all(creations: &[Creation]) -> Vec<Outcome> {
    // Each blocks until its peers come, which may be others of this very group.
    let jobs: Vec<(&Arc<Communicator>, &Recipe)> = creations.iter().map(|c| (&c.comm, &c.recipe)).collect();
    if let [(comm, recipe)] = jobs[..] {
        return vec![creation::establish(comm, recipe)];
    }
    std::thread::scope(|scope| {
        let threads: Vec<_> = jobs
            .into_iter()
            .map(|(comm, recipe)| scope.spawn(move || creation::establish(comm, recipe)))
            .collect();
        let panicked = |_| Err(NcclError::Internal("a thread that made a communicator panicked".into()));
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect()
    })
}

fn run_in_background(group: Group) -> Outcome {
    for creation in group.creations {
        let (comm, recipe) = (creation.comm, creation.recipe);
        comm.health.begin_background();
        std::thread::spawn(move || {
            if let Err(error) = creation::establish(&comm, &recipe) {
                comm.fail(error);
            }
            comm.health.end_background();
        });
    }
    if !group.batches.is_empty() {
        let comms: Vec<_> = group.batches.iter().map(|batch| batch.comm.clone()).collect();
        comms.iter().for_each(|comm| comm.health.begin_background());
        std::thread::spawn(move || {
            if let Err(error) = launch::launch(group.batches) {
                comms.iter().for_each(|comm| comm.fail(error.clone()));
            }
            comms.iter().for_each(|comm| comm.health.end_background());
        });
    }
    Err(NcclError::InProgress)
}

impl Creation {
    /// Takes the handle back: the communicator will not be.
    fn discard(&self) {
        if !self.handle.is_null() && registry::remove(self.handle, "ncclGroupEnd").is_ok() {
            // SAFETY: the group ends on the thread and within the calls that gave `out`.
            unsafe { *self.out = std::ptr::null_mut() };
        }
    }
}
