//! A communicator with an owner: destroyed when dropped, by every way it was made.

use std::ptr;
use std::rc::Rc;

use airamp_vendor_abi::nccl::{Comm, Config, NcclResult, SHRINK_DEFAULT, UniqueId};

use super::{Nccl, invoke};
use crate::error::RankError;

/// How a communicator over all ranks of a world is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Making {
    /// `ncclCommInitRank`
    Plain,
    /// `ncclCommInitRankConfig`
    Config,
    /// `ncclCommInitRankScalable`
    Scalable,
    /// `ncclCommInitRankConfig` that does not wait; the caller does, for [`Communicator::settle`].
    NonBlocking,
}

pub(crate) struct Communicator {
    nccl: Rc<Nccl>,
    raw: Comm,
    pub(crate) rank: usize,
    pub(crate) size: usize,
}

impl Communicator {
    pub(crate) fn init(
        nccl: &Rc<Nccl>,
        making: Making,
        id: UniqueId,
        rank: usize,
        size: usize,
    ) -> Result<Self, RankError> {
        let (mut raw, mut id) = (ptr::null_mut(), id);
        let (nranks, own) = (size as i32, rank as i32);
        let mut config = Config::undefined(CONFIG_VERSION);
        match making {
            Making::Plain => invoke!(nccl, ncclCommInitRank(&raw mut raw, nranks, id, own)),
            Making::Config => {
                invoke!(nccl, ncclCommInitRankConfig(&raw mut raw, nranks, id, own, &raw mut config))
            }
            Making::NonBlocking => {
                config.blocking = 0;
                let made =
                    invoke!(nccl, ncclCommInitRankConfig(&raw mut raw, nranks, id, own, &raw mut config));
                accepted(made)
            }
            Making::Scalable => invoke!(
                nccl,
                ncclCommInitRankScalable(&raw mut raw, nranks, own, 1, &raw mut id, &raw mut config)
            ),
        }?;
        Ok(Self { nccl: nccl.clone(), raw, rank, size })
    }

    /// The part of this communicator that has `color`; `None` for NOCOLOR.
    pub(crate) fn split(&self, color: i32, key: i32) -> Result<Option<Self>, RankError> {
        let mut raw = ptr::null_mut();
        invoke!(self.nccl, ncclCommSplit(self.raw, color, key, &raw mut raw, ptr::null_mut()))?;
        self.child(raw)
    }

    /// This communicator without `excluded`, which do not call.
    pub(crate) fn shrink(&self, excluded: &[i32]) -> Result<Option<Self>, RankError> {
        let (mut raw, mut excluded) = (ptr::null_mut(), excluded.to_vec());
        let count = excluded.len() as i32;
        let list = excluded.as_mut_ptr();
        invoke!(
            self.nccl,
            ncclCommShrink(self.raw, list, count, &raw mut raw, ptr::null_mut(), SHRINK_DEFAULT)
        )?;
        self.child(raw)
    }

    /// An id by which a newcomer joins the next grow; to be asked for on one rank only.
    pub(crate) fn grow_id(&self) -> Result<UniqueId, RankError> {
        let mut id = UniqueId { internal: [0; 128] };
        invoke!(self.nccl, ncclCommGetUniqueId(self.raw, &raw mut id))?;
        Ok(id)
    }

    /// This communicator with more ranks; `id` only on the rank that asked for it.
    pub(crate) fn grow(&self, size: usize, id: Option<&UniqueId>) -> Result<Option<Self>, RankError> {
        let (mut raw, nranks) = (ptr::null_mut(), size as i32);
        let id = id.map_or(ptr::null(), ptr::from_ref);
        invoke!(self.nccl, ncclCommGrow(self.raw, nranks, id, -1, &raw mut raw, ptr::null_mut()))?;
        self.child(raw)
    }

    /// A newcomer's side of a grow.
    pub(crate) fn join(nccl: &Rc<Nccl>, id: &UniqueId, rank: usize, size: usize) -> Result<Self, RankError> {
        let (mut raw, nranks, own) = (ptr::null_mut(), size as i32, rank as i32);
        let none = ptr::null_mut();
        invoke!(nccl, ncclCommGrow(none, nranks, ptr::from_ref(id), own, &raw mut raw, ptr::null_mut()))?;
        Ok(Self { nccl: nccl.clone(), raw, rank, size })
    }

    /// A communicator of this process alone.
    pub(crate) fn alone(nccl: &Rc<Nccl>, device: i32) -> Result<Self, RankError> {
        let mut raw = ptr::null_mut();
        invoke!(nccl, ncclCommInitAll(&raw mut raw, 1, &raw const device))?;
        Ok(Self { nccl: nccl.clone(), raw, rank: 0, size: 1 })
    }

    pub(crate) fn revoke(&self) -> Result<(), RankError> {
        invoke!(self.nccl, ncclCommRevoke(self.raw, 0))
    }

    fn child(&self, raw: Comm) -> Result<Option<Self>, RankError> {
        if raw.is_null() {
            return Ok(None);
        }
        Self::of(&self.nccl, raw).map(Some)
    }

    /// The owner of a communicator that was made elsewhere.
    pub(crate) fn of(nccl: &Rc<Nccl>, raw: Comm) -> Result<Self, RankError> {
        let (rank, size) = (nccl.user_rank(raw)? as usize, nccl.count(raw)? as usize);
        Ok(Self { nccl: nccl.clone(), raw, rank, size })
    }

    /// Waits until a call that did not wait is through, and tells how it went.
    pub(crate) fn settle(&self, called: Result<(), RankError>) -> Result<(), RankError> {
        accepted(called)?;
        loop {
            match NcclResult(self.nccl.async_error(self.raw)?) {
                NcclResult::IN_PROGRESS => std::thread::yield_now(),
                state => return self.nccl.checked("ncclCommGetAsyncError", state),
            }
        }
    }

    pub(crate) fn raw(&self) -> Comm {
        self.raw
    }

    pub(crate) fn finalize(&self) -> Result<(), RankError> {
        invoke!(self.nccl, ncclCommFinalize(self.raw))
    }

    pub(crate) fn destroy(mut self) -> Result<(), RankError> {
        let raw = std::mem::replace(&mut self.raw, ptr::null_mut());
        invoke!(self.nccl, ncclCommDestroy(raw))
    }

    /// Destroys it in another thread, since NCCL waits there for the graphs that hold its work; `meanwhile` ends them.
    pub(crate) fn destroy_during<T>(
        mut self,
        meanwhile: impl FnOnce() -> Result<T, RankError>,
    ) -> Result<T, RankError> {
        let raw = std::mem::replace(&mut self.raw, ptr::null_mut()) as usize;
        let destroy = self.nccl.functions.ncclCommDestroy;
        let (done, destroyed) = std::thread::scope(|scope| {
            // SAFETY: the communicator lives, and any thread may destroy it.
            let thread = scope.spawn(move || destroy.map(|destroy| unsafe { destroy(raw as Comm) }.0));
            let done = meanwhile();
            (done, thread.join().ok().flatten())
        });
        let code = destroyed.map_or(NcclResult::INTERNAL_ERROR, NcclResult);
        self.nccl.checked("ncclCommDestroy", code).and(done)
    }

    pub(crate) fn abort(mut self) -> Result<(), RankError> {
        let raw = std::mem::replace(&mut self.raw, ptr::null_mut());
        invoke!(self.nccl, ncclCommAbort(raw))
    }

    /// Aborts it by another thread, as a watchdog does.
    pub(crate) fn abort_elsewhere(mut self) -> Result<(), RankError> {
        let raw = std::mem::replace(&mut self.raw, ptr::null_mut()) as usize;
        let abort = self.nccl.functions.ncclCommAbort;
        let aborted = std::thread::scope(|scope| {
            // SAFETY: the communicator lives, and any thread may abort it.
            scope.spawn(move || abort.map(|abort| unsafe { abort(raw as Comm) }.0)).join()
        });
        let code = aborted.ok().flatten().map_or(NcclResult::INTERNAL_ERROR, NcclResult);
        self.nccl.checked("ncclCommAbort", code)
    }
}

/// Success also where the vendor goes on in the background.
fn accepted(called: Result<(), RankError>) -> Result<(), RankError> {
    match called {
        Err(error) if error.nccl_code() == Some(NcclResult::IN_PROGRESS.0) => Ok(()),
        called => called,
    }
}

/// The header release whose fields [`Config`] has; newer libraries accept it.
const CONFIG_VERSION: u32 = 21800;

impl Drop for Communicator {
    fn drop(&mut self) {
        if !self.raw.is_null() {
            // The result was checked by whoever cares, through `destroy`.
            let _ = invoke!(self.nccl, ncclCommDestroy(self.raw));
        }
    }
}
